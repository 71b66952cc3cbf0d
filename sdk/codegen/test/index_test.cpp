// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph/index.hpp"

#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::codegen;

TEST(Index, ReshapeOfCountersSimplifies) {
  IndexSpace space;
  std::vector<IndexId> at{space.loop(0, 4), space.loop(1, 6)};
  std::vector<Dim> from{4, 6}, to{24}, split{2, 2, 6};
  std::vector<IndexId> flat = space.reshape(at, from, to);
  EXPECT_EQ(flat[0], space.add(space.scale(at[0], 6), at[1]));
  EXPECT_EQ(space.reshape(flat, to, from), at);
  std::vector<IndexId> three = space.reshape(at, from, split);
  EXPECT_EQ(three[2], at[1]); // the last block is independent of the others
}

TEST(Index, DivisionOfSumsOfMultiplesLeavesNoAtoms) {
  IndexSpace space;
  IndexId head = space.loop(0, 12), inner = space.loop(1, 64);
  IndexId sum = space.add(space.scale(head, 64), inner);
  EXPECT_EQ(space.quotient(sum, 64), head);
  EXPECT_EQ(space.remainder(sum, 64), inner);
  EXPECT_EQ(space.range(sum).high, Dim(767));
}

TEST(Index, ConditionsThatAlwaysHoldVanish) {
  IndexSpace space;
  IndexId i = space.loop(0, 10);
  EXPECT_EQ(space.guard(0, i, 0, 10), 0u);
  const GuardId moved = space.guard(0, space.add(i, space.constant(-2)), 0, 10);
  ASSERT_EQ(space.guard(moved).size(), 1u);
  EXPECT_EQ(space.guard(moved)[0], (Condition{i, 2, 12})); // of natural numbers
  EXPECT_EQ(space.guard(0, i, 2, 12), moved);
}
