// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the GPUs are and roughly how fast, from attributes: nothing here starts up a device.
#include "device.hpp"

#include <mortise/codegen/simt_devices.hpp>
#include <mortise/threads.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace mortise::rocm {

// ---- What a device is

Result<int> Device::attribute(hip::Attribute which) {
  int value = 0;
  if (auto asked = check(driver.deviceGetAttribute(&value, which, handle), "hipDeviceGetAttribute"); !asked)
    return asked.error();
  return value;
}

// No attribute has it. Where the struct is laid out otherwise than is known, what is read is no such name.
Result<std::string> Device::architecture() {
  alignas(16) char properties[hip::propertiesBytes] = {};
  if (auto asked = check(driver.getProperties(properties, number), "hipGetDeviceProperties"); !asked)
    return asked.error();
  const char *text = properties + driver.architectureOffset;
  const size_t length = strnlen(text, hip::architectureBytes);
  if (length < hip::architectureBytes && std::string_view(text, length).starts_with("gfx"))
    return std::string(text, length);
  return Error{MORTISE_VERSION_MISMATCH, "rocm:" + std::to_string(number) +
                                             ": expected the name of an architecture in hipDeviceProp_t, found none "
                                             "where HIP " +
                                             std::to_string(driver.version) + " should have it; please report this"};
}

static constexpr double reachable = 0.8; // of the memory's peak; a guess, since no GPU was at hand

Result<void> Device::describe() {
  if (auto found = check(driver.deviceGet(&handle, number), "hipDeviceGet"); !found)
    return found;
  int values[5] = {};
  constexpr hip::Attribute wanted[] = {hip::MultiprocessorCount, hip::ClockRate, hip::MemoryClockRate,
                                       hip::MemoryBusWidth, hip::WarpSize};
  for (size_t i = 0; i < std::size(wanted); ++i) {
    Result<int> value = attribute(wanted[i]);
    if (!value)
      return value.error();
    values[i] = std::max(0, *value);
  }
  const auto [processors, clock, memoryClock, busBits, wave] = values;
  Result<std::string> found = architecture();
  if (!found)
    return found.error();
  auto known = targetOf(*found, compileThreads());
  if (!known)
    return known.error();
  chip = std::move(*known);
  if (wave != static_cast<int>(chip.subgroup))
    return Error{MORTISE_UNSUPPORTED, "expected " + *found + " to have waves of " + std::to_string(chip.subgroup) +
                                          " threads, found " + std::to_string(wave)};

  char text[256] = {};
  if (auto asked = check(driver.deviceGetName(text, sizeof text - 1, handle), "hipDeviceGetName"); !asked)
    return asked;
  size_t bytes = 0;
  if (auto asked = check(driver.deviceTotalMem(&bytes, handle), "hipDeviceTotalMem"); !asked)
    return asked;
  char uuid[16] = {};
  if (driver.deviceGetUuid)
    if (auto asked = check(driver.deviceGetUuid(&uuid, handle), "hipDeviceGetUuid"); !asked)
      return asked;

  name = text[0] ? text : *found; // some versions have no names for some devices
  features = chip.chip + ",wave" + std::to_string(wave) + (driver.hasPools() ? ",memory_pools" : "");
  fingerprint = *found + " hip " + std::to_string(driver.version);
  memory.name = "device memory";
  memory.kind = MORTISE_SPACE_DEVICE;
  memory.alignment = 256;
  memory.bytes = bytes;
  description.device = reinterpret_cast<MortiseDevice *>(this);
  description.kind = "rocm";
  description.name = name.c_str();
  description.ordinal = static_cast<uint32_t>(number);
  description.automatic = 1;
  description.threads = static_cast<uint32_t>(processors);
  description.spaces = spaces;
  description.space_count = 1;
  description.peak_flops = 2.0 * processors * 128 * clock * 1e3; // 64 lanes of two operations, or a pair of 64
  description.bandwidth = reachable * 2 * memoryClock * 1e3 * busBits / 8; // two transfers a clock, at least
  description.launch_ns = 5000;
  description.copy_bandwidth = 22e9; // sixteen lanes of PCI Express 4
  description.copy_ns = 10000;
  description.features = features.c_str();
  description.fingerprint = fingerprint.c_str();
  description.dlpack_type = 10; // kDLROCM
  description.dlpack_id = number;
  static_assert(sizeof uuid == sizeof description.uuid);
  std::memcpy(description.uuid, uuid, sizeof uuid);
  return {};
}

Result<std::unique_ptr<Device>> Device::find(const Driver &driver, int ordinal) {
  std::unique_ptr<Device> device(new Device(driver, ordinal));
  if (auto described = device->describe(); !described)
    return described.error();
  return device;
}

// HIP counts the threads of a launch in 32 bits.
codegen::LaunchLimits Device::limits() const {
  codegen::LaunchLimits limits;
  limits.threads = UINT32_MAX;
  return limits;
}

// ---- Its state

Error Device::named(const Error &error) {
  Error made{error.code, "rocm:" + std::to_string(number) + ": " + error.message};
  if (made.code == MORTISE_DEVICE_LOST)
    loss.keep(made);
  return made;
}

Result<void> Device::check(hip::Status result, const char *call) {
  Result<void> checked = driver.check(result, call);
  return checked ? checked : named(checked.error());
}

Result<bool> Device::checkReady(hip::Status result, const char *call) {
  Result<bool> checked = driver.checkReady(result, call);
  return checked ? checked : named(checked.error());
}

bool Device::hasPool() {
  std::call_once(poolOnce, [&] { findPool(); });
  return pool != nullptr;
}

// Keeps what was freed, so that the steady state asks the system for nothing. Without a pool memory comes from
// hipMalloc, which is slower, and right.
void Device::findPool() {
  if (!driver.hasPools())
    return;
  hip::Pool found = nullptr;
  uint64_t all = UINT64_MAX;
  Result<int> supported = attribute(hip::MemoryPoolsSupported);
  Result<void> done = supported ? Result<void>() : supported.error();
  if (done && *supported == 0)
    return;
  if (done)
    done = check(driver.deviceGetDefaultMemPool(&found, number), "hipDeviceGetDefaultMemPool");
  if (done)
    done = check(driver.memPoolSetAttribute(found, hip::poolReleaseThreshold, &all), "hipMemPoolSetAttribute");
  if (done)
    pool = found;
  else
    log(MORTISE_WARNING, "memory is allocated without the device's pool: " + done.error().message);
}

Result<hip::Stream> Device::serviceStream() {
  if (hip::Stream there = service.load(std::memory_order_acquire))
    return there;
  Result<Entered> entered = Entered::into(*this);
  if (!entered)
    return entered.error();
  std::lock_guard lock(serviceMutex);
  if (hip::Stream there = service.load())
    return there;
  hip::Stream made = nullptr;
  if (auto done = check(driver.streamCreate(&made, hip::streamNonBlocking), "hipStreamCreateWithFlags"); !done)
    return done.error();
  service.store(made, std::memory_order_release);
  return made;
}

Result<Entered> Entered::into(Device &device) {
  if (auto alive = device.alive(); !alive)
    return alive.error();
  const Driver &driver = device.driver;
  int before = 0;
  if (auto asked = device.check(driver.getDevice(&before), "hipGetDevice"); !asked)
    return asked.error();
  if (before == device.ordinal())
    return Entered(nullptr, 0);
  if (auto set = device.check(driver.setDevice(device.ordinal()), "hipSetDevice"); !set)
    return set.error();
  return Entered(&driver, before);
}

// ---- All of them

using Found = codegen::FoundDevices<Driver, Device>;

static Result<void> fill(Found &found, const std::string &library) {
  auto driver = Driver::open(library);
  if (!driver)
    return driver.error();
  found.driver = std::move(*driver);
  int count = 0;
  if (auto asked = found.driver->check(found.driver->getDeviceCount(&count), "hipGetDeviceCount"); !asked)
    return asked;
  found.addAll(count, "rocm", [&](int ordinal) { return Device::find(*found.driver, ordinal); });
  if (count == 0)
    return Error{MORTISE_NOT_FOUND, "HIP has no GPU for this process; look at rocminfo, and at HIP_VISIBLE_DEVICES"};
  return {};
}

Result<std::span<const MortiseDeviceInfo *const>> findDevices(const std::string &library) {
  return codegen::findOnce<Found>(library, fill);
}

} // namespace mortise::rocm
