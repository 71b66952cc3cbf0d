// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin uses of HIP's runtime, declared from its documentation (rocm.docs.amd.com/projects/HIP), because the
// headers come with ROCm only. The numbers are those of HIP 5.2, which tests/rocm compares with Debian's header where
// that is installed; those of attributes are the same up to HIP 7.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::rocm::hip {

using Stream = struct StreamObject *;     // hipStream_t
using Event = struct EventObject *;       // hipEvent_t
using Module = struct ModuleObject *;     // hipModule_t
using Function = struct FunctionObject *; // hipFunction_t
using Pool = struct PoolObject *;         // hipMemPool_t

enum Status : int { // hipError_t
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  InvalidConfiguration = 9,
  InvalidDevicePointer = 17,
  InvalidMemcpyDirection = 21,
  InsufficientDriver = 35,
  InvalidDeviceFunction = 98,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  MapFailed = 205,
  NoBinaryForGpu = 209,
  ECCNotCorrectable = 214,
  PeerAccessUnsupported = 217,
  InvalidKernelFile = 218,
  FileNotFound = 301,
  SharedObjectSymbolNotFound = 302,
  SharedObjectInitFailed = 303,
  OperatingSystem = 304,
  InvalidHandle = 400,
  IllegalState = 401,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeOut = 702,
  PeerAccessAlreadyEnabled = 704,
  PeerAccessNotEnabled = 705,
  ContextIsDestroyed = 709,
  Assert = 710,
  HostMemoryAlreadyRegistered = 712,
  HostMemoryNotRegistered = 713,
  LaunchFailure = 719,
  CooperativeLaunchTooLarge = 720,
  NotSupported = 801,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureMerge = 902,
  StreamCaptureUnmatched = 903,
  StreamCaptureUnjoined = 904,
  StreamCaptureIsolation = 905,
  StreamCaptureImplicit = 906,
  CapturedEvent = 907,
  StreamCaptureWrongThread = 908,
  Unknown = 999,
  RuntimeMemory = 1052,
  RuntimeOther = 1053,
};

enum Attribute : int { // hipDeviceAttribute_t
  ClockRate = 5,       // kHz
  MaxThreadsPerBlock = 56,
  MemoryBusWidth = 59,  // bits
  MemoryClockRate = 60, // kHz
  MultiprocessorCount = 63,
  WarpSize = 87,
  MemoryPoolsSupported = 88,
};

constexpr unsigned streamNonBlocking = 1, eventDefault = 0, hostRegisterPortable = 1;

constexpr int poolReleaseThreshold = 4; // hipMemPoolAttr; a uint64_t
constexpr int locationDevice = 1;       // hipMemLocationType
constexpr int accessReadWrite = 3;      // hipMemAccessFlags
struct PoolAccess {                     // hipMemAccessDesc
  int locationType, device, flags;
};

// hipDeviceProp_t, of which the plugin wants gcnArchName alone: 256 characters at an offset that version 6 changed. The
// symbol of the function says which struct it fills.
struct PropertiesLayout {
  const char *symbol;
  size_t architecture; // bytes
};
constexpr PropertiesLayout propertiesLayouts[] = {{"hipGetDevicePropertiesR0600", 1160}, // HIP 6 and newer
                                                  {"hipGetDeviceProperties", 396}};      // HIP 5
constexpr size_t architectureBytes = 256, propertiesBytes = 4096;                        // more than any version fills

// X(member, arguments, symbol).
#define MORTISE_HIP_FUNCTIONS(X)                                                                                       \
  X(init, (unsigned flags), "hipInit")                                                                                 \
  X(runtimeGetVersion, (int *version), "hipRuntimeGetVersion")                                                         \
  X(getLastError, (), "hipGetLastError")                                                                               \
  X(getDeviceCount, (int *count), "hipGetDeviceCount")                                                                 \
  X(deviceGet, (int *device, int ordinal), "hipDeviceGet")                                                             \
  X(deviceGetName, (char *name, int bytes, int device), "hipDeviceGetName")                                            \
  X(deviceTotalMem, (size_t *bytes, int device), "hipDeviceTotalMem")                                                  \
  X(deviceGetAttribute, (int *value, int attribute, int device), "hipDeviceGetAttribute")                              \
  X(getDevice, (int *device), "hipGetDevice")                                                                          \
  X(setDevice, (int device), "hipSetDevice")                                                                           \
  X(deviceCanAccessPeer, (int *can, int device, int peer), "hipDeviceCanAccessPeer")                                   \
  X(deviceEnablePeerAccess, (int peer, unsigned flags), "hipDeviceEnablePeerAccess")                                   \
  X(streamCreate, (Stream * stream, unsigned flags), "hipStreamCreateWithFlags")                                       \
  X(streamDestroy, (Stream stream), "hipStreamDestroy")                                                                \
  X(streamSynchronize, (Stream stream), "hipStreamSynchronize")                                                        \
  X(streamQuery, (Stream stream), "hipStreamQuery")                                                                    \
  X(streamWaitEvent, (Stream stream, Event event, unsigned flags), "hipStreamWaitEvent")                               \
  X(eventCreate, (Event * event, unsigned flags), "hipEventCreateWithFlags")                                           \
  X(eventDestroy, (Event event), "hipEventDestroy")                                                                    \
  X(eventRecord, (Event event, Stream stream), "hipEventRecord")                                                       \
  X(eventQuery, (Event event), "hipEventQuery")                                                                        \
  X(eventSynchronize, (Event event), "hipEventSynchronize")                                                            \
  X(eventElapsedTime, (float *milliseconds, Event begin, Event end), "hipEventElapsedTime")                            \
  X(malloc, (void **address, size_t bytes), "hipMalloc")                                                               \
  X(free, (void *address), "hipFree")                                                                                  \
  X(memcpyHtoDAsync, (void *target, void *source, size_t bytes, Stream stream), "hipMemcpyHtoDAsync")                  \
  X(memcpyDtoHAsync, (void *target, void *source, size_t bytes, Stream stream), "hipMemcpyDtoHAsync")                  \
  X(memcpyDtoDAsync, (void *target, void *source, size_t bytes, Stream stream), "hipMemcpyDtoDAsync")                  \
  X(memcpyPeerAsync, (void *target, int to, const void *source, int from, size_t bytes, Stream stream),                \
    "hipMemcpyPeerAsync")                                                                                              \
  X(hostRegister, (void *memory, size_t bytes, unsigned flags), "hipHostRegister")                                     \
  X(hostUnregister, (void *memory), "hipHostUnregister")                                                               \
  X(moduleLoadData, (Module * module, const void *image), "hipModuleLoadData")                                         \
  X(moduleUnload, (Module module), "hipModuleUnload")                                                                  \
  X(moduleGetFunction, (Function * function, Module module, const char *name), "hipModuleGetFunction")                 \
  X(moduleLaunchKernel,                                                                                                \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,              \
     unsigned blockZ, unsigned sharedBytes, Stream stream, void **arguments, void **extra),                            \
    "hipModuleLaunchKernel")

// Younger than HIP 5.0; NULL where the library has none.
#define MORTISE_HIP_OPTIONAL_FUNCTIONS(X)                                                                              \
  X(deviceGetUuid, (char (*uuid)[16], int device), "hipDeviceGetUuid")                                                 \
  X(deviceGetDefaultMemPool, (Pool * pool, int device), "hipDeviceGetDefaultMemPool")                                  \
  X(memPoolSetAttribute, (Pool pool, int attribute, void *value), "hipMemPoolSetAttribute")                            \
  X(memPoolSetAccess, (Pool pool, const PoolAccess *access, size_t count), "hipMemPoolSetAccess")                      \
  X(mallocAsync, (void **address, size_t bytes, Stream stream), "hipMallocAsync")                                      \
  X(freeAsync, (void *address, Stream stream), "hipFreeAsync")

struct Functions {
#define MORTISE_HIP_MEMBER(member, arguments, symbol) Status(*member) arguments = nullptr;
  MORTISE_HIP_FUNCTIONS(MORTISE_HIP_MEMBER)
  MORTISE_HIP_OPTIONAL_FUNCTIONS(MORTISE_HIP_MEMBER)
#undef MORTISE_HIP_MEMBER
  const char *(*getErrorName)(Status) = nullptr;
  const char *(*getErrorString)(Status) = nullptr;
  Status (*getProperties)(void *properties, int device) = nullptr;
};

} // namespace mortise::rocm::hip
