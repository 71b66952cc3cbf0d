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

// Loads the library and those beside it; the devices of the first.
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
  return own;
}

std::string join(const std::vector<const runtime::Device *> &devices) {
  std::vector<std::string> names;
  for (const runtime::Device *device : devices)
    names.push_back(device->name());
  return runtime::join(names);
}

} // namespace

Result<std::vector<std::string>> deviceNames(const std::string &library, const std::string &beside) {
  auto config = configured(library, beside);
  if (!config)
    return config.error();
  const auto registry = runtime::Registry::open(*config);
  auto devices = devicesOf(*registry, library);
  if (!devices)
    return devices.error();
  std::vector<std::string> names;
  for (const runtime::Device *device : *devices)
    names.push_back(device->name());
  return names;
}

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
    return Error{MORTISE_NOT_FOUND, library + ": expected the device " + name + ", found " +
                                        (devices->empty() ? "none on this machine" : join(*devices))};
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

Result<Buffer> Buffer::make(Device &device, uint32_t space, size_t bytes, size_t alignment, Edge edge, size_t shift) {
  Buffer made(device);
  made.count = bytes;
  const bool own = space != MORTISE_HOST_SPACE && device.info().info.spaces[space]->kind != MORTISE_SPACE_HOST;
  if (!own) {
    made.offset = shift;
    made.guarded.emplace(bytes + shift, shift ? alignment : std::max<size_t>(alignment, 1), edge);
    return made;
  }
  made.margin = std::max<size_t>(device.info().info.spaces[space]->alignment, 256);
  made.offset = made.margin + shift;
  MortiseMemoryArgs args{.struct_size = sizeof args,
                         .device = device.info().owner().info.device,
                         .space = space,
                         .bytes = bytes + shift + 2 * made.margin};
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
      margin(other.margin), offset(other.offset), count(other.count) {}

Buffer::~Buffer() {
  if (allocated == 0)
    return;
  MortiseMemoryArgs args{.struct_size = sizeof args, .device = device.info().owner().info.device, .address = allocated};
  args.bytes = count + offset + margin;
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
  const auto isMark = [](std::byte byte) { return byte == mark; };
  if (guarded) {
    const std::span<std::byte> all = guarded->bytes();
    intact = guarded->isIntact() && std::ranges::all_of(all.first(offset), isMark);
    return std::vector<std::byte>(all.begin() + static_cast<ptrdiff_t>(offset), all.end());
  }
  std::vector<std::byte> all(offset + count + margin);
  if (auto done = copy(addressOf(all.data()), false, allocated, all.size()); !done)
    return done.error();
  const auto begin = all.begin() + static_cast<ptrdiff_t>(offset), end = begin + static_cast<ptrdiff_t>(count);
  intact = std::all_of(all.begin(), begin, isMark) && std::all_of(end, all.end(), isMark);
  return std::vector<std::byte>(begin, end);
}

} // namespace mortise::conformance
