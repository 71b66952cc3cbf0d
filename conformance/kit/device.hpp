// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One device of the plugin that is judged, driven through the ABI's slots and by nothing else: no other device can have
// computed a result.
#pragma once

#include "../../tools/mortise/guarded.hpp"

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/registry.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mortise::conformance {

using tool::Edge;

class Device {
public:
  // `beside`: plugins that this one needs (for `same_as`), colon separated; may be "". `name`: "kind" or
  // "kind:ordinal";
  // "": the library's first device.
  static Result<std::unique_ptr<Device>> open(const std::string &library, const std::string &beside,
                                              const std::string &name);
  ~Device();
  Device(const Device &) = delete;

  const MortisePlugin &table() const { return *device->plugin->table; }
  MortiseDevice *handle() const { return device->info.device; }
  MortiseStream *stream() const { return queue; } // NULL: the device is synchronous
  const runtime::Device &info() const { return *device; }
  const runtime::Config &settings() const { return config; }
  // Calls a slot, as a host of a newer version does where `asNewer` is set: the struct has more at its end, and an
  // extension that this version does not know.
  template <typename Args> Result<void> call(const char *name, MortiseStatus *(*slot)(Args *), Args &args) const {
    if (!asNewer)
      return runtime::call(name, slot, args);
    constexpr std::byte unknown{0xee};
    struct {
      Args known;
      std::byte rest[64];
    } newer{args, {}};
    std::ranges::fill(newer.rest, unknown);
    const MortiseExtension extension{.struct_size = sizeof extension, .next = nullptr, .kind = 0x3ff0, .reserved = 0};
    newer.known.struct_size = sizeof newer;
    newer.known.extension = &extension;
    auto done = runtime::call(name, slot, newer.known);
    newer.known.struct_size = args.struct_size;
    newer.known.extension = args.extension;
    args = newer.known;
    if (!std::ranges::all_of(newer.rest, [&](std::byte byte) { return byte == unknown; }))
      return Error{MORTISE_INTERNAL, std::string(name) + " writes behind the members that it knows"};
    return done;
  }
  bool asNewer = false;

  Result<void> wait(); // until all that is queued has happened

private:
  Device() = default;
  runtime::Config config;
  std::shared_ptr<runtime::Registry> registry;
  const runtime::Device *device = nullptr;
  MortiseStream *queue = nullptr;
};

// Memory in a space of the device, or of the host, with marks around it: in host memory pages that nobody may touch,
// too.
class Buffer {
public:
  // `space`: an index into MortiseDeviceInfo::spaces, or MORTISE_HOST_SPACE.
  static Result<Buffer> make(Device &device, uint32_t space, size_t bytes, size_t alignment, Edge edge);
  // Its address is an odd multiple of `unit`, a power of 2 that divides `bytes`: aligned to no more.
  static Result<Buffer> makeMisaligned(Device &device, uint32_t space, size_t bytes, size_t unit, Edge edge);
  Buffer(Buffer &&other) noexcept;
  Buffer &operator=(Buffer &&) = delete;
  ~Buffer();

  MortiseAddress address() const;
  Result<void> write(std::span<const std::byte> bytes);
  // What it holds. `intact`: whether nothing has been written beside it.
  Result<std::vector<std::byte>> read(bool &intact);

private:
  explicit Buffer(Device &device) : device(device) {}
  // With so many bytes more before and after those of the tensor.
  static Result<Buffer> makeWithin(Device &device, uint32_t space, size_t before, size_t bytes, size_t after,
                                   size_t alignment, Edge edge);
  Result<void> copy(MortiseAddress target, bool targetIsDevice, MortiseAddress source, size_t bytes);

  Device &device;
  std::optional<tool::Guarded> guarded;
  MortiseAddress allocated = 0;            // in the device's own memory
  size_t offset = 0, count = 0, after = 0; // bytes before the tensor, of it, and behind it
};

} // namespace mortise::conformance
