// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Offsets in an arena for values that live for a range of steps. The compiler lays out plans without symbols, the
// runtime those with symbols, for each set of values.
#pragma once

#include <cstdint>
#include <span>

namespace mortise::runtime {

inline constexpr uint64_t arenaAlignment = 64; // the least

struct ArenaBlock {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0; // steps at which it is written first and used last, inclusive
  uint64_t offset = 0;          // out
};

// Gives blocks that live at the same step disjoint places: largest first, each into the smallest gap that holds it.
// Returns the arena's size, UINT64_MAX when it has no 64-bit size. Takes n log n steps plus one for each pair of blocks
// that live at once, up to a limit beyond which a block goes on top of those it lives with.
uint64_t assignOffsets(std::span<ArenaBlock> blocks, uint64_t alignment = arenaAlignment);

} // namespace mortise::runtime
