// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/guard.hpp>

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace mortise::runtime {

// Lets the operating system check the address: writing a byte from bad memory to a pipe fails with EFAULT and raises no
// signal.
MemoryProbe::MemoryProbe() {
  if (pipe2(ends, O_CLOEXEC) != 0)
    ends[0] = ends[1] = -1;
}

MemoryProbe::~MemoryProbe() {
  for (const int end : ends)
    if (end >= 0)
      close(end);
}

bool MemoryProbe::isReadable(const void *address, size_t bytes) const {
  if (address == nullptr)
    return false;
  if (bytes == 0 || ends[0] < 0)
    return true;
  const auto start = reinterpret_cast<uintptr_t>(address);
  constexpr uintptr_t page = 4096;
  if (bytes - 1 > UINTPTR_MAX - start)
    return false;
  for (uintptr_t at = start; at <= start + (bytes - 1); at = (at / page + 1) * page) {
    char byte;
    if (write(ends[1], reinterpret_cast<const void *>(at), 1) != 1 || read(ends[0], &byte, 1) != 1)
      return false;
    if (at / page == UINTPTR_MAX / page)
      break;
  }
  return true;
}

std::optional<std::string> MemoryProbe::readPrefix(const char *address, size_t limit) const {
  std::string text;
  while (text.size() < limit) {
    const char *next = address + text.size();
    if (!isReadable(next, 1))
      return std::nullopt;
    const size_t chunk = std::min<size_t>(4096 - reinterpret_cast<uintptr_t>(next) % 4096, limit - text.size());
    const void *end = std::memchr(next, 0, chunk);
    text.append(next, end ? static_cast<const char *>(end) - next : chunk);
    if (end)
      break;
  }
  return text;
}

bool isReadable(const void *address, size_t bytes) { return MemoryProbe().isReadable(address, bytes); }

std::optional<std::string> readString(const char *address, size_t limit) {
  auto text = MemoryProbe().readPrefix(address, limit);
  return text && text->size() < limit ? text : std::nullopt;
}

} // namespace mortise::runtime
