// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests whether memory that a plugin points to is readable. Each test makes system calls: for load time and error
// paths.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace mortise::runtime {

bool isReadable(const void *address, size_t bytes);

// The string at `address`; nullopt unless it is readable and ends within `limit` bytes.
std::optional<std::string> readString(const char *address, size_t limit = 4096);

} // namespace mortise::runtime
