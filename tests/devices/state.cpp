// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "state.hpp"

#include "../../tools/mortise/files.hpp"
#include "../../tools/mortise/seam.hpp"
#include "resident.hpp"
#include "strict.hpp"

#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/program.hpp>

namespace mortise::test {
namespace {

std::vector<const void *> inputPointers(const tool::Tensors &tensors) {
  std::vector<const void *> pointers;
  for (const std::vector<std::byte> &bytes : tensors)
    pointers.push_back(bytes.data());
  return pointers;
}

std::string run(const Graph &graph, int calls, StateRun &report) {
  const MortiseGraph &view = graph.view();
  const runtime::Device &device = deviceNamed("strict:0");
  const MortiseOption options[] = {{"device", "strict:0"}, {"log_level", "off"}};
  auto config = runtime::Config::read(options);
  if (!config)
    return config.error().message;
  std::vector<bool> lasting(view.input_count), aliased(view.output_count);
  passes::Homes homes;
  for (size_t i = 0; i < view.input_count; ++i) {
    lasting[i] = view.inputs[i]->flags & (MORTISE_VALUE_STATE | MORTISE_VALUE_CONSTANT);
    homes.inputs.push_back(lasting[i] ? &device : nullptr);
  }
  homes.outputs.assign(view.output_count, nullptr);
  for (size_t i = 0; i < view.alias_count; ++i) {
    aliased[view.aliases[i]->output] = true;
    homes.outputs[view.aliases[i]->output] = &device;
  }
  auto placed = tool::compile(graph, *strictRegistry(), *config, homes);
  if (!placed)
    return "compile: " + placed.error().message;
  auto program = runtime::Program::load(placed->plan, strictRegistry());
  if (!program)
    return "load: " + program.error().message;

  tool::Tensors ours = tool::makeInputs(view, 1), expected = ours;
  std::vector<std::unique_ptr<Resident>> residents(view.input_count);
  std::vector<runtime::Tensor> inputs, outputs;
  for (size_t i = 0; i < view.input_count; ++i) {
    const MortiseType &type = *view.inputs[i]->type;
    if (lasting[i]) {
      residents[i] = std::make_unique<Resident>(device, type);
      residents[i]->write(ours[i]);
      inputs.push_back(residents[i]->tensor());
    } else {
      inputs.push_back(hostTensor(ours[i], type));
      report.callerBytes += ours[i].size();
    }
    if (view.inputs[i]->flags & MORTISE_VALUE_STATE) {
      ++report.states;
      report.stateBytes += ours[i].size();
    }
  }
  tool::Tensors results(view.output_count), wanted(view.output_count);
  for (size_t i = 0; i < view.output_count; ++i) {
    const MortiseType &type = *view.outputs[i]->type;
    results[i].resize(byteSize(type));
    wanted[i].resize(byteSize(type));
    outputs.push_back(hostTensor(results[i], type));
    if (aliased[i])
      outputs.back().data = nullptr;
    else
      report.callerBytes += results[i].size();
  }
  if (auto bound = (*program)->bindConstants(inputs); !bound)
    return "bind: " + bound.error().message;

  for (int call = 0; call < calls; ++call) {
    const uint64_t before = copiedBytes();
    if (auto done = (*program)->run(inputs, outputs); !done)
      return "run: " + done.error().message;
    report.copiedBytes += copiedBytes() - before;
    ++report.calls;
    std::vector<void *> targets;
    for (std::vector<std::byte> &bytes : wanted)
      targets.push_back(bytes.data());
    for (size_t i = 0; i < view.alias_count; ++i) // the states of the next call
      targets[view.aliases[i]->output] = expected[view.aliases[i]->input].data();
    if (auto done = reference::interpret(placed->graph->view(), inputPointers(expected), targets); !done)
      return "reference: " + done.error().message;
    for (size_t i = 0; i < view.output_count; ++i)
      if (!aliased[i] && results[i] != wanted[i])
        return "output " + std::to_string(i) + " is wrong in call " + std::to_string(call);
  }
  std::string problem;
  for (size_t i = 0; i < view.alias_count; ++i) {
    const uint32_t input = view.aliases[i]->input;
    residents[input]->read(ours[input], problem);
    if (problem.empty() && ours[input] != expected[input])
      problem = "state " + std::to_string(input) + " is wrong after the last call";
  }
  return problem;
}

} // namespace

StateRun runWithStates(const Graph &graph, int calls) {
  StateRun report;
  report.problem = run(graph, calls, report);
  const nlohmann::json after = strictReport();
  for (const auto &violation : after["violations"])
    report.problem += (report.problem.empty() ? "" : "; ") + violation.get<std::string>();
  return report;
}

} // namespace mortise::test
