// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPUs of this machine.
#pragma once

#include "driver.hpp"

#include <mortise/codegen/simt_program.hpp>
#include <mortise/plugin.hpp>

#include <atomic>
#include <mutex>
#include <span>
#include <string>

namespace mortise::rocm {

// The target for which kernels are generated. A function of its own, which a test puts another in the place of.
Result<codegen::SimtTarget> targetOf(std::string_view architecture, unsigned compileThreads);

// One GPU. It lives until the process ends.
class Device {
public:
  // Reads attributes only. Errors: as HIP's; MORTISE_UNSUPPORTED for a GPU that code generation does not know.
  static Result<std::unique_ptr<Device>> find(const Driver &driver, int ordinal);
  Device(const Device &) = delete;

  static Device &of(MortiseDevice *handle) { return *reinterpret_cast<Device *>(handle); }
  const MortiseDeviceInfo &info() const { return description; }
  const codegen::SimtTarget &target() const { return chip; }
  codegen::LaunchLimits limits() const;
  int ordinal() const { return number; }

  // Whether memory comes from the device's pool, decided when it is first asked for.
  bool hasPool();
  hip::Pool memoryPool() const { return pool; }
  // Orders what the host allocates and frees without a stream.
  Result<hip::Stream> serviceStream();

  const Driver &driver; // its functions work on the thread's current device: Entered
  // Driver::check and checkReady, with the device's name in the message. Remember when the device is lost.
  Result<void> check(hip::Status result, const char *call);
  Result<bool> checkReady(hip::Status result, const char *call);
  // The error with which the device was lost. It cannot be used again in this process.
  Result<void> alive() const { return loss.state(); }

private:
  Device(const Driver &driver, int ordinal) : driver(driver), number(ordinal) {}
  Result<int> attribute(hip::Attribute which);
  Result<std::string> architecture();
  Result<void> describe();
  void findPool();
  Error named(const Error &error);

  const int number;
  int handle = 0;
  codegen::SimtTarget chip;
  std::string name, features, fingerprint;
  MortiseSpace memory = sized<MortiseSpace>();
  const MortiseSpace *spaces[1] = {&memory};
  MortiseDeviceInfo description = sized<MortiseDeviceInfo>(); // points to the members before it

  std::once_flag poolOnce;
  hip::Pool pool = nullptr;
  std::mutex serviceMutex;
  std::atomic<hip::Stream> service = nullptr;

  codegen::FirstError loss;
};

// The device is current on this thread as long as the object lives; afterwards the one that was before.
class Entered {
public:
  static Result<Entered> into(Device &device);
  Entered(Entered &&other) noexcept : driver(std::exchange(other.driver, nullptr)), before(other.before) {}
  Entered &operator=(Entered &&) = delete;
  ~Entered() {
    if (driver && driver->setDevice(before) != hip::Success)
      driver->getLastError(); // what fails now failed for the calls before, which said so
  }

private:
  Entered(const Driver *driver, int before) : driver(driver), before(before) {}
  const Driver *driver; // NULL: there is nothing to restore
  int before;
};

// The devices that HIP has. Found once for each library. Errors: MORTISE_NOT_FOUND, with the reason, where there is
// none that can be used.
Result<std::span<const MortiseDeviceInfo *const>> findDevices(const std::string &library);

} // namespace mortise::rocm
