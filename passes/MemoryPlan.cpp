// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MemoryPlan.h"

#include <algorithm>
#include <vector>

namespace mortise::passes {

uint64_t assignOffsets(std::span<Block> blocks) {
  const auto rounded = [](uint64_t bytes) {
    return std::max<uint64_t>((bytes + arenaAlignment - 1) / arenaAlignment * arenaAlignment, arenaAlignment);
  };
  std::vector<Block *> order;
  for (Block &block : blocks)
    order.push_back(&block);
  std::sort(order.begin(), order.end(), [](const Block *a, const Block *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a < b; // both point into `blocks`
  });

  uint64_t size = 0;
  std::vector<const Block *> placed; // by offset
  for (Block *block : order) {
    const uint64_t need = rounded(block->bytes);
    uint64_t best = UINT64_MAX, bestGap = UINT64_MAX, end = 0; // `end`: of what lives at the same time, so far
    for (const Block *other : placed) {
      if (other->last < block->first || block->last < other->first)
        continue;
      if (other->offset > end && other->offset - end >= need && other->offset - end < bestGap) {
        best = end;
        bestGap = other->offset - end;
      }
      end = std::max(end, other->offset + rounded(other->bytes));
    }
    block->offset = best != UINT64_MAX ? best : end;
    size = std::max(size, block->offset + need);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block,
                                   [](const Block *a, const Block *b) { return a->offset < b->offset; }),
                  block);
  }
  return size;
}

} // namespace mortise::passes
