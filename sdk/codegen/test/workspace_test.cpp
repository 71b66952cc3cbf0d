// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where buffers of a region lie in its workspace.
#include <mortise/codegen/simt_plugin.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace mortise::codegen {
namespace {

TEST(Workspace, BuffersShareMemoryOverTimeAndNeverAtOnce) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<Buffer> buffers(random() % 24);
    std::vector<uint64_t> bytes, offsets;
    uint64_t sum = 0;
    for (Buffer &buffer : buffers) {
      buffer.first = static_cast<uint32_t>(random() % 20);
      buffer.last = buffer.first + static_cast<uint32_t>(random() % 5);
      bytes.push_back(random() % 4 ? random() % 5000 : 0);
      sum += (bytes.back() + 255) / 256 * 256;
    }
    const auto end = placeBuffers(buffers, bytes, offsets);
    ASSERT_TRUE(end);
    ASSERT_EQ(offsets.size(), buffers.size());
    EXPECT_LE(*end, sum);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(offsets[i] % 256, 0u);
      EXPECT_LE(offsets[i] + bytes[i], *end);
      for (size_t k = 0; k < i; ++k)
        if (bytes[i] && bytes[k] && buffers[i].first <= buffers[k].last && buffers[k].first <= buffers[i].last)
          EXPECT_TRUE(offsets[i] + bytes[i] <= offsets[k] || offsets[k] + bytes[k] <= offsets[i]);
    }
  }
}

TEST(Workspace, AChainNeedsTwoBuffers) {
  std::vector<Buffer> buffers;
  for (uint32_t step = 0; step < 10; ++step)
    buffers.push_back({1024, step, step + 1});
  std::vector<uint64_t> offsets;
  const auto end = placeBuffers(buffers, std::vector<uint64_t>(10, 1024), offsets);
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, 2048u);
}

TEST(Workspace, WhatIsTooLargeIsRefused) {
  std::vector<uint64_t> offsets;
  const auto end = placeBuffers(std::vector<Buffer>{{1, 0, 1}}, std::vector<uint64_t>{UINT64_C(1) << 47}, offsets);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, MORTISE_UNSUPPORTED);
}

} // namespace
} // namespace mortise::codegen
