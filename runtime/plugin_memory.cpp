// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plugin_memory.hpp"

#include "host.hpp"

#include <map>
#include <mutex>

namespace mortise::runtime {
namespace {

using Allocator = std::shared_ptr<const DeviceAllocator>;

// The devices of all registries, which share them: a plugin is loaded once in a process.
struct Heaps {
  using Key = std::pair<const MortisePlugin *, const MortiseDevice *>; // of a device that owns its memory
  struct Client {                                                      // a device as its plugin names it
    const MortisePlugin *table = nullptr;                              // NULL: several plugins name one so
    Key owner;
    MortiseDevice *ownersDevice = nullptr;
    uint32_t alignment = 1;
  };
  std::mutex mutex;
  std::map<const MortiseDevice *, Client> clients;
  std::map<Key, Allocator> allocators;                       // the application's
  std::map<std::pair<Key, MortiseAddress>, Allocator> given; // to plugins, and where it came from; NULL: the slots
};
Heaps &heaps() {
  static auto *made = new Heaps; // plugins may free memory while the process ends
  return *made;
}

Heaps::Key keyOf(const Device &owner) { return {owner.plugin->table, owner.info.device}; }

Error wrongRequest(const char *entry, const std::string &expected) {
  return {MORTISE_INVALID_ARGUMENT, std::string(entry) + ": expected " + expected};
}

Result<Heaps::Client> clientOf(const char *entry, const MortiseMemoryArgs *args) {
  if (args == nullptr)
    return wrongRequest(entry, "arguments, found NULL");
  const std::lock_guard lock(heaps().mutex);
  const auto found = heaps().clients.find(args->device);
  if (found == heaps().clients.end() || !found->second.table || !found->second.owner.first->memory_allocate)
    return wrongRequest(entry, "a device with memory of its own, which the plugin has listed in `devices` under an "
                               "address that no other plugin uses, found another");
  return found->second;
}

// The handle of a stream that an allocator of the application's knows; 0 for none.
Result<uint64_t> nativeStream(const char *entry, const Heaps::Client &client, const MortiseMemoryArgs &args) {
  if (args.stream == nullptr)
    return uint64_t{0};
  if (client.table->stream_export == nullptr)
    return Error{MORTISE_UNSUPPORTED, std::string(entry) +
                                          ": expected no stream, because the application's allocator orders by native "
                                          "streams, and the plugin has none"};
  MortiseStreamArgs streams{.struct_size = sizeof(MortiseStreamArgs), .device = args.device, .stream = args.stream};
  if (auto called = call("stream_export", client.table->stream_export, streams); !called)
    return called.error();
  return streams.native;
}

// Calls memory_allocate or memory_free of the plugin that owns the memory.
Result<void> callOwner(const char *entry, const char *name, MortiseStatus *(*slot)(MortiseMemoryArgs *),
                       const Heaps::Client &client, MortiseMemoryArgs &args) {
  if (args.stream && client.table != client.owner.first)
    return Error{MORTISE_UNSUPPORTED, std::string(entry) + ": expected no stream, because another plugin owns the "
                                                           "device's memory and does not know the streams of this one"};
  MortiseMemoryArgs owners = args;
  owners.struct_size = sizeof owners;
  owners.extension = nullptr;
  owners.device = client.ownersDevice;
  auto called = call(name, slot, owners);
  args.address = owners.address;
  return called;
}

Result<void> giveToPlugin(MortiseMemoryArgs *args) {
  const char *entry = "device_allocate";
  auto client = clientOf(entry, args);
  if (!client)
    return client.error();
  if (args->bytes == 0 || args->space != 0)
    return wrongRequest(entry, "at least 1 byte of space 0, found " + std::to_string(args->bytes) + " of space " +
                                   std::to_string(args->space));
  Heaps &all = heaps();
  std::map<std::pair<Heaps::Key, MortiseAddress>, Allocator> entryToCome; // so that nothing fails once there is memory
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.allocators.find(client->owner);
    entryToCome.emplace(std::pair(client->owner, 0), found == all.allocators.end() ? nullptr : found->second);
  }
  const Allocator allocator = entryToCome.begin()->second;
  if (allocator) {
    auto native = nativeStream(entry, *client, *args);
    if (!native)
      return native.error();
    args->address = allocator->allocate(allocator->context, args->bytes, *native);
    if (args->address == 0)
      return Error{MORTISE_OUT_OF_MEMORY,
                   "the application's allocator has no " + std::to_string(args->bytes) + " bytes"};
    if (args->address % client->alignment != 0) {
      allocator->free(allocator->context, args->address, *native);
      return Error{MORTISE_INTERNAL, "expected the application's allocator to give a multiple of " +
                                         std::to_string(client->alignment) + ", found " +
                                         std::to_string(args->address)};
    }
  } else if (auto called = callOwner(entry, "memory_allocate", client->owner.first->memory_allocate, *client, *args);
             !called) {
    return called;
  }
  auto node = entryToCome.extract(entryToCome.begin());
  node.key().second = args->address;
  const std::lock_guard lock(all.mutex);
  all.given.insert(std::move(node));
  return {};
}

Result<void> takeFromPlugin(MortiseMemoryArgs *args) {
  const char *entry = "device_free";
  auto client = clientOf(entry, args);
  if (!client)
    return client.error();
  const std::pair key(client->owner, args->address);
  Allocator allocator;
  {
    const std::lock_guard lock(heaps().mutex);
    const auto found = heaps().given.find(key);
    if (found == heaps().given.end())
      return wrongRequest(entry, "memory that device_allocate gave and that was not freed yet, found another address");
    allocator = found->second;
  }
  auto native = allocator ? nativeStream(entry, *client, *args) : Result<uint64_t>(0);
  if (!native)
    return native.error(); // the memory may be in use, and stays the plugin's
  if (!allocator)
    if (auto called = callOwner(entry, "memory_free", client->owner.first->memory_free, *client, *args); !called)
      return called;
  {
    const std::lock_guard lock(heaps().mutex);
    heaps().given.erase(key);
  }
  if (allocator)
    allocator->free(allocator->context, args->address, *native);
  return {};
}

MortiseStatus *answer(Result<void> (*request)(MortiseMemoryArgs *), MortiseMemoryArgs *args) {
  try {
    const Result<void> done = request(args);
    return done ? nullptr : host().status_create(done.error().code, done.error().message.c_str());
  } catch (const std::exception &exception) {
    return host().status_create(MORTISE_OUT_OF_MEMORY, exception.what());
  }
}

} // namespace

std::shared_ptr<const DeviceAllocator> applicationsAllocator(const Device &device) {
  const std::lock_guard lock(heaps().mutex);
  const auto found = heaps().allocators.find(keyOf(device));
  return found == heaps().allocators.end() ? nullptr : found->second;
}

void announce(const Device &device) {
  const Device &owner = device.owner();
  Heaps::Client client{device.plugin->table, keyOf(owner), owner.info.device, owner.home().alignment};
  const std::lock_guard lock(heaps().mutex);
  const auto [found, fresh] = heaps().clients.try_emplace(device.info.device, client);
  if (!fresh && found->second.table != client.table)
    found->second.table = nullptr;
}

void setAllocator(const Device &device, const std::optional<DeviceAllocator> &allocator) {
  const std::lock_guard lock(heaps().mutex);
  heaps().allocators[keyOf(device)] = allocator ? std::make_shared<DeviceAllocator>(*allocator) : nullptr;
}

MortiseStatus *allocateForPlugin(MortiseMemoryArgs *args) { return answer(giveToPlugin, args); }
MortiseStatus *freeForPlugin(MortiseMemoryArgs *args) { return answer(takeFromPlugin, args); }

} // namespace mortise::runtime
