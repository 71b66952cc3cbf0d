// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "execution.hpp"

#include "seam.hpp"

#include <chrono>

namespace mortise::tool {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

runtime::Tensor tensor(const MortiseType &type, std::vector<std::byte> &bytes) {
  return {bytes.data(), type.dtype, type.rank, type.dims, nullptr};
}

} // namespace

Result<Execution> Execution::make(const Graph &graph, Tensors inputs, std::shared_ptr<runtime::Registry> registry,
                                  const runtime::Config &config) {
  const Clock::time_point begin = Clock::now();
  auto program = compileAndLoad(graph, registry, config);
  if (!program)
    return program.error();
  const double seconds = since(begin);
  Result<Execution> made = make(std::move(*program), graph.view(), std::move(inputs));
  if (made)
    made->compileSeconds = seconds;
  return made;
}

Result<Execution> Execution::make(std::shared_ptr<runtime::Program> program, const MortiseGraph &view, Tensors inputs) {
  Execution made;
  made.loaded = std::move(program);
  made.inputs = std::move(inputs);
  made.homes.assign(view.output_count, none);
  for (size_t i = 0; i < view.alias_count; ++i)
    made.homes[view.aliases[i]->output] = view.aliases[i]->input;
  bool constants = false;
  for (size_t i = 0; i < view.input_count; ++i) {
    made.sources.push_back(tensor(*view.inputs[i]->type, made.inputs[i]));
    constants |= (view.inputs[i]->flags & MORTISE_VALUE_CONSTANT) != 0;
  }
  made.outputs.resize(view.output_count);
  for (size_t i = 0; i < view.output_count; ++i) {
    if (made.homes[i] == none)
      made.outputs[i].resize(byteSize(*view.outputs[i]->type));
    made.targets.push_back(
        tensor(*view.outputs[i]->type, made.homes[i] == none ? made.outputs[i] : made.inputs[made.homes[i]]));
  }
  if (constants) {
    const Clock::time_point start = Clock::now();
    if (Result<void> bound = made.loaded->bindConstants(made.sources); !bound)
      return bound.error();
    made.bindSeconds = since(start);
  }
  return made;
}

Result<void> Execution::run() { return loaded->run(sources, targets); }
Result<void> Execution::runProfiled() { return loaded->runProfiled(sources, targets); }

std::span<const std::byte> Execution::output(size_t number) const {
  return homes[number] == none ? outputs[number] : inputs[homes[number]];
}

} // namespace mortise::tool
