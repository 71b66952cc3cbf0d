// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include <algorithm>

namespace mortise::cuda {

static constexpr size_t mostArguments = 500;           // of 8 bytes; the driver takes 4 KB
static constexpr uint64_t mostBlocks = (1u << 31) - 1; // of a one-dimensional grid

// ---- Compilation

static Dim bytesOf(const MortiseValue &value) {
  const std::vector<Dim> dims = dimsOf(*value.type);
  return elementCount(std::span<const Dim>(dims)) * static_cast<int64_t>(dtypeBits(value.type->dtype) / 8);
}

static const char *loweringOf(codegen::GroupKind kind) {
  switch (kind) {
  case codegen::GroupKind::Pointwise:
    return "cuda.pointwise";
  case codegen::GroupKind::Rows:
    return "cuda.rows";
  case codegen::GroupKind::Columns:
    return "cuda.columns";
  case codegen::GroupKind::Scan:
    return "cuda.scan";
  }
  return "cuda.generated";
}

// Decides where each value lies, and adds the steps.
class Builder {
public:
  explicit Builder(Kernel &kernel)
      : kernel(kernel), region(kernel.region), places(region.value_count), aliased(region.output_count, none) {}
  Result<void> run();

private:
  static constexpr uint32_t none = UINT32_MAX;
  struct End { // an output that no group writes
    uint32_t output = 0, value = 0;
  };

  void placeInputs();
  void placeOutputs();
  bool mayUpdate(uint32_t output, uint32_t value) const;
  bool mayWriteOver(uint32_t group, uint32_t output, uint32_t input) const;
  Result<Place> placeOf(uint32_t value);
  Place workspace(uint32_t value);
  Result<void> addLaunches();
  Result<void> addCopies();
  void addCopy(uint32_t output, uint32_t value, Place source, Place target);
  void findLives();

  Kernel &kernel;
  const MortiseGraph &region;
  std::vector<codegen::Group> groups;
  std::vector<std::shared_ptr<Function>> functions; // per group
  std::vector<std::optional<Place>> places;         // per value
  std::vector<uint32_t> aliased;                    // per output: the value of the input that it updates, or none
  std::vector<End> ends;
};

void Builder::placeInputs() {
  for (uint32_t i = 0; i < region.input_count; ++i) {
    places[region.inputs[i]->index] = Place{Place::Input, i};
    kernel.constants |= (region.inputs[i]->flags & MORTISE_VALUE_CONSTANT) != 0;
  }
  for (size_t i = 0; i < region.alias_count; ++i)
    aliased[region.aliases[i]->output] = region.inputs[region.aliases[i]->input]->index;
}

// Whether the group may have the memory of one of its inputs, of which it makes something else, for this output.
bool Builder::mayWriteOver(uint32_t group, uint32_t output, uint32_t input) const {
  const std::vector<std::vector<uint32_t>> &over = functions[group]->code().over;
  return (groups[group].inPlace == static_cast<int>(input) && output == 0) ||
         (output < over.size() && std::ranges::find(over[output], input) != over[output].end());
}

// Whether the group that makes `value` may write it where the state lies that `output` updates: nobody wants the old
// contents any more.
bool Builder::mayUpdate(uint32_t output, uint32_t value) const {
  const uint32_t state = aliased[output];
  for (uint32_t other = 0; other < region.output_count; ++other)
    if (other != output && region.outputs[other]->index == state)
      return false;
  bool made = false;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    const std::vector<uint32_t> &inputs = groups[g].inputs, &outputs = groups[g].outputs;
    const bool before = made;
    const auto at = std::ranges::find(outputs, value);
    made |= at != outputs.end();
    const auto read = std::ranges::find(inputs, state);
    if (!made || read == inputs.end())
      continue;
    if (before ||
        !mayWriteOver(g, static_cast<uint32_t>(at - outputs.begin()), static_cast<uint32_t>(read - inputs.begin())))
      return false;
  }
  return made;
}

// Groups write outputs where they can. An output that is an input, is listed a second time, or updates a state that is
// still read is copied at the end.
void Builder::placeOutputs() {
  for (uint32_t o = 0; o < region.output_count; ++o) {
    const MortiseValue &value = *region.outputs[o];
    if (aliased[o] == value.index)
      continue; // the state as it was
    if (places[value.index] || (aliased[o] != none && !mayUpdate(o, value.index)))
      ends.push_back({o, value.index});
    else
      places[value.index] = Place{Place::Output, o};
  }
}

Place Builder::workspace(uint32_t value) {
  kernel.buffers.push_back({bytesOf(*region.values[value])});
  return {Place::Workspace, static_cast<uint32_t>(kernel.buffers.size() - 1)};
}

Result<Place> Builder::placeOf(uint32_t value) {
  if (!places[value])
    return Error{MORTISE_INTERNAL, "a step of the cuda plugin reads value " + std::to_string(value) + " (" +
                                       typeString(*region.values[value]->type) +
                                       "), which no step writes; please report this graph"};
  return *places[value];
}

Result<void> Builder::addLaunches() {
  for (size_t g = 0; g < groups.size(); ++g) {
    const codegen::Group &group = groups[g];
    Launch launch{functions[g], {}};
    for (const codegen::SimtArgument &argument : launch.function->code().arguments) {
      if (argument.kind == codegen::SimtArgument::Symbol) {
        launch.arguments.push_back({true, argument.index, {}});
        continue;
      }
      const bool isOutput = argument.kind == codegen::SimtArgument::Output;
      const uint32_t value = isOutput ? group.outputs[argument.index] : group.inputs[argument.index];
      if (isOutput && !places[value])
        places[value] = workspace(value);
      Result<Place> place = placeOf(value);
      if (!place)
        return place.error();
      launch.arguments.push_back({false, 0, *place});
    }
    if (launch.arguments.size() > mostArguments)
      return Error{MORTISE_UNSUPPORTED, "expected at most " + std::to_string(mostArguments) +
                                            " arguments of a kernel, found " + std::to_string(launch.arguments.size()) +
                                            " of '" + group.name + "'"};
    kernel.steps.push_back({std::move(launch), group.name, loweringOf(group.kind), group.nodes});
  }
  return {};
}

void Builder::addCopy(uint32_t output, uint32_t value, Place source, Place target) {
  const MortiseNode *producer = region.values[value]->producer;
  kernel.steps.push_back({Copy{source, target, bytesOf(*region.values[value])},
                          "copy to output " + std::to_string(output), "cuda.copy",
                          producer ? std::vector<uint32_t>{producer->index} : std::vector<uint32_t>{}});
}

// First what is copied elsewhere, then the states, which others may have been copied from. A state that becomes another
// one is kept in the workspace meanwhile: the two may change places.
Result<void> Builder::addCopies() {
  std::vector<std::pair<End, Place>> updates;
  for (const End &end : ends) {
    Result<Place> source = placeOf(end.value);
    if (!source)
      return source.error();
    const Place target{Place::Output, end.output};
    if (aliased[end.output] == none) {
      addCopy(end.output, end.value, *source, target);
      continue;
    }
    if (std::ranges::find(aliased, end.value) != aliased.end()) {
      const Place kept = workspace(end.value);
      addCopy(end.output, end.value, *source, kept);
      *source = kept;
    }
    updates.push_back({end, *source});
  }
  for (const auto &[end, source] : updates)
    addCopy(end.output, end.value, source, {Place::Output, end.output});
  return {};
}

void Builder::findLives() {
  for (uint32_t number = 0; number < kernel.steps.size(); ++number) {
    const auto use = [&](const Place &place) {
      if (place.kind != Place::Workspace)
        return;
      Buffer &buffer = kernel.buffers[place.index];
      buffer.first = std::min(buffer.first, number);
      buffer.last = std::max(buffer.last, number);
    };
    if (const auto *copy = std::get_if<Copy>(&kernel.steps[number].work)) {
      use(copy->source);
      use(copy->target);
    } else {
      for (const Launch::Argument &argument : std::get<Launch>(kernel.steps[number].work).arguments)
        if (!argument.isSymbol)
          use(argument.place);
    }
  }
}

Result<void> Builder::run() {
  codegen::FuseRequest request;
  request.graph = &region;
  request.taken.assign(region.node_count, false);
  request.materialise.assign(region.value_count, false);
  for (size_t i = 0; i < region.output_count; ++i)
    request.materialise[region.outputs[i]->index] = true;
  Result<codegen::FuseResult> fused = codegen::fuse(request, codegen::simtFuseTarget());
  if (!fused)
    return fused.error();
  if (cancelled())
    return cancelledError();
  groups = std::move(fused->groups);
  auto compiled = compileGroups(kernel.device, region, groups);
  if (!compiled)
    return compiled.error();
  functions = std::move(*compiled);
  placeInputs();
  placeOutputs();
  if (auto added = addLaunches(); !added)
    return added;
  if (auto added = addCopies(); !added)
    return added;
  findLives();
  return {};
}

Result<std::unique_ptr<Kernel>> Kernel::compile(Device &device, const MortiseGraph &region) {
  if (cancelled())
    return cancelledError();
  std::unique_ptr<Kernel> kernel(new Kernel(device, region));
  if (auto built = Builder(*kernel).run(); !built)
    return built.error();
  Result<std::unique_ptr<Schedule>> usual = kernel->scheduleFor(typicalValues(region));
  if (!usual)
    return usual.error();
  kernel->usual = std::move(*usual);
  return kernel;
}

// ---- Numbers

Result<std::unique_ptr<Schedule>> Kernel::scheduleFor(std::span<const int64_t> symbols) const {
  auto schedule = std::make_unique<Schedule>();
  const auto count = [&](const Dim &dim) -> Result<uint64_t> {
    const Result<int64_t> number = dim.evaluate(symbols);
    if (!number)
      return number.error();
    return static_cast<uint64_t>(std::max<int64_t>(*number, 0));
  };
  // What explain shows may be missing.
  const auto shown = [&](const Dim &dim) {
    const Result<int64_t> number = dim.evaluate(symbols);
    return number ? static_cast<double>(*number) : 0;
  };
  for (const Step &step : steps) {
    const auto *launch = std::get_if<Launch>(&step.work);
    const auto *copy = std::get_if<Copy>(&step.work);
    Result<uint64_t> amount = count(launch ? launch->function->code().blocks : copy->bytes);
    if (!amount)
      return Error{amount.error().code, step.name + ": " + amount.error().message};
    if (launch && *amount > mostBlocks)
      return Error{MORTISE_UNSUPPORTED, step.name + ": expected a grid of at most 2147483647 blocks, found " +
                                            std::to_string(*amount) + "; run the graph on smaller tensors"};
    schedule->amounts.push_back(*amount);
    const double bytes = launch ? shown(launch->function->code().bytes) : 2.0 * static_cast<double>(*amount);
    schedule->steps.add(step.name, step.lowering, step.nodes, bytes,
                        launch ? shown(launch->function->code().flops) : 0);
  }
  std::vector<uint64_t> sizes;
  for (const Buffer &buffer : buffers) {
    Result<uint64_t> size = count(buffer.bytes);
    if (!size)
      return size.error();
    sizes.push_back(*size);
  }
  Result<uint64_t> bytes = placeBuffers(buffers, sizes, schedule->offsets);
  if (!bytes)
    return bytes.error();
  schedule->workspaceBytes = *bytes;
  schedule->workspace = ConstantExpr(static_cast<int64_t>(*bytes));
  return schedule;
}

// ---- Calls

namespace {

// Times steps of a profiled call by events between them.
class Clock {
public:
  Clock(Stream &stream, bool on) : stream(stream), on(on) {}
  Clock(const Clock &) = delete;
  ~Clock() {
    for (CUevent event : events)
      stream.device.driver.eventDestroy(event);
  }
  Result<void> mark() {
    if (!on)
      return {};
    Device &device = stream.device;
    CUevent event = nullptr;
    if (auto made = device.check(device.driver.eventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"); !made)
      return made;
    events.push_back(event);
    return device.check(device.driver.eventRecord(event, stream.handle), "cuEventRecord");
  }
  // Waits: the times have to be there when the work has happened, and what the driver calls back from a stream must not
  // ask it for the time of an event. Only profiled calls wait.
  Result<void> write(uint64_t *stepNs) {
    if (!on || events.empty())
      return {};
    Device &device = stream.device;
    if (auto waited = device.check(device.driver.eventSynchronize(events.back()), "cuEventSynchronize"); !waited)
      return waited;
    for (size_t i = 0; i + 1 < events.size(); ++i) {
      float milliseconds = 0;
      const CUresult asked = device.driver.eventElapsedTime(&milliseconds, events[i], events[i + 1]);
      if (auto done = device.check(asked, "cuEventElapsedTime"); !done)
        return done;
      stepNs[i] += static_cast<uint64_t>(std::max(0.0, milliseconds * 1e6));
    }
    return {};
  }

private:
  Stream &stream;
  const bool on;
  std::vector<CUevent> events;
};

// The addresses of one call.
struct Addresses {
  const Constants *constants;
  const Schedule &schedule;
  const MortiseEnqueueArgs &args;
  MortiseAddress operator()(const Place &place) const {
    if (place.kind == Place::Workspace)
      return args.workspace + schedule.offsets[place.index];
    if (place.kind == Place::Output)
      return args.outputs[place.index];
    const MortiseAddress given = args.inputs[place.index];
    return given || !constants ? given : constants->inputs[place.index];
  }
};

Result<void> queueLaunch(Stream &stream, const Launch &launch, uint64_t blocks, const Addresses &addresses) {
  uint64_t values[mostArguments];
  void *arguments[mostArguments];
  const codegen::SimtFunction &code = launch.function->code();
  MortiseAddress bits = 0; // of all addresses
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const Launch::Argument &argument = launch.arguments[i];
    if (argument.isSymbol) {
      values[i] = static_cast<uint64_t>(addresses.args.symbols[argument.symbol]);
    } else {
      values[i] = addresses(argument.place);
      bits |= values[i];
    }
    arguments[i] = &values[i];
  }
  Result<CUfunction> entry = launch.function->entry(bits % code.alignment == 0); // a power of two
  if (!entry)
    return entry.error();
  Device &device = stream.device;
  return device.check(device.driver.launchKernel(*entry, static_cast<unsigned>(blocks), 1, 1, code.threads, 1, 1, 0,
                                                 stream.handle, arguments, nullptr),
                      "cuLaunchKernel");
}

Result<void> queueCopy(Stream &stream, const Copy &copy, uint64_t bytes, const Addresses &addresses) {
  Device &device = stream.device;
  const MortiseAddress target = addresses(copy.target), source = addresses(copy.source);
  return device.check(device.driver.memcpyDtoDAsync(target, source, bytes, stream.handle), "cuMemcpyDtoDAsync");
}

} // namespace

Result<void> Kernel::enqueue(const Constants *bound, const Schedule *instance, const MortiseEnqueueArgs &args) const {
  Result<Stream *> found = Stream::of(args.stream, "enqueue");
  if (!found)
    return found.error();
  Stream &stream = **found;
  if (&stream.device != &device)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a stream of cuda:" + std::to_string(device.ordinal()) +
                                               ", for which the kernel was compiled, found one of cuda:" +
                                               std::to_string(stream.device.ordinal())};
  if (region.symbol_count && !instance)
    return Error{MORTISE_INTERNAL, "expected an instance for the symbols' values, found none"};
  if (auto known = stream.failure(); !known)
    return known;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return stream.fail(entered.error());
  const Schedule &schedule = instance ? *instance : *usual;
  const Addresses addresses{bound, schedule, args};
  Clock clock(stream, args.step_ns != nullptr);
  Result<void> done = clock.mark();
  for (size_t i = 0; done && i < steps.size(); ++i) {
    if (const uint64_t amount = schedule.amounts[i]; amount != 0) {
      const auto *launch = std::get_if<Launch>(&steps[i].work);
      done = launch ? queueLaunch(stream, *launch, amount, addresses)
                    : queueCopy(stream, std::get<Copy>(steps[i].work), amount, addresses);
      if (!done)
        done = Error{done.error().code, steps[i].name + ": " + done.error().message};
    }
    if (done)
      done = clock.mark();
  }
  if (done)
    done = clock.write(args.step_ns);
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::cuda
