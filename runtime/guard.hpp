// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks at memory that a plugin named without trusting that it is there. For load time and error paths: slow.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace mortise::runtime {

bool isReadable(const void *address, size_t bytes);

// The string at `address` when it is readable and ends within `limit` bytes.
std::optional<std::string> readString(const char *address, size_t limit = 4096);

} // namespace mortise::runtime
