// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "handles.hpp"

#include <mortise/runtime/files.hpp>
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

Result<runtime::Config> capi::configFor(const SessionState &session, const MortiseOption *options, size_t count) {
  if (Result<void> checked = checkOptions(options, count); !checked)
    return checked.error();
  if (count == 0)
    return session.config;
  std::vector<MortiseOption> all;
  for (const auto &[key, value] : session.options)
    all.push_back({key.c_str(), value.c_str()});
  for (size_t i = 0; i < count; ++i) {
    if (const std::string key = options[i].key; key == "plugin_path" || key == "installed_plugins")
      return invalid(key + " is read when a session is created; give it to mortise_session_create");
    std::erase_if(all, [&](const MortiseOption &option) { return std::string_view(option.key) == options[i].key; });
    all.push_back(options[i]);
  }
  return runtime::Config::read(all);
}

void MortiseProgram::take(std::shared_ptr<runtime::Program> loaded) {
  program = std::move(loaded);
  signature = std::make_unique<Signature>(program->plan());
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
    Result<std::vector<std::byte>> bytes = runtime::readFile(path);
    if (!bytes)
      return bytes.error();
    Result<runtime::SavedProgram> saved = runtime::readProgram(*bytes);
    if (!saved)
      return Error{saved.error().code, std::string(path) + ": " + saved.error().message};
    auto made = std::make_unique<MortiseProgram>();
    made->session = session->state;
    runtime::LoadOptions load{.specializeLimit = config->specializeLimit()};
    if (config->savedKernels())
      load.kernels = saved->kernels;
    const auto start = std::chrono::steady_clock::now();
    Result<std::shared_ptr<runtime::Program>> loaded =
        runtime::Program::load(std::move(saved->plan), session->state->registry, load);
    if (!loaded)
      return loaded.error();
    made->kernelSeconds = secondsSince(start);
    made->take(std::move(*loaded));
    *program = made.release();
    return {};
  });
}

capi::Signature::Signature(const plan::PlanT &plan) {
  for (const auto &input : plan.inputs) {
    inputNames.push_back(input->name.c_str());
    inputTypes.push_back(typeOf(*input->type));
    inputFlags.push_back((input->constant ? MORTISE_VALUE_CONSTANT : 0u) | (input->state ? MORTISE_VALUE_STATE : 0u) |
                         (input->donated ? MORTISE_VALUE_DONATED : 0u));
  }
  for (const auto &output : plan.outputs) {
    outputTypes.push_back(typeOf(*output->type));
    outputAliases.push_back(output->alias);
  }
  view = {sizeof view,       plan.inputs.size(), plan.outputs.size(), inputNames.data(),
          inputTypes.data(), inputFlags.data(),  outputTypes.data(),  outputAliases.data()};
}

const MortiseType *capi::Signature::typeOf(const plan::TensorTypeT &type) {
  static_assert(sizeof(plan::ExprStep) == sizeof(MortiseExprStep)); // plan.fbs promises the layout
  MortiseType &made =
      types.emplace_back(MortiseType{sizeof(MortiseType), nullptr, type.dtype, static_cast<int32_t>(type.dims.size()),
                                     type.dims.data(), nullptr, nullptr});
  if (type.step_counts.empty())
    return &made;
  std::vector<MortiseExpr> &list = programs.emplace_back();
  const auto *steps = reinterpret_cast<const MortiseExprStep *>(type.steps.data());
  for (uint32_t count : type.step_counts) {
    list.push_back({steps, count});
    steps += count;
  }
  made.dim_exprs = list.data();
  return &made;
}

MortiseStatus *mortise_program_signature(MortiseProgram *program, const MortiseSignature **signature) {
  return guarded([&]() -> Result<void> {
    if (!program || !signature)
      return nullError(program ? "place for the signature" : "program");
    *signature = &program->signature->view;
    return {};
  });
}

MortiseStatus *mortise_program_save(MortiseProgram *program, const char *path) {
  return guarded([&]() -> Result<void> {
    if (!program || !path)
      return nullError(program ? "path" : "program");
    std::vector<runtime::SavedKernel> kernels;
    if (program->session->config.savedKernels())
      kernels = program->program->saveKernels();
    Result<std::vector<std::byte>> bytes = runtime::writeProgram(program->program->plan(), kernels);
    return bytes ? runtime::replaceFile(path, *bytes) : Result<void>(bytes.error());
  });
}

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
  return mortise_program_enqueue_across(program, &queue, 1, inputs, input_count, outputs, output_count);
}

MortiseStatus *mortise_program_enqueue_across(MortiseProgram *program, MortiseQueue *const *queues, size_t queue_count,
                                              const MortiseTensor *const *inputs, size_t input_count,
                                              const MortiseTensor *const *outputs, size_t output_count) {
  return withTensors(program, inputs, input_count, outputs, output_count,
                     [&](runtime::Program &runs, const auto &in, const auto &out) -> Result<void> {
                       if (!queues && queue_count)
                         return nullError("list of queues");
                       thread_local std::vector<runtime::CallerStream> streams;
                       streams.clear();
                       for (MortiseQueue *queue : std::span(queues, queue_count)) {
                         if (!queue)
                           return nullError("queue");
                         if (queue->session != program->session)
                           return invalid("expected a queue of the program's session, found another session's");
                         streams.push_back({queue->device, queue->stream});
                       }
                       return runs.enqueue(in, out, streams);
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
