// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Part of what `./dev figure decompositions` runs: two kinds of values for each case and element type.
#include "decompositions.hpp"

#include <algorithm>
#include <gtest/gtest.h>

namespace mortise::test {
namespace {

void expectGood(const Outcome &outcome) {
  EXPECT_EQ(outcome.failed, 0);
  EXPECT_TRUE(outcome.failures.empty()) << outcome.failures.front();
}

TEST(Decompositions, EveryCompositeHasACase) {
  std::vector<std::string> names = composites();
  EXPECT_GE(names.size(), 20U);
  for (const std::string &name : names)
    EXPECT_TRUE(std::ranges::any_of(cases(), [&](const Case &test) { return test.composite == name; })) << name;
  for (const Case &test : cases())
    EXPECT_NE(std::ranges::find(names, test.composite), names.end()) << test.composite << " is no composite";
}

TEST(Decompositions, EveryElementTypeThatACompositeTakesIsTried) {
  for (const std::string &what : untried())
    ADD_FAILURE() << what << " has no case";
}

class Decompositions : public testing::TestWithParam<size_t> {};
TEST_P(Decompositions, AreWhatTheOpComputes) {
  const Case &test = cases()[GetParam()];
  for (const std::string &element : test.elements)
    expectGood(runCase(test, element, {"random", "mixed"}, 1));
}
TEST_P(Decompositions, HoldForSymbols) {
  const Case &test = cases()[GetParam()];
  for (const std::string &element : test.elements)
    expectGood(runSymbolic(test, element));
}
INSTANTIATE_TEST_SUITE_P(Cases, Decompositions, testing::Range(size_t(0), cases().size()),
                         [](const auto &info) { return cases()[info.param].composite + std::to_string(info.param); });

// Shows that the check can fail, on pairs of ops whose difference most tolerances would not detect.
TEST(Decompositions, TellApart) {
  auto find = [](const std::string &op) {
    return *std::ranges::find_if(cases(), [&](const Case &test) { return test.op.starts_with(op); });
  };
  Case tanh = find("gelu %x {{approximate = \"tanh\"}}"), exact = find("gelu %x {{approximate = \"none\"}}");
  EXPECT_EQ(runAgainst(exact, tanh, "f32").failed, 1);
  EXPECT_EQ(runAgainst(exact, tanh, "f16").failed, 1);
  EXPECT_EQ(runAgainst(exact, exact, "f32").failed, 0);
  Case norm = find("layer_norm %x bias"), other = norm;
  other.op.replace(other.op.find("1.0e-5"), 6, "2.0e-5");
  EXPECT_EQ(runAgainst(norm, other, "f32").failed, 1);
}

} // namespace
} // namespace mortise::test
