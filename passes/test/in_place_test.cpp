// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairs that plugins can run in place, and donated inputs: how they are validated, and how memory is reused.
#include "../plan_writer.hpp"
#include "fixture.hpp"

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/plan_generated.h>

#include <gtest/gtest.h>

#include <numeric>

namespace mortise::passes {
namespace {

using namespace test;
using Lines = std::vector<std::string>;

// Proposes each node as a region whose result can be written over any of its operands that plugin.h allows.
MortiseStatus *inPlace(const Offer &offer) {
  for (uint32_t n = 0; n < offer.graph().node_count; ++n) {
    const MortiseNode &node = *offer.graph().nodes[n];
    std::vector<MortiseInPlace> pairs;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (!(node.operands[i]->flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE)))
        pairs.push_back({node.operands[i]->index, node.results[0]->index});
    offer.add({n}, 10, "fake.one", pairs);
  }
  return nullptr;
}
MortiseStatus *apart(const Offer &offer) {
  for (uint32_t n = 0; n < offer.graph().node_count; ++n)
    offer.add({n}, 10);
  return nullptr;
}

std::shared_ptr<const plan::PlanT> plan(GraphMaker &maker, MortiseStatus *(*answer)(const Offer &) = inPlace,
                                        bool hostMemory = true) {
  FakePlugin plugin("fake", answer, hostMemory);
  const std::vector<Target> targets = {plugin.target()};
  const MortiseGraph &graph = maker.view();
  const Placement placement = place(graph, targets);
  EXPECT_EQ(placement.regions.size(), graph.node_count)
      << (placement.declined.empty() ? "" : placement.declined[0].detail);
  auto written = writePlan(graph, placement, targets);
  EXPECT_TRUE(written) << written.error().message;
  return *written;
}

// "x0 -> a2": each buffer by the number of the buffer that owns its memory, with x, y or a for input, output or arena.
Lines runs(const plan::PlanT &plan) {
  const auto name = [&](uint32_t buffer) {
    const uint32_t root = plan.buffers[buffer]->shares == UINT32_MAX ? buffer : plan.buffers[buffer]->shares;
    return "xyal"[static_cast<size_t>(plan.buffers[root]->kind)] + std::to_string(root);
  };
  Lines lines;
  for (const auto &step : plan.steps) {
    std::string line;
    if (const plan::CopyT *copy = step->instruction.AsCopy()) {
      lines.push_back("copy " + name(copy->source) + " " + name(copy->target));
      continue;
    }
    const plan::RegionT &region = *plan.regions.at(step->instruction.AsEnqueue()->region);
    for (uint32_t buffer : region.inputs)
      line += name(buffer) + " ";
    line += "->";
    for (uint32_t buffer : region.outputs)
      line += " " + name(buffer);
    lines.push_back(line);
  }
  return lines;
}

TEST(InPlace, ADyingInputIsWrittenOver) {
  GraphMaker maker;
  uint32_t value = maker.input();
  for (int i = 0; i < 4; ++i)
    value = maker.node("mortise.neg", {value});
  maker.output(value);
  const auto written = plan(maker);
  EXPECT_EQ(runs(*written), (Lines{"x0 -> a2", "a2 -> a2", "a2 -> a2", "a2 -> y1"}));
  EXPECT_EQ(written->spaces[0]->bytes, 64u);
  EXPECT_EQ(plan(maker, apart)->spaces[0]->bytes, 128u);
}

TEST(InPlace, NotWhileTheInputIsReadOrReturned) {
  GraphMaker maker;
  const uint32_t x = maker.input(), a = maker.node("mortise.neg", {x}), b = maker.node("mortise.abs", {a}),
                 c = maker.node("mortise.add", {a, b}), d = maker.node("mortise.neg", {c});
  maker.output(c);
  maker.output(d);
  maker.output(c); // copied at the end
  const auto written = plan(maker);
  EXPECT_EQ(runs(*written), (Lines{"x0 -> a4", "a4 -> a5", "a4 a5 -> y1", "copy y1 y3", "y1 -> y2"}));
}

TEST(InPlace, ACopyOnADeviceIsWrittenOver) {
  GraphMaker maker; // x belongs to the caller, its copy does not
  const uint32_t x = maker.input(), a = maker.node("mortise.neg", {x});
  maker.output(maker.node("mortise.neg", {a}));
  EXPECT_EQ(runs(*plan(maker, inPlace, /*hostMemory=*/false)),
            (Lines{"copy x0 a2", "a2 -> a2", "a2 -> a2", "copy a2 y1"}));
}

TEST(InPlace, DonatedInputs) {
  GraphMaker maker;
  const uint32_t x = maker.input(MORTISE_VALUE_DONATED), a = maker.node("mortise.neg", {x});
  maker.output(maker.node("mortise.neg", {maker.node("mortise.neg", {a})}));
  const auto written = plan(maker);
  EXPECT_EQ(runs(*written), (Lines{"x0 -> x0", "x0 -> x0", "x0 -> y1"}));
  EXPECT_EQ(written->spaces[0]->bytes, 0u);
  EXPECT_EQ(written->version, 2u);
  EXPECT_TRUE(written->inputs[0]->donated);
}

TEST(InPlace, DonatedMemoryHoldsLaterValues) {
  GraphMaker maker;
  const uint32_t x = maker.input(MORTISE_VALUE_DONATED), a = maker.node("mortise.neg", {x}),
                 b = maker.node("mortise.neg", {a}), c = maker.node("mortise.neg", {b});
  maker.output(maker.node("mortise.add", {c, b}));
  // b occupies that memory until the end, so c cannot.
  EXPECT_EQ(runs(*plan(maker, apart)), (Lines{"x0 -> a2", "a2 -> x0", "x0 -> a3", "x0 a3 -> y1"}));
}

TEST(InPlace, DonatedInputsThatAreReturnedStayAsTheyAre) {
  GraphMaker maker;
  const uint32_t x = maker.input(MORTISE_VALUE_DONATED), a = maker.node("mortise.neg", {x});
  maker.output(maker.node("mortise.neg", {a}));
  maker.output(x);
  EXPECT_EQ(runs(*plan(maker)), (Lines{"x0 -> a3", "a3 -> y1", "copy x0 y2"}));
}

// Per region, the buffers of the inputs that its graph marks as donated.
Lines overwritable(const plan::PlanT &plan) {
  Lines lines;
  for (const auto &region : plan.regions) {
    auto graph = Graph::read(std::as_bytes(std::span(region->graph)));
    EXPECT_TRUE(graph) << graph.error().message;
    std::string line;
    for (size_t i = 0; i < region->inputs.size(); ++i)
      if ((*graph)->view().inputs[i]->flags & MORTISE_VALUE_DONATED)
        line += (line.empty() ? "" : " ") + std::to_string(region->inputs[i]);
    lines.push_back(line);
  }
  return lines;
}

TEST(DonatedToRegions, WhatNothingReadsLater) {
  GraphMaker maker;
  const uint32_t x = maker.input(MORTISE_VALUE_DONATED), y = maker.input(), a = maker.node("mortise.neg", {x}),
                 b = maker.node("mortise.add", {a, y}), c = maker.node("mortise.mul", {b, x});
  maker.output(maker.node("mortise.add", {c, b}));
  const auto written = plan(maker, apart);
  EXPECT_EQ(runs(*written), (Lines{"x0 -> a3", "x1 a3 -> a4", "x0 a4 -> a5", "a4 a5 -> y2"}));
  EXPECT_EQ(overwritable(*written), (Lines{"", "3", "0", "4 5"})) << "y is the caller's, and x is read twice";
  EXPECT_EQ(written->version, 2u);
}

TEST(DonatedToRegions, NotWhatIsReturnedOrWrittenOver) {
  GraphMaker maker;
  const uint32_t x = maker.input(MORTISE_VALUE_DONATED), a = maker.node("mortise.neg", {x}),
                 b = maker.node("mortise.abs", {a}), c = maker.node("mortise.neg", {b});
  maker.output(x);
  maker.output(b);
  maker.output(maker.node("mortise.neg", {c}));
  const auto apartFrom = plan(maker, apart);
  EXPECT_EQ(overwritable(*apartFrom), (Lines{"", std::to_string(apartFrom->regions[1]->inputs[0]), "",
                                             std::to_string(apartFrom->regions[3]->inputs[0])}));
  const auto over = plan(maker); // in place where it can be: nothing is left to be overwritten otherwise
  EXPECT_EQ(runs(*over)[2], "y2 -> a" + std::to_string(over->regions[2]->outputs[0]));
  for (size_t r = 0; r < 3; ++r)
    for (uint32_t buffer : over->regions[r]->outputs)
      EXPECT_EQ(overwritable(*over)[r].find(std::to_string(buffer)), std::string::npos) << "region " << r;
}

TEST(DonatedToRegions, StatesAndConstantsStay) {
  GraphMaker maker;
  const uint32_t state = maker.input(MORTISE_VALUE_STATE), weight = maker.input(MORTISE_VALUE_CONSTANT),
                 a = maker.node("mortise.add", {state, weight});
  maker.output(a);
  maker.alias(0, 0);
  const auto written = plan(maker, apart);
  EXPECT_EQ(overwritable(*written), (Lines{""}));
  EXPECT_EQ(written->version, 1u) << "nothing in it is new";
}

// The flag came with opset 2. A caller's memory on a device may be less aligned than the device wants.
TEST(DonatedToRegions, NotWhereThePluginIsOlderOrTheMemoryADevices) {
  GraphMaker maker;
  const uint32_t x = maker.input(MORTISE_VALUE_DONATED), a = maker.node("mortise.neg", {x});
  maker.output(maker.node("mortise.neg", {a}));
  const auto told = [&](FakePlugin &plugin, bool isThere) {
    const std::vector<Target> targets = {plugin.target()};
    Homes homes;
    if (isThere)
      homes.inputs = homes.outputs = {targets[0].device};
    const MortiseGraph &graph = maker.view();
    auto written = writePlan(graph, place(graph, targets, {}, homes), targets, {}, homes);
    EXPECT_TRUE(written) << written.error().message;
    return overwritable(**written);
  };
  FakePlugin older("fake", apart, true, 1), newer("fake", apart), device("fake", apart, false);
  EXPECT_EQ(told(older, false), (Lines{"", ""}));
  EXPECT_EQ(told(newer, false), (Lines{"0", "2"}));
  EXPECT_EQ(told(device, true), (Lines{"", "2"}));
  EXPECT_EQ(told(device, false), (Lines{"2", "3"})) << "the copy of x";
}

TEST(InPlace, AnotherTypeOfAsManyBytes) {
  const int64_t wide[] = {8}, narrow[] = {32};
  const MortiseType f64{sizeof f64, nullptr, MORTISE_F64, 1, wide, nullptr, nullptr},
      f16{sizeof f16, nullptr, MORTISE_F16, 1, narrow, nullptr, nullptr};
  for (const bool donated : {false, true}) {
    GraphMaker maker;
    const uint32_t x = maker.input(donated ? MORTISE_VALUE_DONATED : 0), a = maker.node("mortise.neg", {x}),
                   b = maker.node("mortise.convert", {a}), c = maker.node("mortise.convert", {b});
    maker.retype(b, f16);
    maker.retype(c, f64);
    maker.output(maker.node("mortise.convert", {c}));
    const auto written = plan(maker);
    if (!donated) {
      EXPECT_EQ(runs(*written), (Lines{"x0 -> a2", "a2 -> a2", "a2 -> a2", "a2 -> y1"}));
      EXPECT_EQ(written->spaces[0]->bytes, 64u);
    } else { // f64 needs a larger alignment than the caller's f32 memory may have
      EXPECT_EQ(runs(*written), (Lines{"x0 -> x0", "x0 -> x0", "x0 -> a3", "a3 -> y1"}));
    }
    EXPECT_EQ(written->version, 2u);
  }
}

TEST(InPlace, Symbols) {
  const MortiseExprStep steps[] = {{MORTISE_EXPR_SYMBOL, 0, 0}}, twiceSteps[] = {{MORTISE_EXPR_CONST, 0, 2},
                                                                                 {MORTISE_EXPR_SYMBOL, 0, 0},
                                                                                 {MORTISE_EXPR_MUL, 0, 0}};
  const MortiseExpr twice[] = {{twiceSteps, 3}}, once[] = {{steps, 1}};
  const int64_t dynamic[] = {MORTISE_DYNAMIC};
  const MortiseType halves{sizeof halves, nullptr, MORTISE_F16, 1, dynamic, twice, nullptr},
      fewer{sizeof fewer, nullptr, MORTISE_F16, 1, dynamic, once, nullptr};
  GraphMaker maker;
  maker.symbolic();
  const uint32_t x = maker.input(), a = maker.node("mortise.neg", {x}), b = maker.node("mortise.convert", {a}),
                 c = maker.node("mortise.convert", {b});
  maker.retype(b, halves); // 2n halves are n floats
  maker.output(c);
  const auto written = plan(maker);
  EXPECT_EQ(runs(*written), (Lines{"x0 -> a2", "a2 -> a2", "a2 -> y1"}));
  ASSERT_EQ(written->buffers.size(), 4u);
  EXPECT_EQ(written->buffers[2]->first, 0u);
  EXPECT_EQ(written->buffers[2]->last, 2u);
  EXPECT_EQ(written->buffers[3]->shares, 2u);

  // For the number 64 that the plugin is shown, f16[n] and f16[64] are equal; they differ for other values.
  const int64_t numbers[] = {64};
  const MortiseType fixed{sizeof fixed, nullptr, MORTISE_F16, 1, numbers, nullptr, nullptr};
  GraphMaker other;
  other.symbolic();
  const uint32_t p = other.input(), q = other.node("mortise.convert", {p}), r = other.node("mortise.convert", {q});
  other.retype(q, fewer);
  other.retype(r, fixed);
  other.output(other.node("mortise.convert", {r}));
  FakePlugin old(
      "old",
      [](const Offer &offer) -> MortiseStatus * {
        offer.add({0}, 1);
        offer.add({1}, 1, "fake.one", {{1, 2}});
        offer.add({2}, 1);
        return nullptr;
      },
      true, 1);
  const Placement placement = place(other.view(), {old.target()});
  ASSERT_EQ(placement.regions.size(), 3u);
  EXPECT_TRUE(placement.regions[1].inPlace.empty());
}

TEST(InPlace, WrongPairsAreRefused) {
  // 0: x, 1: weight, 2: state, 3: a = neg(x), 4: b = abs(a), 5: c = add(b, weight), 6: s' = add(state, x), 7: cut(a)
  const int64_t few[] = {4};
  const MortiseType cut{sizeof cut, nullptr, MORTISE_F32, 1, few, nullptr, nullptr};
  const struct {
    std::vector<MortiseInPlace> pairs;
    const char *reason;
  } faults[] = {
      {{{0, 99}}, "the graph has 8 values"},
      {{{99, 3}}, "the graph has 8 values"},
      {{{3, 4}}, "expected a value that the region reads from outside"},
      {{{7, 4}}, "expected a value that the region reads from outside"},
      {{{0, 3}}, "expected a value that the region produces and others use"},
      {{{0, 0}}, "expected a value that the region produces and others use"},
      {{{1, 5}}, "constant or state"},
      {{{2, 5}}, "constant or state"},
      {{{0, 6}}, "one of them is aliased already"},
      {{{0, 7}}, "expected as many bytes for all values of the symbols, found f32[4] over f32[16]"},
      {{{0, 5}, {0, 5}}, "twice"},
  };
  for (const auto &fault : faults) {
    GraphMaker maker;
    const uint32_t x = maker.input(), w = maker.input(MORTISE_VALUE_CONSTANT), s = maker.input(MORTISE_VALUE_STATE),
                   a = maker.node("mortise.neg", {x}), b = maker.node("mortise.abs", {a});
    maker.output(maker.node("mortise.add", {b, w}));
    maker.output(maker.node("mortise.add", {s, x}));
    const uint32_t small = maker.node("mortise.slice", {a});
    maker.retype(small, cut);
    maker.output(small);
    maker.alias(2, 1);
    FakePlugin plugin("fake", [&](const Offer &offer) -> MortiseStatus * {
      std::vector<uint32_t> all(offer.graph().node_count);
      std::iota(all.begin(), all.end(), 0);
      offer.add(all, 1, "fake.wrong", fault.pairs);
      offer.add(all, 1, "fake.right", {{0, 5}});
      return nullptr;
    });
    const Placement placement = place(maker.view(), {plugin.target()});
    ASSERT_EQ(placement.regions.size(), 1u);
    EXPECT_EQ(placement.regions[0].lowering, "fake.right") << fault.reason;
    ASSERT_EQ(placement.declined.size(), 1u) << fault.reason;
    EXPECT_NE(placement.declined[0].detail.find(fault.reason), std::string::npos) << placement.declined[0].detail;
  }
}

TEST(InPlace, AListThatIsNotThereIsRefused) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.input()}));
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    const uint32_t node = 0;
    MortiseCandidate candidate{sizeof candidate, nullptr, "fake.one", &node, 1, 1, 0, 0, nullptr, 3};
    offer.args.add(offer.args.sink, &candidate);
    candidate.in_place_count = 0;
    offer.args.add(offer.args.sink, &candidate);
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_EQ(placement.regions.size(), 1u);
  ASSERT_EQ(placement.declined.size(), 1u);
  EXPECT_NE(placement.declined[0].detail.find("counts pairs"), std::string::npos);
}

TEST(InPlace, PairsOfWhatIsLeftOverAreTheWholeGraphs) {
  GraphMaker maker;
  uint32_t value = maker.input();
  for (int i = 0; i < 4; ++i)
    value = maker.node("mortise.neg", {value});
  maker.output(value);
  FakePlugin front("front", [](const Offer &offer) -> MortiseStatus * {
    if (offer.graph().node_count == 4)
      offer.add({0, 1}, 10);
    return nullptr;
  });
  FakePlugin back("back", [](const Offer &offer) -> MortiseStatus * {
    if (offer.graph().node_count == 2) // values 0 (from outside), 1 and 2 there
      offer.add({0}, 10, "back.one", {{0, 1}}), offer.add({1}, 10, "back.one", {{1, 2}});
    return nullptr;
  });
  const Placement placement = place(maker.view(), {front.target(), back.target()});
  ASSERT_EQ(placement.regions.size(), 3u);
  ASSERT_EQ(placement.regions[1].inPlace.size(), 1u);
  EXPECT_EQ(placement.regions[1].inPlace[0].input, 2u);
  EXPECT_EQ(placement.regions[1].inPlace[0].output, 3u);
  ASSERT_EQ(placement.regions[2].inPlace.size(), 1u);
  EXPECT_EQ(placement.regions[2].inPlace[0].input, 3u);
  EXPECT_EQ(placement.regions[2].inPlace[0].output, 4u);
}

} // namespace
} // namespace mortise::passes
