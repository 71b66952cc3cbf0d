// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Offsets in an arena for blocks that live for a range of steps. The compiler calls it for plans without symbols, the
// runtime for each specialisation of a plan with symbols.
#pragma once

#include <cstdint>
#include <span>

namespace mortise::runtime {

inline constexpr uint64_t arenaAlignment = 64; // bytes; the least alignment of a block

struct ArenaBlock {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0; // steps of the first write and of the last use, inclusive
  uint64_t offset = 0;          // out
};

// Gives disjoint places to blocks that live at the same step: largest first, each in the smallest gap that holds it.
// Returns the arena's size in bytes, or UINT64_MAX when the size does not fit in 64 bits. Time is O(n log n + pairs)
// for n blocks and the pairs of blocks that live at once; beyond a limit of pairs a block is put above all that live
// with it.
uint64_t assignOffsets(std::span<ArenaBlock> blocks, uint64_t alignment = arenaAlignment);

} // namespace mortise::runtime
