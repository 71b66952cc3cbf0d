// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.h"

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

Constants::~Constants() {
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

static void runGenerated(const Step &step, void *const *operands) {
  const codegen::Function &function = step.function;
  if (!function.entry)
    return;
  auto inputs = const_cast<const void *const *>(operands);
  void *const *outputs = operands + step.inputCount;
  if (function.tasks <= function.grain) {
    function.entry(inputs, outputs, function.scratchBytes ? scratch(function.scratchBytes) : nullptr, 0,
                   function.tasks);
    return;
  }
  parallelFor(function.tasks, function.grain, [&](int64_t begin, int64_t end) {
    function.entry(inputs, outputs, function.scratchBytes ? scratch(function.scratchBytes) : nullptr, begin, end);
  });
}

Result<void> runSteps(const std::vector<Step> &steps, CallState &state, uint64_t *stepTimes,
                      const std::vector<bool> *only) {
  using clock = std::chrono::steady_clock;
  void *const *operands = state.operands.data();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    if (only && !(*only)[i]) {
      operands += step.operands.size();
      continue;
    }
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
      runGenerated(step, operands);
    }
    if (stepTimes)
      stepTimes[i] +=
          static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count());
    operands += step.operands.size();
  }
  return {};
}

CallState *Constants::lease(const Kernel &kernel) const {
  for (std::atomic<CallState *> &slot : idle)
    if (slot.load(std::memory_order_relaxed))
      if (CallState *state = slot.exchange(nullptr, std::memory_order_acquire))
        return state;
  CallState *state = makeState(kernel.schedule, kernel.schedule.steps).release();
  state->pointers = pointers;
  return state;
}

void Constants::release(CallState *state) const {
  for (std::atomic<CallState *> &slot : idle)
    if (CallState *expected = nullptr; slot.compare_exchange_strong(expected, state, std::memory_order_release))
      return;
  delete state; // more calls in flight than slots
}

Result<void> Kernel::run(const Constants &constants, const MortiseEnqueueArgs &args) const {
  CallState *state = constants.lease(*this);
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
    default:
      break;
    }
  }
  resolve(schedule.steps, *state);
  int current = omp_get_max_threads();
  if (current > threads) [[unlikely]]
    omp_set_num_threads(threads);
  Result<void> result = runSteps(schedule.steps, *state, args.step_ns, nullptr);
  if (current > threads) [[unlikely]]
    omp_set_num_threads(current);
  constants.release(state);
  return result;
}

Result<std::unique_ptr<Kernel>> compileKernel(const MortiseGraph &region, const Options &options) {
  Result<Schedule> schedule = makeSchedule(region, options);
  if (!schedule)
    return schedule.error();
  auto kernel = std::make_unique<Kernel>();
  kernel->schedule = std::move(*schedule);
  kernel->threads = omp_get_max_threads();
  kernel->workspace = ConstantExpr(static_cast<int64_t>(kernel->schedule.workspaceBytes));
  kernel->keptAtRunTime.resize(kernel->schedule.buffers.size());
  for (const Step &step : kernel->schedule.steps) {
    kernel->steps.add(step.name, step.lowering, step.nodes, step.bytes, step.flops);
    for (const Operand &operand : step.operands) {
      if (operand.buffer >= kernel->keptAtRunTime.size())
        return Error{MORTISE_INTERNAL, "step '" + step.name + "' reads or writes a value that has no memory"};
      kernel->keptAtRunTime[operand.buffer] = true;
    }
  }
  for (size_t i = 0; i < region.input_count; ++i)
    kernel->hasConstants |= (region.inputs[i]->flags & MORTISE_VALUE_CONSTANT) != 0;
  if (!kernel->hasConstants) {
    Result<Packed<Constants>> empty = kernel->bind(nullptr);
    if (!empty)
      return empty.error();
    kernel->empty = std::move(empty->constants);
  }
  return kernel;
}

} // namespace mortise::cpu
