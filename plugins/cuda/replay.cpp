// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "replay.hpp"

#include "call.hpp"

#include <algorithm>

namespace mortise::cuda {

namespace {

constexpr size_t fewestNodes = 4; // in all graphs: less is not worth recording
constexpr size_t shortestRun = 2; // of nodes between two calls of libraries: less costs less by itself
// Of one schedule: for so many workspaces, since each context of the host in flight has one of its own, and each
// stream.
constexpr size_t mostRecordings = 4;
// Recording costs about as much as ten calls, and a wait for the whole device fails while a product is captured.
constexpr size_t mostEver = 16;
constexpr uint64_t mostBytes = (UINT64_C(1) << 31) - 1; // of a copy, which a graph describes as a line of a picture

CUDA_MEMCPY3D copyOf(MortiseAddress target, MortiseAddress source, uint64_t bytes) {
  return {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
          .srcDevice = source,
          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
          .dstDevice = target,
          .WidthInBytes = bytes,
          .Height = 1,
          .Depth = 1};
}

size_t nodesOf(const Step &step, size_t number, const Schedule &schedule) {
  if (!std::holds_alternative<Launch>(step.work))
    return schedule.amounts[number] != 0;
  return static_cast<size_t>(std::ranges::count_if(schedule.grids[number], [](uint64_t grid) { return grid != 0; }));
}

// Per step, whether a graph gets it: the runs between those that stand `alone`, where they are long enough.
std::vector<bool> inGraphs(std::span<const Step> steps, const Schedule &schedule, const std::vector<bool> &alone) {
  std::vector<bool> in(steps.size());
  for (size_t first = 0, end = 0; first < steps.size(); first = end + 1) {
    size_t nodes = 0;
    for (end = first; end < steps.size() && !alone[end]; ++end)
      nodes += nodesOf(steps[end], end, schedule);
    std::fill(in.begin() + static_cast<ptrdiff_t>(first), in.begin() + static_cast<ptrdiff_t>(end),
              nodes >= shortestRun);
  }
  return in;
}

} // namespace

// ---- One recording

// Graphs, and steps between them, for one workspace and one set of constants.
class Replays::Recording {
public:
  Recording(Device &device, std::span<const Step> steps) : device(device), steps(steps) {}
  Recording(const Recording &) = delete;
  ~Recording() {
    const Driver &driver = device.driver;
    Result<Entered> entered = Entered::into(device);
    if (!entered) // with the context went its graphs
      return;
    for (const Graph &graph : graphs) {
      if (graph.executable) // one in flight is freed when it has happened
        (void)device.check(driver.graphExecDestroy(graph.executable), "cuGraphExecDestroy");
      (void)device.check(driver.graphDestroy(graph.nodes), "cuGraphDestroy");
    }
  }

  // For a call, after whose workspace and constants the recording is found. `alone`: per step, calls that no graph
  // gets. After an error the object is of no use.
  Result<void> record(const Addresses &addresses, const std::vector<bool> &alone);
  bool isRecorded() const { return !parts.empty(); }
  bool isFor(const Addresses &addresses) const;
  // For the addresses of another call. The steps in `changing`, calls of libraries, keep the graphs from being changed.
  // After an error the object is of no use.
  Result<void> change(const Addresses &addresses, std::vector<size_t> &changing);
  Result<void> launch(Stream &stream, const Addresses &addresses) const;

private:
  struct Last { // node of a graph
    CUgraphNode node = nullptr;
    bool isKernel = false;
  };
  struct Graph {
    CUgraph nodes = nullptr; // stays, because its nodes name those of the executable
    CUgraphExec executable = nullptr;
  };
  struct Node { // or several, of the kernels of one launch
    size_t step = 0, graph = 0;
    std::vector<uint64_t> parameters;                    // all that calls may change
    std::vector<std::pair<size_t, CUgraphNode>> handles; // with the number of the kernel
  };
  struct Part { // of a call, in order
    bool isGraph = false;
    size_t number = 0; // of a graph, or of a step
  };
  Result<void> findParameters(size_t number, const Addresses &addresses);
  Result<void> add(Node &node, Last &last, const Addresses &addresses);
  Result<void> overlap(CUgraph graph, CUgraphNode before, CUgraphNode node);
  Result<void> set(const Node &node, const Addresses &addresses);
  CUDA_KERNEL_NODE_PARAMS kernelOf(size_t step, size_t number, const Schedule &schedule);
  Result<CUgraph> callOf(size_t step, const Addresses &addresses) const;
  void remember(const Addresses &addresses) {
    known.resize(addresses.count());
    for (size_t i = 0; i < known.size(); ++i)
      known[i] = addresses.at(i);
  }

  Device &device;
  const std::span<const Step> steps;
  std::vector<Graph> graphs;
  std::vector<Node> nodes;
  std::vector<Part> parts;
  std::vector<MortiseAddress> known; // of the last call
  std::vector<uint64_t> parameters;  // of the step at hand
  LaunchArguments arguments;         // likewise
};

bool Replays::Recording::isFor(const Addresses &addresses) const {
  for (size_t i = 0; i < known.size(); ++i)
    if (known[i] != addresses.at(i) && !addresses.isCallers(i))
      return false;
  return isRecorded();
}

Result<void> Replays::Recording::findParameters(size_t number, const Addresses &addresses) {
  const Step &step = steps[number];
  parameters.clear();
  if (const auto *launch = std::get_if<Launch>(&step.work)) {
    if (auto done = arguments.set(*launch, number, addresses); !done)
      return done;
    parameters.assign(arguments.values().begin(), arguments.values().end()); // which decide on the code, too
  } else if (const auto *copy = std::get_if<Copy>(&step.work)) {
    parameters = {addresses(copy->target), addresses(copy->source)};
  } else if (const auto *convolution = std::get_if<Convolution>(&step.work)) {
    const ConvolutionMemory memory = addresses(*convolution);
    parameters.assign(memory.addresses.begin(), memory.addresses.end());
    parameters.push_back(memory.workspace);
  } else {
    const ProductMemory memory = addresses(std::get<Product>(step.work));
    parameters = {memory.a, memory.b, memory.c, memory.bias, memory.addend, memory.workspace};
  }
  return {};
}

CUDA_KERNEL_NODE_PARAMS Replays::Recording::kernelOf(size_t step, size_t number, const Schedule &schedule) {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = (*arguments.entries)[number];
  kernel.gridDimX = static_cast<unsigned>(schedule.grids[step][number]);
  const codegen::SimtLaunch &launch = std::get<Launch>(steps[step].work).function->code().launches[number];
  kernel.blockDimX = launch.threads;
  kernel.sharedMemBytes = launch.sharedBytes;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = arguments.pointers();
  return kernel;
}

// A library can only queue, which is captured, call by call, so that nothing of the process is captured for long.
Result<CUgraph> Replays::Recording::callOf(size_t step, const Addresses &addresses) const {
  return device.captured([&](CUstream handle) {
    Stream stream(device, handle, true);
    return queueStep(stream, steps[step], step, addresses);
  });
}

// Lets a kernel that waits itself be launched while the one before it runs. All kernels before that one have ended when
// it ends, since it has either waited as well, or was launched when they had ended.
Result<void> Replays::Recording::overlap(CUgraph graph, CUgraphNode before, CUgraphNode node) {
  CUgraphEdgeData edge{};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return device.check(device.driver.graphAddDependencies(graph, &before, &node, &edge, 1), "cuGraphAddDependencies");
}

// Behind the last node of the graph: the steps' order is that of the stream.
Result<void> Replays::Recording::add(Node &node, Last &last, const Addresses &addresses) {
  const Driver &driver = device.driver;
  const Step &step = steps[node.step];
  const CUgraph graph = graphs[node.graph].nodes;
  const auto make = [&](size_t number, const char *name, bool overlaps, bool isKernel, auto call) -> Result<void> {
    CUgraphNode added = nullptr;
    if (auto done = device.check(call(&added, &last.node, size_t{last.node && !overlaps ? 1u : 0u}), name); !done)
      return done;
    node.handles.push_back({number, added});
    const CUgraphNode before = std::exchange(last, {added, isKernel}).node;
    return overlaps ? overlap(graph, before, added) : Result<void>();
  };
  if (const auto *copy = std::get_if<Copy>(&step.work)) {
    const CUDA_MEMCPY3D what =
        copyOf(addresses(copy->target), addresses(copy->source), addresses.schedule.amounts[node.step]);
    Result<CUcontext> context = device.context();
    if (!context)
      return context.error();
    return make(0, "cuGraphAddMemcpyNode", false, false,
                [&](CUgraphNode *added, const CUgraphNode *behind, size_t edges) {
                  return driver.graphAddMemcpyNode(added, graph, behind, edges, &what, *context);
                });
  }
  if (step.isCall()) {
    Result<CUgraph> call = callOf(node.step, addresses);
    if (!call)
      return call.error();
    Result<void> done = make(0, "cuGraphAddChildGraphNode", false, false,
                             [&](CUgraphNode *added, const CUgraphNode *behind, size_t edges) {
                               return driver.graphAddChildGraphNode(added, graph, behind, edges, *call);
                             });
    driver.graphDestroy(*call); // the node has a copy
    return done;
  }
  const std::vector<uint64_t> &grids = addresses.schedule.grids[node.step];
  for (size_t number = 0; number < grids.size(); ++number) {
    if (grids[number] == 0)
      continue;
    const CUDA_KERNEL_NODE_PARAMS kernel = kernelOf(node.step, number, addresses.schedule);
    const codegen::SimtLaunch &launch = std::get<Launch>(step.work).function->code().launches[number];
    const bool overlaps = launch.awaits && last.isKernel && driver.graphAddDependencies;
    auto done = make(number, "cuGraphAddKernelNode", overlaps, true,
                     [&](CUgraphNode *added, const CUgraphNode *behind, size_t edges) {
                       return driver.graphAddKernelNode(added, graph, behind, edges, &kernel);
                     });
    if (!done)
      return done;
  }
  return {};
}

Result<void> Replays::Recording::record(const Addresses &addresses, const std::vector<bool> &alone) {
  const Driver &driver = device.driver;
  const CaptureOfOthers undisturbed(device);
  const std::vector<bool> in = inGraphs(steps, addresses.schedule, alone);
  Last last;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (addresses.schedule.amounts[i] == 0)
      continue;
    if (!in[i]) {
      parts.push_back({false, i});
      continue;
    }
    if (parts.empty() || !parts.back().isGraph) {
      last = {};
      CUgraph graph = nullptr;
      if (auto done = device.check(driver.graphCreate(&graph, 0), "cuGraphCreate"); !done)
        return done;
      parts.push_back({true, graphs.size()});
      graphs.push_back({graph, nullptr});
    }
    Node node{i, graphs.size() - 1, {}, {}};
    Result<void> done = findParameters(i, addresses);
    if (done)
      done = add(node, last, addresses);
    if (!done)
      return Error{done.error().code, steps[i].name + ": " + done.error().message};
    node.parameters = parameters;
    nodes.push_back(std::move(node));
  }
  for (Graph &graph : graphs)
    if (auto done = device.check(driver.graphInstantiate(&graph.executable, graph.nodes, 0), "cuGraphInstantiate");
        !done)
      return done;
  remember(addresses);
  return {};
}

Result<void> Replays::Recording::set(const Node &node, const Addresses &addresses) {
  const Driver &driver = device.driver;
  const CUgraphExec executable = graphs[node.graph].executable;
  if (const auto *copy = std::get_if<Copy>(&steps[node.step].work)) {
    const CUDA_MEMCPY3D what =
        copyOf(addresses(copy->target), addresses(copy->source), addresses.schedule.amounts[node.step]);
    Result<CUcontext> context = device.context();
    if (!context)
      return context.error();
    return device.check(driver.graphExecMemcpyNodeSetParams(executable, node.handles[0].second, &what, *context),
                        "cuGraphExecMemcpyNodeSetParams");
  }
  for (const auto &[number, handle] : node.handles) {
    const CUDA_KERNEL_NODE_PARAMS kernel = kernelOf(node.step, number, addresses.schedule);
    if (auto done = device.check(driver.graphExecKernelNodeSetParams(executable, handle, &kernel),
                                 "cuGraphExecKernelNodeSetParams");
        !done)
      return done;
  }
  return {};
}

Result<void> Replays::Recording::change(const Addresses &addresses, std::vector<size_t> &changing) {
  bool isSame = true;
  for (size_t i = 0; i < known.size(); ++i)
    isSame &= known[i] == addresses.at(i);
  if (isSame)
    return {};
  for (Node &node : nodes) {
    const Step &step = steps[node.step];
    Result<void> done = findParameters(node.step, addresses);
    if (done && parameters == node.parameters)
      continue;
    if (done && step.isCall()) {
      changing.push_back(node.step);
      continue;
    }
    if (done && changing.empty())
      done = set(node, addresses);
    if (!done)
      return Error{done.error().code, step.name + ": " + done.error().message};
    node.parameters = parameters;
  }
  remember(addresses);
  return {};
}

Result<void> Replays::Recording::launch(Stream &stream, const Addresses &addresses) const {
  for (const Part &part : parts) {
    const Result<void> done =
        part.isGraph
            ? device.check(device.driver.graphLaunch(graphs[part.number].executable, stream.handle), "cuGraphLaunch")
            : queueStep(stream, steps[part.number], part.number, addresses);
    if (!done)
      return done;
  }
  return {};
}

// ---- All recordings of a schedule

std::unique_ptr<Replays> Replays::of(Device &device, std::span<const Step> steps, const Schedule &schedule,
                                     bool calls) {
  std::vector<bool> outside(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto &work = steps[i].work;
    outside[i] =
        (steps[i].isCall() && !calls) || (std::holds_alternative<Copy>(work) && schedule.amounts[i] > mostBytes);
  }
  const std::vector<bool> in = inGraphs(steps, schedule, outside);
  size_t nodes = 0;
  for (size_t i = 0; i < steps.size(); ++i)
    nodes += in[i] ? nodesOf(steps[i], i, schedule) : 0;
  if (nodes < fewestNodes || !device.driver.hasGraphs())
    return nullptr;
  return std::unique_ptr<Replays>(new Replays(device, steps, std::move(outside)));
}

Replays::Replays(Device &device, std::span<const Step> steps, std::vector<bool> outside)
    : device(device), steps(steps), outside(std::move(outside)) {}
Replays::~Replays() = default;

// The recording for the call's workspace and constants, otherwise an empty one. NULL: none is to be used.
std::unique_ptr<Replays::Recording> Replays::take(const Addresses &addresses) {
  std::unique_ptr<Recording> dropped; // after the lock is released, because its end calls the driver
  std::lock_guard lock(mutex);
  if (givenUp || std::exchange(isFirst, false)) // many programs run once
    return nullptr;
  const auto found = std::ranges::find_if(idle, [&](const auto &each) { return each->isFor(addresses); });
  if (found != idle.end()) {
    std::unique_ptr<Recording> taken = std::move(*found);
    idle.erase(found);
    return taken;
  }
  if (made == mostEver || (count == mostRecordings && idle.empty())) // or other threads have them all
    return nullptr;
  auto fresh = std::make_unique<Recording>(device, steps);
  ++made;
  if (count == mostRecordings) { // the one that was not used for the longest time
    dropped = std::move(idle.front());
    idle.erase(idle.begin());
  } else {
    ++count;
  }
  return fresh;
}

// In the place of one that these calls keep from being changed. NULL: there were too many.
std::unique_ptr<Replays::Recording> Replays::makeAnew(std::span<const size_t> changing) {
  std::lock_guard lock(mutex);
  for (const size_t step : changing)
    outside[step] = true;
  if (made == mostEver) {
    --count;
    return nullptr;
  }
  ++made;
  return std::make_unique<Recording>(device, steps);
}

Result<void> Replays::record(Recording &recording, const Addresses &addresses) {
  std::vector<bool> now;
  {
    std::lock_guard lock(mutex);
    now = outside;
  }
  return recording.record(addresses, now);
}

void Replays::giveUp(const Error &error) {
  std::lock_guard lock(mutex);
  --count;
  if (!std::exchange(givenUp, true))
    log(MORTISE_WARNING, "calls are queued step by step, which is slower, because they could not be recorded as a "
                         "graph: " +
                             error.message);
}

Result<bool> Replays::queue(Stream &stream, const Addresses &addresses) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult asked = device.driver.streamIsCapturing(stream.handle, &status);
  if (asked != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)
    return false; // the application's own graph gets the steps, and what is wrong is told as they are queued
  std::unique_ptr<Recording> taken = take(addresses);
  if (taken && taken->isRecorded()) {
    std::vector<size_t> changing;
    const Result<void> changed = taken->change(addresses, changing);
    if (!changed)
      log(MORTISE_DEBUG, "a graph of calls is recorded again: " + changed.error().message);
    if (!changed || !changing.empty())
      taken = makeAnew(changing);
  }
  if (!taken)
    return false;
  if (!taken->isRecorded())
    if (auto recorded = record(*taken, addresses); !recorded) {
      giveUp(recorded.error());
      return false;
    }
  Result<void> launched = taken->launch(stream, addresses);
  std::lock_guard lock(mutex);
  idle.push_back(std::move(taken));
  if (!launched)
    return launched.error();
  return true;
}

} // namespace mortise::cuda
