// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests whether memory that a plugin points to is readable. A system call for each page: for load, compilation and
// error paths. From any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mortise::runtime {

bool isReadable(const void *address, size_t bytes); // false for NULL

// Whether `count` readable objects lie there, aligned as their type is.
template <typename T> bool holds(const T *address, size_t count = 1) {
  return reinterpret_cast<uintptr_t>(address) % alignof(T) == 0 && count <= SIZE_MAX / sizeof(T) &&
         isReadable(address, count * sizeof(T));
}

// The text at `address`, cut after `limit` bytes; nullopt for NULL and for what cannot be read that far.
std::optional<std::string> readPrefix(const char *address, size_t limit = 4096);

// The string at `address`; nullopt unless it is readable and ends within `limit` bytes.
std::optional<std::string> readString(const char *address, size_t limit = 4096);

} // namespace mortise::runtime
