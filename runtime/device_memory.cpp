// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/device_memory.hpp>

#include "arena.hpp"
#include "host.hpp"
#include "host_uses.hpp"
#include "plugin_memory.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::runtime {

Error onDevice(const Device &device, const char *slot, const Error &error) {
  return {error.code,
          "device '" + device.name() + "' (plugin '" + device.plugin->name + "'): " + slot + ": " + error.message};
}

namespace {

// Counts bytes of the home against the device's limit, unless they would exceed it, until it is destroyed or kept.
class Reserved {
public:
  Reserved(const Device &device, uint32_t space, uint64_t bytes) : device(device), bytes(space == 0 ? bytes : 0) {
    used = device.memoryInUse->load();
    do {
      fits = device.memoryLimit == 0 || this->bytes <= device.memoryLimit - std::min(used, device.memoryLimit);
    } while (fits && !device.memoryInUse->compare_exchange_weak(used, used + this->bytes));
    counts = fits;
  }
  Reserved(const Reserved &) = delete;
  ~Reserved() {
    if (counts)
      *device.memoryInUse -= bytes;
  }
  void keep() { counts = false; }
  Error error() const {
    return {MORTISE_OUT_OF_MEMORY,
            "device '" + device.name() + "': expected no more than the " + std::to_string(device.memoryLimit) +
                " bytes of the setting memory_limit, found " + std::to_string(used) + " in use and " +
                std::to_string(bytes) + " more wanted; raise the limit, or give the device less to do"};
  }
  bool fits = false;

private:
  const Device &device;
  const uint64_t bytes;
  uint64_t used = 0;
  bool counts = false;
};

} // namespace

Result<DeviceMemory> DeviceMemory::allocate(const Device &device, uint32_t space, uint64_t bytes) {
  const uint64_t wanted = std::max<uint64_t>(bytes, 1);
  Reserved reserved(device, space, wanted);
  if (!reserved.fits)
    return reserved.error();
  DeviceMemory memory;
  memory.device = &device;
  memory.space = space;
  memory.bytes = bytes;
  if ((memory.allocator = space == 0 ? applicationsAllocator(device) : nullptr)) {
    memory.start = memory.allocator->allocate(memory.allocator->context, wanted, 0);
    if (memory.start == 0)
      return Error{MORTISE_OUT_OF_MEMORY, "device '" + device.name() + "': the application's allocator has no " +
                                              std::to_string(wanted) + " bytes"};
  } else {
    MortiseMemoryArgs args{.space = space, .bytes = wanted};
    if (auto called = callOn(device, "memory_allocate", device.plugin->table->memory_allocate, args); !called)
      return Error{called.error().code, called.error().message + " (" + std::to_string(bytes) + " bytes in space '" +
                                            device.info.spaces[space]->name + "')"};
    memory.start = args.address;
  }
  if (memory.start != 0)
    reserved.keep(); // until the destructor
  if (const uint32_t alignment = device.info.spaces[space]->alignment; memory.start == 0 || memory.start % alignment)
    return onDevice(device, memory.allocator ? "the application's allocator" : "memory_allocate",
                    {MORTISE_INTERNAL, "expected an address that is a multiple of " + std::to_string(alignment) +
                                           ", or that there is none, found " + std::to_string(memory.start)});
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (start == 0)
    return;
  const uint64_t taken = std::max<uint64_t>(bytes, 1);
  if (allocator) {
    allocator->free(allocator->context, start, 0);
  } else {
    MortiseMemoryArgs args{.space = space, .bytes = taken, .address = start};
    if (auto called = callOn(*device, "memory_free", device->plugin->table->memory_free, args); !called)
      logMessage(MORTISE_WARNING, called.error().message);
  }
  if (space == 0)
    *device->memoryInUse -= taken;
}

Result<RegisteredMemory> registerMemory(const Device &device, void *memory, uint64_t bytes) {
  if (!device.plugin->registersMemory())
    return onDevice(device, "host_register", {MORTISE_UNSUPPORTED, "the plugin does not register memory"});
  MortiseHostMemoryArgs args{.memory = memory, .bytes = bytes};
  if (auto called = callOn(device, "host_register", device.plugin->table->host_register, args); !called)
    return called.error();
  return RegisteredMemory(memory, {&device, bytes});
}

void Unregister::operator()(void *memory) const {
  MortiseHostMemoryArgs args{.memory = memory, .bytes = bytes};
  if (auto called = callOn(*device, "host_unregister", device->plugin->table->host_unregister, args); !called)
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

void copyInHost(MortiseAddress target, MortiseAddress source, uint64_t bytes) {
  const auto *from = reinterpret_cast<const void *>(source);
  auto *to = reinterpret_cast<void *>(target);
  hostUses(from, bytes, false);
  hostUses(to, bytes, true);
  std::memcpy(to, from, bytes);
}

Result<void> copyNow(const Place &target, const Place &source, uint64_t bytes) {
  if (bytes == 0 || (target.address == source.address && target.device == source.device))
    return {};
  if (target.device == nullptr && source.device == nullptr) {
    copyInHost(target.address, source.address, bytes);
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
