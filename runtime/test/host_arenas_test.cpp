// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../host_arenas.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace mortise::runtime::test {
namespace {

constexpr uint64_t mib = UINT64_C(1) << 20;

class HostArenasTest : public testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(arenas.bytes(), 0u) << "of programs that are gone"; }
  void TearDown() override { EXPECT_EQ(arenas.bytes(), 0u) << "nobody needs anything"; }

  Block borrow(uint64_t bytes, const std::byte *preferred = nullptr) {
    auto block = arenas.borrow(bytes, 64, preferred);
    EXPECT_TRUE(block);
    EXPECT_GE(block->size(), bytes);
    return std::move(*block);
  }

  HostArenas &arenas = HostArenas::ofProcess();
};

TEST_F(HostArenasTest, CallsThatDoNotRunAtOnceShareTheLargest) {
  HostArenas::Need small, large;
  small.raiseTo(4 * mib);
  large.raiseTo(16 * mib);
  arenas.giveBack(borrow(4 * mib));
  EXPECT_EQ(arenas.bytes(), 4 * mib);
  Block wide = borrow(16 * mib);
  const std::byte *address = wide.data();
  EXPECT_EQ(arenas.bytes(), 16 * mib) << "in place of the small block";
  arenas.giveBack(std::move(wide));
  Block narrow = borrow(4 * mib);
  EXPECT_EQ(narrow.data(), address);
  arenas.giveBack(std::move(narrow));
  EXPECT_EQ(arenas.bytes(), 16 * mib);
}

TEST_F(HostArenasTest, CallsAtOnceHaveMemoryOfTheirOwnAndGetItAgain) {
  HostArenas::Need need;
  need.raiseTo(4 * mib);
  Block a = borrow(4 * mib), b = borrow(4 * mib);
  const std::byte *const first = a.data(), *const second = b.data();
  EXPECT_NE(first, second);
  arenas.giveBack(std::move(a));
  arenas.giveBack(std::move(b));
  for (const std::byte *wanted : {second, first, second}) {
    Block again = borrow(4 * mib, wanted);
    EXPECT_EQ(again.data(), wanted);
    arenas.giveBack(std::move(again));
  }
  EXPECT_EQ(arenas.bytes(), 8 * mib);
}

TEST_F(HostArenasTest, WhatNobodyNeedsIsFreed) {
  HostArenas::Need small;
  small.raiseTo(2 * mib);
  {
    HostArenas::Need large;
    large.raiseTo(64 * mib);
    arenas.giveBack(borrow(64 * mib));
    EXPECT_EQ(arenas.bytes(), 64 * mib);
  }
  EXPECT_EQ(arenas.bytes(), 0u);
  Block lent = borrow(64 * mib); // as by a call whose program is dropped meanwhile
  arenas.giveBack(std::move(lent));
  EXPECT_EQ(arenas.bytes(), 0u);
  arenas.giveBack(borrow(2 * mib));
  EXPECT_EQ(arenas.bytes(), 2 * mib);
}

TEST_F(HostArenasTest, GrowingCallsDoNotAllocateEachTime) {
  HostArenas::Need need;
  need.raiseTo(100 * mib);
  size_t moved = 0;
  const std::byte *last = nullptr;
  for (uint64_t bytes = 40 * mib; bytes <= 100 * mib; bytes += mib) {
    Block block = borrow(bytes);
    moved += block.data() != last;
    last = block.data();
    arenas.giveBack(std::move(block));
  }
  EXPECT_LE(moved, 6u);
  EXPECT_LE(arenas.bytes(), 127 * mib);
}

TEST_F(HostArenasTest, AlignsAndSaysWhatItCannotHave) {
  HostArenas::Need need;
  need.raiseTo(mib);
  for (const size_t alignment : {64u, 4096u, 65536u}) {
    auto block = arenas.borrow(100, alignment, nullptr);
    ASSERT_TRUE(block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block->data()) % alignment, 0u);
    arenas.giveBack(std::move(*block));
  }
  auto none = arenas.borrow(UINT64_C(1) << 60, 64, nullptr);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, MORTISE_OUT_OF_MEMORY);
}

TEST_F(HostArenasTest, NoTwoThreadsHaveTheSameBlock) {
  HostArenas::Need need;
  need.raiseTo(1 << 16);
  std::atomic<bool> wrong = false;
  const auto work = [&](int number) {
    for (int i = 0; i < 2000; ++i) {
      auto block = arenas.borrow(1024u << (i + number) % 6, 64, nullptr);
      std::memset(block->data(), number, 1024);
      std::this_thread::yield();
      for (size_t at = 0; at < 1024; ++at)
        if (block->data()[at] != static_cast<std::byte>(number))
          wrong = true;
      arenas.giveBack(std::move(*block));
    }
  };
  std::vector<std::thread> threads;
  for (int number = 1; number <= 4; ++number)
    threads.emplace_back(work, number);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_FALSE(wrong);
}

} // namespace
} // namespace mortise::runtime::test
