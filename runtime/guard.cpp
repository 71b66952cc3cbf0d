// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/guard.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

namespace mortise::runtime {
namespace {

// rt_sigprocmask reads a set of signals before it looks at what is asked of it. So a request that does not exist ends
// with EINVAL where eight bytes can be read, with EFAULT where they cannot, and changes nothing. Unlike a write to a
// pipe it needs no file descriptor.
bool isReadableAt(uintptr_t address) {
  constexpr uintptr_t set = 8;
  return syscall(SYS_rt_sigprocmask, -1, address / set * set, nullptr, set) == 0 || errno != EFAULT;
}

} // namespace

bool isReadable(const void *address, size_t bytes) {
  if (address == nullptr)
    return false;
  if (bytes == 0)
    return true;
  const auto start = reinterpret_cast<uintptr_t>(address);
  constexpr uintptr_t page = 4096;
  if (bytes - 1 > UINTPTR_MAX - start)
    return false;
  for (uintptr_t at = start; at <= start + (bytes - 1); at = (at / page + 1) * page) {
    if (!isReadableAt(at))
      return false;
    if (at / page == UINTPTR_MAX / page)
      break;
  }
  return true;
}

std::optional<std::string> readPrefix(const char *address, size_t limit) {
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

std::optional<std::string> readString(const char *address, size_t limit) {
  auto text = readPrefix(address, limit);
  return text && text->size() < limit ? text : std::nullopt;
}

} // namespace mortise::runtime
