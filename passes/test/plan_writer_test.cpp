// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../plan_writer.hpp"
#include "fixture.hpp"

#include <mortise/runtime/plan_generated.h>

#include <gtest/gtest.h>

namespace mortise::passes {
namespace {

using namespace test;

// Proposes each node as a region of its own.
MortiseStatus *oneByOne(const Offer &offer) {
  for (uint32_t n = 0; n < offer.graph().node_count; ++n)
    offer.add({n}, 10);
  return nullptr;
}

std::shared_ptr<const plan::PlanT> plan(GraphMaker &maker, bool hostMemory = true) {
  FakePlugin plugin("fake", oneByOne, hostMemory);
  const std::vector<Target> targets = {plugin.target()};
  const MortiseGraph &graph = maker.view();
  auto written = writePlan(graph, place(graph, targets), targets);
  EXPECT_TRUE(written) << written.error().message;
  return *written;
}

// "enqueue 0 (input0) -> arena@64", for comparing.
std::string name(const plan::PlanT &plan, uint32_t number) {
  const plan::BufferT &buffer = *plan.buffers.at(number);
  switch (buffer.kind) {
  case plan::BufferKind::Input:
    return "input" + std::to_string(buffer.index);
  case plan::BufferKind::Output:
    return "output" + std::to_string(buffer.index);
  case plan::BufferKind::Literal:
    return "literal";
  case plan::BufferKind::Arena:
    return (buffer.space ? plan.spaces[buffer.space]->device : "arena") + "@" + std::to_string(buffer.offset);
  }
  return "?";
}
std::vector<std::string> steps(const plan::PlanT &plan) {
  std::vector<std::string> lines;
  for (const auto &step : plan.steps) {
    if (const plan::CopyT *copy = step->instruction.AsCopy()) {
      lines.push_back("copy " + name(plan, copy->source) + " " + name(plan, copy->target));
      continue;
    }
    const plan::RegionT &region = *plan.regions.at(step->instruction.AsEnqueue()->region);
    std::string line = "run";
    for (uint32_t buffer : region.inputs)
      line += " " + name(plan, buffer);
    line += " ->";
    for (uint32_t buffer : region.outputs)
      line += " " + name(plan, buffer);
    lines.push_back(line);
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(PlanWriter, OutputsAreWrittenInPlace) {
  GraphMaker maker;
  uint32_t value = maker.input();
  for (int i = 0; i < 3; ++i)
    value = maker.node("mortise.neg", {value});
  maker.output(value);
  const auto written = plan(maker);
  EXPECT_EQ(steps(*written), (Lines{"run input0 -> arena@0", "run arena@0 -> arena@64", "run arena@64 -> output0"}));
  EXPECT_EQ(written->spaces[0]->bytes, 128u);
  EXPECT_EQ(written->node_ops, (Lines{"mortise.neg", "mortise.neg", "mortise.neg"}));
}

TEST(PlanWriter, RepeatedOutputsInputsAndLiteralsAreCopied) {
  GraphMaker maker;
  const uint32_t input = maker.input(), sum = maker.node("mortise.neg", {input}), literal = maker.literal();
  for (uint32_t value : {sum, sum, input, literal})
    maker.output(value);
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    offer.add({0}, 10);
    return nullptr;
  });
  const std::vector<Target> targets = {plugin.target()};
  auto written = writePlan(maker.view(), place(maker.view(), targets), targets);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(steps(**written),
            (Lines{"run input0 -> output0", "copy output0 output1", "copy input0 output2", "copy literal output3"}));
}

TEST(PlanWriter, StateIsUpdatedInPlace) {
  GraphMaker maker;
  const uint32_t state = maker.input(MORTISE_VALUE_STATE), next = maker.node("mortise.neg", {state});
  maker.output(next);
  maker.output(maker.node("mortise.abs", {next}));
  maker.alias(0, 0);
  const auto written = plan(maker);
  EXPECT_EQ(steps(*written), (Lines{"run input0 -> input0", "run input0 -> output1"}));
  EXPECT_EQ(written->outputs[0]->alias, 0);
  EXPECT_EQ(written->outputs[1]->alias, -1);
}

TEST(PlanWriter, StateThatIsReadLaterIsCopied) {
  GraphMaker maker;
  const uint32_t state = maker.input(MORTISE_VALUE_STATE), next = maker.node("mortise.neg", {state});
  maker.output(next);
  maker.output(maker.node("mortise.add", {next, state})); // reads the old state after the new one was written
  maker.alias(0, 0);
  EXPECT_EQ(steps(*plan(maker)), (Lines{"copy input0 arena@0", "run arena@0 -> arena@0",
                                        "run input0 arena@0 -> output1", "copy arena@0 input0"}));
}

TEST(PlanWriter, SwappedStatesGoThroughACopy) {
  GraphMaker maker;
  const uint32_t a = maker.input(MORTISE_VALUE_STATE), b = maker.input(MORTISE_VALUE_STATE);
  maker.output(b);
  maker.output(a);
  maker.alias(0, 0);
  maker.alias(1, 1);
  const auto written = plan(maker);
  const Lines lines = steps(*written);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].substr(0, 11), "copy input1");
  EXPECT_EQ(lines[1].substr(0, 11), "copy input0");
  EXPECT_EQ(lines[2].substr(lines[2].size() - 6), "input0");
  EXPECT_EQ(lines[3].substr(lines[3].size() - 6), "input1");
}

TEST(PlanWriter, AStateReturnedAsItWasIsReadFirst) {
  GraphMaker maker;
  const uint32_t state = maker.input(MORTISE_VALUE_STATE);
  maker.output(maker.node("mortise.neg", {state}));
  maker.output(state);
  maker.alias(0, 0);
  EXPECT_EQ(steps(*plan(maker)), (Lines{"copy input0 output1", "run input0 -> input0"}));
}

TEST(PlanWriter, AnUnchangedStateCostsNothing) {
  GraphMaker maker;
  const uint32_t state = maker.input(MORTISE_VALUE_STATE);
  maker.output(state);
  maker.alias(0, 0);
  EXPECT_TRUE(steps(*plan(maker)).empty());
}

TEST(PlanWriter, ValuesCrossMemorySpacesByCopies) {
  GraphMaker maker;
  const uint32_t input = maker.input(), weight = maker.input(MORTISE_VALUE_CONSTANT);
  maker.output(maker.node("mortise.neg", {maker.node("mortise.add", {input, weight})}));
  const auto written = plan(maker, /*hostMemory=*/false);
  EXPECT_EQ(steps(*written), (Lines{"copy input0 fake@0", "run fake@0 input1 -> fake@64", "run fake@64 -> fake@0",
                                    "copy fake@0 output0"}));
}

TEST(PlanWriter, ValuesGoFromOneDeviceToAnotherThroughTheHost) {
  GraphMaker maker;
  const uint32_t sum = maker.node("mortise.add", {maker.input(), maker.input()});
  maker.output(maker.node("mortise.neg", {sum}));
  maker.output(maker.node("mortise.exp", {sum}));
  FakePlugin near(
      "near", [](const Offer &offer) -> MortiseStatus * { return offer.add({0}, 10), nullptr; },
      /*hostMemory=*/false);
  FakePlugin far(
      "far", [](const Offer &offer) -> MortiseStatus * { return offer.add({1}, 10), offer.add({2}, 10), nullptr; },
      /*hostMemory=*/false);
  const std::vector<Target> targets{near.target(), far.target()};
  const auto plan = writePlan(maker.view(), place(maker.view(), targets), targets);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(steps(**plan), (Lines{"copy input0 near@0", "copy input1 near@64", "run near@0 near@64 -> near@128",
                                  "copy near@128 arena@0", "copy arena@0 far@0", "run far@0 -> far@64",
                                  "copy far@64 output0", "run far@0 -> far@128", "copy far@128 output1"}));
}

// The copy of the second result must not wait for the memory of the first, nor the last region for its input.
TEST(PlanWriter, CopiesAreNextToARegionThatTheyRunBeside) {
  GraphMaker maker;
  const uint32_t x = maker.input(), y = maker.input(), a = maker.node("mortise.neg", {x}),
                 b = maker.node("mortise.abs", {a}), c = maker.node("mortise.add", {b, y});
  maker.output(a);
  maker.output(c);
  FakePlugin device("device", oneByOne, /*hostMemory=*/false);
  const std::vector<Target> targets{device.target()};
  const auto plan = writePlan(maker.view(), place(maker.view(), targets), targets);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(steps(**plan), (Lines{"copy input0 device@0", "run device@0 -> device@64", "copy device@64 output0",
                                  "copy input1 device@0", "run device@64 -> device@128",
                                  "run device@0 device@128 -> device@64", "copy device@64 output1"}));
}

TEST(PlanWriter, OpPacksShareTheMemoryOfTheirDevice) {
  GraphMaker maker;
  maker.output(maker.node("mortise.neg", {maker.node("mortise.add", {maker.input(), maker.input()})}));
  FakePlugin owner(
      "owner", [](const Offer &offer) -> MortiseStatus * { return offer.add({0}, 10), nullptr; },
      /*hostMemory=*/false, MORTISE_OPSET, "acme");
  FakePlugin pack(
      "pack", [](const Offer &offer) -> MortiseStatus * { return offer.add({1}, 10), nullptr; },
      /*hostMemory=*/false, MORTISE_OPSET, "acme");
  pack.isOpPackOf(owner);
  const std::vector<Target> targets{owner.target(), pack.target()};
  const auto plan = writePlan(maker.view(), place(maker.view(), targets), targets);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(steps(**plan), (Lines{"copy input0 acme@0", "copy input1 acme@64", "run acme@0 acme@64 -> acme@128",
                                  "run acme@128 -> acme@0", "copy acme@0 output0"}));
}

TEST(PlanWriter, ContradictingAliasesAreErrors) {
  for (int fault = 0; fault < 3; ++fault) {
    GraphMaker maker;
    const uint32_t state = maker.input(fault == 1 ? MORTISE_VALUE_CONSTANT : MORTISE_VALUE_STATE);
    maker.output(maker.node("mortise.neg", {state}));
    maker.output(maker.node("mortise.abs", {state}));
    maker.alias(0, 0);
    if (fault != 1)
      maker.alias(fault == 0 ? 0 : 5, 1);
    FakePlugin plugin("fake", oneByOne);
    const std::vector<Target> targets = {plugin.target()};
    auto written = writePlan(maker.view(), place(maker.view(), targets), targets);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, MORTISE_INVALID_ARGUMENT);
  }
}

TEST(PlanWriter, SymbolsLifetimesAndGuardsAreWritten) {
  GraphMaker maker;
  maker.symbolic(2, 100, 2);
  const uint32_t x = maker.input();
  const uint32_t a = maker.node("mortise.neg", {x}), b = maker.node("mortise.neg", {a});
  maker.output(maker.node("mortise.add", {a, b}));
  maker.guard({{MORTISE_EXPR_SYMBOL, 0, 0}}, MORTISE_RELATION_AT_LEAST);
  FakePlugin plugin("fake", [](const Offer &offer) -> MortiseStatus * {
    for (uint32_t n = 0; n < offer.graph().node_count; ++n)
      offer.add({n}, 1);
    return nullptr;
  });
  const std::vector<Target> targets{plugin.target()};
  const auto plan = writePlan(maker.view(), place(maker.view(), targets), targets);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ((*plan)->version, 2u);
  ASSERT_EQ((*plan)->symbols.size(), 1u);
  const plan::SymbolT &symbol = *(*plan)->symbols[0];
  EXPECT_EQ(symbol.name, "n");
  EXPECT_EQ(std::vector<int64_t>({symbol.min, symbol.max, symbol.divisor, symbol.input, symbol.dimension}),
            (std::vector<int64_t>{2, 100, 2, 0, 0}));
  ASSERT_EQ((*plan)->guards.size(), 1u);
  EXPECT_EQ((*plan)->guards[0]->reason, "the test's guard");
  ASSERT_EQ((*plan)->steps.size(), 3u);
  std::vector<std::pair<uint32_t, uint32_t>> lives;
  for (const auto &buffer : (*plan)->buffers)
    if (buffer->kind == plan::BufferKind::Arena)
      lives.emplace_back(buffer->first, buffer->last);
  EXPECT_EQ(lives, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {1, 2}}));
  EXPECT_EQ((*plan)->inputs[0]->type->dims[0], MORTISE_DYNAMIC);
  ASSERT_EQ((*plan)->inputs[0]->type->steps.size(), 1u);
  EXPECT_EQ((*plan)->inputs[0]->type->steps[0].op(), MORTISE_EXPR_SYMBOL);
  EXPECT_FALSE((*plan)->regions[0]->specialise);
}

TEST(PlanWriter, ConstantsHaveNumbersForExtents) {
  GraphMaker maker;
  maker.symbolic();
  const uint32_t x = maker.input(), w = maker.input(MORTISE_VALUE_CONSTANT);
  maker.output(maker.node("mortise.add", {x, w}));
  const auto checked = checkGraph(maker.view());
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("input 1 '' is constant and has a symbolic extent"), std::string::npos)
      << checked.error().message;
}

TEST(PlanWriter, AStateOnADeviceIsUpdatedInItsCopyThere) {
  // On the far device, y = x + s is written to s. Nothing reads s afterwards, so its copy on the device is updated in
  // place.
  GraphMaker maker;
  const uint32_t x = maker.input(), s = maker.input(MORTISE_VALUE_STATE);
  maker.output(maker.node("mortise.add", {x, s}));
  maker.alias(1, 0);
  FakePlugin plugin("far", takesAll(1), /*hostMemory=*/false);
  const std::vector<Target> targets{plugin.target()};
  const auto plan = writePlan(maker.view(), place(maker.view(), targets), targets);
  ASSERT_TRUE(plan) << plan.error().message;
  size_t copies = 0;
  for (const auto &step : (*plan)->steps)
    copies += step->instruction.AsCopy() != nullptr;
  EXPECT_EQ(copies, 3u) << "x and s there, s back";
  EXPECT_EQ((*plan)->regions[0]->inputs[1], (*plan)->regions[0]->outputs[0]);
}

} // namespace
} // namespace mortise::passes
