// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A simulated edge NPU: memory of its own, a queue that works behind the caller, f16 and i8 only, static shapes only,
// and 256 KiB of scratch. What it computes, and what that costs, is in ops.cpp; here is the device.
#include "ops.hpp"
#include "queue.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

namespace {
using namespace mortise;
using npu::Queue;

// Addresses are the device's: those of ordinary memory, moved to where the process has none.
constexpr MortiseAddress moved = UINT64_C(1) << 62;
void *at(MortiseAddress address) { return pointer(address - moved); }
void *at(const MortiseDevice *device, MortiseAddress address) { return device ? at(address) : pointer(address); }

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

double slowdownOf(std::string_view text) { return std::max(1.0, std::atof(std::string(text).c_str())); }

// The widened operands of an i32 product, and the products that share its left one, as one region each: the unit
// widens as it reads, so that no i32 but the sums is ever in memory.
std::map<uint32_t, std::vector<uint32_t>> productGroups(const MortiseGraph &graph) {
  std::map<uint32_t, std::vector<uint32_t>> groups; // by the node that widens the left operand
  for (uint32_t i = 0; i < graph.node_count; ++i)
    if (const MortiseNode &node = *graph.nodes[i];
        std::string_view(node.op) == "mortise.dot" && !npu::refuseWidened(node)) {
      const MortiseNode &left = *node.operands[0]->producer, &right = *node.operands[1]->producer;
      if (right.operands[0]->producer || right.results[0]->use_count != 1)
        continue; // a path could leave the group and come back through it, or others want the wide numbers
      groups[left.index].insert(groups[left.index].end(), {right.index, i});
    }
  for (auto at = groups.begin(); at != groups.end();) {
    auto &[widening, nodes] = *at;
    const bool othersRead = graph.nodes[widening]->results[0]->use_count * 2 != nodes.size();
    nodes.push_back(widening);
    std::ranges::sort(nodes);
    at = othersRead ? groups.erase(at) : std::next(at);
  }
  return groups;
}

struct AcmeNpu : PluginAdaptor<AcmeNpu> {
  static constexpr PluginIdentity identity{"acme-npu", "Mortise examples", "1.0.0"};

  struct Place {
    enum Kind { Input, Output, Workspace } kind;
    uint64_t index; // of an input or output; in the workspace the offset
  };
  struct Kernel {
    std::vector<npu::Step> program;
    std::vector<Place> places; // one per value of the region
    size_t inputs = 0, outputs = 0;
    bool fails = false;
    double slowdown = 1;
    ConstantExpr workspace;
    StepList steps;
  };
  struct Constants { // the host has copied them to the device, and keeps them there
    std::vector<MortiseAddress> inputs;
  };

  Result<void> initialize(const MortiseInitializeArgs &) { return {}; }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseSpace memory = [] {
      auto made = sized<MortiseSpace>();
      made.name = "LPDDR";
      made.kind = MORTISE_SPACE_DEVICE;
      made.bytes = UINT64_C(1) << 30;
      made.alignment = 64;
      return made;
    }();
    static const MortiseSpace *const spaces[] = {&memory};
    static int handle;
    static const MortiseDeviceInfo device = [] {
      auto info = sized<MortiseDeviceInfo>();
      info.device = reinterpret_cast<MortiseDevice *>(&handle);
      info.kind = "acme-npu";
      info.name = "Acme NPU (simulated)";
      info.threads = 1;
      info.spaces = spaces;
      info.space_count = 1;
      info.bandwidth = npu::bytesPerNs * 1e9;
      info.launch_ns = npu::launchNs;
      info.copy_ns = 1500;
      info.copy_bandwidth = 16e9;
      info.features = "f16,i8";
      return info;
    }();
    static const MortiseDeviceInfo *const list[] = {&device};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  static std::span<const MortiseOpDeclaration *const> ops() { return npu::ops(); }
  Result<void> infer(Inference &inference) { return npu::infer(inference); }

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    const double slowdown = slowdownOf(proposal.option("slowdown", "1"));
    const auto add = [&](const char *lowering, const std::vector<uint32_t> &nodes) {
      npu::Cost cost;
      for (const uint32_t node : nodes)
        cost += npu::costOf(*graph.nodes[node]);
      proposal.add({lowering, nodes, cost.ns * slowdown, cost.bytes, cost.flops});
    };
    std::set<uint32_t> grouped;
    for (const auto &[widening, nodes] : productGroups(graph)) {
      add("acme-npu.int8", nodes);
      grouped.insert(nodes.begin(), nodes.end());
    }
    std::vector<bool> supported(graph.node_count);
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      if (grouped.contains(i))
        continue;
      if (const auto refusal = npu::refuse(node))
        proposal.refuse(i, refusal->reason, refusal->detail);
      else if (node.results[0]->type->dtype == MORTISE_I32)
        proposal.refuse(i, MORTISE_REASON_DTYPE, "expected widened operands that only products of one region read");
      else
        supported[i] = true;
    }
    for (const std::vector<uint32_t> &nodes : convexRegions(graph, supported))
      add("acme-npu.region", nodes);
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled())
      return cancelledError();
    const std::string_view fault = option(args.options, args.option_count, "fault", "none");
    if (fault == "compile")
      return Error{MORTISE_UNSUPPORTED, "the option acme-npu.fault lets no kernel compile"};
    const MortiseGraph &region = *args.region;
    auto kernel = std::make_unique<Kernel>();
    kernel->fails = fault == "enqueue";
    kernel->slowdown = slowdownOf(option(args.options, args.option_count, "slowdown", "1"));
    kernel->inputs = region.input_count;
    kernel->outputs = region.output_count;
    uint64_t workspace = 0;
    for (size_t i = 0; i < region.value_count; ++i) {
      const MortiseValue &value = *region.values[i];
      const auto *output = std::find(region.outputs, region.outputs + region.output_count, &value);
      if (!value.producer)
        kernel->places.push_back({Place::Input, value.result_index});
      else if (npu::isWidening(*value.producer)) // read where the narrow numbers lie
        kernel->places.push_back(kernel->places[value.producer->operands[0]->index]);
      else if (output != region.outputs + region.output_count)
        kernel->places.push_back({Place::Output, static_cast<uint64_t>(output - region.outputs)});
      else {
        kernel->places.push_back({Place::Workspace, workspace});
        workspace += (byteSize(*value.type) + 63) / 64 * 64;
      }
    }
    kernel->workspace = ConstantExpr(static_cast<int64_t>(workspace));
    for (uint32_t i = 0; i < region.node_count; ++i) {
      const MortiseNode &node = *region.nodes[i];
      if (npu::isWidening(node))
        continue;
      if (const auto refusal = npu::refuse(node))
        return Error{MORTISE_INVALID_ARGUMENT, "expected a region as proposed: " + refusal->detail};
      kernel->program.push_back(npu::stepOf(node));
      const npu::Cost cost = npu::costOf(node);
      kernel->steps.add(std::string(node.op) + " " + typeString(*node.results[0]->type), "acme-npu.op", {i}, cost.bytes,
                        cost.flops);
    }
    return kernel;
  }
  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.workspace.expr();
    kernel.steps.fill(info);
    return {};
  }
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    auto constants = std::make_unique<Constants>();
    constants->inputs.assign(inputs, inputs + kernel.inputs);
    return Packed<Constants>{std::move(constants), 0};
  }

  // The lists of `args` may be gone when the work happens; the kernel and the memory are not.
  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    if (kernel.fails)
      return Error{MORTISE_INTERNAL, "the option acme-npu.fault makes each call fail"};
    std::vector<void *> values;
    for (const Place &place : kernel.places) {
      MortiseAddress address = place.kind == Place::Workspace ? args.workspace + place.index
                               : place.kind == Place::Output  ? args.outputs[place.index]
                                                              : args.inputs[place.index];
      if (place.kind == Place::Input && address == 0 && constants)
        address = constants->inputs[place.index];
      values.push_back(at(address));
    }
    queueOf(args.stream).add([&kernel, values = std::move(values)] {
      const auto begin = std::chrono::steady_clock::now();
      for (const npu::Step &step : kernel.program)
        npu::run(step, values);
      if (kernel.slowdown > 1)
        std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin) * (kernel.slowdown - 1));
    });
    return {};
  }

  // ---- Memory. The device has no order of its own for memory: what is allocated in a stream is usable at once, and
  // what is freed there is given back behind the work before.

  Result<void> memoryAllocate(MortiseMemoryArgs &args) {
    void *memory = std::aligned_alloc(64, (args.bytes + 63) / 64 * 64);
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
  Result<void> streamStatus(MortiseStreamArgs &) { return {}; } // queued work never fails
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

MORTISE_DEFINE_PLUGIN(AcmeNpu)
