// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../cover.hpp"
#include "../memory_use.hpp"
#include "../plan_writer.hpp"
#include "fixture.hpp"

#include <mortise/runtime/plan_generated.h>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

namespace mortise::passes {
namespace {

using namespace test;
// The first candidate that was not taken for this reason; an empty one where there is none.
Declined declined(const Placement &placement, int32_t reason, const std::string &part) {
  for (const Declined &candidate : placement.declined)
    if (candidate.reason == reason && candidate.detail.find(part) != std::string::npos)
      return candidate;
  return {};
}

TEST(Place, CostsThatNoMemoryAllowsAreRaised) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.input()}));
  const auto offers = [](double cost) {
    return [cost](const Offer &offer) -> MortiseStatus * {
      const uint32_t node = 0;
      MortiseCandidate candidate{.struct_size = sizeof candidate,
                                 .lowering = "fake.one",
                                 .nodes = &node,
                                 .node_count = 1,
                                 .cost_ns = cost,
                                 .bytes = 6.4e6}; // 1 ms at 6.4 GB/s, and a 64th of it from a cache
      offer.args.add(offer.args.sink, &candidate);
      return nullptr;
    };
  };
  FakePlugin optimist("optimist", offers(0)), honest("honest", offers(15'000));
  optimist.hasBandwidth(6.4e9);
  const auto winner = [&] {
    const Placement placement = place(maker.view(), {optimist.target(), honest.target()});
    return placement.regions.at(0).target;
  };
  EXPECT_EQ(winner(), 1u);
  optimist.hasBandwidth(0); // unknown
  EXPECT_EQ(winner(), 0u);
}

// Records the ops that a plugin is asked for, and takes all of them.
std::function<MortiseStatus *(const Offer &)> recordsAndTakes(std::set<std::string> &asked, double nsPerNode) {
  return [&asked, takes = takesAll(nsPerNode)](const Offer &offer) -> MortiseStatus * {
    for (size_t n = 0; n < offer.graph().node_count; ++n)
      asked.insert(offer.graph().nodes[n]->op);
    return takes(offer);
  };
}

TEST(Place, OnlyPluginsThatDeclareAnOpOfAVendorAreAskedForIt) {
  GraphMaker maker;
  maker.output(maker.node("mortise.exp", {maker.node("acme.swizzle", {maker.node("mortise.neg", {maker.input()})})}));
  std::set<std::string> byStranger, byVendor;
  FakePlugin stranger("stranger", recordsAndTakes(byStranger, 1)), vendor("vendor", recordsAndTakes(byVendor, 1e6));
  vendor.declares("acme.swizzle");
  const Placement placement = place(maker.view(), {stranger.target(), vendor.target()});
  EXPECT_TRUE(placement.uncovered.empty());
  EXPECT_EQ(byStranger, (std::set<std::string>{"mortise.neg", "mortise.exp"}));
  EXPECT_EQ(byVendor, (std::set<std::string>{"mortise.neg", "acme.swizzle", "mortise.exp"}));
  EXPECT_TRUE(refused(placement, 1, MORTISE_REASON_OP, "the plugin does not declare this op of a vendor"));
  for (const Candidate &region : placement.regions)
    EXPECT_EQ(region.target, region.nodes == Nodes{1} ? 1u : 0u);
}

TEST(Place, AnOpOfAVendorThatNobodyDeclaresIsUncovered) {
  GraphMaker maker;
  maker.output(maker.node("acme.swizzle", {maker.input()}));
  FakePlugin other("other", takesAll(1));
  other.declares("acme.swirl");
  const std::vector<Target> targets{other.target()};
  const Placement placement = place(maker.view(), targets);
  EXPECT_EQ(placement.uncovered, Nodes{0});
  const std::string said = uncoveredError(maker.view(), uncoveredNodes(maker.view(), placement, targets)).message;
  EXPECT_NE(said.find("acme.swizzle(f32[16])"), std::string::npos) << said;
  EXPECT_NE(said.find("other: op: the plugin does not declare this op of a vendor"), std::string::npos) << said;
}

TEST(Place, OneCandidateForAllWins) {
  GraphMaker maker;
  chain(maker, 4);
  FakePlugin plugin("fake", takesAll(10));
  const Placement placement = place(maker.view(), {plugin.target()});
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].nodes, (Nodes{0, 1, 2, 3}));
  EXPECT_TRUE(placement.uncovered.empty());
  EXPECT_TRUE(placement.refusals.empty());
}

TEST(Place, OverlappingCandidatesGiveTheCheapestPartition) {
  GraphMaker maker;
  chain(maker, 4);
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0, 1, 2, 3}, 50'000, "fake.whole");
    offer.add({0, 1, 2}, 9'000, "fake.front");
    offer.add({0, 1}, 4'000, "fake.half");
    offer.add({2, 3}, 5'000, "fake.half");
    offer.add({3}, 3'000, "fake.last");
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  ASSERT_EQ(placement.regions.size(), 2u);
  EXPECT_EQ(placement.regions[0].nodes, (Nodes{0, 1}));
  EXPECT_EQ(placement.regions[1].nodes, (Nodes{2, 3}));
  EXPECT_DOUBLE_EQ(placement.costNs, 9'600);
  const Declined lost = declined(placement, MORTISE_REASON_COST, "its nodes are in fake.half on fake at 4000 ns");
  EXPECT_EQ(lost.lowering, "fake.whole");
  EXPECT_EQ(lost.nodes, (Nodes{0, 1, 2, 3}));
  EXPECT_EQ(lost.costNs, 50'000);
  EXPECT_EQ(placement.declined.size(), 3u);
  EXPECT_TRUE(placement.refusals.empty()); // no node was refused
}

TEST(Place, ListsSoManyLosersAndCountsTheRest) {
  GraphMaker maker;
  chain(maker, 2);
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0, 1}, 1'000, "fake.best");
    for (int i = 0; i < 100; ++i)
      offer.add({0, 1}, 2'000 + i, "fake.worse");
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_EQ(placement.declined.size(), 64u);
  EXPECT_EQ(placement.unlisted, (std::map<uint32_t, uint32_t>{{0, 36}}));
}

TEST(Place, PicksTheCheaperOfTwoPlugins) {
  GraphMaker maker;
  chain(maker, 3);
  FakePlugin slow("slow", takesAll(100)), fast("fast", takesAll(10));
  const Placement placement = place(maker.view(), {slow.target(), fast.target()});
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].target, 1u);
}

TEST(Place, CoversAcrossTwoPlugins) {
  GraphMaker maker;
  chain(maker, 4);
  FakePlugin front("front", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0, 1}, 100);
    offer.refuse(2, MORTISE_REASON_OP, "no neg after two");
    return nullptr;
  });
  FakePlugin back("back", [](const Offer &offer) -> MortiseStatus * {
    if (offer.graph().node_count == 4)
      offer.add({2, 3}, 100);
    return nullptr;
  });
  const Placement placement = place(maker.view(), {front.target(), back.target()});
  ASSERT_EQ(placement.regions.size(), 2u);
  EXPECT_EQ(placement.regions[0].target, 0u);
  EXPECT_EQ(placement.regions[1].target, 1u);
  EXPECT_TRUE(refused(placement, 2, MORTISE_REASON_OP, "no neg after two"));
}

// Closes what a rule matches to a target.
Target closing(Target target, const std::string &rules) {
  target.closed = *runtime::parsePlaceRules(rules);
  return target;
}

TEST(Place, RulesCloseNodesToADevice) {
  GraphMaker maker;
  uint32_t value = maker.input();
  for (const char *op : {"mortise.neg", "mortise.exp", "mortise.neg", "mortise.neg"})
    value = maker.node(op, {value});
  maker.output(value);
  std::vector<size_t> seen;
  FakePlugin fast("fast", [&](const Offer &offer) -> MortiseStatus * {
    seen.push_back(offer.graph().node_count);
    for (uint32_t n = 0; n < offer.graph().node_count; ++n)
      EXPECT_STRNE(offer.graph().nodes[n]->op, "mortise.exp"); // it is not shown
    return takesAll(1)(offer);
  });
  FakePlugin slow("slow", takesAll(100'000));
  const Placement placement = place(maker.view(), {closing(fast.target(), "op=exp not_device=fast"), slow.target()});
  ASSERT_EQ(placement.regions.size(), 3u);
  EXPECT_EQ(placement.regions[0].nodes, (Nodes{0}));
  EXPECT_EQ(placement.regions[1].nodes, (Nodes{1}));
  EXPECT_EQ(placement.regions[2].nodes, (Nodes{2, 3}));
  EXPECT_EQ(placement.regions[1].target, 1u);
  EXPECT_TRUE(refused(placement, 1, MORTISE_REASON_OPTION, "the place rule 'op=exp not_device=fast'"));
  EXPECT_FALSE(seen.empty());
}

// x + w1 + w2 + ...; returns the bytes of each tensor.
uint64_t sumOfWeights(GraphMaker &maker, int weights) {
  uint32_t value = maker.input();
  for (int i = 0; i < weights; ++i)
    value = maker.node("mortise.add", {value, maker.input(MORTISE_VALUE_CONSTANT)});
  maker.output(value);
  return byteSize(*maker.view().inputs[0]->type);
}

TEST(Place, WhatADeviceHasNoMemoryForGoesElsewhere) {
  GraphMaker maker;
  const uint64_t tensor = sumOfWeights(maker, 6);
  FakePlugin fast("fast", takesAll(1), /*hostMemory=*/false), slow("slow", takesAll(100'000));
  fast.limitMemory(5 * tensor); // three weights, and two values at a time
  const Placement placement = place(maker.view(), {fast.target(), slow.target()});
  ASSERT_EQ(placement.regions.size(), 2u);
  EXPECT_EQ(placement.regions[0].nodes, (Nodes{0, 1, 2}));
  EXPECT_EQ(placement.regions[0].target, 0u);
  EXPECT_EQ(placement.regions[1].nodes, (Nodes{3, 4, 5}));
  EXPECT_EQ(placement.regions[1].target, 1u);
  EXPECT_TRUE(refused(placement, 3, MORTISE_REASON_MEMORY, "memory_limit"));
  EXPECT_EQ(place(maker.view(), {fast.target()}).uncovered, (Nodes{3, 4, 5}));
  fast.limitMemory(8 * tensor);
  EXPECT_EQ(place(maker.view(), {fast.target(), slow.target()}).regions.size(), 1u);
  fast.limitMemory(2);
  EXPECT_EQ(place(maker.view(), {fast.target(), slow.target()}).regions[0].target, 1u);
}

TEST(Place, WhatLeavesOneDeviceHasToFitIntoTheNext) {
  GraphMaker maker;
  const uint64_t tensor = sumOfWeights(maker, 8);
  FakePlugin second("second", takesAll(1000), /*hostMemory=*/false), first("first", takesAll(1), /*hostMemory=*/false),
      third("third", takesAll(1'000'000));
  second.limitMemory(5 * tensor);
  first.limitMemory(4 * tensor);
  const Placement placement = place(maker.view(), {second.target(), first.target(), third.target()});
  ASSERT_EQ(placement.regions.size(), 3u);
  std::vector<std::pair<uint32_t, size_t>> found; // target, nodes
  for (const Candidate &region : placement.regions)
    found.emplace_back(region.target, region.nodes.size());
  EXPECT_EQ(found, (std::vector<std::pair<uint32_t, size_t>>{{1, 2}, {0, 3}, {2, 3}}));
  EXPECT_EQ(placement.memoryUse, (std::vector<uint64_t>{5 * tensor, 4 * tensor, 0}));
}

TEST(Place, MemoryOfTheCallersDoesNotCount) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.input()}));
  const uint64_t tensor = byteSize(*maker.view().inputs[0]->type);
  const uint32_t nodes[] = {0};
  EXPECT_EQ(memoryUse(maker.view(), nodes, [](uint32_t) { return false; }), 2 * tensor);
  EXPECT_EQ(memoryUse(maker.view(), nodes, [](uint32_t) { return true; }), tensor);
}

TEST(Place, RulesThatLeaveNoDeviceLeaveNodesUncovered) {
  GraphMaker maker;
  chain(maker, 3);
  FakePlugin only("only", takesAll(1));
  const Placement placement = place(maker.view(), {closing(only.target(), "location=* not_device=only")});
  EXPECT_EQ(placement.uncovered, (Nodes{0, 1, 2}));
  EXPECT_TRUE(refused(placement, 2, MORTISE_REASON_OPTION, "place rule"));
}

TEST(Place, AnOpPackTakesAPieceOutOfAnotherPluginsRegion) {
  GraphMaker maker;
  uint32_t value = maker.input();
  for (const char *op : {"mortise.neg", "mortise.attention", "mortise.neg", "mortise.attention", "mortise.neg"})
    value = maker.node(op, {value});
  maker.output(value);
  // Both take everything; attention is slow for one, and all that the other can do.
  const auto ownersAnswer = [](const Offer &offer) -> MortiseStatus * {
    Nodes all;
    double cost = 0;
    for (uint32_t n = 0; n < offer.graph().node_count; ++n) {
      all.push_back(n);
      cost += std::string(offer.graph().nodes[n]->op) == "mortise.attention" ? 100'000 : 1'000;
    }
    offer.add(all, cost);
    return nullptr;
  };
  const auto packsAnswer = [](const Offer &offer) -> MortiseStatus * {
    for (uint32_t n = 0; n < offer.graph().node_count; ++n)
      if (std::string(offer.graph().nodes[n]->op) == "mortise.attention")
        offer.add({n}, 5'000, "pack.attention");
    return nullptr;
  };
  for (const bool hostMemory : {true, false}) {
    FakePlugin owner("owner", ownersAnswer, hostMemory, MORTISE_OPSET, "acme");
    FakePlugin pack("pack", packsAnswer, hostMemory, MORTISE_OPSET, "acme");
    pack.isOpPackOf(owner);
    const Placement placement = place(maker.view(), {owner.target(), pack.target()});
    ASSERT_EQ(placement.regions.size(), 5u);
    for (uint32_t r = 0; r < 5; ++r)
      EXPECT_EQ(placement.regions[r].target, r % 2);
    EXPECT_TRUE(placement.uncovered.empty());
    const double moved =
        hostMemory ? 0 : 2 * CopyPrice().of(16.0 * 4); // the input and the output, and nothing in between
    EXPECT_DOUBLE_EQ(placement.costNs, 3 * 1'000 + 2 * 5'000 + 5 * regionNs + moved);
  }
}

TEST(Place, ValuesGoFromOneDeviceToAnotherThroughTheHost) {
  GraphMaker maker;
  chain(maker, 2);
  const auto takes = [](const std::string &location) { // node numbers change in regions that are proposed again
    return [location](const Offer &offer) -> MortiseStatus * {
      for (uint32_t n = 0; n < offer.graph().node_count; ++n)
        if (offer.graph().nodes[n]->location == location)
          offer.add({n}, 10);
      return nullptr;
    };
  };
  FakePlugin first("first", takes("model.py:1"), /*hostMemory=*/false),
      second("second", takes("model.py:2"), /*hostMemory=*/false);
  const Placement placement = place(maker.view(), {first.target(), second.target()});
  ASSERT_EQ(placement.regions.size(), 2u);
  EXPECT_DOUBLE_EQ(placement.costNs, 2 * (10 + regionNs) + 4 * CopyPrice().of(16.0 * 4));
}

TEST(Place, AWayOverTheHostHasOnePrice) {
  GraphMaker maker;
  const uint32_t x = maker.node("mortise.neg", {maker.input()});
  maker.output(maker.node("mortise.abs", {x}));
  const auto takes = [](const char *op) {
    return [op](const Offer &offer) -> MortiseStatus * {
      for (uint32_t n = 0; n < offer.graph().node_count; ++n)
        if (std::string(offer.graph().nodes[n]->op) == op)
          offer.add({n}, 10);
      return nullptr;
    };
  };
  FakePlugin first("first", takes("mortise.neg"), /*hostMemory=*/false),
      second("second", takes("mortise.abs"), /*hostMemory=*/false);
  first.costsToCopy(1000, 1e9);
  second.costsToCopy(3000, 2e9);
  const std::vector<Target> targets{first.target(), second.target()};
  const Placement placement = place(maker.view(), targets);
  ASSERT_EQ(placement.regions.size(), 2u);
  constexpr double bytes = 16 * 4;
  const double both = 1000 + bytes + 3000 + bytes / 2; // at 1 and at 2 bytes per ns
  EXPECT_DOUBLE_EQ(placement.costNs, 2 * (10 + regionNs) + 1000 + bytes + both + 3000 + bytes / 2);
  const auto plan = writePlan(maker.view(), placement, targets);
  ASSERT_TRUE(plan) << plan.error().message;
  double copies = 0;
  std::vector<bool> overHost;
  for (const auto &step : (*plan)->steps)
    if (const plan::CopyT *copy = step->instruction.AsCopy()) {
      EXPECT_EQ(copy->bytes, bytes);
      EXPECT_EQ(copy->latency_source, copy->cost_ns > 0 ? "stated" : "");
      copies += copy->cost_ns;
      overHost.push_back(copy->over_host);
    }
  EXPECT_DOUBLE_EQ(copies, placement.costNs - 2 * (10 + regionNs)) << "the plan's prices are the placement's";
  EXPECT_EQ(overHost, (std::vector<bool>{false, true, false, false}));
}

TEST(Place, IgnoresWhatAPluginMayNotSay) {
  GraphMaker maker;
  chain(maker, 3);
  FakePlugin plugin("liar", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0, 2}, 1);               // not convex
    offer.add({0, 1, 7}, 1);            // out of range
    offer.add({1, 0}, 1);               // not ascending
    offer.add({1, 1}, 1);               // a repeat
    offer.add({0, 1, 2}, std::nan("")); // no cost
    offer.add({0, 1, 2}, -1);
    offer.add({0, 1, 2}, INFINITY);
    offer.add({}, 1);
    offer.add({0, 1, 2}, 1, "");
    offer.add({0, 1, 2}, 1, nullptr);
    offer.args.add(offer.args.sink, nullptr);
    offer.refuse(9, MORTISE_REASON_OP, nullptr);
    offer.refuse(0, 77, nullptr);
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_TRUE(placement.regions.empty());
  EXPECT_EQ(placement.uncovered, (Nodes{0, 1, 2}));
  EXPECT_FALSE(declined(placement, MORTISE_REASON_ERROR, "not convex").nodes.empty());
  EXPECT_FALSE(declined(placement, MORTISE_REASON_ERROR, "node 7 of a graph of 3").nodes.empty());
  EXPECT_FALSE(declined(placement, MORTISE_REASON_ERROR, "not strictly ascending").nodes.empty());
  EXPECT_FALSE(declined(placement, MORTISE_REASON_ERROR, "expected a finite cost").nodes.empty());
  EXPECT_FALSE(declined(placement, MORTISE_REASON_ERROR, "names no lowering").nodes.empty());
  EXPECT_TRUE(refused(placement, 0, MORTISE_REASON_ERROR, "refused node 9"));
}

TEST(Place, APluginThatFailsIsARefusal) {
  GraphMaker maker;
  chain(maker, 2);
  FakePlugin broken("broken",
                    [](const Offer &) { return runtime::host().status_create(MORTISE_INTERNAL, "out of luck"); });
  FakePlugin throwing("throwing", [](const Offer &) -> MortiseStatus * { throw std::runtime_error("boom"); });
  FakePlugin good("good", takesAll(1));
  const Placement placement = place(maker.view(), {broken.target(), throwing.target(), good.target()});
  ASSERT_EQ(placement.regions.size(), 1u);
  EXPECT_EQ(placement.regions[0].target, 2u);
  EXPECT_TRUE(refused(placement, 0, MORTISE_REASON_ERROR, "out of luck"));
  EXPECT_TRUE(refused(placement, 1, MORTISE_REASON_ERROR, "boom"));
}

TEST(Place, RegionsNeverFormACycle) {
  // 0 -> 2, 1 -> 3: {0, 3} and {1, 2} are each convex, but need each other's results.
  GraphMaker maker;
  const uint32_t input = maker.input();
  const uint32_t a = maker.node("mortise.neg", {input}), b = maker.node("mortise.neg", {input});
  maker.output(maker.node("mortise.abs", {a}));
  maker.output(maker.node("mortise.abs", {b}));
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0, 3}, 1);
    offer.add({1, 2}, 1);
    for (uint32_t n = 0; n < offer.graph().node_count; ++n)
      offer.add({n}, 10'000);
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_TRUE(placement.uncovered.empty());
  EXPECT_EQ(placement.regions.size(), 3u); // one of the pairs, and two single nodes
}

TEST(Place, TransfersCount) {
  GraphMaker maker;
  chain(maker, 3);
  // The far device is faster at the middle node, but by less than two transfers cost.
  FakePlugin near("near", [](const Offer &offer) -> MortiseStatus * {
    for (uint32_t n = 0; n < offer.graph().node_count; ++n)
      offer.add({n}, 2'000);
    return nullptr;
  });
  FakePlugin far(
      "far",
      [](const Offer &offer) -> MortiseStatus * {
        if (offer.graph().node_count == 3)
          offer.add({1}, 10);
        return nullptr;
      },
      /*hostMemory=*/false);
  const Placement placement = place(maker.view(), {near.target(), far.target()});
  ASSERT_EQ(placement.regions.size(), 3u);
  for (const Candidate &region : placement.regions)
    EXPECT_EQ(region.target, 0u);
}

TEST(Place, LiteralsThatNobodyTakesAreTheHosts) {
  GraphMaker maker;
  const uint32_t input = maker.input(), literal = maker.literal();
  maker.output(maker.node("mortise.add", {input, literal}));
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    offer.add({1}, 1);
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_EQ(placement.literals, (Nodes{0}));
  EXPECT_TRUE(placement.uncovered.empty());
}

TEST(Place, SameAnswersSamePlacement) {
  GraphMaker maker;
  chain(maker, 30);
  const auto answer = [](const Offer &offer) -> MortiseStatus * {
    for (uint32_t n = 0; n < offer.graph().node_count; ++n) {
      offer.add({n}, 100);
      if (n + 1 < offer.graph().node_count)
        offer.add({n, n + 1}, 200);
    }
    return nullptr;
  };
  FakePlugin one("one", answer), two("two", answer);
  const Placement first = place(maker.view(), {one.target(), two.target()});
  const Placement second = place(maker.view(), {one.target(), two.target()});
  EXPECT_EQ(first.regions.size(), 15u);
  ASSERT_EQ(first.regions.size(), second.regions.size());
  for (size_t r = 0; r < first.regions.size(); ++r) {
    EXPECT_EQ(first.regions[r].nodes, second.regions[r].nodes);
    EXPECT_EQ(first.regions[r].target, second.regions[r].target);
  }
}

TEST(Place, AThousandSmallCandidatesTakeLittleTime) {
  GraphMaker maker;
  chain(maker, 2000);
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    for (uint32_t n = 0; n < offer.graph().node_count; ++n) {
      offer.add({n}, 100);
      if (n + 2 < offer.graph().node_count)
        offer.add({n, n + 1, n + 2}, 150);
    }
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_TRUE(placement.uncovered.empty());
}

TEST(Place, UncoveredNodesAreExplained) {
  GraphMaker maker;
  chain(maker, 2);
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    if (offer.graph().node_count == 2)
      offer.add({0}, 1);
    offer.refuse(offer.graph().node_count - 1, MORTISE_REASON_DTYPE, "f32 is not for me");
    return nullptr;
  });
  FakePlugin silent("silent", [](const Offer &) -> MortiseStatus * { return nullptr; });
  const std::vector<Target> targets = {plugin.target(), silent.target()};
  const Placement placement = place(maker.view(), targets);
  EXPECT_EQ(placement.uncovered, (Nodes{1}));
  const std::vector<Uncovered> uncovered = uncoveredNodes(maker.view(), placement, targets);
  ASSERT_EQ(uncovered.size(), 2u);
  EXPECT_EQ(uncovered[0].node, 1u);
  EXPECT_EQ(uncovered[0].op, "mortise.neg");
  EXPECT_EQ(uncovered[0].location, "model.py:2");
  EXPECT_EQ(uncovered[0].reason, MORTISE_REASON_DTYPE);
  EXPECT_EQ(uncovered[0].detail, "f32 is not for me");
  EXPECT_EQ(uncovered[1].plugin, "silent");
  EXPECT_EQ(uncovered[1].reason, 0);
  const Error error = uncoveredError(maker.view(), uncovered);
  EXPECT_EQ(error.code, MORTISE_UNSUPPORTED);
  for (const char *part :
       {"mortise.neg(f32[16])", "model.py:2", "dtype: f32 is not for me", "silent: the plugin proposed nothing"})
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
}

TEST(Place, RequirementsAreChecked) {
  GraphMaker maker;
  chain(maker, 4);
  FakePlugin plugin("fake", takesAll(10));
  const std::vector<Target> targets = {plugin.target()};
  const Placement placement = place(maker.view(), targets);
  EXPECT_TRUE(checkRequirement("", maker.view(), placement, targets));
  EXPECT_TRUE(checkRequirement("100% on fake", maker.view(), placement, targets));
  EXPECT_TRUE(checkRequirement("0% on cpu", maker.view(), placement, targets));
  EXPECT_EQ(checkRequirement("95% on cpu", maker.view(), placement, targets).error().code, MORTISE_UNSUPPORTED);
  for (const char *bad : {"95", "95% of cpu", "% on cpu", "95% on ", "120% on cpu", "nan% on cpu", "-5% on cpu"})
    EXPECT_EQ(checkRequirement(bad, maker.view(), placement, targets).error().code, MORTISE_INVALID_ARGUMENT) << bad;
}

TEST(Place, NewerOpsDoNotGoToOlderPlugins) {
  GraphMaker maker;
  chain(maker, 2);
  maker.since(2);
  FakePlugin plugin("old", takesAll(10), true, 1);
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_TRUE(placement.regions.empty());
  EXPECT_EQ(declined(placement, MORTISE_REASON_OPSET, "knows opset 1 and the op is of opset 2").lowering,
            "fake.region");
}

} // namespace
} // namespace mortise::passes
