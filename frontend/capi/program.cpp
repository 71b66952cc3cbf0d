// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "handles.hpp"

#include <mortise/runtime/plan_generated.h>
#include <mortise/runtime/program_file.hpp>

#include <chrono>
#include <utility>

using namespace mortise;
using namespace mortise::capi;

namespace {

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The session's configuration, overridden by this call's options.
Result<runtime::Config> configFor(const SessionState &session, const MortiseOption *options, size_t count) {
  if (Result<void> checked = checkOptions(options, count); !checked)
    return checked.error();
  if (count == 0)
    return session.config;
  std::vector<MortiseOption> all;
  for (const auto &[key, value] : session.options)
    all.push_back({key.c_str(), value.c_str()});
  for (size_t i = 0; i < count; ++i) {
    if (std::string_view(options[i].key) == "plugin_path")
      return invalid("plugin_path is read when a session is created; give it to mortise_session_create");
    std::erase_if(all, [&](const MortiseOption &option) { return std::string_view(option.key) == options[i].key; });
    all.push_back(options[i]);
  }
  return runtime::Config::read(all);
}

// Compiles the plan's kernels, and hands out the program.
Result<void> load(std::shared_ptr<const plan::PlanT> plan, const runtime::Config &config,
                  std::unique_ptr<MortiseProgram> made, MortiseProgram **program) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::shared_ptr<runtime::Program>> loaded =
      runtime::Program::load(std::move(plan), made->session->registry, {.specializeLimit = config.specializeLimit()});
  if (!loaded)
    return loaded.error();
  made->kernelSeconds = secondsSince(start);
  made->program = *loaded;
  *program = made.release();
  return {};
}

// run(program, inputs, outputs) with the caller's tensors.
template <typename Run>
MortiseStatus *withTensors(MortiseProgram *program, const MortiseTensor *const *inputs, size_t input_count,
                           const MortiseTensor *const *outputs, size_t output_count, Run run) {
  return guarded([&]() -> Result<void> {
    if (!program)
      return nullError("program");
    const plan::PlanT &plan = program->program->plan();
    Result<std::vector<runtime::Tensor>> in =
        readTensors(inputs, input_count, plan.inputs.size(), "input", *program->session);
    if (!in)
      return in.error();
    Result<std::vector<runtime::Tensor>> out =
        readTensors(outputs, output_count, plan.outputs.size(), "output", *program->session);
    if (!out)
      return out.error();
    return run(*program->program, *in, *out);
  });
}

} // namespace

void capi::Refusals::show() {
  for (const passes::Uncovered &answer : answers)
    views.push_back({sizeof(MortiseRefusal), answer.node, answer.reason, answer.op.c_str(), answer.location.c_str(),
                     answer.device.c_str(), answer.plugin.c_str(), answer.detail.c_str()});
  for (const MortiseRefusal &view : views)
    pointers.push_back(&view);
}

MortiseStatus *mortise_compile(MortiseSession *session, MortiseBuilder *builder, const MortiseOption *options,
                               size_t option_count, MortiseProgram **program) {
  return guarded([&]() -> Result<void> {
    if (!builder)
      return nullError("builder");
    const std::unique_ptr<Compiler> compiler = std::move(builder->compiler); // the builder is empty from here on
    builder->refusals = {};
    const passes::Homes homes = std::exchange(builder->homes, {});
    if (!session || !program)
      return nullError(session ? "place for the program" : "session");
    *program = nullptr;
    if (!compiler)
      return invalid("the graph has no outputs; add inputs, ops and at least one output first");
    Result<runtime::Config> config = configFor(*session->state, options, option_count);
    if (!config)
      return config.error();
    auto made = std::make_unique<MortiseProgram>();
    made->session = session->state;
    Result<std::shared_ptr<const plan::PlanT>> plan =
        compiler->compile(*session->state->registry, *config, made->timings, builder->refusals.answers, homes);
    if (!plan) {
      builder->refusals.show();
      return plan.error();
    }
    return load(std::move(*plan), *config, std::move(made), program);
  });
}

MortiseStatus *mortise_program_load(MortiseSession *session, const char *path, const MortiseOption *options,
                                    size_t option_count, MortiseProgram **program) {
  return guarded([&]() -> Result<void> {
    if (!session || !path || !program)
      return nullError(!session ? "session" : !path ? "path" : "place for the program");
    *program = nullptr;
    Result<runtime::Config> config = configFor(*session->state, options, option_count);
    if (!config)
      return config.error();
    Result<std::vector<std::byte>> bytes = readFile(path);
    if (!bytes)
      return bytes.error();
    Result<std::shared_ptr<const plan::PlanT>> plan = runtime::readProgram(*bytes);
    if (!plan)
      return Error{plan.error().code, std::string(path) + ": " + plan.error().message};
    auto made = std::make_unique<MortiseProgram>();
    made->session = session->state;
    return load(std::move(*plan), *config, std::move(made), program);
  });
}

MortiseStatus *mortise_program_save(MortiseProgram *program, const char *path) {
  return guarded([&]() -> Result<void> {
    if (!program || !path)
      return nullError(program ? "path" : "program");
    Result<std::vector<std::byte>> bytes = runtime::writeProgram(program->program->plan());
    return bytes ? replaceFile(path, *bytes) : Result<void>(bytes.error());
  });
}

MortiseStatus *mortise_builder_refusals(MortiseBuilder *builder, const MortiseRefusal *const **refusals,
                                        size_t *count) {
  return guarded([&]() -> Result<void> {
    if (!builder || !refusals || !count)
      return nullError(!builder ? "builder" : !refusals ? "place for the refusals" : "place for their count");
    *refusals = builder->refusals.pointers.data();
    *count = builder->refusals.pointers.size();
    return {};
  });
}

const char *mortise_reason_name(int32_t reason) { return passes::reasonName(reason); }

void mortise_program_destroy(MortiseProgram *program) { delete program; }

MortiseStatus *mortise_program_bind(MortiseProgram *program, const MortiseTensor *const *inputs, size_t count) {
  return guarded([&]() -> Result<void> {
    if (!program)
      return nullError("program");
    Result<std::vector<runtime::Tensor>> tensors =
        readTensors(inputs, count, program->program->plan().inputs.size(), "input", *program->session);
    if (!tensors)
      return tensors.error();
    const auto start = std::chrono::steady_clock::now();
    Result<void> bound = program->program->bindConstants(*tensors);
    program->bindSeconds = secondsSince(start);
    return bound;
  });
}

MortiseStatus *mortise_program_run(MortiseProgram *program, const MortiseTensor *const *inputs, size_t input_count,
                                   const MortiseTensor *const *outputs, size_t output_count) {
  return withTensors(program, inputs, input_count, outputs, output_count,
                     [](runtime::Program &runs, const auto &in, const auto &out) { return runs.run(in, out); });
}

MortiseStatus *mortise_program_profile(MortiseProgram *program, const MortiseTensor *const *inputs, size_t input_count,
                                       const MortiseTensor *const *outputs, size_t output_count) {
  return withTensors(program, inputs, input_count, outputs, output_count,
                     [](runtime::Program &runs, const auto &in, const auto &out) { return runs.runProfiled(in, out); });
}

MortiseStatus *mortise_program_enqueue(MortiseProgram *program, MortiseQueue *queue, const MortiseTensor *const *inputs,
                                       size_t input_count, const MortiseTensor *const *outputs, size_t output_count) {
  return withTensors(program, inputs, input_count, outputs, output_count,
                     [&](runtime::Program &runs, const auto &in, const auto &out) -> Result<void> {
                       if (!queue)
                         return nullError("queue");
                       if (queue->session != program->session)
                         return invalid("expected a queue of the program's session, found another session's");
                       return runs.enqueue(in, out, {queue->device, queue->stream});
                     });
}

MortiseStatus *mortise_program_run_pointers(MortiseProgram *program, const void *const *inputs, void *const *outputs,
                                            const int64_t *symbols) {
  return guarded([&]() -> Result<void> {
    if (!program)
      return nullError("program");
    const plan::PlanT &plan = program->program->plan();
    if ((!inputs && !plan.inputs.empty()) || (!outputs && !plan.outputs.empty()))
      return nullError(inputs || plan.inputs.empty() ? "list of outputs" : "list of inputs");
    if (!symbols && !plan.symbols.empty())
      return nullError("list of symbol values");
    return program->program->runPointers(inputs, outputs, {symbols, plan.symbols.size()});
  });
}

MortiseStatus *mortise_program_symbols(MortiseProgram *program, const MortiseTensor *const *inputs, size_t input_count,
                                       int64_t *values, size_t capacity, size_t *count) {
  return guarded([&]() -> Result<void> {
    if (!program || (capacity && !values))
      return nullError(program ? "place for the values" : "program");
    const plan::PlanT &plan = program->program->plan();
    if (count)
      *count = plan.symbols.size();
    if (plan.symbols.size() > capacity)
      return invalid("the program has " + std::to_string(plan.symbols.size()) + " symbols, and there is room for " +
                     std::to_string(capacity));
    Result<std::vector<runtime::Tensor>> in =
        readTensors(inputs, input_count, plan.inputs.size(), "input", *program->session);
    if (!in)
      return in.error();
    return program->program->symbolValues(*in, {values, plan.symbols.size()});
  });
}

MortiseStatus *mortise_program_output_shape(MortiseProgram *program, const int64_t *symbols, size_t symbol_count,
                                            size_t output, int64_t *dims, size_t capacity, size_t *rank) {
  return guarded([&]() -> Result<void> {
    if (!program || (symbol_count && !symbols) || (capacity && !dims) || !rank)
      return nullError(!program                   ? "program"
                       : symbol_count && !symbols ? "list of symbol values"
                       : capacity && !dims        ? "place for the extents"
                                                  : "place for the rank");
    Result<std::vector<int64_t>> extents = program->program->outputShape(output, {symbols, symbol_count});
    if (!extents)
      return extents.error();
    *rank = extents->size();
    if (extents->size() > capacity)
      return invalid("output " + std::to_string(output) + " has rank " + std::to_string(extents->size()) +
                     ", and there is room for " + std::to_string(capacity) + " extents");
    std::copy(extents->begin(), extents->end(), dims);
    return {};
  });
}

MortiseStatus *mortise_program_report(MortiseProgram *program, char **json) {
  return guarded([&]() -> Result<void> {
    if (!program || !json)
      return nullError(program ? "place for the text" : "program");
    Result<char *> copy = copyString(reportJson(*program));
    if (!copy)
      return copy.error();
    *json = *copy;
    return {};
  });
}
