// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../MemoryPlan.h"

#include <gtest/gtest.h>

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

} // namespace
} // namespace mortise::passes
