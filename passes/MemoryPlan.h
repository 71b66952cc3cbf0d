// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Offsets in an arena for values that live for a range of steps. Links no LLVM.
#pragma once

#include <cstdint>
#include <span>

namespace mortise::passes {

inline constexpr uint64_t arenaAlignment = 64;

struct Block {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0; // steps at which it is written first and used last, inclusive
  uint64_t offset = 0;          // out
};

// Gives blocks that live at the same step disjoint places: largest first, each into the smallest gap that holds it.
// Returns the arena's size.
uint64_t assignOffsets(std::span<Block> blocks);

} // namespace mortise::passes
