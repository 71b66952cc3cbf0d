// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver's functions, looked up in its library at run time, so that the plugin loads on machines without a driver;
// and what its results mean. A test puts another library in its place (the option `driver`).
#pragma once

#include <mortise/result.hpp>

#include <cuda.h>

#include <memory>
#include <string>

namespace mortise::cuda {

// X(member, declaration in cuda.h, exported symbol). Symbols carry the version of the function's arguments, which
// cuda.h hides behind macros.
#define MORTISE_CUDA_FUNCTIONS(X)                                                                                      \
  X(init, cuInit, "cuInit")                                                                                            \
  X(driverGetVersion, cuDriverGetVersion, "cuDriverGetVersion")                                                        \
  X(getErrorName, cuGetErrorName, "cuGetErrorName")                                                                    \
  X(getErrorString, cuGetErrorString, "cuGetErrorString")                                                              \
  X(deviceGetCount, cuDeviceGetCount, "cuDeviceGetCount")                                                              \
  X(deviceGet, cuDeviceGet, "cuDeviceGet")                                                                             \
  X(deviceGetName, cuDeviceGetName, "cuDeviceGetName")                                                                 \
  X(deviceTotalMem, cuDeviceTotalMem, "cuDeviceTotalMem_v2")                                                           \
  X(deviceGetAttribute, cuDeviceGetAttribute, "cuDeviceGetAttribute")                                                  \
  X(deviceCanAccessPeer, cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer")                                               \
  X(devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                      \
  X(ctxGetCurrent, cuCtxGetCurrent, "cuCtxGetCurrent")                                                                 \
  X(ctxSetCurrent, cuCtxSetCurrent, "cuCtxSetCurrent")                                                                 \
  X(ctxEnablePeerAccess, cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess")                                               \
  X(streamCreate, cuStreamCreate, "cuStreamCreate")                                                                    \
  X(streamDestroy, cuStreamDestroy, "cuStreamDestroy_v2")                                                              \
  X(streamSynchronize, cuStreamSynchronize, "cuStreamSynchronize")                                                     \
  X(streamQuery, cuStreamQuery, "cuStreamQuery")                                                                       \
  X(streamWaitEvent, cuStreamWaitEvent, "cuStreamWaitEvent")                                                           \
  X(eventCreate, cuEventCreate, "cuEventCreate")                                                                       \
  X(eventDestroy, cuEventDestroy, "cuEventDestroy_v2")                                                                 \
  X(eventRecord, cuEventRecord, "cuEventRecord")                                                                       \
  X(eventQuery, cuEventQuery, "cuEventQuery")                                                                          \
  X(eventSynchronize, cuEventSynchronize, "cuEventSynchronize")                                                        \
  X(eventElapsedTime, cuEventElapsedTime, "cuEventElapsedTime")                                                        \
  X(memAlloc, cuMemAlloc, "cuMemAlloc_v2")                                                                             \
  X(memFree, cuMemFree, "cuMemFree_v2")                                                                                \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")                                                        \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")                                                        \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2")                                                        \
  X(memcpyPeerAsync, cuMemcpyPeerAsync, "cuMemcpyPeerAsync")                                                           \
  X(memsetD8Async, cuMemsetD8Async, "cuMemsetD8Async")                                                                 \
  X(memHostRegister, cuMemHostRegister, "cuMemHostRegister_v2")                                                        \
  X(memHostUnregister, cuMemHostUnregister, "cuMemHostUnregister")                                                     \
  X(moduleLoadDataEx, cuModuleLoadDataEx, "cuModuleLoadDataEx")                                                        \
  X(moduleUnload, cuModuleUnload, "cuModuleUnload")                                                                    \
  X(moduleGetFunction, cuModuleGetFunction, "cuModuleGetFunction")                                                     \
  X(funcSetAttribute, cuFuncSetAttribute, "cuFuncSetAttribute")                                                        \
  X(launchKernel, cuLaunchKernel, "cuLaunchKernel")

// Younger than the oldest driver that the plugin takes; NULL where the driver has none.
#define MORTISE_CUDA_OPTIONAL_FUNCTIONS(X)                                                                             \
  X(deviceGetUuid, cuDeviceGetUuid, "cuDeviceGetUuid_v2")                                                              \
  X(deviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool")                                   \
  X(memPoolSetAttribute, cuMemPoolSetAttribute, "cuMemPoolSetAttribute")                                               \
  X(memPoolSetAccess, cuMemPoolSetAccess, "cuMemPoolSetAccess")                                                        \
  X(memAllocAsync, cuMemAllocAsync, "cuMemAllocAsync")                                                                 \
  X(memFreeAsync, cuMemFreeAsync, "cuMemFreeAsync")                                                                    \
  X(libraryLoadData, cuLibraryLoadData, "cuLibraryLoadData")                                                           \
  X(libraryUnload, cuLibraryUnload, "cuLibraryUnload")                                                                 \
  X(libraryGetKernel, cuLibraryGetKernel, "cuLibraryGetKernel")                                                        \
  X(kernelGetFunction, cuKernelGetFunction, "cuKernelGetFunction")                                                     \
  X(graphAddDependencies, cuGraphAddDependencies, "cuGraphAddDependencies_v2")                                         \
  MORTISE_CUDA_GRAPH_FUNCTIONS(X)

// CUDA 12.
#define MORTISE_CUDA_GRAPH_FUNCTIONS(X)                                                                                \
  X(graphCreate, cuGraphCreate, "cuGraphCreate")                                                                       \
  X(graphDestroy, cuGraphDestroy, "cuGraphDestroy")                                                                    \
  X(graphAddKernelNode, cuGraphAddKernelNode, "cuGraphAddKernelNode_v2")                                               \
  X(graphAddMemcpyNode, cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")                                                  \
  X(graphAddChildGraphNode, cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode")                                      \
  X(graphInstantiate, cuGraphInstantiate, "cuGraphInstantiateWithFlags")                                               \
  X(graphExecDestroy, cuGraphExecDestroy, "cuGraphExecDestroy")                                                        \
  X(graphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2")                 \
  X(graphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams")                    \
  X(graphLaunch, cuGraphLaunch, "cuGraphLaunch")                                                                       \
  X(streamBeginCapture, cuStreamBeginCapture, "cuStreamBeginCapture_v2")                                               \
  X(streamEndCapture, cuStreamEndCapture, "cuStreamEndCapture")                                                        \
  X(streamIsCapturing, cuStreamIsCapturing, "cuStreamIsCapturing")                                                     \
  X(threadExchangeCaptureMode, cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode")

struct Driver {
#define MORTISE_CUDA_MEMBER(member, declaration, symbol) decltype(&::declaration) member = nullptr;
  MORTISE_CUDA_FUNCTIONS(MORTISE_CUDA_MEMBER)
  MORTISE_CUDA_OPTIONAL_FUNCTIONS(MORTISE_CUDA_MEMBER)
#undef MORTISE_CUDA_MEMBER
  int version = 0; // as cuda.h writes it: 13000

  // Opens the library and initialises the driver. The library is never closed. Errors: MORTISE_NOT_FOUND (there is no
  // driver, or no GPU), MORTISE_VERSION_MISMATCH (the driver is too old).
  static Result<std::unique_ptr<Driver>> open(const std::string &library);

  bool hasPools() const { return deviceGetDefaultMemPool && memPoolSetAttribute && memAllocAsync && memFreeAsync; }
  bool hasLibraries() const { return libraryLoadData && libraryUnload && libraryGetKernel && kernelGetFunction; }
  bool hasGraphs() const {
#define MORTISE_CUDA_HAS(member, declaration, symbol) member &&
    return MORTISE_CUDA_GRAPH_FUNCTIONS(MORTISE_CUDA_HAS) true;
#undef MORTISE_CUDA_HAS
  }

  // What the result of `call` means, as a status: the driver's name for it, and what to do. MORTISE_DEVICE_LOST says
  // that the driver answers every later call of the process on this device so.
  Result<void> check(CUresult result, const char *call) const;
};

} // namespace mortise::cuda
