// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests whether memory that a plugin points to is readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mortise::runtime {

// Each test makes two system calls per page: for load, compilation and error paths. One thread at a time.
class MemoryProbe {
public:
  MemoryProbe();
  ~MemoryProbe();
  MemoryProbe(const MemoryProbe &) = delete;
  MemoryProbe &operator=(const MemoryProbe &) = delete;

  // False for NULL. True where the process has no file descriptor left to test with.
  bool isReadable(const void *address, size_t bytes) const;

  // Whether `count` objects lie there, aligned as their type is.
  template <typename T> bool holds(const T *address, size_t count = 1) const {
    return reinterpret_cast<uintptr_t>(address) % alignof(T) == 0 && count <= SIZE_MAX / sizeof(T) &&
           isReadable(address, count * sizeof(T));
  }

  // The text at `address`, cut after `limit` bytes; nullopt for NULL and for what cannot be read that far.
  std::optional<std::string> readPrefix(const char *address, size_t limit = 4096) const;

private:
  int ends[2] = {-1, -1};
};

// By a probe of its own.
bool isReadable(const void *address, size_t bytes);

// The string at `address`; nullopt unless it is readable and ends within `limit` bytes.
std::optional<std::string> readString(const char *address, size_t limit = 4096);

} // namespace mortise::runtime
