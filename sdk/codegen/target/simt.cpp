// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/simt.hpp"

#include "target/symbol_name.hpp"

#include <atomic>
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
    result.launches.push_back({name, std::move(blocks), kernelSchedule.threads(), std::move(iterations)});
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

struct SimtCompiler::Impl {
  SimtTarget target;
  std::mutex mutex;
  std::vector<std::unique_ptr<SimtBackend>> idle; // backends that no thread uses at the moment
  std::unordered_map<std::string, std::shared_ptr<const SimtFunction>> known; // by the key of the Dag
  std::atomic<uint64_t> serial = 0;

  Result<std::shared_ptr<const SimtFunction>> compile(SimtBackend &backend, Dag dag, const Group &group);
};

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
  constexpr unsigned alignment = 16;
  Result<SimtCode> aligned = backend.compile(plan, schedule, entry, alignment);
  if (!aligned)
    return failed(aligned.error());
  function->over = std::move(aligned->over);
  function->hasTable = aligned->hasTable;
  function->launches = std::move(aligned->launches);
  function->scratchBytes = schedule.scratchBytes;
  if (aligned->usesAlignment) {
    Result<SimtCode> code = backend.compile(plan, schedule, entry, 1);
    if (!code)
      return failed(code.error());
    function->code = std::move(code->code);
    function->alignedCode = std::move(aligned->code);
    function->alignment = alignment;
  } else {
    function->code = std::move(aligned->code);
  }
  for (uint32_t i = 0; i < group.inputs.size(); ++i)
    function->arguments.push_back({SimtArgument::Input, i});
  for (uint32_t i = 0; i < group.outputs.size(); ++i)
    function->arguments.push_back({SimtArgument::Output, i});
  if (schedule.parts > 1)
    function->arguments.push_back({SimtArgument::Scratch, 0});
  for (uint32_t number : plan.dag.usedSymbols)
    function->arguments.push_back({SimtArgument::Symbol, number});
  for (uint32_t i = 0; i < aligned->constants.size(); ++i)
    function->arguments.push_back({SimtArgument::Constant, i});
  function->constants = std::move(aligned->constants);
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
    std::unique_ptr<SimtBackend> backend;
    {
      std::lock_guard lock(impl->mutex);
      if (!impl->idle.empty()) {
        backend = std::move(impl->idle.back());
        impl->idle.pop_back();
      }
    }
    auto fail = [&](const Error &found) {
      std::lock_guard lock(impl->mutex);
      error = found;
    };
    if (!backend) {
      auto created = impl->target.backend(impl->target);
      if (!created)
        return fail(created.error());
      backend = std::move(*created);
    }
    for (size_t i; (i = next++) < todo.size();) {
      Job &job = todo[i];
      auto compiled = impl->compile(*backend, std::move(job.dag), groups[job.group]);
      if (!compiled) {
        fail(compiled.error());
        break;
      }
      std::lock_guard lock(impl->mutex);
      impl->known.emplace(keys[job.group], std::move(*compiled)); // unless another thread was faster
    }
    std::lock_guard lock(impl->mutex);
    impl->idle.push_back(std::move(backend));
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

} // namespace mortise::codegen
