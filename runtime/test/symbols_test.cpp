// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans over symbols: with a plugin that makes instances, one that does not, and one that knows no symbols.
#include "../plan_check.hpp"
#include "fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace mortise::runtime::test {
namespace {

using testing::HasSubstr;

const Dim b = Dim::symbol(0), s = Dim::symbol(1);

struct Case {
  std::string plugin;
  bool specialise;
};

class Symbols : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    folder.add(GetParam().plugin);
    registry = loadFrom(folder.path());
  }

  // y = x + w + 1 for x of shape [b, s]: two regions with an arena buffer between them. `extra` is f32[2*s] and is only
  // checked.
  PlanMaker maker() const {
    PlanMaker maker({b, s}, {{"b", {1, 64, 1}}, {"s", {2, 512, 2}}});
    const uint32_t x = maker.input(), w = maker.input(true), between = maker.arena(), y = maker.output();
    maker.input(std::vector<Dim>{2 * s});
    maker.enqueue(maker.region({x, w}, {between}));
    maker.enqueue(maker.region({between}, {y}));
    maker.guard(1000 - b * s, MORTISE_RELATION_AT_LEAST, "the table has 1000 rows");
    for (auto &region : maker.plan->regions)
      region->specialise = GetParam().specialise;
    return maker;
  }
  std::shared_ptr<Program> make(size_t limit = 64) const {
    auto program = Program::load(maker().plan, registry, {limit});
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    if (!program)
      return nullptr;
    bind(**program, weight);
    return *program;
  }
  static void bind(Program &program, const std::vector<float> &values) {
    static const std::vector<int64_t> dims{4096};
    const Tensor bound[] = {{}, tensorOf(values, dims), {}};
    const auto done = program.bindConstants(bound);
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
  }

  // Runs with every element of x 1. Returns the error's message, or "" when every result is as expected.
  static std::string run(Program &program, int64_t rows, int64_t columns, float expected,
                         std::vector<int64_t> extra = {}, std::vector<int64_t> out = {}) {
    const std::vector<int64_t> dims{rows, columns};
    extra = extra.empty() ? std::vector<int64_t>{2 * columns} : extra;
    out = out.empty() ? dims : out;
    const std::vector<float> x(static_cast<size_t>(rows * columns), 1);
    std::vector<float> y(4096, -1), z(4096);
    const Tensor inputs[] = {tensorOf(x, dims), {}, tensorOf(z, extra)}, output = tensorOf(y, out);
    if (auto done = program.run(inputs, {&output, 1}); !done)
      return done.error().message;
    for (size_t i = 0; i < y.size(); ++i)
      if (y[i] != (i < x.size() ? expected : -1))
        return "element " + std::to_string(i) + " is " + std::to_string(y[i]);
    return "";
  }

  Folder folder;
  std::shared_ptr<Registry> registry;
  std::vector<float> weight = std::vector<float>(4096, 3);
};

TEST_P(Symbols, TwentyShapesOfOneProgram) {
  auto program = make();
  for (int round = 0; round < 2; ++round)
    for (int64_t rows : {1, 2, 3, 7})
      for (int64_t columns : {2, 4, 6, 64, 128})
        EXPECT_EQ(run(*program, rows, columns, 5), "");
  const ValuesReport report = program->valuesReport();
  const bool instances = GetParam().plugin == "instances" && !GetParam().specialise;
  EXPECT_EQ(report.ready, 20u);
  EXPECT_EQ(report.met, 20u);
  EXPECT_EQ(report.dropped, 0u);
  EXPECT_EQ(report.instances, instances ? 40u : 0u);
  EXPECT_EQ(report.specialised, GetParam().specialise ? 40u : 0u);
  EXPECT_EQ(program->report()[1].kernels, GetParam().specialise ? 20u : 1u);
  EXPECT_EQ(program->report()[1].specialised.empty(), !GetParam().specialise);
  EXPECT_EQ(program->arenaBytes(), (7u * 128 * 4 + 63) / 64 * 64 + 100) << "of the largest shape, with the workspace";
  EXPECT_EQ(program->packedBytes() % 8, 0u);
}

TEST_P(Symbols, MessagesNameInputDimensionFormulaAndValues) {
  auto program = make();
  ASSERT_EQ(run(*program, 2, 8, 5), "");
  EXPECT_EQ(run(*program, 2, 8, 5, {15}),
            "input 2 'x2': expected f32[2*s] = f32[16] (b = 2, s = 8), found f32[15]: dimension 0 is 15 and not 2*s = "
            "16; pass a tensor of the expected shape, or compile again for this one");
  EXPECT_EQ(run(*program, 3, 10, 5, {15}),
            "input 2 'x2': expected f32[2*s] = f32[20] (b = 3, s = 10), found f32[15]: dimension 0 is 15 and not 2*s = "
            "20; pass a tensor of the expected shape, or compile again for this one");
  EXPECT_EQ(program->valuesReport().met, 1u) << "nothing is made for inputs that do not fit";
  EXPECT_THAT(run(*program, 2, 7, 5), HasSubstr("input 0 'x0', dimension 1: expected s to be from 2 to 512 and a "
                                                "multiple of 2, found 7"));
  EXPECT_THAT(run(*program, 65, 8, 5), HasSubstr("dimension 0: expected b to be from 1 to 64, found 65"));
  EXPECT_THAT(run(*program, 64, 16, 5), HasSubstr("expected -b*s + 1000 >= 0 (the table has 1000 rows), found -24 for "
                                                  "b = 64, s = 16"));
  EXPECT_THAT(run(*program, 2, 8, 5, {}, {2, 9}),
              HasSubstr("output 0: expected f32[b, s] = f32[2, 8] (b = 2, s = 8), found f32[2, 9]: dimension 1 is 9 "
                        "and not s = 8"));
  const std::vector<float> data(64);
  const std::vector<int64_t> flat{16};
  const Tensor inputs[] = {tensorOf(data, flat), {}, tensorOf(data, flat)};
  int64_t values[2];
  auto wrong = program->symbolValues(inputs, values);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("input 0 'x0': expected f32[b, s], found f32[16]"));
}

TEST_P(Symbols, ValuesAndOutputShapesCanBeAsked) {
  auto program = make();
  const std::vector<int64_t> dims{3, 4}, extra{8};
  const Tensor inputs[] = {
      {nullptr, MORTISE_F32, 2, dims.data(), nullptr}, {}, {nullptr, MORTISE_F32, 1, extra.data(), nullptr}};
  int64_t values[2];
  for (int known = 0; known < 2; ++known) {
    ASSERT_TRUE(program->symbolValues(inputs, values));
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], 4);
    EXPECT_EQ(*program->outputShape(0, values), dims);
    EXPECT_EQ(run(*program, 3, 4, 5), "");
  }
  EXPECT_FALSE(program->outputShape(1, values));
  EXPECT_FALSE(program->outputShape(0, {values, 1}));
}

TEST_P(Symbols, PointersNeedTheValues) {
  auto program = make();
  std::vector<float> x(24, 1), y(24, -1);
  const void *inputs[] = {x.data(), nullptr, nullptr};
  void *outputs[] = {y.data()};
  const int64_t good[] = {4, 6}, odd[] = {4, 5};
  ASSERT_TRUE(program->runPointers(inputs, outputs, good));
  EXPECT_EQ(y, std::vector<float>(24, 5));
  EXPECT_FALSE(program->runPointers(inputs, outputs));
  EXPECT_FALSE(program->runPointers(inputs, outputs, odd));
}

TEST_P(Symbols, TheLeastRecentlyUsedValuesGo) {
  auto program = make(3);
  for (int64_t columns : {2, 4, 6, 2, 8, 2}) // 8 drives out 4, not 2
    EXPECT_EQ(run(*program, 1, columns, 5), "");
  ValuesReport report = program->valuesReport();
  EXPECT_EQ(report.ready, 3u);
  EXPECT_EQ(report.limit, 3u);
  EXPECT_EQ(report.met, 4u);
  EXPECT_EQ(report.dropped, 1u);
  const uint64_t specialised = report.specialised;
  EXPECT_EQ(run(*program, 1, 4, 5), ""); // specialised again
  report = program->valuesReport();
  EXPECT_EQ(report.met, 5u);
  EXPECT_EQ(report.dropped, 2u);
  EXPECT_EQ(report.specialised, specialised + (GetParam().specialise ? 2 : 0));
}

TEST_P(Symbols, SwappedWeightsServeEveryShape) {
  auto program = make();
  EXPECT_EQ(run(*program, 2, 4, 5), "");
  EXPECT_EQ(run(*program, 2, 6, 5), "");
  const std::vector<float> other(4096, 10);
  bind(*program, other);
  EXPECT_EQ(run(*program, 2, 6, 12), "");
  EXPECT_EQ(run(*program, 2, 4, 12), "");
  EXPECT_EQ(program->valuesReport().specialised, GetParam().specialise ? 4u : 0u) << "kernels outlive weights";
}

TEST_P(Symbols, ThreadsRunDifferentShapesAtOnce) {
  auto program = make(4); // the limit is below the number of shapes: sets are dropped while other threads use them
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 30; ++i)
        bad += !run(*program, t + 1, 2 + 2 * (i % 3), 5).empty();
    });
  for (int i = 0; i < 5; ++i)
    bind(*program, weight);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(bad, 0);
}

TEST_P(Symbols, ThreadsThatMeetValuesTogetherMakeThemOnce) {
  auto program = make();
  std::atomic<int> bad{0}, waiting{0};
  std::vector<std::thread> threads;
  constexpr int count = 4, rounds = 10;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        ++waiting;
        while (waiting < count * (round + 1))
          std::this_thread::yield();
        bad += !run(*program, round + 1, 8, 5).empty();
        bad += program->valuesReport().ready == 0 || program->report().size() != 2;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(program->valuesReport().met, static_cast<uint64_t>(rounds));
}

TEST_P(Symbols, ProfilesNameTheStepsOfTheValues) {
  auto program = make();
  const std::vector<int64_t> dims{2, 8}, extra{16};
  std::vector<float> x(16, 1), y(16);
  const Tensor inputs[] = {tensorOf(x, dims), {}, tensorOf(x, extra)}, output = tensorOf(y, dims);
  ASSERT_TRUE(program->runProfiled(inputs, {&output, 1}));
  ASSERT_TRUE(program->runProfiled(inputs, {&output, 1}));
  const auto reports = program->report();
  ASSERT_EQ(reports[0].steps.size(), 1u);
  EXPECT_EQ(reports[0].steps[0].ns, 2000u);
  const bool instances = GetParam().plugin == "instances" && !GetParam().specialise;
  EXPECT_EQ(reports[0].steps[0].lowering, instances ? "fixture.instance" : "fixture.loop");
  EXPECT_EQ(reports[0].steps[0].bytes, instances ? 64 : 0);
}

INSTANTIATE_TEST_SUITE_P(Plugins, Symbols,
                         testing::Values(Case{"instances", false}, Case{"instances", true}, Case{"plain", false},
                                         Case{"plain", true}, Case{"good", true}),
                         [](const auto &info) {
                           return info.param.plugin + (info.param.specialise ? "Specialised" : "");
                         });

TEST(SymbolicPlan, APluginOfOpset1IsNotGivenSymbols) {
  Folder folder;
  folder.add("good");
  auto registry = loadFrom(folder.path());
  ASSERT_EQ(registry->plugins().size(), 1u) << onlyRejection(*registry);
  EXPECT_FALSE(registry->plugins()[0]->seesSymbols());
  EXPECT_FALSE(registry->plugins()[0]->hasInstances());
}

TEST(SymbolicPlan, EqualRegionsShareAKernel) {
  Folder folder;
  folder.add("plain");
  auto registry = loadFrom(folder.path());
  PlanMaker maker({16});
  const uint32_t x = maker.input(), w = maker.input(true), v = maker.input(true);
  const uint32_t one = maker.arena(), two = maker.arena(), y = maker.output();
  maker.enqueue(maker.region({x, w}, {one}));
  maker.enqueue(maker.region({one, v}, {two}));
  maker.enqueue(maker.region({two}, {y}));
  auto program = Program::load(maker.plan, registry);
  ASSERT_TRUE(program) << program.error().message;
  const auto reports = (*program)->report();
  EXPECT_EQ(reports[0].kernels, 1u);
  EXPECT_EQ(reports[1].kernels, 0u);
  EXPECT_EQ(reports[2].kernels, 1u);
  EXPECT_EQ(reports[0].steps[0].name, reports[1].steps[0].name) << "the plugin numbers its kernels";
  EXPECT_NE(reports[0].steps[0].name, reports[2].steps[0].name);
  const std::vector<int64_t> dims{16};
  const std::vector<float> ones(16, 1), tens(16, 10), hundreds(16, 100);
  std::vector<float> out(16);
  const Tensor bound[] = {{}, tensorOf(tens, dims), tensorOf(hundreds, dims)};
  ASSERT_TRUE((*program)->bindConstants(bound));
  const Tensor inputs[] = {tensorOf(ones, dims), {}, {}}, output = tensorOf(out, dims);
  ASSERT_TRUE((*program)->run(inputs, {&output, 1}));
  EXPECT_EQ(out, std::vector<float>(16, 112)) << "each region has its own constants";
}

TEST(SymbolicPlan, AnInstanceWithoutASizeIsAnError) {
  Folder folder;
  folder.add("garbage_instance");
  auto registry = loadFrom(folder.path());
  PlanMaker maker({b}, {{"b", {1, 64, 1}}});
  const uint32_t x = maker.input(), y = maker.output();
  maker.enqueue(maker.region({x}, {y}));
  auto program = Program::load(maker.plan, registry);
  ASSERT_TRUE(program) << program.error().message;
  float value = 1, result = 0;
  const void *inputs[] = {&value};
  void *outputs[] = {&result};
  const int64_t values[] = {1};
  auto done = (*program)->runPointers(inputs, outputs, values);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("region 0 (fixture.sum on fixture): instance_create: expected a "
                                              "workspace size"));
}

// The first region is specialised for the values before the second one fails.
TEST(SymbolicPlan, KernelsOfValuesThatFailAreNotKeptWithoutEnd) {
  Folder folder;
  folder.add("garbage_instance");
  auto registry = loadFrom(folder.path());
  PlanMaker maker({b}, {{"b", {1, 64, 1}}});
  const uint32_t x = maker.input(), between = maker.arena(), y = maker.output();
  maker.enqueue(maker.region({x}, {between}));
  maker.enqueue(maker.region({between}, {y}));
  maker.plan->regions[0]->specialise = true;
  auto program = Program::load(maker.plan, registry, {2});
  ASSERT_TRUE(program) << program.error().message;
  std::vector<float> in(64), out(64);
  const void *inputs[] = {in.data()};
  void *outputs[] = {out.data()};
  for (int64_t value : {1, 2, 1, 3, 1}) // 3 drives out 1, which was made first
    EXPECT_FALSE((*program)->runPointers(inputs, outputs, {&value, 1}));
  EXPECT_EQ((*program)->valuesReport().specialised, 4u);
}

TEST(SymbolicPlan, DamageIsRefused) {
  auto good = [] {
    PlanMaker maker({b, s}, {{"b", {1, 64, 1}}, {"s", {2, 512, 2}}});
    const uint32_t x = maker.input(), between = maker.arena(), y = maker.output();
    maker.enqueue(maker.region({x}, {between}));
    maker.enqueue(maker.region({between}, {y}));
    maker.guard(b * s, MORTISE_RELATION_AT_LEAST, "");
    return maker;
  };
  ASSERT_TRUE(checkPlan(*good().plan));
  struct Damage {
    std::function<void(plan::PlanT &)> apply;
    const char *reason;
  };
  const Damage damages[] = {
      {[](auto &plan) { plan.version = 1; }, "version 1, which has none"},
      {[](auto &plan) { plan.symbols[0]->min = 65; }, "symbol 0 has no sound range"},
      {[](auto &plan) { plan.symbols[1]->divisor = 0; }, "symbol 1 has no sound range"},
      {[](auto &plan) { plan.symbols[0]->input = 1; }, "symbol 0 comes from an input that is not there"},
      {[](auto &plan) { plan.symbols[0]->dimension = 1; }, "symbol 0 is not the extent"},
      {[](auto &plan) { plan.symbols[0]->dimension = 9; }, "symbol 0 is not the extent"},
      {[](auto &plan) { plan.inputs[0]->constant = true; }, "input 0 has no sound type"},
      {[](auto &plan) { plan.outputs[0]->type->step_counts[0] = 7; }, "output 0 has no sound type"},
      {[](auto &plan) { plan.outputs[0]->type->dims[0] = 7; }, "output 0 has no sound type"},
      {[](auto &plan) { plan.outputs[0]->type->steps[0] = {MORTISE_EXPR_SYMBOL, 0, 2}; }, "no sound type"},
      {[](auto &plan) { plan.outputs[0]->type->steps[0] = {MORTISE_EXPR_ADD, 0, 0}; }, "no sound type"},
      {[](auto &plan) { plan.buffers[1]->last = 0; }, "step 1 uses buffer 1 outside its lifetime"},
      {[](auto &plan) { plan.buffers[1]->kind = plan::BufferKind::Literal; }, "literal with symbolic extents"},
      {[](auto &plan) { plan.guards[0]->steps.pop_back(); }, "guard 0 has no sound"},
      {[](auto &plan) { plan.guards[0]->relation = 3; }, "guard 0 has no sound"},
  };
  for (const Damage &damage : damages) {
    PlanMaker maker = good();
    damage.apply(*maker.plan);
    auto checked = checkPlan(*maker.plan);
    ASSERT_FALSE(checked) << damage.reason;
    EXPECT_THAT(checked.error().message, HasSubstr(damage.reason));
  }
}

} // namespace
} // namespace mortise::runtime::test
