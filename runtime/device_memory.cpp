// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/device_memory.hpp>

#include "arena.hpp"
#include "host.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::runtime {

Error onDevice(const Device &device, const char *slot, const Error &error) {
  return {error.code,
          "device '" + device.name() + "' (plugin '" + device.plugin->name + "'): " + slot + ": " + error.message};
}

Result<DeviceMemory> DeviceMemory::allocate(const Device &device, uint32_t space, uint64_t bytes) {
  MortiseMemoryArgs args{.space = space, .bytes = std::max<uint64_t>(bytes, 1)};
  if (auto called = callOn(device, "memory_allocate", device.plugin->table->memory_allocate, args); !called)
    return Error{called.error().code, called.error().message + " (" + std::to_string(bytes) + " bytes in space '" +
                                          device.info.spaces[space]->name + "')"};
  const uint32_t alignment = device.info.spaces[space]->alignment;
  DeviceMemory memory;
  memory.device = &device;
  memory.space = space;
  memory.start = args.address;
  memory.bytes = bytes;
  if (args.address == 0 || args.address % alignment != 0)
    return onDevice(device, "memory_allocate",
                    {MORTISE_INTERNAL, "expected an address that is a multiple of " + std::to_string(alignment) +
                                           ", or a status, found " + std::to_string(args.address)});
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (start == 0)
    return;
  MortiseMemoryArgs args{.space = space, .bytes = std::max<uint64_t>(bytes, 1), .address = start};
  if (auto called = callOn(*device, "memory_free", device->plugin->table->memory_free, args); !called)
    logMessage(MORTISE_WARNING, called.error().message);
}

Result<void> queueCopy(const Device &device, MortiseStream *stream, const Place &target, const Place &source,
                       uint64_t bytes) {
  MortiseCopyArgs args{.stream = stream,
                       .target_device = target.device ? target.device->info.device : nullptr,
                       .source_device = source.device ? source.device->info.device : nullptr,
                       .target = target.address,
                       .source = source.address,
                       .bytes = bytes};
  return callOn(device, "copy", device.plugin->table->copy, args);
}

namespace {

// A copy in a stream of its own, with which it ends.
Result<void> copyOn(const Device &device, const Place &target, const Place &source, uint64_t bytes) {
  const MortisePlugin &table = *device.plugin->table;
  if (!device.plugin->hasStreams())
    return queueCopy(device, nullptr, target, source, bytes);
  MortiseStreamArgs args{};
  if (auto made = callOn(device, "stream_create", table.stream_create, args); !made)
    return made;
  auto done = queueCopy(device, args.stream, target, source, bytes);
  if (auto waited = callOn(device, "stream_wait", table.stream_wait, args); !waited && done)
    done = waited;
  if (auto destroyed = callOn(device, "stream_destroy", table.stream_destroy, args); !destroyed && done)
    done = destroyed;
  return done;
}

} // namespace

Result<void> copyNow(const Place &target, const Place &source, uint64_t bytes) {
  if (bytes == 0 || (target.address == source.address && target.device == source.device))
    return {};
  if (target.device == nullptr && source.device == nullptr) {
    std::memcpy(reinterpret_cast<void *>(target.address), reinterpret_cast<const void *>(source.address), bytes);
    return {};
  }
  if (target.device == nullptr || source.device == nullptr || target.device == source.device)
    return copyOn(target.device ? *target.device : *source.device, target, source, bytes);
  if (const std::optional<Link> link = linkBetween(*source.device, *target.device))
    return copyOn(*link->copier, target, source, bytes);
  auto between = Block::allocate(bytes, 64);
  if (!between)
    return between.error();
  const Place host{nullptr, reinterpret_cast<uintptr_t>(between->data())};
  if (auto fetched = copyOn(*source.device, host, source, bytes); !fetched)
    return fetched;
  return copyOn(*target.device, target, host, bytes);
}

} // namespace mortise::runtime
