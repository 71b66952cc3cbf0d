// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HIP's functions, looked up in its library at run time, so that the plugin loads on machines without ROCm; and what
// their results mean. A test puts another library in its place (the option `driver`).
#pragma once

#include "hip.hpp"

#include <mortise/result.hpp>

#include <memory>
#include <string>

namespace mortise::rocm {

inline constexpr char anyLibrary[] = "auto";

struct Driver : hip::Functions {
  int version = 0;               // of HIP, as hipRuntimeGetVersion has it: 60232830 for 6.2.32830
  size_t architectureOffset = 0; // hip::PropertiesLayout

  // Opens the library, "auto" or a file, and initialises HIP. The library is never closed. Errors: MORTISE_NOT_FOUND
  // (there is no library, or no GPU), MORTISE_VERSION_MISMATCH (HIP is older or newer than the plugin knows).
  static Result<std::unique_ptr<Driver>> open(const std::string &library);

  bool hasPools() const { return deviceGetDefaultMemPool && memPoolSetAttribute && mallocAsync && freeAsync; }

  // What the result of `call` means, as a status: HIP's name for it, and what to do. MORTISE_DEVICE_LOST says that HIP
  // answers every later call of the process on this device so. HIP keeps the last error of each thread for whoever asks
  // next, which would be the application: it is taken back.
  Result<void> check(hip::Status result, const char *call) const;
  // The same for calls that may answer "not yet": whether the work has happened.
  Result<bool> checkReady(hip::Status result, const char *call) const;
};

} // namespace mortise::rocm
