// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices of a session: memory, copies, queues, and where a graph's tensors lie.
#include "handles.hpp"

#include <mortise/graph.hpp>
#include <mortise/views.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>

using namespace mortise;
using namespace mortise::capi;

namespace {

// `native`: a stream to wrap; none: a new stream.
Result<void> makeQueue(const MortiseSessionDevice *device, std::optional<uint64_t> native, MortiseQueue **queue) {
  if (!device || !queue)
    return nullError(device ? "place for the queue" : "device");
  *queue = nullptr;
  const runtime::Device &owner = device->device->owner();
  const runtime::Plugin &plugin = *owner.plugin;
  if (!plugin.hasStreams() || (native && !plugin.hasNativeStreams()))
    return Error{MORTISE_UNSUPPORTED, "device '" + owner.name() + "' (plugin '" + plugin.name + "'): " +
                                          (plugin.hasStreams() ? "its plugin imports no native streams"
                                                               : "it has no streams; its calls return when done")};
  const char *slot = native ? "stream_import" : "stream_create";
  auto made = std::make_unique<MortiseQueue>();
  MortiseStreamArgs args{.native = native.value_or(0)};
  if (auto called =
          runtime::callOn(owner, slot, native ? plugin.table->stream_import : plugin.table->stream_create, args);
      !called)
    return called;
  if (args.stream == nullptr)
    return runtime::onDevice(owner, slot, {MORTISE_INTERNAL, "expected a stream or a status, found neither"});
  made->session = device->session->shared_from_this();
  made->device = &owner;
  made->stream = args.stream;
  *queue = made.release();
  return {};
}

} // namespace

MortiseStatus *mortise_session_device(MortiseSession *session, const char *name, const MortiseSessionDevice **device) {
  return guarded([&]() -> Result<void> {
    if (!session || !name || !device)
      return nullError(!session ? "session" : !name ? "name of a device" : "place for the device");
    *device = nullptr;
    auto found = session->state->registry->find(name);
    if (!found)
      return found.error();
    *device = session->state->handleOf(found->front());
    return {};
  });
}

MortiseStatus *mortise_memory_allocate(const MortiseSessionDevice *device, uint64_t bytes, void **data) {
  return guarded([&]() -> Result<void> {
    if (!device || !data)
      return nullError(device ? "place for the memory" : "device");
    *data = nullptr;
    Allocation made;
    made.bytes = bytes;
    if (const runtime::Device *home = homeOf(device->device)) {
      auto memory = runtime::DeviceMemory::allocate(*home, 0, bytes);
      if (!memory)
        return memory.error();
      made.device = std::move(*memory);
      *data = pointer(made.device.address());
    } else {
      const uint64_t alignment = std::max<uint64_t>(device->device->home().alignment, alignof(std::max_align_t));
      if (bytes > UINT64_MAX / 2)
        return Error{MORTISE_OUT_OF_MEMORY, "out of memory: " + std::to_string(bytes) + " bytes"};
      const uint64_t room = (std::max<uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
      made.host.reset(static_cast<std::byte *>(std::aligned_alloc(alignment, room)));
      if (!made.host)
        return Error{MORTISE_OUT_OF_MEMORY, "out of memory: " + std::to_string(bytes) + " bytes"};
      *data = made.host.get();
    }
    const std::lock_guard lock(device->session->mutex);
    device->session->allocations.insert_or_assign({homeOf(device->device), *data}, std::move(made));
    return {};
  });
}

MortiseStatus *mortise_memory_free(const MortiseSessionDevice *device, void *data) {
  return guarded([&]() -> Result<void> {
    if (!device)
      return nullError("device");
    if (!data)
      return {};
    auto gone = takeAllocation(*device, data);
    return gone ? Result<void>() : Result<void>(gone.error());
  });
}

Result<Allocation> capi::takeAllocation(const MortiseSessionDevice &device, void *data, uint64_t least) {
  const std::lock_guard lock(device.session->mutex);
  auto &allocations = device.session->allocations;
  const auto found = allocations.find({homeOf(device.device), data});
  if (found == allocations.end())
    return invalid("expected memory that mortise_memory_allocate gave for device '" + device.device->name() +
                   "' and that was not freed yet, found another address");
  if (found->second.bytes < least)
    return invalid("expected memory of at least " + std::to_string(least) + " bytes, found " +
                   std::to_string(found->second.bytes));
  Allocation taken = std::move(found->second);
  allocations.erase(found);
  return taken;
}

MortiseStatus *mortise_device_set_allocator(const MortiseSessionDevice *device,
                                            const MortiseDeviceAllocator *allocator) {
  return guarded([&]() -> Result<void> {
    if (!device)
      return nullError("device");
    const runtime::Device *home = homeOf(device->device);
    if (!home)
      return Error{MORTISE_UNSUPPORTED, "device '" + device->device->name() +
                                            "' computes in host memory, for which there is no allocator to set"};
    if (!allocator)
      return runtime::setAllocator(*home, std::nullopt), Result<void>();
    if (allocator->struct_size < sizeof *allocator || !allocator->allocate || !allocator->free)
      return invalid("expected an allocator with its size (" + std::to_string(sizeof *allocator) +
                     ") and both functions, found " + std::to_string(allocator->struct_size) +
                     (allocator->struct_size < sizeof *allocator ? "" : " and NULL"));
    runtime::setAllocator(*home, runtime::DeviceAllocator{allocator->context, allocator->allocate, allocator->free});
    return {};
  });
}

MortiseStatus *mortise_memory_register(const MortiseSessionDevice *device, void *data, uint64_t bytes) {
  return guarded([&]() -> Result<void> {
    if (!device || !data)
      return nullError(device ? "memory" : "device");
    if (bytes == 0)
      return invalid("expected at least 1 byte, found 0");
    const runtime::Device *home = homeOf(device->device);
    if (!home)
      return {};
    const std::lock_guard lock(device->session->mutex);
    auto &registered = device->session->registered;
    if (registered.contains({home, data}))
      return invalid("expected memory that is not registered yet, found an address that is; unregister it first");
    auto made = runtime::registerMemory(*home, data, bytes);
    if (!made)
      return made.error();
    registered.emplace(std::pair(home, data), std::move(*made));
    return {};
  });
}

MortiseStatus *mortise_memory_unregister(const MortiseSessionDevice *device, void *data) {
  return guarded([&]() -> Result<void> {
    if (!device)
      return nullError("device");
    const runtime::Device *home = homeOf(device->device);
    if (!home)
      return {};
    const std::lock_guard lock(device->session->mutex);
    if (device->session->registered.erase({home, data}) == 0)
      return invalid("expected memory that mortise_memory_register got for device '" + home->name() +
                     "', found another address");
    return {};
  });
}

MortiseStatus *mortise_tensor_copy(const MortiseTensor *target, const MortiseTensor *source) {
  return guarded([&]() -> Result<void> {
    if (!target || !source)
      return nullError(target ? "source" : "target");
    const auto to = readTensor(*target, "target", nullptr), from = readTensor(*source, "source", nullptr);
    if (!to || !from)
      return to ? from.error() : to.error();
    const MortiseType types[] = {{sizeof(MortiseType), nullptr, to->dtype, to->rank, to->dims, nullptr, nullptr},
                                 {sizeof(MortiseType), nullptr, from->dtype, from->rank, from->dims, nullptr, nullptr}};
    for (size_t i = 0; i < 2; ++i) {
      const std::string name = i ? "source" : "target";
      if (auto checked = checkType(&types[i], name); !checked)
        return checked;
      const runtime::Tensor &tensor = i ? *from : *to;
      const auto rank = static_cast<size_t>(tensor.rank);
      if (!isStatic(types[i]))
        return invalid(name + ": expected extents that are numbers, found MORTISE_DYNAMIC");
      if (tensor.strides && !isDense(std::span(tensor.dims, rank), std::span(tensor.strides, rank)))
        return invalid(name + ": expected a dense tensor, found strides; make it contiguous");
      if (!tensor.data && byteSize(types[i]))
        return invalid(name + ": expected data, found NULL");
    }
    if (types[0].dtype != types[1].dtype ||
        !std::equal(to->dims, to->dims + to->rank, from->dims, from->dims + from->rank))
      return invalid("expected tensors of one type, found " + typeString(types[1]) + " to be copied to " +
                     typeString(types[0]));
    return runtime::copyNow({homeOf(to->device), addressOf(to->data)}, {homeOf(from->device), addressOf(from->data)},
                            byteSize(types[0]));
  });
}

MortiseStatus *mortise_queue_create(const MortiseSessionDevice *device, MortiseQueue **queue) {
  return guarded([&] { return makeQueue(device, std::nullopt, queue); });
}

MortiseStatus *mortise_queue_import(const MortiseSessionDevice *device, uint64_t native, MortiseQueue **queue) {
  return guarded([&] { return makeQueue(device, native, queue); });
}

MortiseStatus *mortise_queue_export(MortiseQueue *queue, uint64_t *native) {
  return guarded([&]() -> Result<void> {
    if (!queue || !native)
      return nullError(queue ? "place for the native stream" : "queue");
    const runtime::Device &owner = *queue->device;
    if (!owner.plugin->hasNativeStreams())
      return Error{MORTISE_UNSUPPORTED,
                   "device '" + owner.name() + "' (plugin '" + owner.plugin->name + "'): it has no native streams"};
    MortiseStreamArgs args{.stream = queue->stream};
    if (auto called = runtime::callOn(owner, "stream_export", owner.plugin->table->stream_export, args); !called)
      return called;
    *native = args.native;
    return {};
  });
}

MortiseStatus *mortise_queue_wait(MortiseQueue *queue) {
  return guarded([&]() -> Result<void> {
    if (!queue)
      return nullError("queue");
    MortiseStreamArgs args{.stream = queue->stream};
    return runtime::callOn(*queue->device, "stream_wait", queue->device->plugin->table->stream_wait, args);
  });
}

void mortise_queue_destroy(MortiseQueue *queue) { delete queue; }

MortiseQueue::~MortiseQueue() {
  if (!stream)
    return;
  MortiseStreamArgs args{.stream = stream};
  if (auto ended = runtime::callOn(*device, "stream_destroy", device->plugin->table->stream_destroy, args); !ended)
    runtime::host().log(MORTISE_WARNING, ended.error().message.c_str());
}
