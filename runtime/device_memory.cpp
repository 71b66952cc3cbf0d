// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/device_memory.hpp>

#include "arena.hpp"
#include "host.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace mortise::runtime {

Error onDevice(const Device &device, const char *slot, const Error &error) {
  return {error.code,
          "device '" + device.name() + "' (plugin '" + device.plugin->name + "'): " + slot + ": " + error.message};
}

namespace {

using Allocator = std::shared_ptr<const DeviceAllocator>;

// The devices of all registries, which share them: a plugin is loaded once in a process.
struct Heaps {
  struct Heap {
    const MortisePlugin *table = nullptr;
    Allocator allocator;                       // the application's, or NULL
    std::map<MortiseAddress, Allocator> given; // to the plugin, and where it came from
  };
  std::mutex mutex;
  std::map<const MortiseDevice *, Heap> byDevice;
};
Heaps &heaps() {
  static auto *made = new Heaps; // plugins may free memory while the process ends
  return *made;
}

Allocator allocatorOf(const Device &device) {
  const std::lock_guard lock(heaps().mutex);
  return heaps().byDevice[device.info.device].allocator;
}

// Counts bytes against the device's limit, until it is destroyed or kept.
class Reserved {
public:
  Reserved(const Device &device, uint64_t bytes) : device(&device), bytes(bytes) {
    const uint64_t before = device.memoryInUse->fetch_add(bytes);
    fits = device.memoryLimit == 0 || bytes <= device.memoryLimit - std::min(before, device.memoryLimit);
    used = before;
  }
  Reserved(const Reserved &) = delete;
  ~Reserved() {
    if (device)
      *device->memoryInUse -= bytes;
  }
  void keep() { device = nullptr; }
  Error error() const {
    return {MORTISE_OUT_OF_MEMORY,
            "device '" + device->name() + "': expected no more than the " + std::to_string(device->memoryLimit) +
                " bytes of the setting memory_limit, found " + std::to_string(used) + " in use and " +
                std::to_string(bytes) + " more wanted; raise the limit, or give the device less to do"};
  }
  bool fits = false;

private:
  const Device *device;
  uint64_t bytes, used = 0;
};

MortiseStatus *statusFor(MortiseCode code, const std::string &message) {
  return host().status_create(code, message.c_str());
}

// The handle of a stream that an allocator of the application's knows; 0 for none.
MortiseStatus *nativeStream(const MortisePlugin &table, const MortiseMemoryArgs &args, uint64_t &native) {
  native = 0;
  if (args.stream == nullptr)
    return nullptr;
  if (table.stream_export == nullptr)
    return statusFor(MORTISE_UNSUPPORTED, "device_allocate, device_free: expected no stream, because the application's "
                                          "allocator orders by native streams, and the plugin has none");
  MortiseStreamArgs streams{.struct_size = sizeof(MortiseStreamArgs), .device = args.device, .stream = args.stream};
  MortiseStatus *status = table.stream_export(&streams);
  native = streams.native;
  return status;
}

} // namespace

void announce(const Device &device) {
  const std::lock_guard lock(heaps().mutex);
  heaps().byDevice[device.info.device].table = device.plugin->table;
}

void setAllocator(const Device &device, const std::optional<DeviceAllocator> &allocator) {
  const std::lock_guard lock(heaps().mutex);
  heaps().byDevice[device.info.device].allocator = allocator ? std::make_shared<DeviceAllocator>(*allocator) : nullptr;
}

MortiseStatus *allocateForPlugin(MortiseMemoryArgs *args) {
  if (args == nullptr)
    return statusFor(MORTISE_INVALID_ARGUMENT, "device_allocate: expected arguments, found NULL");
  const MortisePlugin *table = nullptr;
  Allocator allocator;
  {
    const std::lock_guard lock(heaps().mutex);
    if (const auto found = heaps().byDevice.find(args->device); found != heaps().byDevice.end()) {
      table = found->second.table;
      allocator = args->space == 0 ? found->second.allocator : nullptr;
    }
  }
  if (table == nullptr || table->memory_allocate == nullptr || args->bytes == 0)
    return statusFor(MORTISE_INVALID_ARGUMENT,
                     "device_allocate: expected at least 1 byte of a device with memory of its own, which the plugin "
                     "has listed in `devices`, found another device or 0 bytes");
  if (!allocator) {
    MortiseStatus *status = table->memory_allocate(args);
    if (status)
      return status;
  } else {
    uint64_t native;
    if (MortiseStatus *status = nativeStream(*table, *args, native))
      return status;
    args->address = allocator->allocate(allocator->context, args->bytes, native);
    if (args->address == 0)
      return statusFor(MORTISE_OUT_OF_MEMORY,
                       "the application's allocator has no " + std::to_string(args->bytes) + " bytes");
  }
  const std::lock_guard lock(heaps().mutex);
  heaps().byDevice[args->device].given[args->address] = std::move(allocator);
  return nullptr;
}

MortiseStatus *freeForPlugin(MortiseMemoryArgs *args) {
  if (args == nullptr)
    return statusFor(MORTISE_INVALID_ARGUMENT, "device_free: expected arguments, found NULL");
  const MortisePlugin *table = nullptr;
  Allocator allocator;
  {
    const std::lock_guard lock(heaps().mutex);
    const auto heap = heaps().byDevice.find(args->device);
    const bool known = heap != heaps().byDevice.end() && heap->second.given.contains(args->address);
    if (!known)
      return statusFor(MORTISE_INVALID_ARGUMENT,
                       "device_free: expected memory that device_allocate gave and that was not freed yet");
    table = heap->second.table;
    allocator = std::move(heap->second.given.extract(args->address).mapped());
  }
  if (!allocator)
    return table->memory_free(args);
  uint64_t native;
  MortiseStatus *status = nativeStream(*table, *args, native);
  allocator->free(allocator->context, args->address, native);
  return status;
}

Result<DeviceMemory> DeviceMemory::allocate(const Device &device, uint32_t space, uint64_t bytes) {
  const uint64_t wanted = std::max<uint64_t>(bytes, 1);
  Reserved reserved(device, wanted);
  if (!reserved.fits)
    return reserved.error();
  DeviceMemory memory;
  memory.device = &device;
  memory.space = space;
  memory.bytes = bytes;
  if ((memory.allocator = space == 0 ? allocatorOf(device) : nullptr)) {
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
  *device->memoryInUse -= taken;
  if (allocator) {
    allocator->free(allocator->context, start, 0);
    return;
  }
  MortiseMemoryArgs args{.space = space, .bytes = taken, .address = start};
  if (auto called = callOn(*device, "memory_free", device->plugin->table->memory_free, args); !called)
    logMessage(MORTISE_WARNING, called.error().message);
}

Result<RegisteredMemory> RegisteredMemory::make(const Device &device, void *memory, uint64_t bytes) {
  if (!device.plugin->registersMemory())
    return onDevice(device, "host_register", {MORTISE_UNSUPPORTED, "the plugin does not register memory"});
  MortiseHostMemoryArgs args{.memory = memory, .bytes = bytes};
  if (auto called = callOn(device, "host_register", device.plugin->table->host_register, args); !called)
    return called.error();
  RegisteredMemory made;
  made.device = &device;
  made.memory = memory;
  made.bytes = bytes;
  return made;
}

RegisteredMemory::~RegisteredMemory() {
  if (device == nullptr)
    return;
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
