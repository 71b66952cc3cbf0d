// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

// oneDNN runs on OpenMP's threads, as many as the calling thread asks for.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace mortise::cpu {

CallState::~CallState() {
  for (dnnl_memory_t memory : memories)
    if (memory)
      dnnl_memory_destroy(memory);
}

Bound::~Bound() {
  for (std::atomic<CallState *> &slot : idle)
    delete slot.load();
}

// One per thread: kernels of all regions share it.
static dnnl_stream_t stream() {
  thread_local dnnl::stream made(engine());
  return made.get();
}

// Memory that generated code uses for one range of tasks; grows to the largest need of this thread.
static void *scratch(size_t bytes) {
  struct Block {
    void *memory = nullptr;
    size_t size = 0;
    ~Block() { std::free(memory); }
  };
  thread_local Block block;
  if (block.size < bytes) {
    std::free(block.memory);
    block.size = (bytes + 4095) / 4096 * 4096;
    block.memory = std::aligned_alloc(64, block.size);
  }
  return block.memory;
}

std::unique_ptr<CallState> makeState(const Schedule &schedule, const std::vector<Step> &steps) {
  auto state = std::make_unique<CallState>();
  state->pointers.resize(schedule.buffers.size());
  for (const Step &step : steps) {
    std::vector<dnnl_exec_arg_t> &call = state->calls.emplace_back();
    for (size_t i = 0; i < step.operands.size(); ++i) {
      dnnl_memory_t memory = nullptr;
      if (step.isLibraryCall()) {
        if (dnnl_memory_create(&memory, step.layouts[i].get(), engine().get(), DNNL_MEMORY_NONE) != dnnl_success)
          throw std::bad_alloc();
        call.push_back({step.arguments[i], memory});
      }
      state->memories.push_back(memory);
      state->operands.push_back(nullptr);
    }
  }
  return state;
}

// Points every step at its operands; the library's handles change only where the pointer did.
void resolve(const std::vector<Step> &steps, CallState &state) {
  size_t at = 0;
  for (const Step &step : steps)
    for (const Operand &operand : step.operands) {
      void *pointer = static_cast<char *>(state.pointers[operand.buffer]) + operand.offset;
      if (pointer != state.operands[at]) {
        state.operands[at] = pointer;
        if (state.memories[at])
          dnnl_memory_set_data_handle(state.memories[at], pointer);
      }
      ++at;
    }
}

static void runGenerated(const Step &step, const int64_t *symbols, void *const *operands) {
  const GeneratedCall &function = step.call;
  if (!function.entry || function.tasks == 0)
    return;
  auto inputs = const_cast<const void *const *>(operands);
  void *const *outputs = operands + step.inputCount;
  if (function.tasks <= function.grain) {
    function.entry(inputs, outputs, function.scratchBytes ? scratch(function.scratchBytes) : nullptr, symbols, 0,
                   function.tasks);
    return;
  }
  parallelFor(function.tasks, function.grain, [&](int64_t begin, int64_t end) {
    function.entry(inputs, outputs, function.scratchBytes ? scratch(function.scratchBytes) : nullptr, symbols, begin,
                   end);
  });
}

Result<void> runSteps(const std::vector<Step> &steps, CallState &state, const int64_t *symbols, uint64_t *stepTimes,
                      const std::vector<uint32_t> &slots) {
  using clock = std::chrono::steady_clock;
  void *const *operands = state.operands.data();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    clock::time_point start = stepTimes ? clock::now() : clock::time_point();
    if (step.isLibraryCall()) {
      const std::vector<dnnl_exec_arg_t> &call = state.calls[i];
      dnnl_status_t status =
          dnnl_primitive_execute(step.primitive.get(), stream(), static_cast<int>(call.size()), call.data());
      if (status != dnnl_success)
        return Error{status == dnnl_out_of_memory ? MORTISE_OUT_OF_MEMORY : MORTISE_INTERNAL,
                     "oneDNN failed in \"" + step.name + "\" with status " + std::to_string(status)};
    } else if (step.native) {
      step.native(operands);
    } else {
      runGenerated(step, symbols, operands);
    }
    if (stepTimes)
      stepTimes[slots.empty() ? i : slots[i]] +=
          static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count());
    operands += step.operands.size();
  }
  return {};
}

CallState *Bound::lease(const Program &program) const {
  for (std::atomic<CallState *> &slot : idle)
    if (slot.load(std::memory_order_relaxed))
      if (CallState *state = slot.exchange(nullptr, std::memory_order_acquire))
        return state;
  CallState *state = makeState(program.schedule, program.schedule.steps).release();
  state->pointers = pointers;
  return state;
}

void Bound::release(CallState *state) const {
  for (std::atomic<CallState *> &slot : idle)
    if (CallState *expected = nullptr; slot.compare_exchange_strong(expected, state, std::memory_order_release))
      return;
  delete state; // more calls in flight than slots
}

static char *aligned(void *pointer) {
  return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(pointer) + 63) / 64 * 64);
}

Result<void> Program::run(const Bound &bound, const MortiseEnqueueArgs &args) const {
  CallState *state = bound.lease(*this);
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer &buffer = schedule.buffers[i];
    switch (buffer.home) {
    case Home::Workspace:
      state->pointers[i] = static_cast<char *>(args.workspace) + buffer.offset;
      break;
    case Home::Input:
      state->pointers[i] = const_cast<void *>(args.inputs[buffer.number]);
      break;
    case Home::Output:
      state->pointers[i] = args.outputs[buffer.number];
      break;
    case Home::Before:
      state->pointers[i] = aligned(args.outputs[buffer.number]) + buffer.offset;
      break;
    default:
      break;
    }
  }
  resolve(schedule.steps, *state);
  int current = omp_get_max_threads();
  if (current > threads) [[unlikely]]
    omp_set_num_threads(threads);
  Result<void> result = runSteps(schedule.steps, *state, schedule.symbols.data(), args.step_ns, slots);
  if (current > threads) [[unlikely]]
    omp_set_num_threads(current);
  bound.release(state);
  return result;
}

Result<std::unique_ptr<Plan>> Plan::make(const MortiseGraph &region, const Options &options, bool mayShorten) {
  constexpr uint32_t kept = 4; // two that are compared, and one on either side, which meets something else
  constexpr size_t most = 4;   // repetitions of different kinds
  auto plan = std::make_unique<Plan>();
  plan->region = &region;
  const MortiseGraph *graph = &region;
  while (mayShorten && plan->shorter.size() < most) {
    std::optional<Repetition> found = findRepetition(*graph, kept);
    if (!found)
      break;
    plan->shorter.push_back(std::make_unique<ShortGraph>(*graph, std::move(*found), kept));
    graph = &plan->shorter.back()->view();
  }
  plan->scheduler = std::make_unique<Scheduler>(*graph, options, sampleOf(*graph));
  if (Result<void> result = plan->scheduler->plan(); !result)
    return result.error();
  return plan;
}

Result<std::unique_ptr<Program>> Program::make(const Plan &plan, Values values) {
  Result<Schedule> schedule = Emitter(*plan.scheduler, std::move(values)).run();
  if (!schedule)
    return schedule.error();
  for (size_t i = plan.shorter.size(); i-- > 0;)
    if (!stamp(*schedule, *plan.shorter[i]))
      return std::unique_ptr<Program>();
  planMemory(*schedule, *plan.region);
  auto program = std::make_unique<Program>();
  program->schedule = std::move(*schedule);
  program->threads = omp_get_max_threads();
  program->workspace = ConstantExpr(static_cast<int64_t>(program->schedule.workspaceBytes));
  program->keptAtRunTime.resize(program->schedule.buffers.size());
  for (const Step &step : program->schedule.steps) {
    program->steps.add(step.name, step.lowering, step.nodes, step.bytes, step.flops);
    for (const Operand &operand : step.operands) {
      if (operand.buffer >= program->keptAtRunTime.size())
        return Error{MORTISE_INTERNAL, "step '" + step.name + "' reads or writes a value that has no memory"};
      program->keptAtRunTime[operand.buffer] = true;
    }
  }
  return program;
}

// Steps of a unit correspond in order; those that the other program lacks count to the one before.
void Program::timeAs(const Program &other) {
  const std::vector<Step> &own = schedule.steps, &theirs = other.schedule.steps;
  bool same = own.size() == theirs.size();
  for (size_t i = 0; i < own.size() && same; ++i)
    same = own[i].unit == theirs[i].unit;
  if (same)
    return;
  size_t at = 0; // the first of their steps for this unit or a later one
  for (size_t i = 0, nth = 0; i < own.size(); ++i) {
    nth = i > 0 && own[i].unit == own[i - 1].unit ? nth + 1 : 0;
    while (nth == 0 && at < theirs.size() && theirs[at].unit < own[i].unit)
      ++at;
    size_t slot = at + nth;
    while (slot > 0 && (slot >= theirs.size() || theirs[slot].unit > own[i].unit))
      --slot;
    slots.push_back(static_cast<uint32_t>(slot));
  }
}

Result<std::unique_ptr<Constants>> Kernel::bindConstants(const void *const *inputs) const {
  // For all inputs: an instance may bind constants that the program of typical values does not.
  std::vector<const void *> pointers(region->input_count);
  if (inputs)
    pointers.assign(inputs, inputs + region->input_count);
  auto constants = std::make_unique<Constants>(std::move(pointers));
  Result<std::unique_ptr<Bound>> bound = bind(*program, constants->inputs);
  if (!bound)
    return bound.error();
  constants->bound = std::move(*bound);
  return constants;
}

Result<std::unique_ptr<Instance>> Kernel::instantiate(const Constants *constants, const int64_t *symbols) const {
  if (!plan->scheduler)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has no symbols and so no instances"};
  if (!constants)
    constants = empty.get();
  if (!constants)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has constant inputs: bind them before making an instance"};
  auto instance = std::make_unique<Instance>();
  Result<std::unique_ptr<Program>> made =
      makeProgram(Values{std::vector<int64_t>(symbols, symbols + region->symbol_count)});
  if (!made)
    return made.error();
  instance->program = std::move(*made);
  instance->program->timeAs(*program);
  Result<std::unique_ptr<Bound>> bound = bind(*instance->program, constants->inputs);
  if (!bound)
    return bound.error();
  instance->bound = std::move(*bound);
  return instance;
}

Result<void> Kernel::run(const Constants *constants, const Instance *instance, const MortiseEnqueueArgs &args) const {
  if (instance)
    return instance->program->run(*instance->bound, args);
  if (plan->scheduler)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has symbols: make an instance for their values first"};
  if (!constants)
    constants = empty.get();
  if (!constants)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has constant inputs: bind them before running it"};
  return program->run(*constants->bound, args);
}

Result<std::unique_ptr<Program>> Kernel::makeProgram(const Values &values) const {
  if (Result<std::unique_ptr<Program>> program = Program::make(*plan, values); !program || *program)
    return program;
  if (options.stamping == Options::Stamping::Required)
    return Error{MORTISE_UNSUPPORTED, "stamp_layers = required: the region's equal layers were not scheduled alike"};
  std::lock_guard lock(mutex);
  if (!whole) {
    Result<std::unique_ptr<Plan>> made = Plan::make(*region, options, false);
    if (!made)
      return made.error();
    whole = std::move(*made);
  }
  return Program::make(*whole, values);
}

Result<std::unique_ptr<Kernel>> compileKernel(const MortiseGraph &region, const Options &options) {
  auto kernel = std::make_unique<Kernel>();
  kernel->region = &region;
  kernel->options = options;
  Result<std::unique_ptr<Plan>> plan = Plan::make(region, options, options.stamping != Options::Stamping::No);
  if (!plan)
    return plan.error();
  if (options.stamping == Options::Stamping::Required && (*plan)->shorter.empty())
    return Error{MORTISE_UNSUPPORTED, "stamp_layers = required: the region has no equal layers, or too few"};
  kernel->plan = std::move(*plan);
  Result<std::unique_ptr<Program>> program = kernel->makeProgram(kernel->plan->scheduler->sample);
  if (!program)
    return program.error();
  kernel->program = std::move(*program);
  if (!region.symbol_count)
    kernel->dropSchedulers();
  for (size_t i = 0; i < region.input_count; ++i)
    kernel->hasConstants |= (region.inputs[i]->flags & MORTISE_VALUE_CONSTANT) != 0;
  if (!kernel->hasConstants) {
    Result<std::unique_ptr<Constants>> empty = kernel->bindConstants(nullptr);
    if (!empty)
      return empty.error();
    kernel->empty = std::move(*empty);
  }
  return kernel;
}

} // namespace mortise::cpu
