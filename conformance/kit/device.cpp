// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device.hpp"

#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <filesystem>

namespace mortise::conformance {
namespace {

constexpr std::byte mark{0xb5};

Result<runtime::Config> configured(const std::string &library, const std::string &beside) {
  std::error_code failed;
  const std::string path = std::filesystem::absolute(library, failed).string() + (beside.empty() ? "" : ":" + beside);
  const MortiseOption options[] = {{"plugin_path", path.c_str()}, {"probe", "off"}, {"kernel_cache", "off"}};
  return runtime::Config::read(options);
}

// Loads the library and those beside it; the devices of the first. Errors: MORTISE_NOT_FOUND, where it has none here.
Result<std::vector<const runtime::Device *>> devicesOf(const runtime::Registry &registry, const std::string &library) {
  registry.loadAll();
  std::error_code failed;
  const std::string path = std::filesystem::canonical(library, failed).string();
  for (const runtime::Rejected &rejected : registry.rejected())
    if (std::filesystem::canonical(rejected.path, failed).string() == path || failed)
      return rejected.error;
  std::vector<const runtime::Device *> own;
  for (const runtime::Device *device : registry.devices())
    if (device->plugin->path == path)
      own.push_back(device);
  if (!own.empty())
    return own;
  std::string reason;
  for (const runtime::Plugin *plugin : registry.plugins())
    if (plugin->path == path && !plugin->deviceless.empty())
      reason = ": " + plugin->deviceless;
  return Error{MORTISE_NOT_FOUND, "expected a device of this plugin, found none on this machine" + reason};
}

std::string join(const std::vector<const runtime::Device *> &devices) {
  std::vector<std::string> names;
  for (const runtime::Device *device : devices)
    names.push_back(device->name());
  return runtime::join(names);
}

} // namespace

Result<std::unique_ptr<Device>> Device::open(const std::string &library, const std::string &beside,
                                             const std::string &name) {
  auto config = configured(library, beside);
  if (!config)
    return config.error();
  std::unique_ptr<Device> made(new Device);
  made->config = std::move(*config);
  made->registry = runtime::Registry::open(made->config);
  auto devices = devicesOf(*made->registry, library);
  if (!devices)
    return devices.error();
  const auto found = std::ranges::find_if(
      *devices, [&](const runtime::Device *device) { return name.empty() || device->name() == name; });
  if (found == devices->end())
    return Error{MORTISE_NOT_FOUND, library + ": expected the device " + name + ", found " + join(*devices)};
  made->device = *found;
  if (made->device->plugin->hasStreams()) {
    MortiseStreamArgs args{.struct_size = sizeof args, .device = made->handle()};
    if (auto done = made->call("stream_create", made->table().stream_create, args); !done)
      return done.error();
    made->queue = args.stream;
  }
  return made;
}

Device::~Device() {
  if (!queue)
    return;
  MortiseStreamArgs args{.struct_size = sizeof args, .device = handle(), .stream = queue};
  (void)call("stream_destroy", table().stream_destroy, args);
}

Result<void> Device::wait() {
  if (!queue)
    return {};
  MortiseStreamArgs args{.struct_size = sizeof args, .device = handle(), .stream = queue};
  auto done = call("stream_wait", table().stream_wait, args);
  if (!done)
    (void)call("stream_reset", table().stream_reset, args);
  return done;
}

static bool isOfHost(Device &device, uint32_t space) {
  return space == MORTISE_HOST_SPACE || device.info().info.spaces[space]->kind == MORTISE_SPACE_HOST;
}

Result<Buffer> Buffer::make(Device &device, uint32_t space, size_t bytes, size_t alignment, Edge edge) {
  return makeWithin(device, space, 0, bytes, 0, std::max<size_t>(alignment, 1), edge);
}

Result<Buffer> Buffer::makeMisaligned(Device &device, uint32_t space, size_t bytes, size_t unit, Edge edge) {
  if (edge == Edge::Begin || !isOfHost(device, space))
    return makeWithin(device, space, unit, bytes, 0, 64, edge);
  // Up to a page's end, an odd number of units begins at an odd multiple; otherwise one unit stays free there.
  return makeWithin(device, space, 0, bytes, bytes / unit % 2 ? 0 : unit, unit, edge);
}

Result<Buffer> Buffer::makeWithin(Device &device, uint32_t space, size_t before, size_t bytes, size_t after,
                                  size_t alignment, Edge edge) {
  Buffer made(device);
  made.offset = before;
  made.count = bytes;
  made.after = after;
  if (isOfHost(device, space)) {
    made.guarded.emplace(before + bytes + after, alignment, edge);
    return made;
  }
  // Nobody watches the ends of a device's own memory, so that the tensor lies between marks.
  const size_t margin = std::max<size_t>(device.info().info.spaces[space]->alignment, 256);
  made.offset = margin + before;
  made.after = margin;
  MortiseMemoryArgs args{.struct_size = sizeof args,
                         .device = device.info().owner().info.device,
                         .space = space,
                         .bytes = made.offset + bytes + made.after};
  if (auto done = device.call("memory_allocate", device.info().owner().plugin->table->memory_allocate, args); !done)
    return done.error();
  made.allocated = args.address;
  const std::vector<std::byte> marks(args.bytes, mark);
  if (auto done = made.copy(made.allocated, true, addressOf(marks.data()), marks.size()); !done)
    return done.error();
  return made;
}

Buffer::Buffer(Buffer &&other) noexcept
    : device(other.device), guarded(std::move(other.guarded)), allocated(std::exchange(other.allocated, 0)),
      offset(other.offset), count(other.count), after(other.after) {}

Buffer::~Buffer() {
  if (allocated == 0)
    return;
  MortiseMemoryArgs args{.struct_size = sizeof args, .device = device.info().owner().info.device, .address = allocated};
  args.bytes = offset + count + after;
  (void)device.call("memory_free", device.info().owner().plugin->table->memory_free, args);
}

MortiseAddress Buffer::address() const {
  return guarded ? addressOf(guarded->bytes().data()) + offset : allocated + offset;
}

Result<void> Buffer::copy(MortiseAddress target, bool targetIsDevice, MortiseAddress source, size_t bytes) {
  if (bytes == 0)
    return {};
  const runtime::Device &owner = device.info().owner();
  MortiseCopyArgs args{.struct_size = sizeof args,
                       .device = owner.info.device,
                       .stream = &owner == &device.info() ? device.stream() : nullptr,
                       .target_device = targetIsDevice ? owner.info.device : nullptr,
                       .source_device = targetIsDevice ? nullptr : owner.info.device,
                       .target = target,
                       .source = source,
                       .bytes = bytes};
  if (auto done = device.call("copy", owner.plugin->table->copy, args); !done)
    return done;
  return device.wait();
}

Result<void> Buffer::write(std::span<const std::byte> bytes) {
  if (!guarded)
    return copy(address(), true, addressOf(bytes.data()), bytes.size());
  std::ranges::copy(bytes, guarded->bytes().begin() + static_cast<ptrdiff_t>(offset));
  return {};
}

Result<std::vector<std::byte>> Buffer::read(bool &intact) {
  std::vector<std::byte> copied;
  std::span<const std::byte> all;
  if (guarded) {
    all = guarded->bytes();
  } else {
    copied.resize(offset + count + after);
    if (auto done = copy(addressOf(copied.data()), false, allocated, copied.size()); !done)
      return done.error();
    all = copied;
  }
  const auto isMark = [](std::byte byte) { return byte == mark; };
  const auto own = all.subspan(offset, count);
  intact = std::ranges::all_of(all.first(offset), isMark) && std::ranges::all_of(all.last(after), isMark) &&
           (!guarded || guarded->isIntact());
  return std::vector<std::byte>(own.begin(), own.end());
}

} // namespace mortise::conformance
