// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <iterator>

namespace mortise::cuda {

namespace {

constexpr int oldestVersion = 11020; // stream-ordered memory

struct Meaning {
  int result; // a number, since older headers lack some of the names
  MortiseCode code;
  const char *remedy;
};

constexpr const char *startAgain =
    "the driver ends all work of the process on this device: start the process again, and look for the cause with "
    "compute-sanitizer";
constexpr const char *report = "please report this";
constexpr const char *newerDriver = "install a newer driver";
constexpr const char *captured = "the stream is being captured by the application: capture without this call";

constexpr Meaning meanings[] = {
    {CUDA_ERROR_INVALID_VALUE, MORTISE_INVALID_ARGUMENT, "expected addresses and handles of this device"},
    {CUDA_ERROR_OUT_OF_MEMORY, MORTISE_OUT_OF_MEMORY,
     "free memory of the device, use a smaller batch, or end other processes that use the device"},
    {CUDA_ERROR_NOT_INITIALIZED, MORTISE_DEVICE_LOST,
     "a process that was forked from one that uses the driver cannot use it: spawn it instead"},
    {CUDA_ERROR_DEINITIALIZED, MORTISE_DEVICE_LOST, "the process is ending"},
    {CUDA_ERROR_STUB_LIBRARY, MORTISE_NOT_FOUND,
     "the library is the toolkit's stub: take its folder out of LD_LIBRARY_PATH, and install the driver"},
    {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, MORTISE_VERSION_MISMATCH, newerDriver},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, MORTISE_NOT_FOUND,
     "another process holds the device, or its compute mode forbids contexts (nvidia-smi -q -d COMPUTE)"},
    {CUDA_ERROR_NO_DEVICE, MORTISE_NOT_FOUND, "look at nvidia-smi, and at CUDA_VISIBLE_DEVICES"},
    {CUDA_ERROR_INVALID_DEVICE, MORTISE_INVALID_ARGUMENT, report},
    {CUDA_ERROR_DEVICE_NOT_LICENSED, MORTISE_UNSUPPORTED, "the device needs a licence"},
    {CUDA_ERROR_INVALID_IMAGE, MORTISE_UNSUPPORTED, report},
    {CUDA_ERROR_INVALID_CONTEXT, MORTISE_INTERNAL, report},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, MORTISE_UNSUPPORTED, newerDriver},
    {CUDA_ERROR_ECC_UNCORRECTABLE, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, MORTISE_UNSUPPORTED, "the devices do not reach each other's memory"},
    {CUDA_ERROR_INVALID_PTX, MORTISE_UNSUPPORTED, report},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, MORTISE_UNSUPPORTED,
     "install the driver's PTX compiler (libnvidia-ptxjitcompiler.so.1)"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, MORTISE_UNSUPPORTED, newerDriver},
    {CUDA_ERROR_JIT_COMPILATION_DISABLED, MORTISE_UNSUPPORTED, "unset CUDA_DISABLE_PTX_JIT"},
    {226 /* CONTAINED */, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_INVALID_SOURCE, MORTISE_UNSUPPORTED, report},
    {CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, MORTISE_NOT_FOUND, "install the driver again"},
    {CUDA_ERROR_OPERATING_SYSTEM, MORTISE_INTERNAL, "look at the kernel's log (dmesg)"},
    {CUDA_ERROR_INVALID_HANDLE, MORTISE_INVALID_ARGUMENT, "expected a handle that exists, of this device"},
    {CUDA_ERROR_NOT_FOUND, MORTISE_NOT_FOUND, report},
    {CUDA_ERROR_NOT_READY, MORTISE_INVALID_ARGUMENT, "wait until the work has happened"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, MORTISE_UNSUPPORTED, report},
    {CUDA_ERROR_LAUNCH_TIMEOUT, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, MORTISE_DEVICE_LOST,
     "the application has reset the device (cudaDeviceReset): load the program again in a new process"},
    {CUDA_ERROR_ASSERT, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_TOO_MANY_PEERS, MORTISE_UNSUPPORTED, "use fewer devices in one process"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, MORTISE_INVALID_ARGUMENT, "the memory is registered already"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, MORTISE_INVALID_ARGUMENT, "expected memory that was registered"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_MISALIGNED_ADDRESS, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_INVALID_PC, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_LAUNCH_FAILED, MORTISE_DEVICE_LOST, startAgain},
    {721 /* TENSOR_MEMORY_LEAK */, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_NOT_PERMITTED, MORTISE_UNSUPPORTED, "the system's settings forbid it"},
    {CUDA_ERROR_NOT_SUPPORTED, MORTISE_UNSUPPORTED, "the device or its driver lacks it"},
    {CUDA_ERROR_SYSTEM_NOT_READY, MORTISE_NOT_FOUND, "start the system's services (nvidia-fabricmanager)"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, MORTISE_VERSION_MISMATCH,
     "the driver's library and the kernel's module differ: restart the machine after an update"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, MORTISE_VERSION_MISMATCH,
     "take the compatibility package's folder out of LD_LIBRARY_PATH"},
    {CUDA_ERROR_MPS_CONNECTION_FAILED, MORTISE_NOT_FOUND, "start nvidia-cuda-mps-control, or unset its variables"},
    {CUDA_ERROR_MPS_CLIENT_TERMINATED, MORTISE_DEVICE_LOST, startAgain},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, MORTISE_UNSUPPORTED, captured},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, MORTISE_UNSUPPORTED, captured},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, MORTISE_UNSUPPORTED, captured},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, MORTISE_UNSUPPORTED, captured},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, MORTISE_UNSUPPORTED, captured},
    {CUDA_ERROR_CAPTURED_EVENT, MORTISE_UNSUPPORTED, captured},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, MORTISE_UNSUPPORTED, captured},
};

} // namespace

Result<void> Driver::check(CUresult result, const char *call) const {
  if (result == CUDA_SUCCESS)
    return {};
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "a result that this driver does not name";
  if (getErrorString(result, &text) != CUDA_SUCCESS || !text)
    text = "failed";
  const auto *found = std::ranges::find(meanings, static_cast<int>(result), &Meaning::result);
  const bool known = found != std::end(meanings);
  return Error{known ? found->code : MORTISE_INTERNAL, std::string(call) + ": " + text + " (" + name + ", " +
                                                           std::to_string(static_cast<int>(result)) + "); " +
                                                           (known ? found->remedy : report)};
}

Result<std::unique_ptr<Driver>> Driver::open(const std::string &library) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return Error{MORTISE_NOT_FOUND, "expected the driver's library " + library + ", found none (" +
                                        (reason ? reason : "no reason given") + "); install the GPU's driver"};
  }
  auto driver = std::make_unique<Driver>();
  std::string missing;
  const auto find = [&](auto &member, const char *symbol, bool optional) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(handle, symbol));
    if (!member && !optional)
      missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define MORTISE_CUDA_FIND(member, declaration, symbol) find(driver->member, symbol, false);
  MORTISE_CUDA_FUNCTIONS(MORTISE_CUDA_FIND)
#undef MORTISE_CUDA_FIND
#define MORTISE_CUDA_FIND(member, declaration, symbol) find(driver->member, symbol, true);
  MORTISE_CUDA_OPTIONAL_FUNCTIONS(MORTISE_CUDA_FIND)
#undef MORTISE_CUDA_FIND
  if (!missing.empty())
    return Error{MORTISE_VERSION_MISMATCH, "expected " + library + " to have " + missing +
                                               ", found none; install a driver of CUDA 11.2 or newer"};
  if (auto started = driver->check(driver->init(0), "cuInit"); !started)
    return started.error();
  if (auto asked = driver->check(driver->driverGetVersion(&driver->version), "cuDriverGetVersion"); !asked)
    return asked.error();
  if (driver->version < oldestVersion)
    return Error{MORTISE_VERSION_MISMATCH, "expected a driver of CUDA 11.2 or newer, found " +
                                               std::to_string(driver->version / 1000) + "." +
                                               std::to_string(driver->version % 1000 / 10) + "; " + newerDriver};
  return driver;
}

} // namespace mortise::cuda
