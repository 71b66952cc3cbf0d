// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixture.hpp"

#include <gtest/gtest.h>

namespace mortise::passes {
namespace {

using namespace test;

// Refuses every node of a graph with symbols, and takes all nodes of other graphs.
MortiseStatus *wantsNumbers(const Offer &offer) {
  if (offer.graph().symbol_count == 0)
    return takesAll(10)(offer);
  for (uint32_t n = 0; n < offer.graph().node_count; ++n)
    offer.refuse(n, MORTISE_REASON_NEEDS_STATIC, "loops have fixed bounds");
  return nullptr;
}

TEST(Place, SymbolsReachPluginsThatSeeThem) {
  GraphMaker maker;
  maker.symbolic();
  chain(maker, 3);
  FakePlugin plugin("fake", takesAll(10));
  const Placement placement = place(maker.view(), {plugin.target()});
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].specialised, "");
}

TEST(Place, APluginThatWantsNumbersGetsTypicalOnes) {
  GraphMaker maker;
  maker.symbolic(3, 1000, 7);
  chain(maker, 3);
  int64_t shown = 0;
  FakePlugin plugin("fake", [&](const Offer &offer) {
    if (offer.graph().symbol_count == 0)
      shown = offer.graph().values[0]->type->dims[0];
    return wantsNumbers(offer);
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].nodes, (Nodes{0, 1, 2}));
  EXPECT_EQ(placement.regions[0].specialised, "needs static: loops have fixed bounds");
  EXPECT_EQ(shown, 63) << "64, rounded to the divisor";
  EXPECT_TRUE(refused(placement, 0, MORTISE_REASON_NEEDS_STATIC, "fixed bounds")) << "the report says why";
}

TEST(Place, TypicalNumbersMeetRangesAndGuards) {
  const auto shown = [](int64_t min, int64_t max, int64_t divisor, int64_t atLeast) {
    GraphMaker maker;
    maker.symbolic(min, max, divisor);
    chain(maker, 1);
    maker.guard({{MORTISE_EXPR_SYMBOL, 0, 0}, {MORTISE_EXPR_CONST, 0, atLeast}, {MORTISE_EXPR_SUB, 0, 0}},
                MORTISE_RELATION_AT_LEAST);
    int64_t found = -1;
    FakePlugin plugin(
        "fake",
        [&](const Offer &offer) -> MortiseStatus * {
          found = offer.graph().values[0]->type->dims[0];
          return nullptr;
        },
        true, 1);
    place(maker.view(), {plugin.target()});
    return found;
  };
  EXPECT_EQ(shown(0, INT64_MAX, 1, 0), 64);
  EXPECT_EQ(shown(100, INT64_MAX, 1, 0), 100);
  EXPECT_EQ(shown(0, 10, 1, 0), 10);
  EXPECT_EQ(shown(0, 10, 4, 0), 8);
  EXPECT_EQ(shown(0, INT64_MAX, 1, 300), 512);
}

TEST(Place, OldPluginsAreNotShownSymbols) {
  GraphMaker maker;
  maker.symbolic();
  chain(maker, 2);
  bool sawSymbols = false;
  FakePlugin plugin(
      "old",
      [&](const Offer &offer) {
        sawSymbols |= offer.graph().symbol_count != 0;
        return takesAll(10)(offer);
      },
      true, 1);
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_FALSE(sawSymbols);
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].specialised, "the plugin knows opset 1, which has no symbolic attributes");
}

TEST(Place, OnlyWhatIsLeftOverIsSpecialised) {
  GraphMaker maker;
  maker.symbolic();
  chain(maker, 3);
  // Takes the outer nodes for all values, and the middle one for numbers only.
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    const MortiseGraph &graph = offer.graph();
    if (graph.symbol_count == 0)
      return takesAll(10)(offer);
    if (graph.node_count == 3) {
      offer.add({0}, 10);
      offer.add({2}, 10);
    }
    offer.refuse(graph.node_count == 3 ? 1 : 0, MORTISE_REASON_NEEDS_STATIC, "");
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  ASSERT_EQ(placement.regions.size(), 3u);
  EXPECT_TRUE(placement.uncovered.empty());
  EXPECT_EQ(placement.regions[0].specialised, "");
  EXPECT_EQ(placement.regions[1].specialised, "needs static");
  EXPECT_EQ(placement.regions[1].nodes, (Nodes{1}));
  EXPECT_EQ(placement.regions[2].specialised, "");
}

TEST(Place, ALiteralTakenIsNoReasonNotToAskWithNumbers) {
  GraphMaker maker;
  maker.symbolic();
  const uint32_t literal = maker.literal(), x = maker.input();
  maker.output(maker.node("mortise.add", {x, literal}));
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    if (offer.graph().symbol_count == 0)
      return takesAll(10)(offer);
    offer.add({0}, 0);
    offer.refuse(1, MORTISE_REASON_NEEDS_STATIC, "");
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_TRUE(placement.uncovered.empty());
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].specialised, "needs static");
}

// A composite that needs numbers for its symbols is not decomposed, even when another node is taken for all values.
TEST(Place, CompositesThatNeedNumbersStayWhole) {
  for (const int32_t reason : {MORTISE_REASON_NEEDS_STATIC, MORTISE_REASON_OP}) {
    GraphMaker maker;
    maker.symbolic();
    chain(maker, 3);
    FakePlugin plugin("fake", [reason](const Offer &offer) -> MortiseStatus * {
      const MortiseGraph &graph = offer.graph();
      if (graph.symbol_count == 0)
        return takesAll(10)(offer);
      if (graph.node_count == 3) {
        offer.add({0}, 10);
        offer.add({2}, 10);
      }
      offer.refuse(graph.node_count == 3 ? 1 : 0, reason, "");
      return nullptr;
    });
    const Placement placement = place(maker.view(), {plugin.target()}, {false, true, false});
    EXPECT_EQ(placement.uncovered, reason == MORTISE_REASON_OP ? (Nodes{1}) : Nodes{});
    EXPECT_EQ(placement.regions.size(), reason == MORTISE_REASON_OP ? 0u : 3u);
  }
}

} // namespace
} // namespace mortise::passes
