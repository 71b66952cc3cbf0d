// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker_device.hpp"

#include "../host.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mortise::runtime::isolation {
namespace {

MortiseAddress addressOf(const Block &block) { return reinterpret_cast<MortiseAddress>(block.data()); }

} // namespace

Result<MortiseStream *> WorkerDevice::begin() {
  if (stream || !device.plugin->hasStreams())
    return stream;
  MortiseStreamArgs args{};
  if (auto made = callOn(device, "stream_create", device.plugin->table->stream_create, args); !made)
    return made.error();
  if (args.stream == nullptr)
    return onDevice(device, "stream_create", {MORTISE_INTERNAL, "expected a stream or a status, found neither"});
  return stream = args.stream;
}

Result<void> WorkerDevice::end(Result<void> done) {
  if (stream == nullptr)
    return done;
  const MortisePlugin &table = *device.plugin->table;
  MortiseStreamArgs args{.stream = stream};
  if (auto waited = callOn(device, "stream_wait", table.stream_wait, args); !waited && done)
    done = waited;
  if (done || callOn(device, "stream_reset", table.stream_reset, args))
    return done;
  stream = nullptr;
  if (auto destroyed = callOn(device, "stream_destroy", table.stream_destroy, args); !destroyed)
    logMessage(MORTISE_WARNING, destroyed.error().message);
  return done;
}

Result<void> WorkerDevice::copyIn(MortiseAddress target, const std::byte *source, uint64_t bytes) {
  return queueCopy(device, stream, {&device, target}, {nullptr, reinterpret_cast<MortiseAddress>(source)}, bytes);
}

Result<void> WorkerDevice::copyOut(std::byte *target, MortiseAddress source, uint64_t bytes) {
  return queueCopy(device, stream, {nullptr, reinterpret_cast<MortiseAddress>(target)}, {&device, source}, bytes);
}

Result<MortiseAddress> WorkerDevice::reserve(uint64_t bytes) {
  const bool onHost = device.inHostMemory();
  const uint64_t held = onHost ? hostMemory.size() : deviceMemory.size();
  if (const MortiseAddress start = onHost ? addressOf(hostMemory) : deviceMemory.address(); start && bytes <= held)
    return start;
  hostMemory = Block(); // both at once may be more than there is
  deviceMemory = DeviceMemory();
  if (onHost) {
    auto made = Block::allocate(bytes, std::max<uint64_t>(device.home().alignment, 64));
    if (!made)
      return made.error();
    hostMemory = std::move(*made);
    return addressOf(hostMemory);
  }
  auto made = DeviceMemory::allocate(device, 0, bytes);
  if (!made)
    return made.error();
  deviceMemory = std::move(*made);
  return deviceMemory.address();
}

Result<WorkerConstant> WorkerConstant::copy(WorkerDevice &device, uint32_t space, const std::byte *from,
                                            uint64_t bytes) {
  const MortiseDeviceInfo &info = device.device.info;
  WorkerConstant made;
  if (space == MORTISE_HOST_SPACE || info.spaces[space]->kind == MORTISE_SPACE_HOST) {
    auto block = Block::allocate(bytes, std::max<uint64_t>(device.device.home().alignment, 64));
    if (!block)
      return block.error();
    made.onHost = std::move(*block);
    made.address = addressOf(made.onHost);
    std::memcpy(made.onHost.data(), from, bytes);
    return made;
  }
  auto memory = DeviceMemory::allocate(device.device, space, bytes);
  if (!memory)
    return memory.error();
  made.onDevice = std::move(*memory);
  made.address = made.onDevice.address();
  if (bytes != 0)
    if (auto copied = device.copyIn(made.address, from, bytes); !copied)
      return copied.error();
  return made;
}

} // namespace mortise::runtime::isolation
