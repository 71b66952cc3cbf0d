// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "arena.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace mortise::runtime {
namespace {

TEST(Block, IsAlignedAndWritable) {
  for (uint64_t bytes :
       {UINT64_C(0), UINT64_C(1), UINT64_C(4095), (UINT64_C(2) << 20) - 1, UINT64_C(2) << 20, (UINT64_C(5) << 20) + 3})
    for (size_t alignment : {size_t{1}, size_t{64}, size_t{4096}, size_t{8} << 20}) {
      auto block = Block::allocate(bytes, alignment);
      ASSERT_TRUE(block);
      ASSERT_NE(block->data(), nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % alignment, 0u);
      EXPECT_GE(block->size(), bytes);
      std::memset(block->data(), 1, bytes);
      Block moved = std::move(*block);
      EXPECT_EQ(block->data(), nullptr);
    }
}

TEST(Block, TooLargeIsAnError) {
  auto block = Block::allocate(UINT64_C(1) << 60, 64);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().code, MORTISE_OUT_OF_MEMORY);
}

} // namespace
} // namespace mortise::runtime
