// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device that checks its host: memory of its own that faults when the host touches it, a thread for each stream, and
// a checker that finds work which nothing orders (../README.md). Start from it for hardware with memory and queues of
// its own: what computes here is the reference interpreter, where yours has a compiler and a driver.
#include "control.h"
#include "kernel.hpp"
#include "layout.hpp"
#include "memory.hpp"
#include "settings.hpp"
#include "stream.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace strict {
namespace {
using namespace mortise;

uint64_t nowNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

Stream &streamOf(MortiseStream *stream) { return *reinterpret_cast<Stream *>(stream); }
Event &eventOf(const MortiseEventArgs &args) { return *reinterpret_cast<Event *>(args.event); }

struct Strict : PluginAdaptor<Strict> {
  static constexpr PluginIdentity identity{"strict", "Mortise examples", "1.0.0"};
  using Kernel = strict::Kernel;
  using Constants = strict::Constants;
  using Frame = strict::Frame;

  // ---- Devices

  Result<void> initialize(const MortiseInitializeArgs &args) {
    const std::string wrong = control().configure(option(args.options, args.option_count, "settings", ""));
    return wrong.empty() ? Result<void>() : Error{MORTISE_INVALID_ARGUMENT, "option settings: " + wrong};
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    const auto space = [](const char *name) {
      auto made = sized<MortiseSpace>();
      made.name = name;
      made.kind = MORTISE_SPACE_DEVICE;
      made.alignment = 256;
      made.bytes = control().settings().memory;
      return made;
    };
    static const MortiseSpace home = space("memory"), scratch = space("scratch");
    static const MortiseSpace *const spaces[] = {&home, &scratch};
    static const std::vector<MortiseDeviceInfo> infos = [] {
      std::vector<MortiseDeviceInfo> made;
      for (const Device &device : strict::devices) {
        auto info = sized<MortiseDeviceInfo>();
        info.device = handle(device);
        info.kind = device.kind;
        info.name = "a device that checks its host";
        info.ordinal = device.ordinal;
        info.threads = 1;
        info.spaces = spaces;
        info.space_count = static_cast<uint32_t>(std::size(spaces));
        // So cheap that what a device can take goes there.
        info.launch_ns = info.copy_ns = 1e-3;
        info.copy_bandwidth = 1e15;
        info.features = "";
        info.fingerprint = "strict 1";
        info.dlpack_type = 12; // kDLExtDev: a device that DLPack has no number for
        info.dlpack_id = static_cast<int32_t>(made.size());
        made.push_back(info);
      }
      return made;
    }();
    static const MortiseDeviceInfo *const list[] = {&infos[0], &infos[1], &infos[2]};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> peer(MortisePeerArgs &args) {
    if (auto entered = control().enter("peer"); !entered)
      return entered;
    const bool equal = strict::devices[numberOf(args.device)].kind == strict::devices[numberOf(args.other)].kind;
    args.reaches = equal && control().settings().peer;
    args.bandwidth = 1e15;
    args.copy_ns = 1e-3;
    return {};
  }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    const Settings settings = control().settings();
    if (!proposal.forms().empty()) {
      proposeConversion(proposal);
      return {};
    }
    const uint64_t part = std::min<uint64_t>(numberOf(proposal.device()), settings.split - 1);
    std::vector<bool> supported(graph.node_count);
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const reference::Refusal refusal = reference::refuse(*graph.nodes[i]);
      const bool mine = mix(settings.seed, i) % settings.split == part;
      supported[i] = !refusal && mine;
      if (refusal)
        proposal.refuse(i, refusal.reason, refusal.detail);
      else if (!mine)
        proposal.refuse(i, MORTISE_REASON_OPTION, "`split` gives the node to another device");
    }
    for (const std::vector<uint32_t> &nodes : convexRegions(graph, supported)) {
      const std::vector<MortiseForm> forms =
          settings.layouts ? randomForms(graph, nodes, settings.seed) : std::vector<MortiseForm>();
      proposal.add({"strict.region", nodes, 1e-3 * static_cast<double>(nodes.size()), 0, 0, {}, forms});
    }
    return {};
  }

  Result<void> layout(MortiseLayoutArgs &args) {
    if (auto entered = control().enter("layout"); !entered)
      return entered;
    if (args.layout == Plain || !nameOf(args.layout) || !hasLayouts(*args.type))
      return Error{MORTISE_UNSUPPORTED, "expected layout 1 or 2, and elements of whole bytes"};
    static thread_local std::vector<MortiseExprStep> steps; // until the next call on this thread
    steps = sizeOf(*args.type, args.layout);
    args.bytes = {steps.data(), steps.size()};
    args.name = nameOf(args.layout);
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (auto entered = control().enter("kernel_compile"); !entered)
      return entered.error();
    if (cancelled())
      return cancelledError();
    const std::string cannot = control().settings().cannot;
    for (uint32_t i = 0; i < args.region->node_count; ++i)
      if (args.region->nodes[i]->op == cannot)
        return Error{MORTISE_UNSUPPORTED, "`cannot` excludes " + cannot};
    return Kernel::make(args);
  }

  // An interpreter has no code to keep. The kernel's name stands for it.
  Result<std::vector<std::byte>> save(const Kernel &kernel) {
    if (auto entered = control().enter("kernel_save"); !entered)
      return entered.error();
    const auto bytes = std::as_bytes(std::span(kernel.code->name));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }

  Result<std::unique_ptr<Kernel>> load(const MortiseCompileArgs &args) {
    if (auto entered = control().enter("kernel_load"); !entered)
      return entered.error();
    auto kernel = Kernel::make(args);
    const std::string_view saved(static_cast<const char *>(args.saved), args.saved_bytes);
    if (kernel && saved != (*kernel)->code->name)
      return Error{MORTISE_CORRUPT, "expected '" + (*kernel)->code->name + "', found '" + std::string(saved) + "'"};
    return kernel;
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    if (auto entered = control().enter("kernel_info"); !entered)
      return entered;
    info.workspace = kernel.workspace.expr();
    kernel.steps.fill(info);
    return {};
  }

  // The host has copied the constants to the device, and keeps them there.
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    if (auto entered = control().enter("constants_bind"); !entered)
      return entered.error();
    auto constants = std::make_unique<Constants>();
    constants->inputs.assign(inputs, inputs + kernel.code->inputs.size());
    return Packed<Constants>{std::move(constants), 0};
  }

  Result<std::unique_ptr<Frame>> makeFrame(const Kernel &kernel, const Constants *, const void *) {
    if (auto entered = control().enter("frame_create"); !entered)
      return entered.error();
    auto frame = std::make_unique<Frame>();
    frame->last.resize(kernel.code->inputs.size() + kernel.code->outputs.size() + 1);
    frame->device = kernel.code->device;
    MortiseMemoryArgs args = frame->memory();
    if (auto taken = Status(mortise::host().device_allocate(&args)).result(); !taken)
      return taken.error();
    frame->scratch = args.address;
    return frame;
  }

  // ---- Work

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    if (auto entered = control().enter("enqueue"); !entered)
      return entered;
    Run run{kernel.code, {}, {}, args.workspace, control().settings().clock ? args.step_ns : nullptr};
    std::vector<Use> uses = {kernel.use()};
    if (constants)
      uses.push_back(constants->use());
    for (size_t i = 0; i < kernel.code->inputs.size(); ++i) {
      run.inputs.push_back(args.inputs[i] || !constants ? args.inputs[i] : constants->inputs[i]);
      uses.push_back({run.inputs.back(), kernel.code->inputs[i].bytes, kernel.code->inputs[i].donated});
    }
    for (size_t i = 0; i < kernel.code->outputs.size(); ++i) {
      run.outputs.push_back(args.outputs[i]);
      uses.push_back({args.outputs[i], kernel.code->outputs[i].bytes, true});
    }
    uses.push_back({args.workspace, kernel.code->workspaceBytes, true});
    if (Frame *frame = frameOf<Strict>(args)) {
      if (auto idle = checker().end(host, "the next call with the frame of " + kernel.code->name, addressOf(frame), 1);
          !idle)
        return idle;
      uses.push_back(frame->use(true));
      uses.push_back({frame->scratch, Frame::scratchBytes, true});
      if (auto checked = checkUnchanged(*frame, run, args); !checked)
        return checked;
    }
    return add(args.stream, kernel.code->name, uses, std::move(run));
  }

  Result<void> copy(MortiseCopyArgs &args) {
    if (auto entered = control().enter("copy"); !entered)
      return entered;
    const auto name = [](const MortiseDevice *device) {
      return device ? strict::devices[numberOf(device)].name() : std::string("the host");
    };
    const std::string what = "copy of " + std::to_string(args.bytes) + " bytes from " + name(args.source_device) +
                             " to " + name(args.target_device);
    const bool between = args.source_device && args.target_device && args.source_device != args.target_device;
    if (between && !reach(args.source_device, args.target_device))
      return Error{MORTISE_INVALID_ARGUMENT, what + ": expected devices that reach each other"};
    control().copied(between               ? "between"
                     : !args.target_device ? "to_host"
                     : !args.source_device ? "to_device"
                                           : "within",
                     args.bytes);
    const MortiseCopyArgs taken = args;
    std::chrono::nanoseconds held{0};
    const auto end = [&](const MortiseDevice *device) { return device ? name(device) : std::string("host"); };
    for (const SlowLink &link : control().settings().slow)
      if (link.ends == end(args.source_device) + "->" + end(args.target_device))
        held = std::chrono::nanoseconds(link.ns + args.bytes * 1'000'000'000 / link.bytesPerSecond);
    const auto work = [taken, what, held]() -> Result<void> {
      std::this_thread::sleep_for(held);
      void *ends[2];
      std::shared_ptr<std::byte> held[2];
      const std::pair<const MortiseDevice *, MortiseAddress> places[] = {{taken.target_device, taken.target},
                                                                         {taken.source_device, taken.source}};
      for (size_t i = 0; i < 2; ++i) {
        ends[i] = pointer(places[i].second);
        if (places[i].first == nullptr)
          continue;
        Result<std::shared_ptr<std::byte>> found =
            memory().find(numberOf(places[i].first), places[i].second, taken.bytes);
        if (!found)
          return Error{MORTISE_INTERNAL, what + ": " + found.error().message};
        held[i] = std::move(*found);
        ends[i] = held[i].get();
      }
      std::memcpy(ends[0], ends[1], taken.bytes);
      return {};
    };
    // A host that reads too early reads NaN, unless work that is queued already uses the memory.
    if (args.target_device == nullptr && checker().isIdle(args.target, args.bytes))
      std::memset(pointer(args.target), 0xff, args.bytes);
    return add(args.stream, what, {{args.target, args.bytes, true}, {args.source, args.bytes, false}}, work);
  }

  // ---- Streams and events

  Result<void> streamCreate(MortiseStreamArgs &args) {
    if (auto entered = control().enter("stream_create"); !entered)
      return entered;
    control().add("stream", 1);
    args.stream = reinterpret_cast<MortiseStream *>(new Stream{std::make_shared<Queue>(checker().addStream())});
    return {};
  }
  Result<void> streamImport(MortiseStreamArgs &args) {
    if (auto entered = control().enter("stream_import"); !entered)
      return entered;
    control().add("stream", 1);
    args.stream = reinterpret_cast<MortiseStream *>(new Stream{pointer<Stream>(args.native)->queue, true});
    return {};
  }
  Result<void> streamExport(MortiseStreamArgs &args) {
    if (auto entered = control().enter("stream_export"); !entered)
      return entered;
    args.native = addressOf(args.stream);
    return {};
  }
  Result<void> streamDestroy(MortiseStreamArgs &args) {
    auto entered = control().enter("stream_destroy");
    control().add("stream", -1);
    const Stream &stream = streamOf(args.stream);
    if (!stream.imported) {
      checker().endStream(stream.queue->actor);
      // A queue whose last owner is work in another queue would end there, and wait for work behind that one.
      stream.queue->waitUntil(stream.queue->position());
    }
    delete &stream;
    return entered;
  }
  Result<void> streamWait(MortiseStreamArgs &args) {
    auto entered = control().enter("stream_wait");
    if (control().isDropped("stream_wait"))
      return {};
    Queue &queue = *streamOf(args.stream).queue;
    queue.waitUntil(queue.position());
    const Result<void> done = queue.failure();
    const Clock mark = knownAfter(done, queue.actor, checker().mark(queue.actor));
    if (control().isHidden("stream_wait"))
      checker().hide(host, mark);
    else
      checker().hostWaits(mark);
    return entered ? done : entered;
  }
  Result<void> streamStatus(MortiseStreamArgs &args) {
    if (auto entered = control().enter("stream_status"); !entered)
      return entered;
    return streamOf(args.stream).queue->failure();
  }
  Result<void> streamReset(MortiseStreamArgs &args) {
    if (auto entered = control().enter("stream_reset"); !entered)
      return entered;
    streamOf(args.stream).queue->reset();
    return {};
  }

  Result<void> eventCreate(MortiseEventArgs &args) {
    if (auto entered = control().enter("event_create"); !entered)
      return entered;
    control().add("event", 1);
    args.event = reinterpret_cast<MortiseEvent *>(new Event);
    return {};
  }
  Result<void> eventDestroy(MortiseEventArgs &args) {
    auto entered = control().enter("event_destroy");
    control().add("event", -1);
    delete &eventOf(args);
    return entered;
  }
  // A stream that has failed gives up its waits, too: then its mark tells of its own work only.
  static Clock knownAfter(const Result<void> &done, Actor stream, Clock mark) {
    for (Actor other = 0; !done && other < mark.size(); ++other)
      if (other != stream)
        mark[other] = 0;
    return mark;
  }
  // Tells the checker that the actor has waited for the event, unless this call of the slot is hidden. `done`: with
  // what error the event's stream has come so far.
  static void tell(Actor actor, const Event &event, const char *slot, const Result<void> &done = {}) {
    const bool hidden = control().isHidden(slot);
    if (hidden || event.clock != event.truth)
      checker().hide(actor, knownAfter(done, event.queue->actor, event.truth));
    if (hidden)
      return;
    const Clock mark = knownAfter(done, event.queue->actor, event.clock);
    if (actor == host)
      checker().hostWaits(mark);
    else
      checker().streamWaits(actor, mark);
  }
  Result<void> eventRecord(MortiseEventArgs &args) {
    if (auto entered = control().enter("event_record"); !entered)
      return entered;
    if (control().isDropped("event_record"))
      return {};
    Event &event = eventOf(args);
    event.queue = streamOf(args.stream).queue;
    event.truth = checker().mark(event.queue->actor);
    event.clock = control().isHidden("event_record") ? Clock() : event.truth; // not the mark before, which may suffice
    event.queue->add([ns = event.ns]() -> Result<void> {
      *ns = nowNs();
      return {};
    });
    event.position = event.queue->position();
    return {};
  }
  Result<void> eventWait(MortiseEventArgs &args) {
    if (auto entered = control().enter("event_wait"); !entered)
      return entered;
    const Event &event = eventOf(args);
    if (control().isDropped("event_wait") || !event.queue)
      return {};
    Queue &waits = *streamOf(args.stream).queue;
    tell(waits.actor, event, "event_wait");
    if (&waits != event.queue.get())
      waits.add([queue = event.queue, position = event.position]() -> Result<void> {
        queue->waitUntil(position);
        return queue->failure(position);
      });
    return {};
  }
  Result<void> eventQuery(MortiseEventArgs &args) {
    if (auto entered = control().enter("event_query"); !entered)
      return entered;
    const Event &event = eventOf(args);
    const bool lies = control().isDropped("event_query");
    const bool tells = control().settings().late == 0;
    args.happened = lies || !event.queue || (tells && event.queue->hasHappened(event.position));
    if (lies && event.queue)
      checker().hide(host, event.truth);
    else if (args.happened && event.queue) {
      const Result<void> done = event.queue->failure(event.position);
      tell(host, event, "event_query", done);
      return done;
    }
    return {};
  }
  Result<void> eventSynchronize(MortiseEventArgs &args) {
    auto entered = control().enter("event_synchronize");
    const Event &event = eventOf(args);
    if (control().isDropped("event_synchronize") || !event.queue)
      return {};
    event.queue->waitUntil(event.position);
    const Result<void> done = event.queue->failure(event.position);
    tell(host, event, "event_synchronize", done);
    return entered ? done : entered;
  }
  Result<void> eventElapsed(MortiseEventArgs &args) {
    if (auto entered = control().enter("event_elapsed"); !entered)
      return entered;
    const Event &event = eventOf(args), &since = *reinterpret_cast<const Event *>(args.since);
    if (!event.queue || !since.queue || !event.queue->hasHappened(event.position) ||
        !since.queue->hasHappened(since.position))
      return Error{MORTISE_INVALID_ARGUMENT, "expected two events that have happened"};
    args.elapsed_ns = *event.ns - *since.ns;
    return {};
  }

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) {
    if (auto entered = control().enter("memory_allocate"); !entered)
      return entered;
    const Result<Allocation> made =
        memory().allocate(numberOf(args.device), args.space, args.bytes, control().settings().memory);
    if (!made)
      return made.error();
    control().add("allocation", 1);
    args.address = made->address;
    // Work on other streams has to come behind the allocation, as behind a write.
    if (args.stream)
      return checker().queue(streamOf(args.stream).queue->actor, "memory_allocate",
                             {{made->address, made->bytes, true}});
    return {};
  }

  Result<void> hostRegister(MortiseHostMemoryArgs &args) {
    if (auto entered = control().enter("host_register"); !entered)
      return entered;
    control().add("registration", 1);
    return checker().end(host, "host_register", addressOf(args.memory), args.bytes);
  }
  Result<void> hostUnregister(MortiseHostMemoryArgs &args) {
    auto entered = control().enter("host_unregister");
    control().add("registration", -1);
    const auto ended = checker().end(host, "host_unregister", addressOf(args.memory), args.bytes);
    return entered ? ended : entered;
  }

  Result<void> memoryFree(MortiseMemoryArgs &args) {
    auto entered = control().enter("memory_free");
    const Result<Allocation> gone = memory().free(numberOf(args.device), args.address, args.stream != nullptr);
    if (!gone)
      return gone.error();
    control().add("allocation", -1);
    const std::string what = "memory_free of allocation " + std::to_string(gone->number);
    if (args.stream == nullptr) {
      const auto ended = checker().end(host, what, gone->address, gone->bytes);
      return entered ? ended : entered;
    }
    // Work that was queued before may still use the bytes. Other streams must not use them beside their end.
    Queue &queue = *streamOf(args.stream).queue;
    const auto ended = checker().queue(queue.actor, what, {{gone->address, gone->bytes, true}});
    // The memory ends with the work that stands for it, which a stream that has failed drops.
    queue.add([end = std::shared_ptr<void>(nullptr, [address = gone->address](void *) {
                 memory().remove(address);
               })]() -> Result<void> { return {}; });
    return entered ? ended : entered;
  }

private:
  static bool reach(const MortiseDevice *a, const MortiseDevice *b) {
    return strict::devices[numberOf(a)].kind == strict::devices[numberOf(b)].kind && control().settings().peer;
  }

  // Queues work and checks what it uses. What has failed the check takes its turn and is not done: hardware would do
  // it, but threads of this process would race for the bytes.
  template <typename Work>
  static Result<void> add(MortiseStream *handle, const std::string &what, const std::vector<Use> &uses, Work work) {
    if (handle == nullptr)
      return Error{MORTISE_INVALID_ARGUMENT, what + ": expected a stream, found NULL"};
    Queue &queue = *streamOf(handle).queue;
    const Result<void> checked = checker().queue(queue.actor, what, uses);
    queue.add([work = std::move(work), what, orderly = bool(checked)]() -> Result<void> {
      if (auto entered = control().enter("work"); !entered)
        return Error{entered.error().code, what + ": " + entered.error().message};
      return orderly ? work() : Result<void>();
    });
    return checked;
  }

  // The bits must say what is true: a driver would leave a stale address in its graph.
  static Result<void> checkUnchanged(Frame &frame, const Run &run, const MortiseEnqueueArgs &args) {
    const size_t inputs = run.inputs.size(), outputs = run.outputs.size();
    for (size_t i = 0; i < frame.last.size(); ++i) {
      const MortiseAddress address = i < inputs             ? args.inputs[i]
                                     : i < inputs + outputs ? args.outputs[i - inputs]
                                                            : args.workspace;
      if (isUnchanged(args, i) && address != frame.last[i])
        return Error{MORTISE_INTERNAL, run.code->name + ": bit " + std::to_string(i) +
                                           " says that an address is unchanged, and it is another"};
      frame.last[i] = address;
    }
    return {};
  }
};

// ---- The control of tests

const char *configure(const char *settings) {
  static std::string wrong;
  wrong = control().configure(settings);
  checker().forgetAll();
  return wrong.empty() ? nullptr : wrong.c_str();
}

const char *report() {
  static std::string text;
  text = control().report(checker().violations(), checker().besideOthers(), checker().hidNews());
  return text.c_str();
}

void hostUses(const void *memory, size_t bytes, int32_t writes) {
  checker().hostUses({addressOf(memory), bytes, writes != 0});
}

std::atomic<uint64_t> busy{0};
uint64_t busyNs() { return busy; }

// A slot with a clock around it.
template <typename Args, MortiseStatus *(*MortisePlugin::*slot)(Args *)> MortiseStatus *timed(Args *args) {
  const uint64_t begin = nowNs();
  MortiseStatus *status = (Strict::table()->*slot)(args);
  busy += nowNs() - begin;
  return status;
}

const MortisePlugin *table() {
  static const StrictControl extension = {
      {sizeof(StrictControl), nullptr, STRICT_CONTROL_KIND, 0}, configure, report, hostUses, busyNs};
  static const MortisePlugin made = [] {
    MortisePlugin copy = *Strict::table();
    copy.extension = &extension.head;
    copy.enqueue = timed<MortiseEnqueueArgs, &MortisePlugin::enqueue>;
    copy.copy = timed<MortiseCopyArgs, &MortisePlugin::copy>;
    copy.event_record = timed<MortiseEventArgs, &MortisePlugin::event_record>;
    copy.event_wait = timed<MortiseEventArgs, &MortisePlugin::event_wait>;
    copy.event_query = timed<MortiseEventArgs, &MortisePlugin::event_query>;
    copy.event_synchronize = timed<MortiseEventArgs, &MortisePlugin::event_synchronize>;
    return copy;
  }();
  return &made;
}

} // namespace
} // namespace strict

extern "C" MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) { return strict::table(); }
