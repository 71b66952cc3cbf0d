// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace mortise::passes {
namespace {

TEST(MemoryPlan, ValuesOfDifferentTimesShareMemory) {
  Block blocks[] = {{1000, 0, 1, 0}, {1000, 2, 3, 0}, {1000, 4, 5, 0}};
  EXPECT_EQ(assignOffsets(blocks), 1024u);
}

TEST(MemoryPlan, ValuesOfOneStepDoNotOverlap) {
  Block blocks[] = {{100, 0, 1, 0}, {100, 1, 2, 0}};
  EXPECT_EQ(assignOffsets(blocks), 256u);
  EXPECT_NE(blocks[0].offset, blocks[1].offset);
}

TEST(MemoryPlan, TakesTheSmallestGapThatFits) {
  // The long-lived ones leave gaps of 512 and of 128 bytes once their neighbours are gone.
  Block blocks[] = {{1024, 0, 9, 0}, {512, 0, 1, 0}, {256, 0, 9, 0}, {192, 0, 1, 0}, {128, 0, 9, 0}, {100, 5, 6, 0}};
  const uint64_t size = assignOffsets(blocks);
  EXPECT_EQ(size, 1024u + 512 + 256 + 192 + 128);
  EXPECT_EQ(blocks[5].offset, blocks[3].offset);
}

TEST(MemoryPlan, NeverOverlapsAndAlwaysAligns) {
  std::mt19937 random(std::random_device{}());
  for (int round = 0; round < 50; ++round) {
    std::vector<Block> blocks(60);
    for (Block &block : blocks) {
      block.bytes = random() % 5000;
      block.first = random() % 30;
      block.last = block.first + random() % 8;
    }
    const uint64_t size = assignOffsets(blocks);
    for (const Block &a : blocks) {
      EXPECT_EQ(a.offset % arenaAlignment, 0u);
      EXPECT_LE(a.offset + a.bytes, size);
      for (const Block &b : blocks)
        if (&a != &b && a.bytes && b.bytes && a.first <= b.last && b.first <= a.last) {
          EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
        }
    }
  }
}

TEST(MemoryPlan, LargePlansTakeNoQuadraticTime) {
  // 200000 values that are all live at once: too many for pairwise comparison, and their blocks are still disjoint.
  std::vector<Block> blocks(200000);
  for (uint32_t i = 0; i < blocks.size(); ++i)
    blocks[i] = {64 + i % 7 * 64, i / 2, i / 2 + 300000, 0};
  const uint64_t size = assignOffsets(blocks);
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const Block &block : blocks)
    places.emplace_back(block.offset, block.offset + block.bytes);
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i)
    ASSERT_LE(places[i - 1].second, places[i].first);
  EXPECT_LE(places.back().second, size);
}

TEST(MemoryPlan, SaysWhenNothingCanHoldTheArena) {
  Block blocks[] = {{UINT64_C(1) << 50, 0, 1, 0}, {UINT64_C(1) << 50, 0, 1, 0}};
  EXPECT_EQ(assignOffsets(blocks), UINT64_MAX);
  EXPECT_EQ(assignOffsets(blocks, 256), UINT64_MAX);
}

} // namespace
} // namespace mortise::passes
