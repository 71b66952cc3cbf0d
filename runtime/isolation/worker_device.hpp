// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device in its plugin's own process. Calls come one after another, so that one stream and one piece of memory serve
// all of them.
#pragma once

#include "../arena.hpp"
#include <mortise/runtime/device_memory.hpp>

namespace mortise::runtime::isolation {

class WorkerDevice {
public:
  WorkerDevice(const Plugin &plugin, const MortiseDeviceInfo &info, uint64_t memoryLimit)
      : device{.plugin = &plugin, .info = info, .memoryLimit = memoryLimit} {}

  const Device device;

  // At the begin of a call: makes the stream where there is none. NULL on a device without streams.
  Result<MortiseStream *> begin();
  // At the end of a call, which has failed or not: waits for what was queued. After an error the stream is reset, and
  // destroyed where that fails.
  Result<void> end(Result<void> done);

  // Queues a copy between a space of the device and memory of this process.
  Result<void> copyIn(MortiseAddress target, const std::byte *source, uint64_t bytes);
  Result<void> copyOut(std::byte *target, MortiseAddress source, uint64_t bytes);

  // Memory in the home, for one call; a later one may get other memory. No work may be in flight.
  Result<MortiseAddress> reserve(uint64_t bytes);

private:
  MortiseStream *stream = nullptr;
  Block hostMemory; // one of the two is in use
  DeviceMemory deviceMemory;
};

// Bytes of a constant where its kernel wants them.
struct WorkerConstant {
  Block onHost;
  DeviceMemory onDevice;
  MortiseAddress address = 0;

  // `space`: as in MortiseKernelInfo::constant_spaces. A copy to the device is queued.
  static Result<WorkerConstant> copy(WorkerDevice &device, uint32_t space, const std::byte *from, uint64_t bytes);
};

} // namespace mortise::runtime::isolation
