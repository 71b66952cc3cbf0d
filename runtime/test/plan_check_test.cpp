// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"
#include "plan_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace mortise::runtime::test {
namespace {

using testing::HasSubstr;

PlanMaker good() {
  PlanMaker maker({4, 4});
  const uint32_t x = maker.input(), y = maker.output(), between = maker.arena();
  maker.enqueue(maker.region({x}, {between}));
  maker.copy(between, y);
  return maker;
}

TEST(PlanCheck, AcceptsAGoodPlan) { EXPECT_TRUE(checkPlan(*good().plan)); }

struct Damage {
  const char *name;
  std::function<void(plan::PlanT &)> apply;
  const char *reason;
};

TEST(PlanCheck, RefusesDamage) {
  const Damage damages[] = {
      {"version", [](auto &plan) { plan.version = 7; }, "found version 7"},
      {"input type", [](auto &plan) { plan.inputs[0]->type.reset(); }, "input 0 has no sound type"},
      {"dtype", [](auto &plan) { plan.outputs[0]->type->dtype = 99; }, "output 0 has no sound type"},
      {"negative extent", [](auto &plan) { plan.inputs[0]->type->dims[0] = -1; }, "input 0 has no sound type"},
      {"overflow", [](auto &plan) { plan.inputs[0]->type->dims = {INT64_MAX, 8}; }, "input 0 has no sound type"},
      {"alias", [](auto &plan) { plan.outputs[0]->alias = 5; }, "output 0 aliases"},
      {"no spaces", [](auto &plan) { plan.spaces.clear(); }, "first memory space"},
      {"arena", [](auto &plan) { plan.spaces[0]->bytes = 8; }, "buffer 2 reaches past its arena"},
      {"offset", [](auto &plan) { plan.buffers[2]->offset = UINT64_MAX - 3; }, "buffer 2 reaches past its arena"},
      {"space", [](auto &plan) { plan.buffers[2]->space = 3; }, "memory space that is not there"},
      {"input number", [](auto &plan) { plan.buffers[0]->index = 9; }, "buffer 0 does not match an input"},
      {"output type", [](auto &plan) { plan.buffers[1]->type->dims = {16}; }, "buffer 1 does not match an output"},
      {"literal", [](auto &plan) { plan.buffers[2]->kind = plan::BufferKind::Literal; }, "bytes of literal"},
      {"region buffer", [](auto &plan) { plan.regions[0]->inputs[0] = 77; }, "region 0 names a buffer"},
      {"region number", [](auto &plan) { plan.steps[0]->instruction.AsEnqueue()->region = 4; }, "step 0 runs a region"},
      {"copy number", [](auto &plan) { plan.steps[1]->instruction.AsCopy()->target = 40; }, "step 1 copies a buffer"},
      {"written input", [](auto &plan) { plan.steps[1]->instruction.AsCopy()->target = 0; }, "writes to input 0"},
      {"unwritten output", [](auto &plan) { plan.steps.pop_back(); }, "no step writes output 0"},
      {"instruction", [](auto &plan) { plan.steps[0]->instruction.Reset(); }, "does not know"},
      {"missing step", [](auto &plan) { plan.steps[0].reset(); }, "a step is missing"},
  };
  for (const Damage &damage : damages) {
    PlanMaker maker = good();
    damage.apply(*maker.plan);
    auto checked = checkPlan(*maker.plan);
    ASSERT_FALSE(checked) << damage.name;
    EXPECT_THAT(checked.error().message, HasSubstr(damage.reason)) << damage.name;
  }
}

// y = x + 1 is written over x, which is donated; z comes from an arena buffer whose memory a third buffer shares.
PlanMaker inPlace() {
  PlanMaker maker({4, 4});
  const uint32_t x = maker.donated(), y = maker.output(), between = maker.arena(),
                 other = maker.within(between, MORTISE_F32, {16}), inX = maker.within(x, MORTISE_F16, {32});
  maker.enqueue(maker.region({x}, {x}));
  maker.copy(x, between);
  maker.copy(other, y);
  maker.copy(between, inX);
  return maker;
}

TEST(PlanCheck, RefusesWritesToWhatIsNotDonated) {
  EXPECT_TRUE(checkPlan(*inPlace().plan));
  const Damage damages[] = {
      {"not donated", [](auto &plan) { plan.inputs[0]->donated = false; }, "shares the memory of buffer 0"},
      {"only written",
       [](auto &plan) {
         plan.inputs[0]->donated = false;
         plan.steps.pop_back();
         plan.buffers.pop_back();
       },
       "step 0 writes to input 0"},
      {"constant", [](auto &plan) { plan.inputs[0]->constant = true; }, "donated and also constant or state"},
      {"state", [](auto &plan) { plan.inputs[0]->state = true; }, "donated and also constant or state"},
      {"alias", [](auto &plan) { plan.outputs[0]->alias = 0; }, "output 0 aliases"},
      {"version", [](auto &plan) { plan.version = 1; }, "version 1"},
      {"nobody's", [](auto &plan) { plan.buffers[3]->shares = 77; },
       "buffer 3 shares the memory of a buffer that is not"},
      {"itself", [](auto &plan) { plan.buffers[3]->shares = 3; }, "buffer 3 shares the memory of a buffer that is not"},
      {"chain", [](auto &plan) { plan.buffers[4]->shares = 3; }, "buffer 4 shares the memory of a buffer that is not"},
      {"output", [](auto &plan) { plan.buffers[3]->shares = 1; }, "buffer 3 shares the memory of buffer 1"},
      {"size", [](auto &plan) { plan.buffers[3]->type->dims = {17}; }, "buffer 3 shares memory of another size"},
      {"alignment",
       [](auto &plan) {
         plan.buffers[4]->type->dtype = MORTISE_F64;
         plan.buffers[4]->type->dims = {8};
       },
       "buffer 4 shares the memory of buffer 0"},
      {"space",
       [](auto &plan) {
         plan.spaces.push_back(std::make_unique<plan::SpaceT>());
         plan.buffers[3]->space = 1;
       },
       "buffer 3 shares the memory of buffer 2"},
      {"kind", [](auto &plan) { plan.buffers[1]->shares = 2; }, "only an arena's"},
  };
  for (const Damage &damage : damages) {
    PlanMaker maker = inPlace();
    damage.apply(*maker.plan);
    auto checked = checkPlan(*maker.plan);
    ASSERT_FALSE(checked) << damage.name;
    EXPECT_THAT(checked.error().message, HasSubstr(damage.reason)) << damage.name;
  }
}

// a = x + w over the donated x's memory, y = a + w, where each region may overwrite its first input.
TEST(PlanCheck, RegionsMayOverwriteWhatNothingReadsLater) {
  const auto check = [](const std::function<void(PlanMaker &)> &change) {
    PlanMaker maker({4, 4});
    const uint32_t x = maker.donated(), w = maker.input(), y = maker.output(), a = maker.arena();
    maker.enqueue(maker.regionThatMayOverwrite({true, false}, {x, w}, {a}));
    maker.enqueue(maker.regionThatMayOverwrite({true, false}, {a, w}, {y}));
    change(maker);
    EXPECT_TRUE(checkPlan(*maker.plan));
    std::vector<std::shared_ptr<const Graph>> graphs;
    std::vector<const MortiseGraph *> views;
    for (const auto &region : maker.plan->regions) {
      auto graph = Graph::read(std::as_bytes(std::span(region->graph)));
      EXPECT_TRUE(graph);
      views.push_back(&graphs.emplace_back(*graph)->view());
    }
    const auto checked = checkDonations(*maker.plan, views);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(check([](PlanMaker &) {}), "");
  EXPECT_EQ(check([](PlanMaker &maker) { maker.copy(1, 0), maker.copy(0, 2); }), "") << "it is written again first";
  EXPECT_THAT(check([](PlanMaker &maker) { maker.copy(0, 2); }), HasSubstr("step 2 reads buffer 0, which a region"));
  EXPECT_THAT(check([](PlanMaker &maker) { maker.enqueue(maker.region({3, 1}, {2})); }),
              HasSubstr("step 2 reads buffer 3, which a region before it may overwrite"));
  EXPECT_THAT(check([](PlanMaker &maker) { maker.plan->inputs[0]->donated = false; }),
              HasSubstr("lets its region overwrite buffer 0, which is neither an arena's nor a donated input's"));
  EXPECT_THAT(check([](PlanMaker &maker) { maker.plan->regions[1]->outputs = {3}, maker.copy(3, 2); }),
              HasSubstr("in whose memory another of its values lies"));
  EXPECT_THAT(check([](PlanMaker &maker) { maker.plan->regions[1]->inputs = {3, 3}; }),
              HasSubstr("in whose memory another of its values lies"));
}

TEST(PlanCheck, SizesOfOddTypes) {
  plan::TensorTypeT type;
  type.dtype = MORTISE_I4;
  type.dims = {3};
  EXPECT_EQ(denseBytes(type), 2u);
  type.dims = {INT64_MAX, 0, INT64_MAX};
  EXPECT_EQ(denseBytes(type), std::nullopt) << "even an empty tensor's extents have a product";
  type.dims = {5, 0};
  EXPECT_EQ(denseBytes(type), 0u);
  type.dims = {};
  type.dtype = MORTISE_F64;
  EXPECT_EQ(denseBytes(type), 8u);
}

} // namespace
} // namespace mortise::runtime::test
