// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts and memory spaces that candidates ask for: how they are validated, priced and written into a plan. Strict
// plugins run such plans in tests/devices.
#include "../plan_writer.hpp"
#include "fixture.hpp"

#include <mortise/runtime/plan_generated.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace mortise::passes {
namespace {

using namespace test;
using Lines = std::vector<std::string>;

constexpr uint32_t blocked = 1, tiled = 2, unknown = 3, negative = 4, oneWay = 5;

MortiseStatus *layout(MortiseLayoutArgs *args) {
  static const MortiseExprStep bytes[] = {{MORTISE_EXPR_CONST, 0, 128}}, wrong[] = {{MORTISE_EXPR_CONST, 0, -1}};
  if (args->layout == unknown)
    return runtime::host().status_create(MORTISE_UNSUPPORTED, "no such layout");
  args->bytes = {args->layout == negative ? wrong : bytes, 1};
  args->name = "blocked";
  return nullptr;
}

// Answers a request for a conversion. False when `offer` is none.
bool converts(const Offer &offer, double ns, bool direct = true) {
  if (offer.forms().empty())
    return false;
  EXPECT_STREQ(offer.graph().nodes[0]->op, "mortise.convert");
  const uint32_t from = offer.forms()[0].layout, to = offer.forms()[1].layout;
  if (from != oneWay && (direct || from == MORTISE_PLAIN_LAYOUT || to == MORTISE_PLAIN_LAYOUT))
    offer.add({0}, ns, "fake.conversion", {}, {offer.forms().begin(), offer.forms().end()});
  return true;
}

// "fake.one 0:1 -> 2": a region's buffers, each with its layout and space where they are not plain and the home.
Lines steps(const plan::PlanT &plan) {
  const auto name = [&](uint32_t number) {
    const plan::BufferT &buffer = *plan.buffers[number];
    const uint32_t space = plan.spaces[buffer.space]->number;
    return " " + std::to_string(number) + (buffer.layout || space ? ":" + std::to_string(buffer.layout) : "") +
           (space ? "@" + std::to_string(space) : "");
  };
  Lines lines;
  for (const auto &step : plan.steps)
    if (const plan::CopyT *copy = step->instruction.AsCopy()) {
      lines.push_back("copy" + name(copy->source) + " ->" + name(copy->target));
    } else {
      const plan::RegionT &region = *plan.regions.at(step->instruction.AsEnqueue()->region);
      std::string &line = lines.emplace_back(region.lowering);
      for (uint32_t buffer : region.inputs)
        line += name(buffer);
      line += " ->";
      for (uint32_t buffer : region.outputs)
        line += name(buffer);
    }
  return lines;
}

TEST(Layouts, WrongFormsAreRefused) {
  // 0: x, 1: weight, 2: state, 3: a = neg(x), 4: b = abs(a), 5: c = add(b, weight), 6: s' = add(state, x)
  const struct {
    std::vector<MortiseForm> forms;
    const char *reason;
  } faults[] = {
      {{{99, blocked, 0, 0}}, "the graph has 7 values"},
      {{{4, blocked, 0, 0}}, "expected a value that the region reads from outside, or produces and others use"},
      {{{1, blocked, 0, 0}}, "constant or state"},
      {{{2, blocked, 0, 0}}, "constant or state"},
      {{{6, blocked, 0, 0}}, "aliased or to run in place"},
      {{{5, blocked, 0, 0}, {5, tiled, 0, 0}}, "the candidate has two"},
      {{{5, unknown, 0, 0}}, "layout 3 of plugin 'fake': no such layout"},
      {{{5, negative, 0, 0}}, "expected the bytes that value 5 takes, found -1"},
      {{{5, oneWay, 0, 0}}, "no conversion of f32[16] from layout 5 to plain"},
      {{{0, blocked, 2, 0}}, "expected a space of the device, of a kind other than host, found 2"},
  };
  for (const auto &fault : faults) {
    GraphMaker maker;
    const uint32_t x = maker.input(), w = maker.input(MORTISE_VALUE_CONSTANT), s = maker.input(MORTISE_VALUE_STATE),
                   a = maker.node("mortise.neg", {x}), b = maker.node("mortise.abs", {a});
    maker.output(maker.node("mortise.add", {b, w}));
    maker.output(maker.node("mortise.add", {s, x}));
    maker.alias(2, 1);
    FakePlugin plugin("fake", [&](const Offer &offer) -> MortiseStatus * {
      if (converts(offer, 1))
        return nullptr;
      std::vector<uint32_t> all(offer.graph().node_count);
      std::iota(all.begin(), all.end(), 0);
      offer.add(all, 1, "fake.wrong", {}, fault.forms);
      offer.add(all, 1, "fake.right", {}, {{0, oneWay, 1, 0}, {5, blocked, 0, 0}});
      return nullptr;
    });
    plugin.hasLayouts(layout);
    plugin.hasScratch();
    const Placement placement = place(maker.view(), {plugin.target()});
    ASSERT_EQ(placement.regions.size(), 1u) << fault.reason;
    EXPECT_EQ(placement.regions[0].lowering, "fake.right") << fault.reason;
    ASSERT_EQ(placement.declined.size(), 1u) << fault.reason;
    EXPECT_NE(placement.declined[0].detail.find(fault.reason), std::string::npos) << placement.declined[0].detail;
  }
}

TEST(Layouts, APluginWithoutTheSlotHasNone) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.input()}));
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0}, 1, "fake.one", {}, {{0, blocked, 0, 0}});
    return nullptr;
  });
  const Placement placement = place(maker.view(), {plugin.target()});
  EXPECT_TRUE(placement.regions.empty());
  ASSERT_EQ(placement.declined.size(), 1u);
  EXPECT_NE(placement.declined[0].detail.find("no slot layout"), std::string::npos);
}

TEST(Layouts, ListsThatAreNotThereAreRefused) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.input()}));
  for (const size_t count : {size_t{2}, SIZE_MAX})
    for (const MortiseForm *list :
         {static_cast<const MortiseForm *>(nullptr), reinterpret_cast<const MortiseForm *>(64)}) {
      FakePlugin plugin("fake", [&](const Offer &offer) -> MortiseStatus * {
        const uint32_t node = 0;
        MortiseCandidate candidate{sizeof candidate, nullptr, "fake.one", &node, 1, 1, 0, 0, nullptr, 0, list, count};
        offer.args.add(offer.args.sink, &candidate);
        return nullptr;
      });
      const Placement placement = place(maker.view(), {plugin.target()});
      EXPECT_TRUE(placement.regions.empty());
      ASSERT_EQ(placement.declined.size(), 1u);
      EXPECT_NE(placement.declined[0].detail.find("forms"), std::string::npos) << placement.declined[0].detail;
    }
}

// x -> [neg] -> a -> [abs] -> y, with each region's input and output in a form.
Lines planOf(MortiseForm given, MortiseForm wanted, double conversionNs, bool direct = true) {
  GraphMaker maker;
  maker.output(maker.node("mortise.abs", {maker.node("mortise.neg", {maker.input()})}));
  FakePlugin plugin("fake", [&](const Offer &offer) -> MortiseStatus * {
    if (converts(offer, conversionNs, direct))
      return nullptr;
    for (uint32_t n = 0; n < offer.graph().node_count; ++n) {
      std::vector<MortiseForm> forms;
      const std::string op = offer.graph().nodes[n]->op;
      if (op == "mortise.neg")
        forms = {{offer.graph().nodes[n]->results[0]->index, given.layout, given.space, 0}};
      else
        forms = {{offer.graph().nodes[n]->operands[0]->index, wanted.layout, wanted.space, 0}};
      offer.add({n}, 50'000, "fake.plain");
      offer.add({n}, 10, "fake.one", {}, forms);
    }
    return nullptr;
  });
  plugin.hasLayouts(layout);
  plugin.hasScratch();
  const std::vector<Target> targets = {plugin.target()};
  const MortiseGraph &graph = maker.view();
  auto written = writePlan(graph, place(graph, targets), targets);
  EXPECT_TRUE(written) << written.error().message;
  return steps(**written);
}

TEST(Layouts, WhatRegionsAgreeOnIsPassedOn) {
  EXPECT_EQ(planOf({0, blocked, 0, 0}, {0, blocked, 0, 0}, 1), Lines({"fake.one 0 -> 2:1", "fake.one 2:1 -> 1"}));
  EXPECT_EQ(planOf({0, 0, 1, 0}, {0, 0, 1, 0}, 1), Lines({"fake.one 0 -> 2:0@1", "fake.one 2:0@1 -> 1"}));
}

TEST(Layouts, TheHostConvertsAndCopiesInBetween) {
  EXPECT_EQ(planOf({0, blocked, 0, 0}, {0, tiled, 0, 0}, 1),
            Lines({"fake.one 0 -> 2:1", "fake.conversion 2:1 -> 3:2", "fake.one 3:2 -> 1"}));
  EXPECT_EQ(planOf({0, blocked, 0, 0}, {0, tiled, 0, 0}, 1, false),
            Lines({"fake.one 0 -> 2:1", "fake.conversion 2:1 -> 3", "fake.conversion 3 -> 4:2", "fake.one 4:2 -> 1"}));
  EXPECT_EQ(planOf({0, blocked, 1, 0}, {0, 0, 0, 0}, 1),
            Lines({"fake.one 0 -> 2:1@1", "copy 2:1@1 -> 3:1", "fake.conversion 3:1 -> 4", "fake.one 4 -> 1"}));
}

TEST(Layouts, ConversionsCost) {
  // A conversion of 1 ms is dearer than both of the plain kernels, and only agreement pays.
  EXPECT_EQ(planOf({0, blocked, 0, 0}, {0, tiled, 0, 0}, 1'000'000), Lines({"fake.plain 0 -> 2", "fake.plain 2 -> 1"}));
  EXPECT_EQ(planOf({0, blocked, 0, 0}, {0, blocked, 0, 0}, 1'000'000),
            Lines({"fake.one 0 -> 2:1", "fake.one 2:1 -> 1"}));
}

TEST(Layouts, ResultsOfTheGraphArePlain) {
  GraphMaker maker;
  const uint32_t a = maker.node("mortise.neg", {maker.input()});
  maker.output(a);
  maker.output(a);
  FakePlugin plugin("fake", [&](const Offer &offer) -> MortiseStatus * {
    if (!converts(offer, 1))
      offer.add({0}, 10, "fake.one", {}, {{0, blocked, 1, 0}, {1, tiled, 0, 0}});
    return nullptr;
  });
  plugin.hasLayouts(layout);
  plugin.hasScratch();
  const std::vector<Target> targets = {plugin.target()};
  const MortiseGraph &graph = maker.view();
  const auto written = writePlan(graph, place(graph, targets), targets);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(steps(**written), Lines({"fake.conversion 0 -> 3:1", "copy 3:1 -> 4:1@1", "fake.one 4:1@1 -> 5:2",
                                     "fake.conversion 5:2 -> 6", "copy 6 -> 1", "copy 6 -> 2"}));
}

TEST(Layouts, ASizeThatIsGoneWhenThePlanIsWrittenIsAnError) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.node("mortise.neg", {maker.input()})}));
  FakePlugin plugin("fake", [&](const Offer &offer) -> MortiseStatus * {
    if (converts(offer, 1))
      return nullptr;
    offer.add({0}, 10, "fake.one", {}, {{offer.graph().nodes[0]->results[0]->index, blocked, 0, 0}});
    offer.add({1}, 10, "fake.one", {}, {{offer.graph().nodes[1]->operands[0]->index, blocked, 0, 0}});
    return nullptr;
  });
  plugin.hasLayouts(layout);
  const std::vector<Target> targets = {plugin.target()};
  const MortiseGraph &graph = maker.view();
  const Placement placement = place(graph, targets);
  plugin.hasLayouts(
      [](MortiseLayoutArgs *) { return runtime::host().status_create(MORTISE_OUT_OF_MEMORY, "no room"); });
  const auto written = writePlan(graph, placement, targets);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, MORTISE_OUT_OF_MEMORY);
  EXPECT_THAT(written.error().message,
              testing::AllOf(testing::HasSubstr("plugin 'fake'"), testing::HasSubstr("no room")));
}

} // namespace
} // namespace mortise::passes
