// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "context.hpp"

#include "host.hpp"
#include <mortise/runtime/call.hpp>

#include <algorithm>
#include <utility>

namespace mortise::runtime {

using plan::BufferKind;

namespace {

template <typename Args, typename Slot> void callAndLog(const Device &device, const char *name, Slot slot, Args &args) {
  if (auto called = callOn(device, name, slot, args); !called)
    logMessage(MORTISE_WARNING, called.error().message);
}

} // namespace

Context::Context(const Layout &layout) : layout(layout), needs(layout.spaces.size()) {}

Result<std::unique_ptr<Context>> Context::create(const Layout &layout) {
  std::unique_ptr<Context> context(new Context(layout));
  const plan::PlanT &plan = *layout.plan;
  const size_t spaces = layout.spaces.size();
  context->hostMemory.resize(spaces);
  context->deviceMemory.resize(spaces);
  context->spaceStart.resize(spaces);
  context->spaceBytes.resize(spaces);
  context->inputPointers.resize(plan.inputs.size());
  context->outputPointers.resize(plan.outputs.size());
  context->staging.resize(plan.inputs.size());
  context->address.resize(plan.buffers.size());
  context->inputSlots.resize(layout.inputSlots);
  context->outputSlots.resize(layout.outputSlots);
  context->enqueues.resize(layout.operations.size(), MortiseEnqueueArgs{.struct_size = sizeof(MortiseEnqueueArgs)});
  context->frames.resize(layout.operations.size());
  context->events.resize(layout.timelines.size());
  if (auto done = context->createStreams(); !done)
    return done.error();
  return context;
}

Result<void> Context::createStreams() {
  for (const StreamPlace &place : layout.streams) {
    auto made = createStream(place);
    if (!made)
      return made.error();
    streams.push_back(*made);
  }
  return {};
}

// A stream of the device's own, or an import of the stream that its timeline begins with.
Result<MortiseStream *> Context::createStream(const StreamPlace &place) {
  const Device &device = *place.device;
  MortiseStreamArgs args{};
  const char *slot = "stream_create";
  if (const uint32_t first = layout.timelines[place.timeline]; layout.streams[first].device != &device) {
    MortiseStreamArgs owners{.stream = streams[first]};
    const Device &owner = *layout.streams[first].device;
    if (auto called = callOn(owner, "stream_export", owner.plugin->table->stream_export, owners); !called)
      return called.error();
    slot = "stream_import";
    args.native = owners.native;
    if (auto called = callOn(device, slot, device.plugin->table->stream_import, args); !called)
      return called.error();
  } else if (auto called = callOn(device, slot, device.plugin->table->stream_create, args); !called) {
    return called.error();
  }
  if (args.stream == nullptr)
    return onDevice(device, slot, {MORTISE_INTERNAL, "expected a stream or a status, found neither"});
  return args.stream;
}

Result<MortiseEvent *> Context::createEvent(const Device &device) {
  MortiseEventArgs args{};
  if (auto called = callOn(device, "event_create", device.plugin->table->event_create, args); !called)
    return called.error();
  if (args.event == nullptr)
    return onDevice(device, "event_create", {MORTISE_INTERNAL, "expected an event or a status, found neither"});
  return args.event;
}

Result<void> Context::createEvents(const Schedule &schedule) {
  for (const Event &event : schedule.events) {
    std::vector<MortiseEvent *> &list = events[event.timeline];
    while (list.size() <= event.number) {
      auto made = createEvent(*layout.streams[layout.timelines[event.timeline]].device);
      if (!made)
        return made.error();
      list.push_back(*made);
    }
  }
  return {};
}

Result<void> Context::createFrame(size_t number) {
  const Kernel &kernel = *current->kernels[layout.operations[number].region];
  if (!kernel.device->plugin->hasFrames())
    return {};
  MortiseEnqueueArgs &enqueue = enqueues[number];
  MortiseFrameArgs args{.struct_size = sizeof(MortiseFrameArgs),
                        .kernel = enqueue.kernel,
                        .constants = enqueue.constants,
                        .instance = enqueue.instance};
  const AboutScope about(layout.regions[layout.operations[number].region].name.c_str());
  if (auto called = call("frame_create", kernel.table().frame_create, args); !called)
    return onDevice(*kernel.device, "frame_create", called.error());
  if (args.frame == nullptr)
    return onDevice(*kernel.device, "frame_create", {MORTISE_INTERNAL, "expected a frame or a status, found neither"});
  const MortiseGraph &graph = kernel.graph->view();
  const size_t addresses = graph.input_count + graph.output_count + 1;
  frames[number].frame = enqueue.frame = args.frame;
  frames[number].last.assign(addresses, 0);
  frames[number].unchanged.assign((addresses + 63) / 64, 0);
  enqueue.unchanged = frames[number].unchanged.data();
  return {};
}

void Context::destroyFrames() {
  for (size_t i = 0; i < frames.size(); ++i) {
    enqueues[i].frame = nullptr;
    enqueues[i].unchanged = nullptr;
    MortiseFrame *frame = std::exchange(frames[i].frame, nullptr);
    if (frame == nullptr)
      continue;
    const Device &device = *layout.operations[i].device;
    MortiseFrameArgs args{.struct_size = sizeof(MortiseFrameArgs),
                          .kernel = enqueues[i].kernel,
                          .constants = enqueues[i].constants,
                          .instance = enqueues[i].instance,
                          .frame = frame};
    if (auto called = call("frame_destroy", device.plugin->table->frame_destroy, args); !called)
      logMessage(MORTISE_WARNING, onDevice(device, "frame_destroy", called.error()).message);
  }
}

void Context::forget() {
  destroyFrames();
  prepared = nullptr;
  current.reset();
}

Result<void> Context::allocate(size_t number, uint64_t bytes) {
  const MemorySpace &space = layout.spaces[number];
  if (space.device == nullptr) {
    auto block = Block::allocate(bytes, space.alignment);
    if (!block)
      return block.error();
    hostMemory[number] = std::move(*block);
    spaceStart[number] = addressOf(hostMemory[number].data());
  } else {
    auto memory = DeviceMemory::allocate(*space.device, space.number, bytes);
    if (!memory)
      return memory.error();
    deviceMemory[number] = std::move(*memory);
    spaceStart[number] = deviceMemory[number].address();
  }
  spaceBytes[number] = bytes;
  if (number == 0 && bytes != 0)
    registerHostMemory();
  return {};
}

// What cannot be registered is copied all the same.
void Context::registerHostMemory() {
  for (const Device *device : layout.hostCopiers)
    if (auto made = registerMemory(*device, hostMemory[0].data(), spaceBytes[0]))
      registered.push_back(std::move(*made));
    else
      logMessage(MORTISE_WARNING, made.error().message + "; copies are slower");
}

// Frees the old memory first: no work is in flight. Allocates at least a quarter more than before, so that a sequence
// of growing calls does not allocate in each call.
Result<void> Context::grow(size_t number, uint64_t bytes) {
  if (spaceStart[number] != 0 && bytes <= spaceBytes[number])
    return {};
  const uint64_t generous = spaceBytes[number] + spaceBytes[number] / 4;
  if (number == 0)
    registered.clear();
  hostMemory[number] = Block();
  deviceMemory[number] = DeviceMemory();
  spaceStart[number] = spaceBytes[number] = 0;
  if (generous > bytes && allocate(number, generous))
    return {};
  return allocate(number, bytes);
}

// Work in streams may use memory after the call.
bool Context::borrows(size_t number) const {
  return layout.timelines.empty() && layout.spaces[number].device == nullptr;
}

Result<void> Context::borrow(const Binding &binding) {
  bool moved = false;
  for (size_t i = 0; i < layout.spaces.size(); ++i) {
    const uint64_t bytes = current->spaceBytes[i];
    if (bytes == 0 || !borrows(i))
      continue;
    auto block = HostArenas::ofProcess().borrow(bytes, layout.spaces[i].alignment,
                                                reinterpret_cast<const std::byte *>(spaceStart[i]));
    if (!block) {
      giveBack();
      return tooMuch(block.error(), i, *current);
    }
    hostMemory[i] = std::move(*block);
    moved |= addressOf(hostMemory[i].data()) != spaceStart[i];
    spaceStart[i] = addressOf(hostMemory[i].data());
  }
  if (moved)
    fill(binding);
  return {};
}

void Context::giveBack() {
  for (size_t i = 0; i < layout.spaces.size(); ++i)
    if (borrows(i) && hostMemory[i].data())
      HostArenas::ofProcess().giveBack(std::move(hostMemory[i]));
}

// Names the region whose workspace is most of what could not be allocated in space `number`.
Error Context::tooMuch(Error error, size_t number, const Specialisation &wanted) const {
  for (size_t i = 0; i < layout.regions.size(); ++i) {
    const Device &device = *wanted.kernels[i]->device;
    const uint64_t bytes = wanted.workspaceBytes[i];
    if (layout.spaceOf(device) == number && bytes > wanted.spaceBytes[number] / 2) {
      error.message += "; " + std::to_string(bytes) + " bytes are the workspace that plugin '" + device.plugin->name +
                       "' asks for in " + regionText(*layout.plan, i);
      break;
    }
  }
  return error;
}

// Fills the lists that depend on the symbols' values and on the constants, but not on a call's pointers.
Result<void> Context::take(const Binding &binding, const std::shared_ptr<Specialisation> &specialisation) {
  forget(); // should a step below fail, there is no specialisation
  for (size_t i = 0; i < layout.spaces.size(); ++i)
    if (borrows(i))
      needs[i].raiseTo(specialisation->spaceBytes[i]);
    else if (auto grown = grow(i, specialisation->spaceBytes[i]); !grown)
      return tooMuch(grown.error(), i, *specialisation);
  if (auto made = createEvents(specialisation->schedule); !made)
    return made;
  current = specialisation;
  fill(binding);
  for (size_t i = 0; i < enqueues.size(); ++i)
    if (layout.operations[i].region != none)
      if (auto made = createFrame(i); !made) {
        forget();
        return inOperation(i, made.error());
      }
  return {};
}

void Context::fill(const Binding &binding) {
  const plan::PlanT &plan = *layout.plan;
  const Specialisation &specialisation = *current;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i]->kind == BufferKind::Arena)
      address[i] = spaceStart[plan.buffers[i]->space] + specialisation.shape.offsets[i];
    else if (plan.buffers[i]->kind == BufferKind::Literal)
      address[i] = addressOf(layout.literalData[i]); // checkPlan has proved that no operation writes to a literal
  for (uint32_t number : layout.constantBuffers)
    address[number] = binding.data[plan.buffers[number]->index].address;
  copiedConstants = binding.copied;
  for (const Patch &patch : layout.fixedInputs)
    inputSlots[patch.slot] = address[patch.buffer];
  for (const Patch &patch : layout.fixedOutputs)
    outputSlots[patch.slot] = address[patch.buffer];
  if (nanoseconds.size() < specialisation.clockCount)
    nanoseconds.resize(specialisation.clockCount);
  for (size_t i = 0; i < enqueues.size(); ++i) {
    const Operation &operation = layout.operations[i];
    if (operation.region == none)
      continue;
    const Kernel &kernel = *specialisation.kernels[operation.region];
    const uint32_t space = layout.spaceOf(*kernel.device);
    MortiseEnqueueArgs &args = enqueues[i];
    args.kernel = kernel.kernel;
    args.constants = specialisation.constants[operation.region];
    args.instance = specialisation.instances[operation.region];
    args.symbols = kernel.graph->view().symbol_count ? specialisation.shape.values.data() : nullptr;
    args.inputs = inputSlots.data() + operation.inputSlots;
    args.outputs = outputSlots.data() + operation.outputSlots;
    args.workspace =
        specialisation.workspaceBytes[operation.region] ? spaceStart[space] + specialisation.workspaces[space] : 0;
  }
}

Context::~Context() {
  if (auto finished = finish(); !finished)
    logMessage(MORTISE_WARNING, finished.error().message);
  forget();
  for (size_t t = 0; t < events.size(); ++t)
    for (MortiseEvent *event : events[t]) {
      const Device &device = *layout.streams[layout.timelines[t]].device;
      MortiseEventArgs args{.event = event};
      callAndLog(device, "event_destroy", device.plugin->table->event_destroy, args);
    }
  for (size_t i = 0; i < timers.size(); ++i)
    for (const Timer::Mark *mark : {&timers[i].begin, &timers[i].end})
      if (mark->event) {
        const Device &device = *layout.operations[i].device;
        MortiseEventArgs args{.event = mark->event};
        callAndLog(device, "event_destroy", device.plugin->table->event_destroy, args);
      }
  for (size_t i = streams.size(); i-- > 0;) { // imports before what they import
    const Device &device = *layout.streams[i].device;
    MortiseStreamArgs args{.stream = streams[i]};
    callAndLog(device, "stream_destroy", device.plugin->table->stream_destroy, args);
  }
}

void Context::setAddresses(const void *const *inputs, void *const *outputs) {
  const plan::PlanT &plan = *layout.plan;
  for (uint32_t number : layout.callBuffers) {
    const plan::BufferT &buffer = *plan.buffers[number];
    if (buffer.kind == BufferKind::Input)
      address[number] = addressOf(inputs[buffer.index]); // checkPlan has proved which inputs are written
    else if (const int64_t alias = plan.outputs[buffer.index]->alias; alias >= 0)
      address[number] = addressOf(inputs[alias]);
    else
      address[number] = addressOf(outputs[buffer.index]);
  }
  for (const Patch &patch : layout.inputPatches)
    inputSlots[patch.slot] = address[patch.buffer];
  for (const Patch &patch : layout.outputPatches)
    outputSlots[patch.slot] = address[patch.buffer];
}

Result<void> Context::execute(const Binding &binding, const std::shared_ptr<Specialisation> &specialisation,
                              const void *const *inputs, void *const *outputs, bool profile) {
  failed.reset();
  if (specialisation != current)
    if (auto taken = take(binding, specialisation); !taken)
      return taken;
  if (hasQueued)
    clearErrors();
  if (auto borrowed = borrow(binding); !borrowed)
    return borrowed;
  const struct AtEnd {
    Context &context;
    ~AtEnd() { context.giveBack(); }
  } atEnd{*this};
  setAddresses(inputs, outputs);
  if (profile) {
    std::fill(nanoseconds.begin(), nanoseconds.end(), 0);
    timers.resize(layout.operations.size());
  }
  active = streams;
  auto done = executeAll(specialisation->schedule, 0, profile);
  for (uint32_t stream : specialisation->schedule.atEnd)
    if (done)
      done = wait(stream);
  if (done && profile)
    clockTheRest();
  if (!done)
    abandon();
  return done;
}

Result<void> Context::enqueueOn(std::span<const CallersStream> callers, const Specialisation::Queued &queued,
                                const Binding &binding, const std::shared_ptr<Specialisation> &specialisation,
                                const void *const *inputs, void *const *outputs) {
  failed.reset();
  if (specialisation != current) {
    if (auto finished = finish(); !finished)
      return finished;
    if (auto taken = take(binding, specialisation); !taken)
      return taken;
  }
  if (&queued != prepared) {
    for (const Schedule *schedule : {&queued.idle, &queued.behind})
      if (auto made = createEvents(*schedule); !made)
        return made;
    prepared = &queued;
  }
  if (hasQueued && !flight)
    clearErrors();
  setAddresses(inputs, outputs);
  active = streams;
  for (const CallersStream &caller : callers)
    active[layout.timelines[caller.timeline]] = caller.stream;
  const Schedule &schedule = flight ? queued.behind : queued.idle;
  const size_t work = callers.size(), hosts = work + layout.operations.size(), ends = hosts + 1;
  Result<void> done;
  for (size_t i = 0; i < callers.size() && done; ++i)
    done = recordBehind(schedule, i); // the begins come behind nothing
  if (done)
    done = executeAll(schedule, work, false);
  if (done)
    done = waitFor(schedule, hosts, none);
  for (size_t i = 0; i < callers.size() && done; ++i) {
    done = waitFor(schedule, ends + i, queued.timelines[i]);
    if (done)
      done = recordBehind(schedule, ends + i);
  }
  if (!done) {
    abandon();
    flight = nullptr;
    return done;
  }
  flight = &schedule;
  flightStreams.assign(callers.begin(), callers.end());
  hasQueued = true;
  return {};
}

Result<void> Context::callOnEvent(uint32_t number, const char *name,
                                  MortiseStatus *(*MortisePlugin::*slot)(MortiseEventArgs *),
                                  MortiseEventArgs &args) const {
  const Event &event = flight->events[number];
  const Device &device = *layout.streams[layout.timelines[event.timeline]].device;
  args.event = events[event.timeline][event.number];
  return callOn(device, name, device.plugin->table->*slot, args);
}

Result<bool> Context::hasHappened() {
  for (size_t i = 0; flight && i < flight->marks.size(); ++i) {
    MortiseEventArgs args{};
    if (auto asked = callOnEvent(flight->marks[i], "event_query", &MortisePlugin::event_query, args); !asked)
      return asked.error();
    if (!args.happened)
      return false;
  }
  flight = nullptr;
  return true;
}

// A stream that has failed gives up its waits, too, so that its marks tell nothing of other streams' work: then the
// host waits for all events, of which one comes behind the last work of each stream.
Result<void> Context::finish() {
  if (!flight)
    return {};
  const auto wait = [&](uint32_t event) {
    MortiseEventArgs args{};
    return callOnEvent(event, "event_synchronize", &MortisePlugin::event_synchronize, args);
  };
  Result<void> done;
  for (const uint32_t mark : flight->marks)
    if (auto waited = wait(mark); !waited && done)
      done = waited;
  for (uint32_t event = 0; !done && event < flight->events.size(); ++event)
    (void)wait(event); // the first error is the caller's
  usable = usable && done;
  flight = nullptr;
  return done;
}

void Context::clearErrors() {
  hasQueued = false;
  for (uint32_t i = 0; i < active.size(); ++i) {
    const Device &device = *layout.streams[i].device;
    MortiseStreamArgs args{.stream = streams[i]};
    if (active[i] == streams[i] && !callOn(device, "stream_status", device.plugin->table->stream_status, args))
      reset(i);
  }
}

void Context::reset(uint32_t stream) {
  const Device &device = *layout.streams[stream].device;
  MortiseStreamArgs args{.stream = streams[stream]};
  if (auto done = callOn(device, "stream_reset", device.plugin->table->stream_reset, args); !done) {
    logMessage(MORTISE_WARNING, done.error().message);
    usable = false;
  }
}

bool Context::hasFrames() const {
  return std::ranges::any_of(frames, [](const Frame &frame) { return frame.frame != nullptr; });
}

// `first` is the item of operation 0.
Result<void> Context::executeAll(const Schedule &schedule, size_t first, bool profile) {
  for (size_t i = 0; i < layout.operations.size(); ++i) {
    const Operation &operation = layout.operations[i];
    auto done = waitFor(schedule, first + i, layout.timelineOf(operation));
    if (done)
      done = operation.region != none ? enqueue(i, profile) : copy(i);
    if (done)
      done = recordBehind(schedule, first + i);
    if (!done) [[unlikely]] {
      failed = i;
      return inOperation(i, done.error());
    }
  }
  return {};
}

// Has the item's timeline, or the host, wait for what the item comes behind.
Result<void> Context::waitFor(const Schedule &schedule, size_t item, uint32_t timeline) {
  if (schedule.steps.empty())
    return {};
  const Schedule::Step &step = schedule.steps[item];
  for (uint32_t i = 0; i < step.waitCount; ++i) {
    const Schedule::Wait &wait = schedule.waits[step.firstWait + i];
    const Event &event = schedule.events[wait.event];
    const Device &device = *layout.streams[layout.timelines[event.timeline]].device;
    const MortisePlugin &table = *device.plugin->table;
    MortiseEventArgs args{.event = events[event.timeline][event.number]};
    args.stream = wait.byHost ? nullptr : active[layout.timelines[timeline]];
    auto waited = wait.byHost ? callOn(device, "event_synchronize", table.event_synchronize, args)
                              : callOn(device, "event_wait", table.event_wait, args);
    if (!waited) [[unlikely]]
      return waited;
  }
  return {};
}

Result<void> Context::recordBehind(const Schedule &schedule, size_t item) {
  if (schedule.steps.empty() || schedule.steps[item].record == none)
    return {};
  const Event &event = schedule.events[schedule.steps[item].record];
  const uint32_t stream = layout.timelines[event.timeline];
  const Device &device = *layout.streams[stream].device;
  MortiseEventArgs args{.event = events[event.timeline][event.number], .stream = active[stream]};
  return callOn(device, "event_record", device.plugin->table->event_record, args);
}

Result<void> Context::enqueue(size_t number, bool profile) {
  const Operation &operation = layout.operations[number];
  const Kernel &kernel = *current->kernels[operation.region];
  const uint32_t clock = current->clocks[operation.region];
  MortiseEnqueueArgs &args = enqueues[number];
  args.step_ns = profile && !current->steps(operation.region).empty() ? nanoseconds.data() + clock : nullptr;
  args.stream = operation.stream == none ? nullptr : active[operation.stream];
  if (args.frame)
    markUnchanged(number);
  if (profile)
    if (auto begun = mark(number, &Timer::begin); !begun)
      return begun;
  const AboutScope about(layout.regions[operation.region].name.c_str());
  auto called = call("enqueue", kernel.table().enqueue, args);
  if (called && profile) [[unlikely]]
    return mark(number, &Timer::end);
  return called;
}

void Context::markUnchanged(size_t number) {
  const MortiseEnqueueArgs &args = enqueues[number];
  const MortiseGraph &graph = current->kernels[layout.operations[number].region]->graph->view();
  Frame &frame = frames[number];
  std::ranges::fill(frame.unchanged, 0);
  for (size_t i = 0; i < frame.last.size(); ++i) {
    const size_t output = i - graph.input_count;
    const MortiseAddress address = i < graph.input_count         ? args.inputs[i]
                                   : output < graph.output_count ? args.outputs[output]
                                                                 : args.workspace;
    if (address == std::exchange(frame.last[i], address) && address != 0)
      frame.unchanged[i / 64] |= UINT64_C(1) << (i % 64);
  }
}

Result<void> Context::copy(size_t number) {
  const Operation &operation = layout.operations[number];
  const uint64_t bytes = current->shape.bytes[operation.source];
  const Place target{layout.home(operation.target), address[operation.target]},
      source = operation.ofConstant ? Place{operation.device, copiedConstants[number]}
                                    : Place{layout.home(operation.source), address[operation.source]};
  if (bytes == 0 || (target.address == source.address && target.device == source.device))
    return {};
  if (operation.device == nullptr) {
    copyInHost(target.address, source.address, bytes);
    return {};
  }
  return queueCopy(*operation.device, operation.stream == none ? nullptr : active[operation.stream], target, source,
                   bytes);
}

Result<void> Context::wait(uint32_t stream) {
  const Device &device = *layout.streams[stream].device;
  MortiseStreamArgs args{.stream = active[stream]};
  return callOn(device, "stream_wait", device.plugin->table->stream_wait, args);
}

void Context::abandon() {
  for (uint32_t i = 0; i < active.size(); ++i)
    if (!wait(i) && active[i] == streams[i]) // the caller resets its own stream
      reset(i);
}

Error Context::inOperation(size_t number, const Error &error) const {
  const Operation &operation = layout.operations[number];
  if (operation.region != none)
    return inRegion(*layout.plan, operation.region, error);
  const auto name = [](const Device *device) { return device ? "device '" + device->name() + "'" : "the host"; };
  return {error.code, "step " + std::to_string(number) + " (copy from " + name(layout.home(operation.source)) + " to " +
                          name(layout.home(operation.target)) + "): " + error.message};
}

} // namespace mortise::runtime
