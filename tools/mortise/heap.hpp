// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace mortise::tool {

// Bytes of ordinary memory that the process has allocated, by whatever library.
uint64_t heapBytes();

} // namespace mortise::tool
