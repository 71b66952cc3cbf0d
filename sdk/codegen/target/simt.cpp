// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/simt.hpp"

#include "target/symbol_name.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace mortise::codegen {

SimtCode emitKernels(LoopPlan &plan, const SimtSchedule &schedule, const SimtTarget &target, const SimtMachine &machine,
                     const Instructions &instructions, const std::string &entry, unsigned alignment,
                     mlir::ModuleOp module) {
  mlir::OpBuilder builder(module->getContext());
  SimtCode result;
  const auto emit = [&](const SimtSchedule &kernelSchedule, SimtKernel::Role role, const std::string &name,
                        Dim blocks) {
    SimtKernel emitter(plan, kernelSchedule, role, machine, alignment, module, builder, instructions);
    EmittedSimtKernel kernel = emitter.emit(name);
    result.usesAlignment |= kernel.usesAlignment;
    Dim iterations = kernelSchedule.iterations(plan, role == SimtKernel::Role::Combine);
    result.launches.push_back(
        {name, std::move(blocks), kernelSchedule.threads(), kernel.sharedBytes, std::move(iterations)});
    result.over = std::move(kernel.over);
  };
  if (schedule.parts == 1) {
    emit(schedule, SimtKernel::Role::Whole, entry, schedule.blocks());
  } else {
    const SimtSchedule combine = combineSchedule(schedule, target);
    emit(schedule, SimtKernel::Role::Parts, entry, schedule.blocks() * schedule.parts);
    emit(combine, SimtKernel::Role::Combine, entry + "_combine", combine.blocks());
  }
  return result;
}

Result<SimtCode> SimtBackend::compile(const AttentionCode &, const std::string &, unsigned) {
  return Error{MORTISE_UNSUPPORTED, "expected a target with products of matrices in registers, found none"};
}

struct SimtCompiler::Impl {
  SimtTarget target;
  std::mutex mutex;
  std::vector<std::unique_ptr<SimtBackend>> idle; // backends that no thread uses at the moment
  std::unordered_map<std::string, std::shared_ptr<const SimtFunction>> known; // by the key of the Dag
  std::map<AttentionCode, std::shared_ptr<const SimtFunction>> attentions;
  std::atomic<uint64_t> serial = 0;

  Result<std::unique_ptr<SimtBackend>> takeBackend();
  void giveBack(std::unique_ptr<SimtBackend> backend) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(backend));
  }
  Result<std::shared_ptr<const SimtFunction>> compile(SimtBackend &backend, Dag dag, const Group &group);
};

Result<std::unique_ptr<SimtBackend>> SimtCompiler::Impl::takeBackend() {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<SimtBackend> backend = std::move(idle.back());
      idle.pop_back();
      return backend;
    }
  }
  return target.backend(target);
}

SimtCompiler::SimtCompiler(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
SimtCompiler::~SimtCompiler() = default;

Result<std::unique_ptr<SimtCompiler>> SimtCompiler::create(const SimtTarget &target) {
  if (!target.backend)
    return Error{MORTISE_UNSUPPORTED, "expected a target that a library of ours has made, found none"};
  auto backend = target.backend(target);
  if (!backend)
    return backend.error();
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->idle.push_back(std::move(*backend));
  return std::unique_ptr<SimtCompiler>(new SimtCompiler(std::move(impl)));
}

// Code for any addresses and, where that is another, for aligned ones. The rest of what is compiled is returned.
template <typename Compile> static Result<SimtCode> addCode(SimtFunction &function, Compile compile) {
  constexpr unsigned alignment = 16;
  Result<SimtCode> aligned = compile(alignment);
  if (!aligned || !aligned->usesAlignment) {
    if (aligned)
      function.code = std::move(aligned->code);
    return aligned;
  }
  Result<SimtCode> any = compile(1U);
  if (!any)
    return any;
  function.code = std::move(any->code);
  function.alignedCode = std::move(aligned->code);
  function.alignment = alignment;
  return aligned;
}

Result<std::shared_ptr<const SimtFunction>> SimtCompiler::Impl::compile(SimtBackend &backend, Dag dag,
                                                                        const Group &group) {
  auto failed = [&](const Error &error) { return Error{error.code, group.name + ": " + error.message}; };
  Result<std::unique_ptr<LoopPlan>> made = LoopPlan::make(std::move(dag), simtFuseTarget().lanes);
  if (!made)
    return failed(made.error());
  LoopPlan &plan = **made;
  const SimtSchedule schedule = scheduleSimt(plan, target);
  auto function = std::make_shared<SimtFunction>();
  const std::string entry = symbolName(group.name, serial++);
  Result<SimtCode> code =
      addCode(*function, [&](unsigned alignment) { return backend.compile(plan, schedule, entry, alignment); });
  if (!code)
    return failed(code.error());
  function->over = std::move(code->over);
  function->hasTable = code->hasTable;
  function->launches = std::move(code->launches);
  function->scratchBytes = schedule.scratchBytes;
  for (uint32_t i = 0; i < group.inputs.size(); ++i)
    function->arguments.push_back({SimtArgument::Input, i});
  for (uint32_t i = 0; i < group.outputs.size(); ++i)
    function->arguments.push_back({SimtArgument::Output, i});
  if (schedule.parts > 1)
    function->arguments.push_back({SimtArgument::Scratch, 0});
  for (uint32_t number : plan.dag.usedSymbols)
    function->arguments.push_back({SimtArgument::Symbol, number});
  for (uint32_t i = 0; i < code->constants.size(); ++i)
    function->arguments.push_back({SimtArgument::Constant, i});
  function->constants = std::move(code->constants);
  const Traffic traffic = plan.traffic();
  function->bytes = traffic.bytes, function->flops = traffic.flops;
  return std::shared_ptr<const SimtFunction>(std::move(function));
}

Result<std::vector<std::shared_ptr<const SimtFunction>>> SimtCompiler::compile(const MortiseGraph &graph,
                                                                               std::span<const Group> groups) {
  struct Job {
    size_t group; // the first one with its key
    Dag dag;
  };
  std::vector<std::string> keys;
  std::vector<Job> todo;
  {
    std::unordered_map<std::string, bool> queued;
    for (size_t i = 0; i < groups.size(); ++i) {
      Result<Dag> dag = buildDag(graph, groups[i]);
      if (!dag)
        return dag.error();
      keys.push_back(dag->key);
      std::lock_guard lock(impl->mutex);
      if (!impl->known.contains(dag->key) && queued.emplace(dag->key, true).second)
        todo.push_back({i, std::move(*dag)});
    }
  }
  std::atomic<size_t> next = 0;
  std::optional<Error> error;
  auto work = [&] {
    auto fail = [&](const Error &found) {
      std::lock_guard lock(impl->mutex);
      error = found;
    };
    Result<std::unique_ptr<SimtBackend>> backend = impl->takeBackend();
    if (!backend)
      return fail(backend.error());
    for (size_t i; (i = next++) < todo.size();) {
      Job &job = todo[i];
      auto compiled = impl->compile(**backend, std::move(job.dag), groups[job.group]);
      if (!compiled) {
        fail(compiled.error());
        break;
      }
      std::lock_guard lock(impl->mutex);
      impl->known.emplace(keys[job.group], std::move(*compiled)); // unless another thread was faster
    }
    impl->giveBack(std::move(*backend));
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(std::max(1U, impl->target.compileThreads), todo.size()); ++i)
    threads.emplace_back(work);
  if (!todo.empty())
    work();
  for (std::thread &thread : threads)
    thread.join();
  if (error)
    return *error;
  std::vector<std::shared_ptr<const SimtFunction>> functions;
  std::lock_guard lock(impl->mutex);
  for (const std::string &key : keys)
    functions.push_back(impl->known.at(key));
  return functions;
}

Result<std::shared_ptr<const SimtFunction>> SimtCompiler::compile(const AttentionCode &code) {
  {
    std::lock_guard lock(impl->mutex);
    if (const auto found = impl->attentions.find(code); found != impl->attentions.end())
      return found->second;
  }
  Result<std::unique_ptr<SimtBackend>> backend = impl->takeBackend();
  if (!backend)
    return backend.error();
  auto function = std::make_shared<SimtFunction>();
  const std::string entry = symbolName(code.name(), impl->serial++);
  Result<SimtCode> made =
      addCode(*function, [&](unsigned alignment) { return (*backend)->compile(code, entry, alignment); });
  impl->giveBack(std::move(*backend));
  if (!made)
    return Error{made.error().code, code.name() + ": " + made.error().message};
  function->launches = {{entry, 1, code.subgroups * impl->target.subgroup}};
  for (uint32_t i = 0; i < (code.mask == AttentionCode::Mask::None ? 3U : 4U); ++i)
    function->arguments.push_back({SimtArgument::Input, i});
  function->arguments.push_back({SimtArgument::Output, 0});
  // A mask is read element by element.
  for (uint32_t i = 0; i < AttentionNumber::count(code); ++i)
    function->arguments.push_back(
        {i >= AttentionNumber::Q && i < AttentionNumber::Mask ? SimtArgument::Stride : SimtArgument::Number, i});
  std::lock_guard lock(impl->mutex);
  return impl->attentions.emplace(code, std::move(function)).first->second; // or another thread's, which was faster
}

} // namespace mortise::codegen
