// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../copy_times.hpp"
#include "fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mortise::passes {
namespace {

using namespace test;

TEST(Prices, TwoTimesGiveLatencyAndBandwidth) {
  const auto time = copyTimeFrom(100, 2000, 1'000'100, 102'000);
  ASSERT_TRUE(time);
  EXPECT_EQ(time->ns, 2000);
  EXPECT_DOUBLE_EQ(time->bytesPerSecond, 1e10);
}

TEST(Prices, WhatNoClockSeesIsTheFastestBus) {
  for (const double largeNs : {2000.0, 1500.0, 2000.001}) {
    const auto time = copyTimeFrom(64, 2000, 16e6, largeNs);
    ASSERT_TRUE(time) << largeNs;
    EXPECT_EQ(time->bytesPerSecond, 1e13) << largeNs;
  }
  EXPECT_EQ(copyTimeFrom(64, 2000, 128, 9e9)->bytesPerSecond, 1e5); // and the slowest
}

TEST(Prices, TimesThatNoCopyTakesAreRefused) {
  for (const double wrong : {0.0, -5.0, 0.5, 1e11, std::nan(""), double{INFINITY}}) {
    EXPECT_FALSE(copyTimeFrom(64, wrong, 16e6, 1e6)) << wrong;
    EXPECT_FALSE(copyTimeFrom(64, 1000, 16e6, wrong)) << wrong;
  }
  EXPECT_NE(copyTimeFrom(64, 0, 16e6, 1e6).error().message.find("from 1 ns to 10 s, found 0"), std::string::npos);
}

TEST(Prices, SayWhereTheyComeFrom) {
  FakePlugin knows("knows", takesAll(1), /*hostMemory=*/false), guesses("guesses", takesAll(1), /*hostMemory=*/false);
  knows.costsToCopy(1500, 16e9);
  const runtime::Device *first = knows.target().device, *second = guesses.target().device;
  const Prices prices;
  EXPECT_EQ(priceText(prices.copy(nullptr, first)), "1.5 us and 16 GB/s, stated by the device");
  EXPECT_EQ(priceText(prices.copy(first, nullptr)), "1.5 us and 16 GB/s, stated by the device");
  EXPECT_EQ(priceText(prices.copy(second, nullptr)), "10 us and 12 GB/s, the host's guess");
  EXPECT_EQ(priceText(prices.copy(first, second)), "11.5 us and 6.857 GB/s, the host's guess; over the host's memory");
  guesses.costsToCopy(0, 1e9);
  EXPECT_EQ(priceText(Prices().copy(second, nullptr)), "10 us, the host's guess, and 1 GB/s, stated by the device");
}

} // namespace
} // namespace mortise::passes
