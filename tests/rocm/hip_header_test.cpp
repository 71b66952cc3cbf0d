// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plugins/rocm/hip.hpp declares is what HIP's own header does (Debian libamdhip64-dev, HIP 5.2).
#define __HIP_PLATFORM_AMD__
#include <cstddef>
#include <hip/hip_runtime_api.h>

#include "../../plugins/rocm/hip.hpp"

#include <gtest/gtest.h>

namespace hip = mortise::rocm::hip;

#define SAME_STATUS(name) static_assert(int(hip::name) == int(hipError##name))
static_assert(int(hip::Success) == int(hipSuccess));
SAME_STATUS(InvalidValue);
SAME_STATUS(OutOfMemory);
SAME_STATUS(NotInitialized);
SAME_STATUS(Deinitialized);
SAME_STATUS(InvalidConfiguration);
SAME_STATUS(InvalidDevicePointer);
SAME_STATUS(InvalidMemcpyDirection);
SAME_STATUS(InsufficientDriver);
SAME_STATUS(InvalidDeviceFunction);
SAME_STATUS(NoDevice);
SAME_STATUS(InvalidDevice);
SAME_STATUS(InvalidImage);
SAME_STATUS(InvalidContext);
SAME_STATUS(MapFailed);
SAME_STATUS(NoBinaryForGpu);
SAME_STATUS(ECCNotCorrectable);
SAME_STATUS(PeerAccessUnsupported);
SAME_STATUS(InvalidKernelFile);
SAME_STATUS(FileNotFound);
SAME_STATUS(SharedObjectSymbolNotFound);
SAME_STATUS(SharedObjectInitFailed);
SAME_STATUS(OperatingSystem);
SAME_STATUS(InvalidHandle);
SAME_STATUS(IllegalState);
SAME_STATUS(NotFound);
SAME_STATUS(NotReady);
SAME_STATUS(IllegalAddress);
SAME_STATUS(LaunchOutOfResources);
SAME_STATUS(LaunchTimeOut);
SAME_STATUS(PeerAccessAlreadyEnabled);
SAME_STATUS(PeerAccessNotEnabled);
SAME_STATUS(ContextIsDestroyed);
SAME_STATUS(Assert);
SAME_STATUS(HostMemoryAlreadyRegistered);
SAME_STATUS(HostMemoryNotRegistered);
SAME_STATUS(LaunchFailure);
SAME_STATUS(CooperativeLaunchTooLarge);
SAME_STATUS(NotSupported);
SAME_STATUS(StreamCaptureUnsupported);
SAME_STATUS(StreamCaptureInvalidated);
SAME_STATUS(StreamCaptureMerge);
SAME_STATUS(StreamCaptureUnmatched);
SAME_STATUS(StreamCaptureUnjoined);
SAME_STATUS(StreamCaptureIsolation);
SAME_STATUS(StreamCaptureImplicit);
SAME_STATUS(CapturedEvent);
SAME_STATUS(StreamCaptureWrongThread);
SAME_STATUS(Unknown);
SAME_STATUS(RuntimeMemory);
SAME_STATUS(RuntimeOther);

#define SAME_ATTRIBUTE(name) static_assert(int(hip::name) == int(hipDeviceAttribute##name))
SAME_ATTRIBUTE(ClockRate);
SAME_ATTRIBUTE(MaxThreadsPerBlock);
SAME_ATTRIBUTE(MemoryBusWidth);
SAME_ATTRIBUTE(MemoryClockRate);
SAME_ATTRIBUTE(MultiprocessorCount);
SAME_ATTRIBUTE(WarpSize);
SAME_ATTRIBUTE(MemoryPoolsSupported);

static_assert(hip::streamNonBlocking == hipStreamNonBlocking && hip::eventDefault == hipEventDefault);
static_assert(hip::hostRegisterPortable == hipHostRegisterPortable);
static_assert(hip::poolReleaseThreshold == hipMemPoolAttrReleaseThreshold);
static_assert(hip::locationDevice == hipMemLocationTypeDevice &&
              hip::accessReadWrite == hipMemAccessFlagsProtReadWrite);
static_assert(sizeof(hip::PoolAccess) == sizeof(hipMemAccessDesc));
static_assert(hip::propertiesLayouts[1].architecture == offsetof(hipDeviceProp_t, gcnArchName));
static_assert(hip::architectureBytes == sizeof(hipDeviceProp_t::gcnArchName));
static_assert(hip::propertiesBytes >= sizeof(hipDeviceProp_t));

// Arguments that are passed alike, one by one. Pointers pass for each other; numbers must have one size.
template <typename Ours, typename Theirs>
constexpr bool passesAlike = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
template <typename Ours, typename Theirs> struct Alike : std::false_type {};
template <typename... Ours, typename... Theirs>
struct Alike<hip::Status (*)(Ours...), hipError_t (*)(Theirs...)>
    : std::bool_constant<sizeof...(Ours) == sizeof...(Theirs)> {
  static_assert((passesAlike<Ours, Theirs> && ...));
};

TEST(HipHeader, FunctionsAreDeclaredAlike) {
  const hip::Functions functions;
#define ALIKE(member, symbol) static_assert(Alike<decltype(functions.member), decltype(&symbol)>::value)
  ALIKE(init, hipInit);
  ALIKE(runtimeGetVersion, hipRuntimeGetVersion);
  ALIKE(getDeviceCount, hipGetDeviceCount);
  ALIKE(deviceGet, hipDeviceGet);
  ALIKE(deviceGetName, hipDeviceGetName);
  ALIKE(deviceTotalMem, hipDeviceTotalMem);
  ALIKE(deviceGetAttribute, hipDeviceGetAttribute);
  ALIKE(getDevice, hipGetDevice);
  ALIKE(setDevice, hipSetDevice);
  ALIKE(deviceCanAccessPeer, hipDeviceCanAccessPeer);
  ALIKE(deviceEnablePeerAccess, hipDeviceEnablePeerAccess);
  ALIKE(streamCreate, hipStreamCreateWithFlags);
  ALIKE(streamDestroy, hipStreamDestroy);
  ALIKE(streamSynchronize, hipStreamSynchronize);
  ALIKE(streamQuery, hipStreamQuery);
  ALIKE(streamWaitEvent, hipStreamWaitEvent);
  ALIKE(eventCreate, hipEventCreateWithFlags);
  ALIKE(eventDestroy, hipEventDestroy);
  ALIKE(eventQuery, hipEventQuery);
  ALIKE(eventSynchronize, hipEventSynchronize);
  ALIKE(eventElapsedTime, hipEventElapsedTime);
  ALIKE(free, hipFree);
  ALIKE(memcpyHtoDAsync, hipMemcpyHtoDAsync);
  ALIKE(memcpyDtoHAsync, hipMemcpyDtoHAsync);
  ALIKE(memcpyDtoDAsync, hipMemcpyDtoDAsync);
  ALIKE(memcpyPeerAsync, hipMemcpyPeerAsync);
  ALIKE(hostRegister, hipHostRegister);
  ALIKE(hostUnregister, hipHostUnregister);
  ALIKE(moduleLoadData, hipModuleLoadData);
  ALIKE(moduleUnload, hipModuleUnload);
  ALIKE(moduleGetFunction, hipModuleGetFunction);
  ALIKE(moduleLaunchKernel, hipModuleLaunchKernel);
  ALIKE(deviceGetUuid, hipDeviceGetUuid);
  ALIKE(deviceGetDefaultMemPool, hipDeviceGetDefaultMemPool);
  ALIKE(memPoolSetAttribute, hipMemPoolSetAttribute);
  ALIKE(memPoolSetAccess, hipMemPoolSetAccess);
  ALIKE(freeAsync, hipFreeAsync);
  // Overloaded in C++.
  static_assert(Alike<decltype(functions.malloc), hipError_t (*)(void **, size_t)>::value);
  static_assert(Alike<decltype(functions.mallocAsync), hipError_t (*)(void **, size_t, hipStream_t)>::value);
  static_assert(Alike<decltype(functions.eventRecord), hipError_t (*)(hipEvent_t, hipStream_t)>::value);
}
