// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "buffer.hpp"

#include <mortise/graph.hpp>

#include <algorithm>

namespace mortise::tool {
namespace {

constexpr std::byte poison{0xff}, beside{0xb5};

} // namespace

size_t elementAlignment(const MortiseType &type) { return std::max<size_t>(dtypeBits(type.dtype) / 8, 1); }

Result<Buffer> Buffer::make(const runtime::Device &device, std::span<const std::byte> content, size_t alignment,
                            Edge edge) {
  Buffer made(device, content.size());
  if (device.inHostMemory()) {
    made.host.emplace(content.size(), alignment, edge);
    std::ranges::copy(content, made.host->bytes().begin());
    return made;
  }
  made.margin = std::max<size_t>(device.home().alignment, 64);
  std::vector<std::byte> all(content.size() + 2 * made.margin, beside);
  std::ranges::copy(content, all.begin() + static_cast<ptrdiff_t>(made.margin));
  auto memory = runtime::DeviceMemory::allocate(device.owner(), 0, all.size());
  if (!memory)
    return memory.error();
  made.memory = std::move(*memory);
  if (auto copied =
          runtime::copyNow({&device.owner(), made.memory.address()}, {nullptr, addressOf(all.data())}, all.size());
      !copied)
    return copied.error();
  return made;
}

Result<Buffer> Buffer::poisoned(const runtime::Device &device, size_t bytes, size_t alignment, Edge edge) {
  return make(device, std::vector<std::byte>(bytes, poison), alignment, edge);
}

MortiseAddress Buffer::address() const { return host ? addressOf(host->bytes().data()) : memory.address() + margin; }

Result<Buffer::Read> Buffer::read() const {
  if (host)
    return Read{{host->bytes().begin(), host->bytes().end()}, host->isIntact()};
  std::vector<std::byte> all(count + 2 * margin);
  if (auto copied =
          runtime::copyNow({nullptr, addressOf(all.data())}, {&device->owner(), memory.address()}, all.size());
      !copied)
    return copied.error();
  const auto begin = all.begin() + static_cast<ptrdiff_t>(margin), end = all.end() - static_cast<ptrdiff_t>(margin);
  const auto isBeside = [](std::byte byte) { return byte == beside; };
  return Read{{begin, end}, std::all_of(all.begin(), begin, isBeside) && std::all_of(end, all.end(), isBeside)};
}

} // namespace mortise::tool
