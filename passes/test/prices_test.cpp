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

TEST(Prices, CopiesInTheProcessOfAPluginCostWhatTheyWouldHere) {
  FakePlugin apart("apart", takesAll(1)), here("here", takesAll(1));
  apart.costsToCopy(1500, 16e9);
  here.costsToCopy(1500, 16e9);
  apart.isApart();
  GraphMaker maker;
  chain(maker, 3);
  const MortiseGraph &graph = maker.view();
  const double bytes = static_cast<double>(byteSize(*graph.inputs[0]->type));
  const auto [in, out] = Prices().callCopies(graph, *apart.target().device);
  for (const CallCopies &each : {in, out}) {
    EXPECT_EQ(each.tensors, 1u);
    EXPECT_EQ(each.bytes, bytes);
    EXPECT_DOUBLE_EQ(each.costNs(), 1500 + bytes / 16e9 * 1e9);
    EXPECT_EQ(priceText(each.price), "1.5 us and 16 GB/s, stated by the device");
  }
  EXPECT_DOUBLE_EQ((CallCopies{3, 1600, in.price}.costNs()), 3 * 1500 + 100.0) << "each tensor is a copy";
  EXPECT_EQ(Prices().callCopies(graph, *here.target().device).first.costNs(), 0);
}

TEST(Prices, CopiesInTheProcessOfAPluginArePartOfACandidatesCost) {
  FakePlugin apart("apart", takesAll(7)), here("here", takesAll(7));
  apart.costsToCopy(1500, 16e9);
  apart.isApart();
  GraphMaker maker;
  chain(maker, 3);
  const Proposals found = propose(maker.view(), {apart.target(), here.target()});
  ASSERT_EQ(found.candidates.size(), 2u);
  EXPECT_EQ(found.candidates[1].costNs, 21);
  EXPECT_EQ(found.candidates[1].copiesNs, 0);
  EXPECT_GT(found.candidates[0].copiesNs, 3000);
  EXPECT_DOUBLE_EQ(found.candidates[0].costNs, 21 + found.candidates[0].copiesNs);
}

} // namespace
} // namespace mortise::passes
