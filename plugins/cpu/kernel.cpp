// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include "claims.hpp"
#include "stamp.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>

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
      if (const LibraryCall *library = step.libraryCall()) {
        if (dnnl_memory_create(&memory, library->layouts[i].get(), engine().get(), DNNL_MEMORY_NONE) != dnnl_success)
          throw std::bad_alloc();
        call.push_back({library->arguments[i], memory});
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

// What one step needs of the call that it runs in.
struct StepCall {
  const Step &step;
  const std::vector<dnnl_exec_arg_t> &arguments;
  const int64_t *symbols;
  void *const *operands;
};

static Result<void> run(const LibraryCall &library, const StepCall &call) {
  dnnl_status_t status = dnnl_primitive_execute(library.primitive.get(), stream(),
                                                static_cast<int>(call.arguments.size()), call.arguments.data());
  if (status != dnnl_success)
    return Error{status == dnnl_out_of_memory ? MORTISE_OUT_OF_MEMORY : MORTISE_INTERNAL,
                 "oneDNN failed in \"" + call.step.name + "\" with status " + std::to_string(status)};
  return {};
}

static Result<void> run(const GeneratedCall &function, const StepCall &call) {
  if (!function.entry || function.tasks == 0)
    return {};
  auto inputs = const_cast<const void *const *>(call.operands);
  void *const *outputs = call.operands + function.inputCount;
  auto range = [&](int64_t begin, int64_t end) {
    function.entry(inputs, outputs, function.scratchBytes ? scratch(function.scratchBytes) : nullptr, call.symbols,
                   begin, end);
  };
  if (function.tasks <= function.grain)
    range(0, function.tasks);
  else
    parallelFor(function.tasks, function.grain, range);
  return {};
}

static Result<void> run(const NativeLoop &loop, const StepCall &call) {
  loop.run(call.operands);
  return {};
}

static Result<void> run(const Copy &copy, const StepCall &call) {
  const auto *source = static_cast<const char *>(call.operands[0]);
  auto *target = static_cast<char *>(call.operands[1]);
  parallelFor(static_cast<int64_t>(copy.bytes), 1 << 18, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
  return {};
}

Result<void> runSteps(const std::vector<Step> &steps, CallState &state, const int64_t *symbols, uint64_t *stepTimes,
                      const std::vector<uint32_t> &slots) {
  using clock = std::chrono::steady_clock;
  void *const *operands = state.operands.data();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    clock::time_point start = stepTimes ? clock::now() : clock::time_point();
    const StepCall call{step, state.calls[i], symbols, operands};
    if (Result<void> result = std::visit([&](const auto &action) { return run(action, call); }, step.action); !result)
      return result;
    if (stepTimes)
      stepTimes[slots.empty() ? i : slots[i]] +=
          static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start).count());
    operands += step.operands.size();
  }
  return {};
}

CallState *Bound::lease(const Executable &executable) const {
  for (std::atomic<CallState *> &slot : idle)
    if (slot.load(std::memory_order_relaxed))
      if (CallState *state = slot.exchange(nullptr, std::memory_order_acquire))
        return state;
  CallState *state = makeState(executable.schedule, executable.schedule.steps).release();
  state->pointers = pointers;
  return state;
}

void Bound::release(CallState *state) const {
  for (std::atomic<CallState *> &slot : idle)
    if (CallState *expected = nullptr; slot.compare_exchange_strong(expected, state, std::memory_order_release))
      return;
  delete state; // more calls in flight than slots
}

static char *aligned(MortiseAddress address) { return pointer<char>((address + 63) / 64 * 64); }

Result<void> Executable::run(const Bound &bound, const MortiseEnqueueArgs &args) const {
  CallState *state = bound.lease(*this);
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer &buffer = schedule.buffers[i];
    switch (buffer.home) {
    case Home::Workspace:
      state->pointers[i] = pointer<char>(args.workspace) + buffer.offset;
      break;
    case Home::Input:
      state->pointers[i] = pointer(args.inputs[buffer.number]);
      break;
    case Home::Output:
      state->pointers[i] = pointer(args.outputs[buffer.number]);
      break;
    case Home::Before:
      state->pointers[i] = aligned(args.outputs[buffer.number]) + buffer.offset;
      break;
    case Home::After:
      state->pointers[i] = pointer<char>(args.inputs[buffer.number]) + buffer.offset;
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

Result<std::unique_ptr<Executable>> Executable::make(const Units &units, Values values) {
  Result<Schedule> schedule = makeSchedule(units, std::move(values));
  if (!schedule)
    return schedule.error();
  planMemory(*schedule, *units.graph);
  auto executable = std::make_unique<Executable>();
  executable->schedule = std::move(*schedule);
  executable->threads = omp_get_max_threads();
  executable->workspace = ConstantExpr(static_cast<int64_t>(executable->schedule.workspaceBytes));
  for (const Step &step : executable->schedule.steps) {
    executable->steps.add(step.name, step.lowering, step.nodes, step.bytes, step.flops);
    for (const Operand &operand : step.operands)
      if (operand.buffer >= executable->schedule.buffers.size())
        return Error{MORTISE_INTERNAL, "step '" + step.name + "' reads or writes a value that has no memory"};
  }
  return executable;
}

// Steps of a unit correspond in order; those that the other executable lacks count to the one before.
void Executable::timeAs(const Executable &other) {
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

Result<std::unique_ptr<Constants>> Kernel::bindConstants(const MortiseAddress *inputs) const {
  // For all inputs: an instance may bind constants that the executable of typical values does not.
  std::vector<const void *> pointers(region->input_count);
  for (size_t i = 0; inputs && i < pointers.size(); ++i)
    pointers[i] = pointer(inputs[i]);
  auto constants = std::make_unique<Constants>(std::move(pointers), hashBits);
  // An executable for typical values of symbols would read constants to other ends than they have.
  const bool isSized = std::all_of(region->inputs, region->inputs + region->input_count, [](const MortiseValue *input) {
    return !(input->flags & MORTISE_VALUE_CONSTANT) || isStatic(*input->type);
  });
  if (units && !isSized)
    return constants;
  Result<std::unique_ptr<Bound>> bound = bind(*executable, constants->inputs);
  if (!bound)
    return bound.error();
  constants->bound = std::move(*bound);
  return constants;
}

Result<std::unique_ptr<Instance>> Kernel::instantiate(const Constants *constants, const int64_t *symbols) const {
  if (!units)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has no symbols and so no instances"};
  if (!constants)
    constants = empty.get();
  if (!constants)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has constant inputs: bind them before making an instance"};
  auto instance = std::make_unique<Instance>();
  Result<std::unique_ptr<Executable>> made =
      Executable::make(*units, Values{std::vector<int64_t>(symbols, symbols + region->symbol_count)});
  if (!made)
    return made.error();
  instance->executable = std::move(*made);
  instance->executable->timeAs(*executable);
  Result<std::unique_ptr<Bound>> bound = bind(*instance->executable, constants->inputs);
  if (!bound)
    return bound.error();
  instance->bound = std::move(*bound);
  return instance;
}

Result<void> Kernel::run(const Constants *constants, const Instance *instance, const MortiseEnqueueArgs &args) const {
  if (instance)
    return instance->executable->run(*instance->bound, args);
  if (units)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has symbols: make an instance for their values first"};
  if (!constants)
    constants = empty.get();
  if (!constants)
    return Error{MORTISE_INVALID_ARGUMENT, "the region has constant inputs: bind them before running it"};
  return executable->run(*constants->bound, args);
}

// The graph, or a shorter one in its place.
static Result<Units> decide(const MortiseGraph &graph, const Options &options) {
  Result<Analysis> facts = analyse(graph, options, sampleOf(graph));
  if (!facts)
    return facts.error();
  Result<Claims> claims = claim(*facts);
  if (!claims)
    return claims.error();
  return makeUnits(*facts, std::move(*claims));
}

// The units of a graph with equal layers: few of them are decided, and stamped for the others. nullopt when there are
// none, too few, or when they were not decided alike; `found`: there were enough.
static Result<std::optional<Units>> decideFewLayers(const MortiseGraph &region, const Options &options, bool &found) {
  constexpr uint32_t kept = 4; // two that are compared, and one on either side, which meets something else
  constexpr size_t most = 4;   // repetitions of different kinds
  std::vector<std::unique_ptr<ShortGraph>> shorter; // of the region, then each of the one before
  const MortiseGraph *graph = &region;
  while (shorter.size() < most) {
    std::optional<Repetition> repetition = findRepetition(*graph, kept);
    if (!repetition)
      break;
    shorter.push_back(std::make_unique<ShortGraph>(*graph, std::move(*repetition), kept));
    graph = &shorter.back()->view();
  }
  found = !shorter.empty();
  if (!found)
    return std::optional<Units>();
  Result<Units> decided = decide(*graph, options);
  if (!decided)
    return decided.error();
  std::optional<Units> units = std::move(*decided);
  for (size_t i = shorter.size(); i-- > 0 && units;)
    units = stamp(*units, *shorter[i], i > 0 ? shorter[i - 1]->view() : region);
  return units;
}

// The pipeline up to where the symbols' values are needed (README.md).
static Result<Units> makeUnits(const MortiseGraph &region, const Options &options) {
  using Stamping = Options::Stamping;
  if (options.stamping != Stamping::No) {
    bool found = false;
    Result<std::optional<Units>> units = decideFewLayers(region, options, found);
    if (!units)
      return units.error();
    if (*units)
      return assignOutputs(std::move(**units));
    if (options.stamping == Stamping::Required)
      return Error{MORTISE_UNSUPPORTED,
                   found ? "stamp_layers = required: the region's equal layers were not decided alike"
                         : "stamp_layers = required: the region has no equal layers, or too few"};
  }
  Result<Units> units = decide(region, options);
  if (!units)
    return units.error();
  return assignOutputs(std::move(*units));
}

Result<std::unique_ptr<Kernel>> compileKernel(const MortiseGraph &region, const Options &options) {
  auto kernel = std::make_unique<Kernel>();
  kernel->region = &region;
  kernel->hashBits = options.hashBits;
  Result<Units> units = makeUnits(region, options);
  if (!units)
    return units.error();
  Result<std::unique_ptr<Executable>> executable = Executable::make(*units, units->sample);
  if (!executable)
    return executable.error();
  kernel->executable = std::move(*executable);
  if (region.symbol_count)
    kernel->units = std::make_unique<Units>(std::move(*units));
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

Result<std::vector<std::byte>> saveKernel(const Kernel &kernel) {
  const Schedule &schedule = kernel.executable->schedule;
  std::set<codegen::Function::Entry> entries;
  for (const std::vector<Step> *list : {&schedule.binding, &schedule.steps})
    for (const Step &step : *list)
      if (const auto *call = std::get_if<GeneratedCall>(&step.action))
        entries.insert(call->entry);
  if (entries.empty())
    return std::vector<std::byte>();
  return schedule.code->save(std::vector(entries.begin(), entries.end()));
}

} // namespace mortise::cpu
