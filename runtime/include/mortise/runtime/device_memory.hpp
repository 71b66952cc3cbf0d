// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls on a device, memory in its spaces, and copies.
#pragma once

#include <mortise/runtime/registry.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace mortise::runtime {

// Adds the names of the device, its plugin and the slot to an error.
Error onDevice(const Device &device, const char *slot, const Error &error);

// Calls a slot whose arguments name a device, and fills in their size and the device.
template <typename Args, typename Slot>
Result<void> callOn(const Device &device, const char *name, Slot slot, Args &args) {
  args.struct_size = sizeof args;
  args.device = device.info.device;
  auto called = call(name, slot, args);
  if (!called) [[unlikely]]
    return onDevice(device, name, called.error());
  return called;
}

// Where an application has the memory of a device come from, in place of the plugin's slots: see
// MortiseDeviceAllocator in mortise.h, which says what the functions get and return.
struct DeviceAllocator {
  void *context = nullptr;
  uint64_t (*allocate)(void *context, uint64_t bytes, uint64_t nativeStream) = nullptr;
  void (*free)(void *context, uint64_t address, uint64_t nativeStream) = nullptr;
};
// For all registries of the process, from now on; nullopt: the plugin's slots again. What was allocated before is freed
// where it came from.
void setAllocator(const Device &device, const std::optional<DeviceAllocator> &allocator);

// One allocation. Freed without a stream, so no work may use it then.
class DeviceMemory {
public:
  // `device` owns its memory (Device::owner). Errors: those of the plugin, with the device's name, and
  // MORTISE_OUT_OF_MEMORY beyond Device::memoryLimit.
  static Result<DeviceMemory> allocate(const Device &device, uint32_t space, uint64_t bytes);

  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    DeviceMemory moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~DeviceMemory();

  MortiseAddress address() const { return start; }
  uint64_t size() const { return bytes; }

private:
  void swap(DeviceMemory &other) noexcept {
    std::swap(device, other.device);
    std::swap(space, other.space);
    std::swap(start, other.start);
    std::swap(bytes, other.bytes);
    std::swap(allocator, other.allocator);
  }

  const Device *device = nullptr;
  uint32_t space = 0;
  MortiseAddress start = 0;
  uint64_t bytes = 0;
  std::shared_ptr<const DeviceAllocator> allocator; // where it came from; NULL: the plugin
};

// Host memory that a device copies from and to without a stop in between. Ends before the memory does.
struct Unregister {
  const Device *device = nullptr;
  uint64_t bytes = 0;
  void operator()(void *memory) const;
};
using RegisteredMemory = std::unique_ptr<void, Unregister>;
// Errors: those of the plugin, and MORTISE_UNSUPPORTED where it does not register memory.
Result<RegisteredMemory> registerMemory(const Device &device, void *memory, uint64_t bytes);

// One end of a copy. `device` is NULL for host memory.
struct Place {
  const Device *device = nullptr;
  MortiseAddress address = 0;
};

// Queues a copy on `stream` of `device`, which is the device of one end (see MortiseCopyArgs).
Result<void> queueCopy(const Device &device, MortiseStream *stream, const Place &target, const Place &source,
                       uint64_t bytes);

// Copies between ranges of host memory that do not overlap.
void copyInHost(MortiseAddress target, MortiseAddress source, uint64_t bytes);

// Copies, and waits for the copy. Two devices that do not reach each other copy through host memory.
Result<void> copyNow(const Place &target, const Place &source, uint64_t bytes);

} // namespace mortise::runtime
