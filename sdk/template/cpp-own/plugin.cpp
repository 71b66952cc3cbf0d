// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin in C++ for a device with memory and queues of its own: calls return when their work is queued, and events
// say when it has happened. A thread stands for each queue of the hardware. In place of Queue, `at`, new and memcpy,
// call your driver: streams, events, memory and kernels of CUDA, HIP, Level Zero or Vulkan fit one to one.
#include <mortise/plugin.hpp>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

namespace {
using namespace mortise;

constexpr uint64_t memoryBytes = UINT64_C(1) << 32;

// Addresses are the device's: those of ordinary memory, moved to where the process has none.
constexpr MortiseAddress moved = UINT64_C(1) << 62;
void *at(MortiseAddress address) { return pointer(address - moved); }
void *at(const MortiseDevice *device, MortiseAddress address) { return device ? at(address) : pointer(address); }

// A queue of work, done in its order.
class Queue {
public:
  Queue() : thread([this] { run(); }) {}
  ~Queue() {
    add(nullptr);
    thread.join();
  }
  // Returns the place of the work in the queue, from 1.
  uint64_t add(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(work));
    changed.notify_all();
    return ++added;
  }
  void waitFor(uint64_t place) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return happened >= place; });
  }
  void waitForAll() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&, all = added] { return happened >= all; });
  }
  bool has(uint64_t place) {
    const std::lock_guard lock(mutex);
    return happened >= place;
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !waiting.empty(); });
      const std::function<void()> work = std::move(waiting.front());
      waiting.pop_front();
      if (!work)
        return;
      lock.unlock();
      work();
      lock.lock();
      ++happened;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  uint64_t added = 0, happened = 0;
  std::thread thread; // begins when all else is made
};

// What a handle of the host's points to. An event keeps the queue in which it was recorded.
struct Stream {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};
struct Event {
  std::shared_ptr<Queue> queue; // NULL before it is recorded
  uint64_t place = 0;
  std::shared_ptr<uint64_t> ns = std::make_shared<uint64_t>(0);
};
Queue &queueOf(MortiseStream *stream) { return *reinterpret_cast<Stream *>(stream)->queue; }
Event &eventOf(MortiseEvent *event) { return *reinterpret_cast<Event *>(event); }

using Loop = void (*)(const float *a, const float *b, float *out, int64_t count);
template <auto F> void loop(const float *a, const float *b, float *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = F(a[i], b[i]);
}
struct Op {
  std::string_view name;
  Loop loop;
};
constexpr Op ops[] = {{"mortise.add", loop<[](float a, float b) { return a + b; }>},
                      {"mortise.sub", loop<[](float a, float b) { return a - b; }>},
                      {"mortise.mul", loop<[](float a, float b) { return a * b; }>}};

const Op *findOp(const MortiseNode &node) {
  const auto *found = std::ranges::find(ops, std::string_view(node.op), &Op::name);
  return found == std::end(ops) ? nullptr : found;
}

struct Example : PluginAdaptor<Example> {
  static constexpr PluginIdentity identity{"acme", "Acme Inc.", "1.0.0"};

  struct Kernel { // of one node
    Loop loop = nullptr;
    uint32_t operands[2] = {};
    int64_t count = 0;
    StepList steps;
  };
  struct Constants { // the host has copied them to the device, and keeps them there
    MortiseAddress operands[2] = {};
  };

  Result<void> initialize(const MortiseInitializeArgs &) { return {}; }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseSpace memory = [] {
      auto made = sized<MortiseSpace>();
      made.name = "memory";
      made.kind = MORTISE_SPACE_DEVICE;
      made.bytes = memoryBytes;
      made.alignment = 64;
      return made;
    }();
    static const MortiseSpace *const spaces[] = {&memory};
    static int handle;
    static const MortiseDeviceInfo device = [] {
      auto info = sized<MortiseDeviceInfo>();
      info.device = reinterpret_cast<MortiseDevice *>(&handle);
      info.kind = info.name = "acme";
      info.threads = 1;
      info.spaces = spaces;
      info.space_count = 1;
      info.launch_ns = info.copy_ns = 5000; // these price what the host weighs against other devices
      info.copy_bandwidth = 1e10;
      info.features = "";
      return info;
    }();
    static const MortiseDeviceInfo *const list[] = {&device};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      const MortiseType &type = *node.results[0]->type;
      if (!findOp(node))
        proposal.refuse(i, MORTISE_REASON_OP, "expected mortise.add, mortise.sub or mortise.mul");
      else if (type.dtype != MORTISE_F32)
        proposal.refuse(i, MORTISE_REASON_DTYPE, "expected f32, found " + typeString(type));
      else if (!isStatic(type))
        proposal.refuse(i, MORTISE_REASON_NEEDS_STATIC, "expected a static shape");
      else if (type.strides || node.operands[0]->type->strides || node.operands[1]->type->strides)
        proposal.refuse(i, MORTISE_REASON_LAYOUT, "expected dense row-major tensors");
      else {
        const auto count = static_cast<double>(elementCount(type));
        proposal.add({"acme.binary", {&i, 1}, 12 * count / 100, 12 * count, count}); // 100 bytes per nanosecond
      }
    }
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled())
      return cancelledError();
    if (args.region->output_count != 1) // a value may be listed twice, and an input be an output
      return Error{MORTISE_UNSUPPORTED, "expected a region of one output, found another number of them"};
    const MortiseNode &node = *args.region->nodes[0];
    const Op *op = findOp(node);
    if (!op || args.region->node_count != 1)
      return Error{MORTISE_INVALID_ARGUMENT, "expected a region as proposed, with one node"};
    auto kernel = std::make_unique<Kernel>();
    kernel->loop = op->loop;
    kernel->count = elementCount(*node.results[0]->type);
    for (int i = 0; i < 2; ++i)
      kernel->operands[i] = node.operands[i]->result_index; // the number of the region's input
    const auto count = static_cast<double>(kernel->count);
    kernel->steps.add(node.op, "acme.binary", {0}, 12 * count, count);
    return kernel;
  }
  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    kernel.steps.fill(info);
    return {};
  }
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    auto constants = std::make_unique<Constants>();
    for (int i = 0; i < 2; ++i)
      constants->operands[i] = inputs[kernel.operands[i]];
    return Packed<Constants>{std::move(constants), 0};
  }

  // The lists of `args` may be gone when the work happens; the kernel and the memory are not.
  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    MortiseAddress operands[2];
    for (int i = 0; i < 2; ++i) {
      operands[i] = args.inputs[kernel.operands[i]];
      if (operands[i] == 0 && constants)
        operands[i] = constants->operands[i];
    }
    queueOf(args.stream).add([&kernel, a = operands[0], b = operands[1], out = args.outputs[0]] {
      if (kernel.count) // without elements the addresses mean nothing
        kernel.loop(static_cast<float *>(at(a)), static_cast<float *>(at(b)), static_cast<float *>(at(out)),
                    kernel.count);
    });
    return {};
  }

  // ---- Memory. The device has no order of its own for memory: what is allocated in a stream is usable at once, and
  // what is freed there is given back behind the work before.

  Result<void> memoryAllocate(MortiseMemoryArgs &args) {
    void *memory = args.bytes <= memoryBytes ? std::aligned_alloc(64, (args.bytes + 63) / 64 * 64) : nullptr;
    if (!memory)
      return Error{MORTISE_OUT_OF_MEMORY, "the device has no memory left"};
    args.address = addressOf(memory) + moved;
    return {};
  }
  Result<void> memoryFree(MortiseMemoryArgs &args) {
    void *memory = at(args.address);
    if (args.stream)
      queueOf(args.stream).add([memory] { std::free(memory); });
    else
      std::free(memory);
    return {};
  }
  Result<void> copy(MortiseCopyArgs &args) {
    if ((args.source_device && args.source < moved) || (args.target_device && args.target < moved))
      return Error{MORTISE_INVALID_ARGUMENT, "copy: expected an address of the device, found another"};
    queueOf(args.stream).add([copy = args] {
      std::memcpy(at(copy.target_device, copy.target), at(copy.source_device, copy.source), copy.bytes);
    });
    return {};
  }

  // ---- Streams and events

  Result<void> streamCreate(MortiseStreamArgs &args) {
    args.stream = reinterpret_cast<MortiseStream *>(new Stream);
    return {};
  }
  Result<void> streamDestroy(MortiseStreamArgs &args) {
    delete reinterpret_cast<Stream *>(args.stream);
    return {};
  }
  Result<void> streamWait(MortiseStreamArgs &args) {
    queueOf(args.stream).waitForAll();
    return {};
  }
  Result<void> streamStatus(MortiseStreamArgs &) { return {}; } // this work never fails
  Result<void> streamReset(MortiseStreamArgs &) { return {}; }
  Result<void> eventCreate(MortiseEventArgs &args) {
    args.event = reinterpret_cast<MortiseEvent *>(new Event);
    return {};
  }
  Result<void> eventDestroy(MortiseEventArgs &args) {
    delete &eventOf(args.event);
    return {};
  }
  Result<void> eventRecord(MortiseEventArgs &args) {
    Event &event = eventOf(args.event);
    event.queue = reinterpret_cast<Stream *>(args.stream)->queue;
    event.ns = std::make_shared<uint64_t>(0);
    event.place = event.queue->add([ns = event.ns] {
      *ns = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
    });
    return {};
  }
  Result<void> eventWait(MortiseEventArgs &args) {
    const Event &event = eventOf(args.event);
    if (event.queue && event.queue.get() != &queueOf(args.stream))
      queueOf(args.stream).add([queue = event.queue, place = event.place] { queue->waitFor(place); });
    return {};
  }
  Result<void> eventQuery(MortiseEventArgs &args) {
    const Event &event = eventOf(args.event);
    args.happened = !event.queue || event.queue->has(event.place);
    return {};
  }
  Result<void> eventSynchronize(MortiseEventArgs &args) {
    const Event &event = eventOf(args.event);
    if (event.queue)
      event.queue->waitFor(event.place);
    return {};
  }
  Result<void> eventElapsed(MortiseEventArgs &args) {
    args.elapsed_ns = *eventOf(args.event).ns - *eventOf(args.since).ns;
    return {};
  }
};

} // namespace

MORTISE_DEFINE_PLUGIN(Example)
