// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "replay.hpp"

#include "call.hpp"

#include <algorithm>

namespace mortise::cuda {

namespace {

constexpr size_t fewestNodes = 4; // fewer launches cost less than the one of a graph
// Of one schedule. Callers' addresses often come back by turns: a result is alive while the next one is computed.
constexpr size_t mostGraphs = 4;
constexpr uint64_t mostBytes = (UINT64_C(1) << 31) - 1; // of a copy, which a graph describes as a line of a picture

CUDA_MEMCPY3D copyOf(MortiseAddress target, MortiseAddress source, uint64_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = source;
  copy.dstDevice = target;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

} // namespace

// ---- One graph

class Replays::Recording {
public:
  Recording(Device &device, std::span<const Step> steps) : device(device), steps(steps) {}
  Recording(const Recording &) = delete;
  ~Recording() {
    const Driver &driver = device.driver;
    Result<Entered> entered = Entered::into(device);
    if (!entered) // with the context went its graphs
      return;
    if (executable) // one in flight is freed when it has happened
      (void)device.check(driver.graphExecDestroy(executable), "cuGraphExecDestroy");
    if (graph)
      (void)device.check(driver.graphDestroy(graph), "cuGraphDestroy");
  }

  // For a call. After an error the object is of no use.
  Result<void> record(const Addresses &addresses);
  Result<void> change(const Addresses &addresses);
  bool isRecorded() const { return executable != nullptr; }
  // Whether it was last recorded or changed for these addresses.
  bool suits(const Addresses &addresses) const {
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i] != addresses.at(i))
        return false;
    return isRecorded();
  }
  Result<void> launch(Stream &stream) {
    return device.check(device.driver.graphLaunch(executable, stream.handle), "cuGraphLaunch");
  }

private:
  struct Node { // or several, of the kernels of one launch
    size_t step = 0;
    std::vector<uint64_t> parameters;                    // all that calls may change
    std::vector<std::pair<size_t, CUgraphNode>> handles; // with the number of the kernel
  };
  Result<void> findParameters(const Step &step, const Addresses &addresses);
  Result<void> add(Node &node, const Addresses &addresses);
  Result<void> set(const Node &node, const Addresses &addresses);
  CUDA_KERNEL_NODE_PARAMS kernelOf(size_t step, size_t number, const Schedule &schedule);
  Result<CUgraph> productOf(size_t step, const Addresses &addresses) const;
  void remember(const Addresses &addresses) {
    known.resize(addresses.count());
    for (size_t i = 0; i < known.size(); ++i)
      known[i] = addresses.at(i);
  }

  Device &device;
  const std::span<const Step> steps;
  CUgraph graph = nullptr; // stays, because its nodes name those of the executable
  CUgraphExec executable = nullptr;
  std::vector<Node> nodes;
  std::vector<MortiseAddress> known;
  std::vector<uint64_t> parameters; // of the step at hand
  LaunchArguments arguments;        // likewise
};

Result<void> Replays::Recording::findParameters(const Step &step, const Addresses &addresses) {
  parameters.clear();
  if (const auto *launch = std::get_if<Launch>(&step.work)) {
    if (auto done = arguments.set(*launch, addresses); !done)
      return done;
    parameters.assign(arguments.values().begin(), arguments.values().end());
    parameters.push_back(addressOf(arguments.entries)); // two forms of the code
  } else if (const auto *copy = std::get_if<Copy>(&step.work)) {
    parameters = {addresses(copy->target), addresses(copy->source)};
  } else {
    const ProductMemory memory = addresses(std::get<Product>(step.work));
    parameters = {memory.a, memory.b, memory.c, memory.bias, memory.workspace};
  }
  return {};
}

CUDA_KERNEL_NODE_PARAMS Replays::Recording::kernelOf(size_t step, size_t number, const Schedule &schedule) {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = (*arguments.entries)[number];
  kernel.gridDimX = static_cast<unsigned>(schedule.grids[step][number]);
  kernel.blockDimX = std::get<Launch>(steps[step].work).function->code().launches[number].threads;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = arguments.pointers();
  return kernel;
}

// The library can only queue, which is captured, product by product, so that each can be changed alone, and so that
// nothing of the process is captured for long: a wait for the device fails meanwhile.
Result<CUgraph> Replays::Recording::productOf(size_t step, const Addresses &addresses) const {
  return device.captured([&](CUstream handle) {
    Stream stream(device, handle, true);
    return queueProduct(stream, addresses.schedule.products[step], addresses(std::get<Product>(steps[step].work)));
  });
}

// Behind the last node: the steps' order is that of the stream.
Result<void> Replays::Recording::add(Node &node, const Addresses &addresses) {
  const Driver &driver = device.driver;
  const Step &step = steps[node.step];
  const CUgraphNode *behind = nodes.empty() ? nullptr : &nodes.back().handles.back().second;
  const auto make = [&](size_t number, const char *name, auto call) -> Result<void> {
    CUgraphNode made = nullptr;
    const CUgraphNode *last = node.handles.empty() ? behind : &node.handles.back().second;
    if (auto done = device.check(call(&made, last, size_t{last ? 1u : 0u}), name); !done)
      return done;
    node.handles.push_back({number, made});
    return {};
  };
  if (const auto *copy = std::get_if<Copy>(&step.work)) {
    const CUDA_MEMCPY3D what =
        copyOf(addresses(copy->target), addresses(copy->source), addresses.schedule.amounts[node.step]);
    Result<CUcontext> context = device.context();
    if (!context)
      return context.error();
    return make(0, "cuGraphAddMemcpyNode", [&](CUgraphNode *made, const CUgraphNode *last, size_t edges) {
      return driver.graphAddMemcpyNode(made, graph, last, edges, &what, *context);
    });
  }
  if (std::holds_alternative<Product>(step.work)) {
    Result<CUgraph> product = productOf(node.step, addresses);
    if (!product)
      return product.error();
    Result<void> done =
        make(0, "cuGraphAddChildGraphNode", [&](CUgraphNode *made, const CUgraphNode *last, size_t edges) {
          return driver.graphAddChildGraphNode(made, graph, last, edges, *product);
        });
    driver.graphDestroy(*product); // the node has a copy
    return done;
  }
  const std::vector<uint64_t> &grids = addresses.schedule.grids[node.step];
  for (size_t number = 0; number < grids.size(); ++number) {
    if (grids[number] == 0)
      continue;
    const CUDA_KERNEL_NODE_PARAMS kernel = kernelOf(node.step, number, addresses.schedule);
    auto done = make(number, "cuGraphAddKernelNode", [&](CUgraphNode *made, const CUgraphNode *last, size_t edges) {
      return driver.graphAddKernelNode(made, graph, last, edges, &kernel);
    });
    if (!done)
      return done;
  }
  return {};
}

Result<void> Replays::Recording::record(const Addresses &addresses) {
  const Driver &driver = device.driver;
  if (auto made = device.check(driver.graphCreate(&graph, 0), "cuGraphCreate"); !made)
    return made;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (addresses.schedule.amounts[i] == 0)
      continue;
    Node node{i, {}, {}};
    Result<void> done = findParameters(steps[i], addresses);
    if (done)
      done = add(node, addresses);
    if (!done)
      return Error{done.error().code, steps[i].name + ": " + done.error().message};
    node.parameters = parameters;
    nodes.push_back(std::move(node));
  }
  if (auto made = device.check(driver.graphInstantiate(&executable, graph, 0), "cuGraphInstantiate"); !made)
    return made;
  remember(addresses);
  return {};
}

Result<void> Replays::Recording::set(const Node &node, const Addresses &addresses) {
  const Driver &driver = device.driver;
  const Step &step = steps[node.step];
  if (const auto *copy = std::get_if<Copy>(&step.work)) {
    const CUDA_MEMCPY3D what =
        copyOf(addresses(copy->target), addresses(copy->source), addresses.schedule.amounts[node.step]);
    Result<CUcontext> context = device.context();
    if (!context)
      return context.error();
    return device.check(driver.graphExecMemcpyNodeSetParams(executable, node.handles[0].second, &what, *context),
                        "cuGraphExecMemcpyNodeSetParams");
  }
  if (std::holds_alternative<Product>(step.work)) {
    Result<CUgraph> product = productOf(node.step, addresses);
    if (!product)
      return product.error();
    Result<void> done =
        device.check(driver.graphExecChildGraphNodeSetParams(executable, node.handles[0].second, *product),
                     "cuGraphExecChildGraphNodeSetParams");
    driver.graphDestroy(*product);
    return done;
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

Result<void> Replays::Recording::change(const Addresses &addresses) {
  for (Node &node : nodes) {
    Result<void> done = findParameters(steps[node.step], addresses);
    if (done && parameters == node.parameters)
      continue;
    if (done)
      done = set(node, addresses);
    if (!done)
      return Error{done.error().code, steps[node.step].name + ": " + done.error().message};
    node.parameters = parameters;
  }
  remember(addresses);
  return {};
}

// ---- All graphs of a schedule

std::unique_ptr<Replays> Replays::of(Device &device, std::span<const Step> steps, const Schedule &schedule) {
  size_t nodes = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::holds_alternative<Launch>(steps[i].work))
      nodes += static_cast<size_t>(std::ranges::count_if(schedule.grids[i], [](uint64_t grid) { return grid != 0; }));
    else
      nodes += schedule.amounts[i] != 0;
    if (std::holds_alternative<Copy>(steps[i].work) && schedule.amounts[i] > mostBytes)
      return nullptr;
  }
  if (nodes < fewestNodes || !device.driver.hasGraphs())
    return nullptr;
  return std::unique_ptr<Replays>(new Replays(device, steps));
}

Replays::Replays(Device &device, std::span<const Step> steps) : device(device), steps(steps) {}
Replays::~Replays() = default;

// The graph that suits the call, otherwise an empty one as long as there may be more, otherwise the one that was not
// used for the longest time. NULL: none is to be used.
std::unique_ptr<Replays::Recording> Replays::take(const Addresses &addresses) {
  std::lock_guard lock(mutex);
  if (givenUp || std::exchange(isFirst, false)) // many programs run once
    return nullptr;
  auto found = std::ranges::find_if(idle, [&](const auto &each) { return each->suits(addresses); });
  if (found == idle.end()) {
    if (count < mostGraphs) {
      auto made = std::make_unique<Recording>(device, steps);
      ++count;
      return made;
    }
    found = idle.begin();
  }
  if (found == idle.end())
    return nullptr; // other threads have them all
  std::unique_ptr<Recording> taken = std::move(*found);
  idle.erase(found);
  return taken;
}

// A graph that cannot be changed, because the library has other kernels for the new addresses, say, is made anew.
Result<std::unique_ptr<Replays::Recording>> Replays::suited(std::unique_ptr<Recording> recording,
                                                            const Addresses &addresses) const {
  if (recording->isRecorded()) {
    if (recording->suits(addresses))
      return recording;
    const Result<void> changed = recording->change(addresses);
    if (changed)
      return recording;
    log(MORTISE_DEBUG, "a graph of calls is recorded again: " + changed.error().message);
    recording = std::make_unique<Recording>(device, steps);
  }
  if (auto recorded = recording->record(addresses); !recorded)
    return recorded.error();
  return recording;
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
  if (!taken)
    return false;
  Result<std::unique_ptr<Recording>> ready = suited(std::move(taken), addresses);
  if (!ready) {
    giveUp(ready.error());
    return false;
  }
  Result<void> launched = (*ready)->launch(stream);
  std::lock_guard lock(mutex);
  idle.push_back(std::move(*ready));
  if (!launched)
    return launched.error();
  return true;
}

} // namespace mortise::cuda
