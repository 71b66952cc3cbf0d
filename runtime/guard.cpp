// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "guard.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace mortise::runtime {

// Lets the operating system check the address: writing a byte from bad memory to a pipe fails with EFAULT and raises no
// signal.
bool isReadable(const void *address, size_t bytes) {
  if (address == nullptr)
    return false;
  if (bytes == 0)
    return true;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return true; // no file descriptors left, so the memory cannot be tested
  const auto start = reinterpret_cast<uintptr_t>(address);
  constexpr uintptr_t page = 4096;
  bool readable = bytes - 1 <= UINTPTR_MAX - start;
  for (uintptr_t at = start; readable && at <= start + (bytes - 1); at = (at / page + 1) * page) {
    char byte;
    readable = write(ends[1], reinterpret_cast<const void *>(at), 1) == 1 && read(ends[0], &byte, 1) == 1;
    if (at / page == UINTPTR_MAX / page)
      break;
  }
  close(ends[0]);
  close(ends[1]);
  return readable;
}

std::optional<std::string> readString(const char *address, size_t limit) {
  std::string text;
  while (text.size() < limit) {
    const char *next = address + text.size();
    if (!isReadable(next, 1))
      return std::nullopt;
    const size_t chunk = std::min<size_t>(4096 - reinterpret_cast<uintptr_t>(next) % 4096, limit - text.size());
    const void *end = std::memchr(next, 0, chunk);
    text.append(next, end ? static_cast<const char *>(end) - next : chunk);
    if (end)
      return text;
  }
  return std::nullopt;
}

} // namespace mortise::runtime
