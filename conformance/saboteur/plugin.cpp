// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The saboteur: a plugin with one of many faults, to test the conformance kit (README.md). Without a fault it is a
// correct plugin: it takes every op that the reference takes, on a device in host memory (kind saboteur) and on one
// with memory and queues of its own (kind saboteur-queue).
#include "kernel.hpp"
#include "memory.hpp"
#include "queue.hpp"

#include <chrono>
#include <cstring>
#include <xmmintrin.h>

namespace saboteur {
namespace {
using namespace mortise;

uint64_t nowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

char handles[2]; // of the devices: in host memory, with memory and queues of its own
MortiseDevice *handleOf(size_t number) { return reinterpret_cast<MortiseDevice *>(&handles[number]); }
bool hasQueues(const MortiseDevice *device) { return device == handleOf(1); }
Stream &streamOf(MortiseStream *stream) { return *reinterpret_cast<Stream *>(stream); }
Event &eventOf(const MortiseEventArgs &args) { return *reinterpret_cast<Event *>(args.event); }

// Why the planted fault refuses a node that a good plugin takes.
reference::Refusal refuseWrongly(const MortiseNode &node) {
  const bool f16 = node.operand_count && node.operands[0] && node.operands[0]->type->dtype == MORTISE_F16;
  if (is(Fault::ClaimRefused) && isOp(node, Op::Erf) && f16)
    return {MORTISE_REASON_DTYPE, "expected f32, found f16"};
  if (is(Fault::AnotherPluginsResult) && !otherPlugin())
    return {MORTISE_REASON_HARDWARE, "the device is not ready"};
  return {};
}

struct Saboteur : PluginAdaptor<Saboteur> {
  static constexpr PluginIdentity identity{"saboteur", "Mortise", "1.0.0"};
  using Kernel = saboteur::Kernel;
  using Constants = saboteur::Constants;
  using Frame = saboteur::Frame;

  // ---- Devices

  Result<void> initialize(const MortiseInitializeArgs &args) {
    return plant(option(args.options, args.option_count, "fault", "none"));
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseSpace memory = [] {
      auto made = sized<MortiseSpace>();
      made.name = "memory";
      made.kind = MORTISE_SPACE_DEVICE;
      made.alignment = 256;
      made.bytes = Memory::limit;
      return made;
    }();
    static const MortiseSpace *const own[] = {&memory};
    static const auto infoOf = [](size_t number, const char *kind, std::span<const MortiseSpace *const> spaces) {
      auto info = sized<MortiseDeviceInfo>();
      info.device = handleOf(number);
      info.kind = kind;
      info.name = "a device with faults by choice";
      info.threads = number ? 1 : static_cast<uint32_t>(std::max(1, host().thread_count()));
      info.spaces = spaces.data();
      info.space_count = static_cast<uint32_t>(spaces.size());
      info.features = "";
      return info;
    };
    static const MortiseDeviceInfo infos[] = {infoOf(0, "saboteur", hostSpaces()), infoOf(1, "saboteur-queue", own)};
    static const MortiseDeviceInfo *const list[] = {&infos[0], &infos[1]};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    std::vector<bool> supported(graph.node_count);
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      reference::Refusal refusal = reference::refuse(*graph.nodes[i]);
      if (!refusal)
        refusal = refuseWrongly(*graph.nodes[i]);
      supported[i] = !refusal;
      if (refusal)
        proposal.refuse(i, refusal.reason, refusal.detail);
    }
    for (const std::vector<uint32_t> &nodes : convexRegions(graph, supported)) {
      Candidate candidate{"saboteur.region", nodes};
      for (uint32_t node : nodes) {
        const reference::Estimate cost = reference::estimate(*graph.nodes[node]);
        candidate.costNs += cost.ns;
        candidate.bytes += cost.bytes;
        candidate.flops += cost.flops;
      }
      const std::vector<MortiseInPlace> pairs = promised(graph, nodes);
      candidate.inPlace = pairs;
      proposal.add(candidate);
    }
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled() && !is(Fault::CancellationIgnored))
      return cancelledError();
    if (std::string_view(args.lowering) != "saboteur.region")
      return Error{MORTISE_NOT_FOUND, std::string("expected the lowering saboteur.region, found ") + args.lowering};
    for (uint32_t i = 0; i < args.region->node_count; ++i)
      if (is(Fault::ProposesAndCannot) && isOp(*args.region->nodes[i], Op::Tan))
        return Error{MORTISE_UNSUPPORTED, "tan has no kernel"};
    return makeKernel(args);
  }

  // An interpreter has no code to keep. The names of the ops stand for it.
  Result<std::vector<std::byte>> save(const Kernel &kernel) {
    const auto bytes = std::as_bytes(std::span(kernel.name));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  Result<std::unique_ptr<Kernel>> load(const MortiseCompileArgs &args) {
    auto kernel = makeKernel(args);
    const std::string_view saved(static_cast<const char *>(args.saved), args.saved_bytes);
    if (kernel && saved != (*kernel)->name && !is(Fault::CorruptKernelLoads))
      return Error{MORTISE_CORRUPT, "expected '" + (*kernel)->name + "', found other bytes"};
    return kernel;
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.workspace.expr();
    kernel.steps.fill(info);
    return {};
  }

  Result<mortise::Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    auto constants = packConstants(kernel, inputs);
    if (kernel.other) {
      auto bound = kernel.other->bind(inputs);
      if (!bound)
        return bound.error();
      constants->other = std::move(*bound);
    }
    const uint64_t bytes = is(Fault::PackedBytesHidden) ? 0 : constants->bytes;
    return mortise::Packed<Constants>{std::move(constants), bytes};
  }

  Result<std::unique_ptr<Frame>> makeFrame(const Kernel &kernel, const Constants *, const void *) {
    auto frame = std::make_unique<Frame>();
    frame->buffers = is(Fault::FrameShared) ? kernel.sharedFrame : std::make_shared<Buffers>();
    return frame;
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    if (is(Fault::FloatSettingsLeft))
      _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    if (kernel.other)
      return kernel.other->enqueue(constants ? constants->other.get() : nullptr, args);
    auto work = workOf(kernel, constants, frameOf<Saboteur>(args), args);
    if (args.stream == nullptr)
      return work();
    streamOf(args.stream).queue->add(std::move(work));
    return {};
  }

  Result<void> copy(MortiseCopyArgs &args) {
    // Now: when the work happens, the memory may have been freed on the stream behind it.
    Result<void> within;
    for (const auto &[device, address] :
         {std::pair(args.target_device, args.target), {args.source_device, args.source}})
      if (within && hasQueues(device))
        within = memory().check(address, args.bytes);
    const auto work = [taken = args, within]() -> Result<void> {
      if (!within)
        return within;
      std::memcpy(pointer(taken.target), pointer(taken.source), taken.bytes);
      return {};
    };
    if (args.stream == nullptr || (is(Fault::CopyOvertakes) && args.target_device == nullptr))
      return work();
    streamOf(args.stream).queue->add(work);
    return {};
  }

  // ---- Streams and events

  Result<void> streamCreate(MortiseStreamArgs &args) {
    args.stream = reinterpret_cast<MortiseStream *>(new Stream{std::make_shared<Queue>(hasQueues(args.device))});
    return {};
  }
  Result<void> streamDestroy(MortiseStreamArgs &args) {
    delete &streamOf(args.stream);
    return {};
  }
  Result<void> streamWait(MortiseStreamArgs &args) {
    Queue &queue = *streamOf(args.stream).queue;
    if (is(Fault::StreamWaitEarly))
      queue.waitForBegin();
    else
      queue.waitUntil(queue.position());
    return failureOf(queue);
  }
  Result<void> streamStatus(MortiseStreamArgs &args) { return failureOf(*streamOf(args.stream).queue); }
  Result<void> streamReset(MortiseStreamArgs &args) {
    if (!is(Fault::ResetIgnored))
      streamOf(args.stream).queue->reset();
    return {};
  }

  Result<void> eventCreate(MortiseEventArgs &args) {
    args.event = reinterpret_cast<MortiseEvent *>(new Event);
    return {};
  }
  Result<void> eventDestroy(MortiseEventArgs &args) {
    delete &eventOf(args);
    return {};
  }
  Result<void> eventRecord(MortiseEventArgs &args) {
    Event &event = eventOf(args);
    const std::shared_ptr<Queue> queue = streamOf(args.stream).queue;
    queue->add([ns = event.ns]() -> Result<void> {
      *ns = nowNs();
      return {};
    });
    if (event.queue && is(Fault::EventKeepsFirstMark))
      return {};
    event.queue = queue;
    event.position = queue->position();
    return {};
  }
  Result<void> eventWait(MortiseEventArgs &args) {
    const Event &event = eventOf(args);
    Queue &waits = *streamOf(args.stream).queue;
    if (event.queue && &waits != event.queue.get() && !is(Fault::EventWaitIgnored))
      waits.add([queue = event.queue, position = event.position]() -> Result<void> {
        queue->waitUntil(position);
        return queue->failure(position);
      });
    return {};
  }
  Result<void> eventQuery(MortiseEventArgs &args) {
    const Event &event = eventOf(args);
    args.happened = !event.queue || is(Fault::EventEarly) || event.queue->hasHappened(event.position);
    return {};
  }
  Result<void> eventSynchronize(MortiseEventArgs &args) {
    const Event &event = eventOf(args);
    if (!event.queue || is(Fault::EventEarly))
      return {};
    event.queue->waitUntil(event.position);
    return event.queue->failure(event.position);
  }
  Result<void> eventElapsed(MortiseEventArgs &args) {
    const Event &event = eventOf(args), &since = *reinterpret_cast<const Event *>(args.since);
    for (const Event *each : {&event, &since})
      if (!each->queue || !each->queue->hasHappened(each->position))
        return Error{MORTISE_INVALID_ARGUMENT, "expected two events that have happened"};
    args.elapsed_ns = *event.ns - *since.ns;
    return {};
  }

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) {
    const Result<uint64_t> made = memory().allocate(args.bytes);
    args.address = made ? *made : 0;
    if (made || is(Fault::FailedAllocationSucceeds))
      return {};
    return is(Fault::OutOfMemoryAsInternal) ? Error{MORTISE_INTERNAL, made.error().message} : made.error();
  }

  Result<void> memoryFree(MortiseMemoryArgs &args) {
    const Result<uint64_t> bytes = memory().remove(args.address);
    if (!bytes)
      return bytes.error();
    if (args.stream == nullptr || is(Fault::FreedAtOnce)) {
      Memory::release(args.address, *bytes);
      return {};
    }
    // Work in the stream may still use the bytes. They go with the work, also where a failure keeps it from happening.
    std::shared_ptr<void> kept(pointer(args.address),
                               [bytes = *bytes](void *memory) { Memory::release(addressOf(memory), bytes); });
    streamOf(args.stream).queue->add([kept]() -> Result<void> { return {}; });
    return {};
  }

private:
  static Result<void> failureOf(const Queue &queue) {
    return is(Fault::StreamErrorSwallowed) ? Result<void>() : queue.failure();
  }

  // Pairs of an operand from outside and a result of as many bytes, of ops that cannot run in place.
  static std::vector<MortiseInPlace> promised(const MortiseGraph &graph, const std::vector<uint32_t> &nodes) {
    std::vector<MortiseInPlace> pairs;
    if (!is(Fault::InPlacePromised) || nodes.size() != 1)
      return pairs;
    const MortiseNode &node = *graph.nodes[nodes[0]];
    const MortiseValue *from = node.operand_count ? node.operands[0] : nullptr, *to = node.results[0];
    constexpr uint32_t fixed = MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE;
    if (isOp(node, Op::Reverse, Op::Transpose, Op::Softmax, Op::Cumsum) && from && !(from->flags & fixed) &&
        graph.alias_count == 0)
      pairs.push_back({from->index, to->index});
    return pairs;
  }
};

} // namespace
} // namespace saboteur

MORTISE_DEFINE_PLUGIN(saboteur::Saboteur)
