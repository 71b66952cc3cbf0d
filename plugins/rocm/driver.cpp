// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver.hpp"

#include <mortise/codegen/shared_library.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

namespace mortise::rocm {

namespace {

constexpr int oldestMajor = 5, newestMajor = 10;

struct Meaning {
  hip::Status result;
  MortiseCode code;
  const char *remedy;
};

constexpr const char *startAgain =
    "HIP ends all work of the process on this device: start the process again, and look at the kernel's log (dmesg)";
constexpr const char *report = "please report this";
constexpr const char *lookAt =
    "look at rocminfo, at HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES, and whether this user may open /dev/kfd (group "
    "render)";
constexpr const char *captured = "the stream is being captured by the application: capture without this call";

constexpr Meaning meanings[] = {
    {hip::InvalidValue, MORTISE_INVALID_ARGUMENT, "expected addresses and handles of this device"},
    {hip::OutOfMemory, MORTISE_OUT_OF_MEMORY,
     "free memory of the device, use a smaller batch, or end other processes that use the device"},
    {hip::NotInitialized, MORTISE_DEVICE_LOST,
     "a process that was forked from one that uses HIP cannot use it: spawn it instead"},
    {hip::Deinitialized, MORTISE_DEVICE_LOST, "the process is ending"},
    {hip::InvalidConfiguration, MORTISE_INTERNAL, report},
    {hip::InvalidDevicePointer, MORTISE_INVALID_ARGUMENT, "expected an address of this device"},
    {hip::InvalidMemcpyDirection, MORTISE_INVALID_ARGUMENT, "expected memory of the device and of the host"},
    {hip::InsufficientDriver, MORTISE_VERSION_MISMATCH, "install a newer amdgpu driver"},
    {hip::InvalidDeviceFunction, MORTISE_INTERNAL, report},
    {hip::NoDevice, MORTISE_NOT_FOUND, lookAt},
    {hip::InvalidDevice, MORTISE_NOT_FOUND, lookAt}, // hipInit without a GPU, in HIP 5
    {hip::InvalidImage, MORTISE_UNSUPPORTED, report},
    {hip::InvalidContext, MORTISE_INTERNAL, report},
    {hip::MapFailed, MORTISE_OUT_OF_MEMORY, "free memory of the device, or of the host"},
    {hip::NoBinaryForGpu, MORTISE_UNSUPPORTED,
     "the code is for another architecture: unset HSA_OVERRIDE_GFX_VERSION, or report this"},
    {hip::ECCNotCorrectable, MORTISE_DEVICE_LOST, startAgain},
    {hip::PeerAccessUnsupported, MORTISE_UNSUPPORTED, "the devices do not reach each other's memory"},
    {hip::InvalidKernelFile, MORTISE_UNSUPPORTED, report},
    {hip::FileNotFound, MORTISE_NOT_FOUND, "install ROCm again"},
    {hip::SharedObjectSymbolNotFound, MORTISE_NOT_FOUND, "install ROCm again"},
    {hip::SharedObjectInitFailed, MORTISE_NOT_FOUND, "install ROCm again"},
    {hip::OperatingSystem, MORTISE_INTERNAL, "look at the kernel's log (dmesg)"},
    {hip::InvalidHandle, MORTISE_INVALID_ARGUMENT, "expected a handle that exists, of this device"},
    {hip::IllegalState, MORTISE_INVALID_ARGUMENT, report},
    {hip::NotFound, MORTISE_NOT_FOUND, report},
    {hip::NotReady, MORTISE_INVALID_ARGUMENT, "wait until the work has happened"},
    {hip::IllegalAddress, MORTISE_DEVICE_LOST, startAgain},
    {hip::LaunchOutOfResources, MORTISE_UNSUPPORTED, report},
    {hip::LaunchTimeOut, MORTISE_DEVICE_LOST, startAgain},
    {hip::PeerAccessNotEnabled, MORTISE_INTERNAL, report},
    {hip::ContextIsDestroyed, MORTISE_DEVICE_LOST,
     "the application has reset the device (hipDeviceReset): load the program again in a new process"},
    {hip::Assert, MORTISE_DEVICE_LOST, startAgain},
    {hip::HostMemoryAlreadyRegistered, MORTISE_INVALID_ARGUMENT, "the memory is registered already"},
    {hip::HostMemoryNotRegistered, MORTISE_INVALID_ARGUMENT, "expected memory that was registered"},
    {hip::LaunchFailure, MORTISE_DEVICE_LOST, startAgain},
    {hip::CooperativeLaunchTooLarge, MORTISE_INTERNAL, report},
    {hip::NotSupported, MORTISE_UNSUPPORTED, "the device or its driver lacks it"},
    {hip::StreamCaptureUnsupported, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureInvalidated, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureMerge, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureUnmatched, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureUnjoined, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureIsolation, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureImplicit, MORTISE_UNSUPPORTED, captured},
    {hip::CapturedEvent, MORTISE_UNSUPPORTED, captured},
    {hip::StreamCaptureWrongThread, MORTISE_UNSUPPORTED, captured},
    {hip::RuntimeMemory, MORTISE_OUT_OF_MEMORY, "free memory of the device, or of the host"},
    {hip::RuntimeOther, MORTISE_INTERNAL, "look at the kernel's log (dmesg)"},
};

// The copy that the process has, whatever its name (PyTorch's wheels bring one), then those that the loader finds, the
// newest first, then ROCm's usual folder.
std::vector<std::string> candidates(const std::string &library) {
  if (library != anyLibrary)
    return {library};
  std::vector<std::string> files = codegen::loadedFiles("libamdhip64");
  for (int major = newestMajor; major >= oldestMajor; --major)
    files.push_back("libamdhip64.so." + std::to_string(major));
  files.insert(files.end(), {"libamdhip64.so", "/opt/rocm/lib/libamdhip64.so"});
  return files;
}

std::string versionText(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version % 10000000 / 100000);
}

} // namespace

Result<void> Driver::check(hip::Status result, const char *call) const {
  if (result == hip::Success)
    return {};
  getLastError();
  const char *name = getErrorName(result), *text = getErrorString(result);
  const auto *found = std::ranges::find(meanings, result, &Meaning::result);
  const bool known = found != std::end(meanings);
  return Error{known ? found->code : MORTISE_INTERNAL, std::string(call) + ": " + (text ? text : "failed") + " (" +
                                                           (name ? name : "a result that this HIP does not name") +
                                                           ", " + std::to_string(static_cast<int>(result)) + "); " +
                                                           (known ? found->remedy : report)};
}

Result<bool> Driver::checkReady(hip::Status result, const char *call) const {
  if (result == hip::NotReady) {
    getLastError();
    return false;
  }
  if (auto done = check(result, call); !done)
    return done.error();
  return true;
}

Result<std::unique_ptr<Driver>> Driver::open(const std::string &library) {
  const std::vector<std::string> files = candidates(library);
  Result<void *> handle = codegen::openShared(files);
  if (!handle)
    return Error{MORTISE_NOT_FOUND, "expected HIP's library " + (library == anyLibrary ? "libamdhip64.so" : library) +
                                        ", found none (" + handle.error().message + "); install ROCm"};
  auto driver = std::make_unique<Driver>();
  std::string missing, unused;
#define MORTISE_HIP_FIND(member, arguments, symbol) codegen::findShared(*handle, symbol, driver->member, missing);
  MORTISE_HIP_FUNCTIONS(MORTISE_HIP_FIND)
#undef MORTISE_HIP_FIND
#define MORTISE_HIP_FIND(member, arguments, symbol) codegen::findShared(*handle, symbol, driver->member, unused);
  MORTISE_HIP_OPTIONAL_FUNCTIONS(MORTISE_HIP_FIND)
#undef MORTISE_HIP_FIND
  codegen::findShared(*handle, "hipGetErrorName", driver->getErrorName, missing);
  codegen::findShared(*handle, "hipGetErrorString", driver->getErrorString, missing);
  for (const hip::PropertiesLayout &layout : hip::propertiesLayouts)
    if (!driver->getProperties) {
      codegen::findShared(*handle, layout.symbol, driver->getProperties, unused);
      driver->architectureOffset = layout.architecture;
    }
  if (!driver->getProperties)
    missing += (missing.empty() ? "" : ", ") + std::string("hipGetDeviceProperties");
  if (!missing.empty())
    return Error{MORTISE_VERSION_MISMATCH,
                 "expected " + library + " to have " + missing + ", found none; install ROCm 5 or newer"};
  if (auto asked = driver->check(driver->runtimeGetVersion(&driver->version), "hipRuntimeGetVersion"); !asked)
    return asked.error();
  if (const int major = driver->version / 10000000; major < oldestMajor || major > newestMajor)
    return Error{MORTISE_VERSION_MISMATCH, "expected HIP " + std::to_string(oldestMajor) + " to " +
                                               std::to_string(newestMajor) + ", found " + versionText(driver->version) +
                                               "; install such a version of ROCm"};
  if (auto started = driver->check(driver->init(0), "hipInit"); !started)
    return started.error();
  return driver;
}

} // namespace mortise::rocm
