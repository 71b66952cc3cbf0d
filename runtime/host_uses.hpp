// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace mortise::runtime {

// Called where the host copies within its memory (`writes` for the target) or frees some of it. Does nothing. Tests
// link another in its place, which finds work in flight that uses the memory, too; for that it has a file of its own.
void hostUses(const void *memory, uint64_t bytes, bool writes);

} // namespace mortise::runtime
