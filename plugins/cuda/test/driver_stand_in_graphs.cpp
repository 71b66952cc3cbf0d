// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs and captured streams of the driver's stand-in. A graph happens when it is launched, with the parameters that
// its nodes have then, and nodes that no edge orders happen in the wrong order.
#include "driver_stand_in_state.hpp"

#include <algorithm>

using namespace mortise::test;

namespace {

thread_local CUstreamCaptureMode threadMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// What may wait for the device, in a thread that does not say that it may: captures of others are lost by that.
bool disturbsOthers() {
  bool any = false;
  for (CUstream stream : standIn().streams)
    if (stream->captured && stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
        threadMode == CU_STREAM_CAPTURE_MODE_GLOBAL)
      any = stream->invalid = true;
  return any;
}

// Of those nodes that may come next the one that was added last.
std::vector<std::pair<CUgraphNode, Work>> ordered(CUgraph graph) {
  std::vector<std::pair<CUgraphNode, Work>> order;
  std::set<CUgraphNode> done;
  while (order.size() < graph->nodes.size()) {
    const auto next = std::find_if(graph->nodes.rbegin(), graph->nodes.rend(), [&](const auto &node) {
      return !done.contains(node.get()) &&
             std::ranges::all_of(node->behind, [&](CUgraphNode each) { return done.contains(each); });
    });
    if (next == graph->nodes.rend())
      std::abort(); // a circle
    done.insert(next->get());
    order.push_back({next->get(), (*next)->work});
  }
  return order;
}

Work workOf(CUgraph graph) {
  Work work{Work::Child, "", {}, {}};
  for (auto &[node, each] : ordered(graph))
    work.children.push_back(std::move(each));
  return work;
}

bool isLine(const CUDA_MEMCPY3D &copy) {
  return copy.Height == 1 && copy.Depth == 1 && copy.WidthInBytes > 0 && copy.srcMemoryType == CU_MEMORYTYPE_DEVICE &&
         copy.dstMemoryType == CU_MEMORYTYPE_DEVICE;
}
CUresult replace(CUgraphExec executable, CUgraphNode node, Work work) {
  const auto found = std::ranges::find(executable->work, node, &std::pair<CUgraphNode, Work>::first);
  if (found == executable->work.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (found->second.kind != work.kind)
    return CUDA_ERROR_INVALID_VALUE;
  found->second = std::move(work);
  return CUDA_SUCCESS;
}

} // namespace

#pragma GCC visibility push(default)

CUresult cuGraphCreate(CUgraph *graph, unsigned) {
  ENTER("cuGraphCreate", "");
  *graph = new CUgraph_st;
  standIn().graphs.insert(*graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  ENTER("cuGraphDestroy", "");
  if (standIn().graphs.erase(graph) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS *what) {
  ENTER("cuGraphAddKernelNode_v2", "");
  NEEDS_CONTEXT;
  if (!isLaunchable(what->func, what->gridDimX, what->blockDimX, what->sharedMemBytes))
    return CUDA_ERROR_INVALID_VALUE;
  *node = add(graph, behind, count,
              kernel(what->func, what->gridDimX, what->blockDimX, what->sharedMemBytes, what->kernelParams));
  (*node)->waits = what->func->waits;
  return CUDA_SUCCESS;
}
// Only between kernels may an edge be programmatic, and only one that waits is right behind it.
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                const CUgraphEdgeData *edge, size_t count) {
  ENTER("cuGraphAddDependencies_v2", "");
  for (size_t i = 0; i < count; ++i) {
    const bool isProgrammatic = edge[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    if (from[i]->graph != graph || to[i]->graph != graph ||
        isProgrammatic != (edge[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC) ||
        (isProgrammatic && (from[i]->work.kind != Work::Kernel || !to[i]->waits)))
      return CUDA_ERROR_INVALID_VALUE;
    to[i]->behind.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}
CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind, size_t count,
                              const CUDA_MEMCPY3D *what, CUcontext context) {
  ENTER("cuGraphAddMemcpyNode", "");
  if (!context || !isLine(*what))
    return CUDA_ERROR_INVALID_VALUE;
  *node = add(graph, behind, count, copyWork(what->dstDevice, what->srcDevice, what->WidthInBytes));
  return CUDA_SUCCESS;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind, size_t count,
                                  CUgraph child) {
  ENTER("cuGraphAddChildGraphNode", "");
  *node = add(graph, behind, count, workOf(child));
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags", "");
  NEEDS_CONTEXT;
  if (disturbsOthers())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *executable = new CUgraphExec_st{ordered(graph)};
  standIn().executables.insert(*executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  ENTER("cuGraphExecDestroy", "");
  if (standIn().executables.erase(executable) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  delete executable;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *what) {
  ENTER("cuGraphExecKernelNodeSetParams_v2", "");
  if (!isLaunchable(what->func, what->gridDimX, what->blockDimX, what->sharedMemBytes))
    return CUDA_ERROR_INVALID_VALUE;
  return replace(executable, node,
                 kernel(what->func, what->gridDimX, what->blockDimX, what->sharedMemBytes, what->kernelParams));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *what,
                                        CUcontext context) {
  ENTER("cuGraphExecMemcpyNodeSetParams", "");
  if (!context || !isLine(*what))
    return CUDA_ERROR_INVALID_VALUE;
  return replace(executable, node, copyWork(what->dstDevice, what->srcDevice, what->WidthInBytes));
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER("cuGraphLaunch", text(stream));
  NEEDS_CONTEXT;
  if (!standIn().executables.contains(executable))
    return CUDA_ERROR_INVALID_VALUE;
  Work work{Work::Child, "", {}, {}};
  for (const auto &[node, each] : executable->work)
    work.children.push_back(each);
  return queue(stream, std::move(work));
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  ENTER("cuThreadExchangeStreamCaptureMode", "");
  std::swap(*mode, threadMode);
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  ENTER("cuStreamBeginCapture_v2", text(stream));
  NEEDS_CONTEXT;
  if (!stream) // the default stream cannot be
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->captured)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->captured = new CUgraph_st;
  stream->invalid = false;
  stream->mode = mode;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  ENTER("cuStreamEndCapture", text(stream));
  *graph = nullptr;
  if (!stream || !stream->captured)
    return CUDA_ERROR_ILLEGAL_STATE;
  const std::unique_ptr<CUgraph_st> made(std::exchange(stream->captured, nullptr));
  if (stream->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *graph = new CUgraph_st;
  (*graph)->nodes = std::move(made->nodes);
  standIn().graphs.insert(*graph);
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  ENTER("cuStreamIsCapturing", text(stream));
  *status = !stream || !stream->captured ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->invalid            ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

#pragma GCC visibility pop
