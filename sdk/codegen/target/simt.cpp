// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/simt.hpp"

#include "target/symbol_name.hpp"
#include <mortise/threads.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

namespace mortise::codegen {

std::vector<uint32_t> symbolsOf(std::span<const ScheduledPlan> plans) {
  std::set<uint32_t> used;
  for (const ScheduledPlan &each : plans)
    used.insert(each.plan->dag.usedSymbols.begin(), each.plan->dag.usedSymbols.end());
  return {used.begin(), used.end()};
}

static SimtCode emitTogether(std::span<const ScheduledPlan> plans, const SimtMachine &machine,
                             const Instructions &instructions, const std::string &entry, unsigned alignment,
                             mlir::ModuleOp module) {
  mlir::OpBuilder builder(module->getContext());
  std::vector<std::unique_ptr<SimtKernel>> bodies;
  SimtLaunch launch{.entry = entry, .blocks = 0, .threads = plans[0].schedule.threads()};
  for (const auto &[plan, schedule] : plans) {
    bodies.push_back(std::make_unique<SimtKernel>(*plan, schedule, SimtKernel::Role::Whole, machine, alignment, module,
                                                  builder, instructions));
    launch.blocks += schedule.blocks();
    launch.iterations = max(launch.iterations, schedule.iterations(*plan, false));
  }
  Code c(builder, builder.getUnknownLoc(), 1, instructions);
  EmittedSimtKernel kernel = emitBundle(bodies, entry, symbolsOf(plans), machine, module, c);
  SimtCode result;
  result.usesAlignment = kernel.usesAlignment;
  result.over = std::move(kernel.over);
  launch.awaits = kernel.awaits;
  result.launches.push_back(std::move(launch));
  return result;
}

SimtCode emitKernels(std::span<const ScheduledPlan> plans, const SimtTarget &target, const SimtMachine &machine,
                     const Instructions &instructions, const std::string &entry, unsigned alignment,
                     mlir::ModuleOp module) {
  if (plans.size() > 1)
    return emitTogether(plans, machine, instructions, entry, alignment, module);
  LoopPlan &plan = *plans[0].plan;
  const SimtSchedule &schedule = plans[0].schedule;
  mlir::OpBuilder builder(module->getContext());
  SimtCode result;
  const auto emit = [&](const SimtSchedule &kernelSchedule, SimtKernel::Role role, const std::string &name, Dim blocks,
                        unsigned merges = 0) {
    SimtKernel emitter(plan, kernelSchedule, role, machine, alignment, module, builder, instructions, merges);
    EmittedSimtKernel kernel = emitter.emit(name);
    result.usesAlignment |= kernel.usesAlignment;
    Dim iterations = kernelSchedule.iterations(plan, role == SimtKernel::Role::Combine);
    result.launches.push_back(
        {name, std::move(blocks), kernelSchedule.threads(), kernel.sharedBytes, kernel.awaits, std::move(iterations)});
    result.over = std::move(kernel.over);
  };
  if (schedule.parts == 1) {
    emit(schedule, SimtKernel::Role::Whole, entry, schedule.blocks());
    const unsigned merges = schedule.sort ? schedule.sort->merges : 0;
    for (unsigned before = 0; before < merges; ++before)
      emit(schedule, SimtKernel::Role::Merge, entry + "_merge" + std::to_string(before),
           schedule.mergeBlocks(plan, before), before);
    const auto emitElements = [&](SimtKernel::Role role, const char *suffix, const Dim &elements) {
      emit(schedule, role, entry + suffix, ceilDiv(elements, Dim(SortSchedule::threads)), merges);
    };
    if (schedule.sort && schedule.sort->applies) {
      emitElements(SimtKernel::Role::Copy, "_copy", elementCount(plan.dag.exprs[plan.dag.roots[0]].dims));
      emitElements(SimtKernel::Role::Apply, "_apply", plan.rowLength * plan.rows());
    } else if (merges > 0) {
      emitElements(SimtKernel::Role::Write, "_write", plan.sortedRows() * plan.sortedCount());
    }
  } else {
    const SimtSchedule combine = plan.scan ? schedule : combineSchedule(schedule, target);
    emit(schedule, SimtKernel::Role::Parts, entry, schedule.blocks() * schedule.parts);
    if (plan.scan)
      emit(schedule, SimtKernel::Role::Fold, entry + "_fold", ceilDiv(schedule.units, Dim(schedule.threads())));
    emit(combine, SimtKernel::Role::Combine, entry + "_combine",
         plan.scan ? schedule.blocks() * schedule.parts : combine.blocks());
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
  std::unordered_map<std::string, std::shared_ptr<const SimtFunction>> known; // by key
  std::atomic<uint64_t> serial = 0;

  Result<std::unique_ptr<SimtBackend>> takeBackend();
  void giveBack(std::unique_ptr<SimtBackend> backend) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(backend));
  }
  Result<std::shared_ptr<const SimtFunction>> compile(SimtBackend &backend, std::string key, std::vector<Dag> dags,
                                                      const Group &group);
  std::unordered_map<std::string, unsigned> threads; // sharableThreads, by the key of the Dag
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

static Result<ScheduledPlan> scheduled(Dag dag, const SimtTarget &target) {
  Result<std::unique_ptr<LoopPlan>> plan = LoopPlan::make(std::move(dag), simtFuseTarget());
  if (!plan)
    return plan.error();
  SimtSchedule schedule = scheduleSimt(**plan, target);
  return ScheduledPlan{std::move(*plan), std::move(schedule)};
}

// One for each part of a bundle, otherwise one.
static Result<std::vector<Dag>> dagsOf(const MortiseGraph &graph, const Group &group) {
  std::vector<Dag> dags;
  const std::span<const Group> parts = group.parts.empty() ? std::span(&group, 1) : std::span(group.parts);
  for (const Group &part : parts) {
    Result<Dag> dag = buildDag(graph, part);
    if (!dag)
      return dag.error();
    dags.push_back(std::move(*dag));
  }
  return dags;
}

Result<std::shared_ptr<const SimtFunction>> SimtCompiler::Impl::compile(SimtBackend &backend, std::string key,
                                                                        std::vector<Dag> dags, const Group &group) {
  auto failed = [&](const Error &error) { return Error{error.code, group.name + ": " + error.message}; };
  std::vector<ScheduledPlan> plans;
  for (Dag &dag : dags) {
    Result<ScheduledPlan> made = scheduled(std::move(dag), target);
    if (!made)
      return failed(made.error());
    plans.push_back(std::move(*made));
  }
  auto function = std::make_shared<SimtFunction>();
  function->key = std::move(key);
  const std::string entry = symbolName(group.name, serial++);
  Result<SimtCode> code =
      addCode(*function, [&](unsigned alignment) { return backend.compile(plans, entry, alignment); });
  if (!code)
    return failed(code.error());
  const auto isEvaluated = [](const SimtLaunch &launch) {
    return launch.blocks.isValid() && launch.iterations.isValid();
  };
  if (!std::ranges::all_of(code->launches, isEvaluated) || !plans[0].schedule.scratchBytes.isValid())
    return failed({MORTISE_UNSUPPORTED, "the extents of a group make expressions that are too large"});
  function->over = std::move(code->over);
  function->hasTable = code->hasTable;
  function->launches = std::move(code->launches);
  for (uint32_t i = 0; i < group.inputs.size(); ++i)
    function->arguments.push_back({SimtArgument::Input, i});
  for (uint32_t i = 0; i < group.outputs.size(); ++i)
    function->arguments.push_back({SimtArgument::Output, i});
  if (plans[0].schedule.hasScratch()) {
    function->scratchBytes = plans[0].schedule.scratchBytes;
    function->arguments.push_back({SimtArgument::Scratch, 0});
  }
  for (const uint32_t number : symbolsOf(plans))
    function->arguments.push_back({SimtArgument::Symbol, number});
  for (uint32_t i = 0; i < code->constants.size(); ++i)
    function->arguments.push_back({SimtArgument::Constant, i});
  function->constants = std::move(code->constants);
  for (const ScheduledPlan &each : plans) {
    const Traffic traffic = each.plan->traffic();
    function->bytes += traffic.bytes, function->flops += traffic.flops;
  }
  return std::shared_ptr<const SimtFunction>(std::move(function));
}

Result<std::vector<unsigned>> SimtCompiler::sharableThreads(const MortiseGraph &graph, std::span<const Group> groups) {
  std::vector<unsigned> all;
  for (const Group &group : groups) {
    Result<Dag> dag = buildDag(graph, group);
    if (!dag)
      return dag.error();
    {
      std::lock_guard lock(impl->mutex);
      if (const auto found = impl->threads.find(dag->key); found != impl->threads.end()) {
        all.push_back(found->second);
        continue;
      }
    }
    const std::string key = dag->key;
    Result<ScheduledPlan> made = scheduled(std::move(*dag), impl->target);
    if (!made)
      return made.error();
    const SimtSchedule &schedule = made->schedule;
    const double running = made->plan->typical(schedule.blocks()) * schedule.threads();
    const bool isSharable = schedule.parts == 1 && !schedule.tile && !schedule.sort && !schedule.keepsRow &&
                            running <= impl->target.deviceThreads;
    all.push_back(isSharable ? schedule.threads() : 0);
    std::lock_guard lock(impl->mutex);
    impl->threads[key] = all.back();
  }
  return all;
}

Result<std::vector<std::shared_ptr<const SimtFunction>>> SimtCompiler::compile(const MortiseGraph &graph,
                                                                               std::span<const Group> groups) {
  struct Job {
    size_t group; // the first one with its key
    std::vector<Dag> dags;
  };
  std::vector<std::string> keys;
  std::vector<Job> todo;
  {
    std::unordered_map<std::string, bool> queued;
    for (size_t i = 0; i < groups.size(); ++i) {
      Result<std::vector<Dag>> dags = dagsOf(graph, groups[i]);
      if (!dags)
        return dags.error();
      std::string key = (*dags)[0].key;
      for (size_t part = 1; part < dags->size(); ++part) // a key tells where it ends
        key += std::to_string(key.size()) + "+" + (*dags)[part].key;
      keys.push_back(key);
      std::lock_guard lock(impl->mutex);
      if (!impl->known.contains(key) && queued.emplace(key, true).second)
        todo.push_back({i, std::move(*dags)});
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
      auto compiled = impl->compile(**backend, keys[job.group], std::move(job.dags), groups[job.group]);
      if (!compiled) {
        fail(compiled.error());
        break;
      }
      std::lock_guard lock(impl->mutex);
      impl->known.emplace(keys[job.group], std::move(*compiled)); // unless another thread was faster
    }
    impl->giveBack(std::move(*backend));
  };
  if (!todo.empty())
    inThreads(std::min<size_t>(impl->target.compileThreads, todo.size()), work);
  if (error)
    return *error;
  std::vector<std::shared_ptr<const SimtFunction>> functions;
  std::lock_guard lock(impl->mutex);
  for (const std::string &key : keys)
    functions.push_back(impl->known.at(key));
  return functions;
}

void SimtCompiler::add(std::span<const std::shared_ptr<const SimtFunction>> functions) {
  std::lock_guard lock(impl->mutex);
  for (const std::shared_ptr<const SimtFunction> &function : functions)
    impl->known.try_emplace(function->key, function);
}

void SimtCompiler::remove(std::span<const std::shared_ptr<const SimtFunction>> functions) {
  std::lock_guard lock(impl->mutex);
  for (const std::shared_ptr<const SimtFunction> &function : functions)
    if (const auto found = impl->known.find(function->key); found != impl->known.end() && found->second == function)
      impl->known.erase(found);
}

Result<std::shared_ptr<const SimtFunction>> SimtCompiler::compile(const AttentionCode &code) {
  const std::string key = code.name(); // that of a group begins with the number of an op
  {
    std::lock_guard lock(impl->mutex);
    if (const auto found = impl->known.find(key); found != impl->known.end())
      return found->second;
  }
  Result<std::unique_ptr<SimtBackend>> backend = impl->takeBackend();
  if (!backend)
    return backend.error();
  auto function = std::make_shared<SimtFunction>();
  function->key = key;
  const std::string entry = symbolName(key, impl->serial++);
  Result<SimtCode> made =
      addCode(*function, [&](unsigned alignment) { return (*backend)->compile(code, entry, alignment); });
  impl->giveBack(std::move(*backend));
  if (!made)
    return Error{made.error().code, key + ": " + made.error().message};
  function->launches = std::move(made->launches);
  for (uint32_t i = 0; i < (code.mask == AttentionCode::Mask::None ? 3U : 4U); ++i)
    function->arguments.push_back({SimtArgument::Input, i});
  function->arguments.push_back({SimtArgument::Output, 0});
  // A mask is read element by element.
  for (uint32_t i = 0; i < AttentionNumber::count(code); ++i)
    function->arguments.push_back(
        {i >= AttentionNumber::Q && i < AttentionNumber::Mask ? SimtArgument::Stride : SimtArgument::Number, i});
  std::lock_guard lock(impl->mutex);
  return impl->known.emplace(key, std::move(function)).first->second; // or another thread's, which was faster
}

} // namespace mortise::codegen
