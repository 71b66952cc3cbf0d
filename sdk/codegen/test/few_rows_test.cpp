// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of few rows on the schedules of GPUs, which read the weights once: what they share, and what is in their
// group.
#include "product_graphs.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

// A row of the weights is read once for all rows: vectors of 16 bytes, which divide it or not, in registers or in
// loops.
TEST(FewRows, ShareWhatTheyReadOfTheWeights) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_F16, MORTISE_BF16, MORTISE_I8})
    for (const int64_t rows : {1, 2, 3, 4})
      for (const auto &[columns, terms] :
           {std::pair(5, 8), {1, 64}, {70, 9}, {3, 40}, {33, 2048}, {6, 1001}, {2, 40000}})
        for (const bool turned : {false, true}) { // few columns
          if (turned && (rows != 2 || (dtype != MORTISE_F32 && dtype != MORTISE_BF16)))
            continue;
          TestGraph b;
          V x = b.input(dtype, {rows, terms}), w = b.weight(dtype, {columns, terms});
          b.output(turned ? dot(b, w, x, {}, {}, {1}, {1}) : dot(b, x, w, {}, {}, {1}, {1}));
          const std::string what = std::string(dtypeName(dtype)) + " " + std::to_string(rows) + "x" +
                                   std::to_string(columns) + "x" + std::to_string(terms) + (turned ? " turned " : " ");
          const SimtSchedule schedule = scheduleOf(b.view());
          EXPECT_FALSE(schedule.tile) << what;
          if (schedule.parts == 1 && columns > 4 && !schedule.peeled)
            EXPECT_EQ(schedule.results(), rows > 1 && columns % 2 == 0 ? 2 * rows : rows) << what;
          Oracle oracle(b);
          oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small, 2);
          oracle.checkSimt(equal, what);
          if (HasFatalFailure())
            return;
        }
}

TEST(FewRows, RoundedOnce) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16})
    for (const int64_t rows : {1, 3, 4})
      for (const int64_t terms : {96, 2048, 12000}) {
        TestGraph b;
        V x = b.input(dtype, {rows, terms}), w = b.input(dtype, {20, terms});
        b.output(linear(b, x, w));
        Oracle oracle(b);
        oracle.fill(x, Fill::Plain), oracle.fill(w, Fill::Plain, 2);
        oracle.checkSimt(roundings, dtypeName(dtype));
      }
}

// Each result has its own sums: what is not finite in one row, or in one row of the weights, stays there.
TEST(FewRows, ResultsDoNotMix) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16}) {
    TestGraph b;
    V x = b.input(dtype, {4, 200}), w = b.input(dtype, {37, 200});
    b.output(linear(b, x, w));
    Oracle oracle(b);
    oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small, 2);
    setElement(oracle.memory.at(x->index), dtype, 200 + 199, NAN);
    setElement(oracle.memory.at(x->index), dtype, 3 * 200, INFINITY);
    setElement(oracle.memory.at(w->index), dtype, 5 * 200 + 7, -INFINITY);
    setElement(oracle.memory.at(w->index), dtype, 36 * 200 + 100, NAN);
    oracle.checkSimt(equal, dtypeName(dtype));
  }
}

// Sums of nothing, and no results.
TEST(FewRows, EmptyExtents) {
  for (const auto &[rows, columns, terms] :
       {std::tuple(2, 5, 0), {1, 5, 0}, {0, 5, 8}, {3, 0, 8}, {4, 1, 0}, {1, 0, 0}}) {
    TestGraph b;
    V x = b.input(MORTISE_F32, {rows, terms}), w = b.input(MORTISE_F32, {columns, terms});
    b.output(unary(b, "exp", linear(b, x, w)));
    Oracle oracle(b);
    oracle.fill(x, Fill::Plain), oracle.fill(w, Fill::Plain);
    oracle.checkSimt(equal, std::to_string(rows) + "x" + std::to_string(columns) + "x" + std::to_string(terms));
  }
}

// What follows is the kernel's, with what it reads of each row and of each column, and so is a cheap thing before it.
TEST(FewRows, ShareAGroupWithWhatIsPointwise) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
    for (const int64_t rows : {1, 2, 4}) {
      TestGraph b;
      V x = b.input(dtype, {rows, 80}), y = b.input(dtype, {rows, 80}), w = b.input(dtype, {60, 80}),
        bias = b.input(dtype, {60}), residual = b.input(dtype, {rows, 60}), scale = b.input(dtype, {rows});
      V sum = b.op("linear", {add(b, x, y), w, bias}, dtype, {rows, 60}, {{"weight_transposed", false}});
      V wide = b.op("broadcast", {scale}, dtype, {rows, 60}, {{"shape", Dims{rows, 60}}, {"axes", Dims{0}}});
      b.output(
          b.op("mul", {add(b, unary(b, "gelu", sum, {{"approximate", "none"}}), residual), wide}, dtype, {rows, 60}));
      b.output(sum);
      EXPECT_EQ(scheduleOf(b.view()).results(), rows > 1 ? 2 * rows : rows); // of two columns
      Oracle oracle(b);
      for (V each : {x, y, w, bias, residual, scale})
        oracle.fill(each, Fill::Plain, each->index);
      oracle.checkSimt(roundings, dtypeName(dtype));
    }
}

// The two products of a gated layer are one kernel, but not where tiles would share what they read.
TEST(FewRows, ProductsOverTheSameTermsShareAGroup) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
    for (const int64_t rows : {1, 3, 4, 40}) {
      TestGraph b;
      V x = b.input(dtype, {rows, 72}), gate = b.weight(dtype, {50, 72}), up = b.weight(dtype, {50, 72});
      V active = unary(b, "silu", linear(b, x, gate));
      b.output(b.op("mul", {active, linear(b, x, up)}, dtype, {rows, 50}));
      const std::vector<Group> groups = groupsOf(b.view());
      EXPECT_EQ(groups.size(), rows > 4 ? 2U : 1U);
      EXPECT_EQ(groups.back().kind, GroupKind::Product);
      if (rows <= 4)
        EXPECT_EQ(scheduleOf(b.view()).results(), rows);
      Oracle oracle(b);
      for (V each : {x, gate, up})
        oracle.fill(each, Fill::Plain, each->index);
      for (int64_t i = 0; i < elementCount(*x->type); ++i) // the function's steep part, not its tail
        setElement(oracle.memory.at(x->index), dtype, i, element(oracle.memory.at(x->index), dtype, i) / 64);
      oracle.checkSimt(roundings, dtypeName(dtype));
    }
}

// A factor that ends a group which there is anyway is computed there, once, and not for each result.
TEST(FewRows, WhatEndsAnotherGroupIsNotAFactor) {
  for (const bool isNorm : {true, false}) {
    TestGraph b;
    V x = b.input(MORTISE_BF16, {2, 64}), scale = b.input(MORTISE_BF16, {64}), w = b.input(MORTISE_BF16, {64, 64});
    V before = isNorm ? b.op("rms_norm", {x, nullptr}, MORTISE_BF16, {2, 64}, {{"axis", 1}, {"epsilon", 1e-5}})
                      : linear(b, x, w);
    V wide = b.op("broadcast", {scale}, MORTISE_BF16, {2, 64}, {{"shape", Dims{2, 64}}, {"axes", Dims{1}}});
    V scaled = b.op("mul", {before, wide}, MORTISE_BF16, {2, 64});
    b.output(linear(b, scaled, w));
    b.output(linear(b, scaled, w));
    const std::vector<Group> groups = groupsOf(b.view());
    EXPECT_EQ(groups[0].outputs, std::vector<uint32_t>{scaled->index}) << groups[0].name;
    Oracle oracle(b);
    for (V each : {x, scale, w})
      oracle.fill(each, Fill::Plain, each->index);
    oracle.checkSimt(roundings);
  }
}

// A layer's first kernel: the norm's scale leaves the sums, so that its squares are summed beside the products.
TEST(FewRows, ProductsOfOneRowHaveTheNormInFrontOfThem) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16})
    for (const int64_t rows : {1, 2})
      for (const int64_t terms : {64, 1001, 2048, 40000})
        for (const bool isApart : {false, true}) { // the factor of each column, as an op of its own
          TestGraph b;
          V x = b.input(dtype, {1, rows, terms}), residual = b.input(dtype, {1, rows, terms}),
            scale = b.input(dtype, {terms});
          V sum = add(b, x, residual);
          V norm = b.op("rms_norm", {sum, isApart ? nullptr : scale}, dtype, {1, rows, terms},
                        {{"axis", 2}, {"epsilon", 1e-5}});
          if (isApart)
            norm = b.op("mul",
                        {b.op("broadcast", {scale}, dtype, {1, rows, terms},
                              {{"shape", Dims{1, rows, terms}}, {"axes", Dims{2}}}),
                         norm},
                        dtype, {1, rows, terms});
          std::vector<V> inputs{x, residual, scale};
          for (const int64_t columns : {20, 20, 8}) {
            inputs.push_back(b.weight(dtype, {columns, terms}));
            V of = columns == 8 ? b.op("reshape", {norm}, dtype, {rows, terms}, {{"shape", Dims{rows, terms}}}) : norm;
            Dims dims = columns == 8 ? Dims{rows, columns} : Dims{1, rows, columns};
            b.output(b.op("linear", {of, inputs.back()}, dtype, dims, {{"weight_transposed", false}}));
          }
          b.output(sum);
          const std::string what = std::string(dtypeName(dtype)) + " " + std::to_string(rows) + "x" +
                                   std::to_string(terms) + (isApart ? " apart " : " ");
          for (const Group &group : groupsOf(b.view()))
            if (group.kind == GroupKind::Product)
              EXPECT_EQ(std::ranges::count(group.nodes, norm->producer->index), rows == 1) << what << group.name;
          Oracle oracle(b);
          for (V each : inputs)
            oracle.fill(each, Fill::Plain, each->index);
          oracle.checkSimt(roundings, what);
          if (HasFatalFailure())
            return;
        }
}

// What is not finite in a row reaches what it would have reached through the norm.
TEST(FewRows, TheScaleOfANormThatIsNotFinite) {
  for (const float odd : {NAN, INFINITY, -INFINITY, 1e18F, 0.0F}) {
    TestGraph b;
    V x = b.input(MORTISE_F32, {1, 64}), w = b.input(MORTISE_F32, {20, 64});
    V norm = b.op("rms_norm", {x, nullptr}, MORTISE_F32, {1, 64}, {{"axis", 1}, {"epsilon", 0.0}});
    b.output(linear(b, norm, w));
    EXPECT_EQ(groupsOf(b.view()).size(), 1U);
    EXPECT_EQ(scheduleOf(b.view()).results(), 2U);
    Oracle oracle(b);
    oracle.fill(x, Fill::Plain), oracle.fill(w, Fill::Small, 2);
    for (int64_t i = odd == 0 ? 0 : 9; i < (odd == 0 ? 64 : 10); ++i)
      setElement(oracle.memory.at(x->index), MORTISE_F32, i, odd);
    oracle.checkSimt(std::isfinite(odd) && odd > 0 ? roundings : equal, std::to_string(odd));
  }
}

// Of different lengths, or read twice, as a rotary embedding reads the other half of each head.
TEST(FewRows, WhatDoesNotFitHasAGroupOfItsOwn) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {1, 64}), y = b.input(MORTISE_F32, {1, 48}), w = b.input(MORTISE_F32, {32, 64}),
    u = b.input(MORTISE_F32, {32, 48});
  V sum = add(b, linear(b, x, w), linear(b, y, u));
  V turned = b.op("reverse", {sum}, MORTISE_F32, {1, 32}, {{"axes", Dims{1}}});
  b.output(add(b, sum, turned));
  EXPECT_GT(groupsOf(b.view()).size(), 1U);
  Oracle oracle(b);
  for (V each : {x, y, w, u})
    oracle.fill(each, Fill::Small, each->index);
  oracle.checkSimt(equal);
}

// Rows that do not follow each other in memory, of several dimensions, and weights that are a part of others.
TEST(FewRows, OperandsAreReadThroughViews) {
  TestGraph b;
  V x = b.input(MORTISE_BF16, {64, 2, 2}), w = b.input(MORTISE_BF16, {40, 128});
  V part = b.op("slice", {w}, MORTISE_BF16, {19, 64},
                {{"starts", Dims{1, 64}}, {"limits", Dims{39, 128}}, {"strides", Dims{2, 1}}});
  V y = linear(b, transpose(b, x, {2, 1, 0}), part);
  b.output(transpose(b, y, {1, 0, 2}));
  Oracle oracle(b);
  oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small, 2);
  oracle.checkSimt(equal);
  TestGraph batched;
  V q = batched.input(MORTISE_F16, {2, 3, 2, 32}), k = batched.input(MORTISE_F16, {2, 3, 25, 32});
  batched.output(dot(batched, q, k, {0, 1}, {0, 1}, {3}, {3}));
  EXPECT_EQ(scheduleOf(batched.view()).results(), 2U);
  Oracle heads(batched);
  heads.fill(q, Fill::Small), heads.fill(k, Fill::Small, 2);
  heads.checkSimt(equal);
}

// As plugins rewrite products of converted numbers.
TEST(FewRows, NarrowOperandsOfWideResults) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16})
    for (const int64_t rows : {1, 2, 20}) {
      const auto build = [&](TestGraph &b, bool rewritten) {
        V x = b.input(dtype, {rows, 96}), w = b.input(dtype, {24, 96}), bias = b.input(MORTISE_F32, {24});
        V wideX = b.op("convert", {x}, MORTISE_F32, {rows, 96}, {{"dtype", "f32"}});
        V wideW = b.op("convert", {w}, MORTISE_F32, {24, 96}, {{"dtype", "f32"}});
        V sum = b.op("linear", {rewritten ? x : wideX, rewritten ? w : wideW}, MORTISE_F32, {rows, 24},
                     {{"weight_transposed", false}});
        V wide = b.op("broadcast", {bias}, MORTISE_F32, {rows, 24}, {{"shape", Dims{rows, 24}}, {"axes", Dims{1}}});
        b.output(b.op("convert", {add(b, sum, wide)}, dtype, {rows, 24}, {{"dtype", dtypeName(dtype)}}));
        return std::vector<V>{x, w, bias};
      };
      TestGraph rewritten, plain;
      build(rewritten, true);
      const std::vector<V> inputs = build(plain, false);
      const std::vector<Group> groups = groupsOf(rewritten.view());
      ASSERT_EQ(groups.size(), 1U);
      const auto functions = Emulator::shared().compile(rewritten.view(), groups);
      ASSERT_TRUE(functions) << functions.error().message;
      Oracle oracle(plain);
      for (V each : inputs)
        oracle.fill(each, Fill::Plain, each->index);
      oracle.interpret(dtypeName(dtype));
      oracle.run(groups, *functions, {}, roundings, dtypeName(dtype));
    }
}

TEST(FewRows, SymbolicExtents) {
  const auto build = [](TestGraph &g, const Dim &rows, const Dim &terms) {
    V x = g.symbolicInput(MORTISE_BF16, {rows, terms}), w = g.symbolicInput(MORTISE_BF16, {30, terms});
    V sum = g.symbolicOp("linear", {x, w}, MORTISE_BF16, {rows, 30}, {{"weight_transposed", false}});
    g.output(g.symbolicOp("relu", {sum}, MORTISE_BF16, {rows, 30}));
    return std::pair(x, w);
  };
  for (const int64_t divisor : {1, 8}) {
    TestGraph symbolic;
    const Dim rows = symbolic.symbol("rows", 0, 3), terms = symbolic.symbol("terms", 0, 1 << 16, divisor);
    build(symbolic, rows, terms);
    EXPECT_FALSE(scheduleOf(symbolic.view()).tile);
    EXPECT_EQ(scheduleOf(symbolic.view()).lanes, divisor);
    checkExtents(build, symbolic, Sizes{{1, 8}, {3, 40}, {2, 4096}, {0, 16}, {2, 0}, {1, 20000}});
  }
  TestGraph symbolic; // few rows for certain
  const Dim terms = symbolic.symbol("terms", 0, 1 << 16, 8), unused = symbolic.symbol("unused", 0, 3);
  const auto two = [&](TestGraph &g, const Dim &terms, const Dim &) { return build(g, 2, terms); };
  two(symbolic, terms, unused);
  EXPECT_EQ(scheduleOf(symbolic.view()).results(), 4U);
  checkExtents(two, symbolic, Sizes{{8, 0}, {4096, 0}, {0, 0}, {1000, 0}, {20000, 0}});
}

} // namespace
