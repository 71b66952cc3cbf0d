// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products on the schedules of GPUs: tiles and their edges, operands through views, what is computed before and behind.
#include "oracle.hpp"

#include "schedule/simt.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

const SimtTarget target{"", "", "", 32, 1024, 1};

V transpose(TestGraph &b, V x, Dims permutation) {
  Dims dims;
  for (const int64_t axis : permutation)
    dims.push_back(x->type->dims[axis]);
  return b.op("transpose", {x}, x->type->dtype, dims, {{"permutation", permutation}});
}
V dot(TestGraph &b, V lhs, V rhs, const Dims &lhsBatch, const Dims &rhsBatch, const Dims &lhsSummed,
      const Dims &rhsSummed) {
  Dims dims;
  for (const int64_t axis : lhsBatch)
    dims.push_back(lhs->type->dims[axis]);
  const auto rest = [&](V operand, const Dims &batch, const Dims &summed) {
    for (int64_t axis = 0; axis < operand->type->rank; ++axis)
      if (std::ranges::find(batch, axis) == batch.end() && std::ranges::find(summed, axis) == summed.end())
        dims.push_back(operand->type->dims[axis]);
  };
  rest(lhs, lhsBatch, lhsSummed), rest(rhs, rhsBatch, rhsSummed);
  return b.op(
      "dot", {lhs, rhs}, lhs->type->dtype, dims,
      {{"lhs_batch", lhsBatch}, {"rhs_batch", rhsBatch}, {"lhs_contract", lhsSummed}, {"rhs_contract", rhsSummed}});
}
V matmul(TestGraph &b, V lhs, V rhs) { return dot(b, lhs, rhs, {}, {}, {1}, {0}); }
V unary(TestGraph &b, const char *op, V x, std::vector<Attr> attributes = {}) {
  return b.op(op, {x}, x->type->dtype, Dims(x->type->dims, x->type->dims + x->type->rank), std::move(attributes));
}
V add(TestGraph &b, V x, V y) {
  return b.op("add", {x, y}, x->type->dtype, Dims(x->type->dims, x->type->dims + x->type->rank));
}

std::vector<Group> groupsOf(const MortiseGraph &graph) {
  auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  EXPECT_TRUE(parts) << parts.error().message;
  return parts ? std::move(parts->groups) : std::vector<Group>();
}

// The tile of the graph's only group; 0 x 0 where it has another schedule.
std::pair<unsigned, unsigned> tileOf(const MortiseGraph &graph) {
  const std::vector<Group> groups = groupsOf(graph);
  EXPECT_EQ(groups.size(), 1U);
  auto plan = LoopPlan::make(std::move(*buildDag(graph, groups.at(0))), simtFuseTarget().lanes);
  EXPECT_TRUE(plan);
  const SimtSchedule schedule = scheduleSimt(**plan, target);
  return schedule.tile ? std::pair(schedule.tile->rows, schedule.tile->columns) : std::pair(0U, 0U);
}

using Tile = std::pair<unsigned, unsigned>;

struct Shape {
  int64_t rows, columns, terms;
  Tile tile;
};

// Whole numbers, whose sums are exact in every type.
TEST(Product, AllShapesAndTypes) {
  const Shape shapes[] = {{1, 1, 1, {}},          {4, 4, 1, {}},           {3, 70, 9, {}},
                          {1, 300, 100, {}},      {300, 1, 100, {}},       {0, 8, 8, {16, 16}},
                          {8, 8, 0, {16, 16}},    {5, 7, 3, {16, 16}},     {16, 16, 16, {16, 16}},
                          {17, 33, 65, {64, 64}}, {9, 100, 31, {16, 64}},  {100, 9, 31, {64, 16}},
                          {64, 64, 32, {64, 64}}, {130, 65, 200, {64, 64}}};
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_F16, MORTISE_BF16, MORTISE_I64, MORTISE_I8})
    for (const auto &[rows, columns, terms, tile] : shapes)
      for (const bool turned : {false, true}) {
        TestGraph b;
        V x = b.input(dtype, {rows, terms}), w = b.input(dtype, turned ? Dims{columns, terms} : Dims{terms, columns});
        b.output(turned ? dot(b, x, w, {}, {}, {1}, {1}) : matmul(b, x, w));
        const std::string what = std::string(dtypeName(dtype)) + " " + std::to_string(rows) + "x" +
                                 std::to_string(columns) + "x" + std::to_string(terms) + (turned ? " turned " : " ");
        if (rows > 0)
          EXPECT_EQ(tileOf(b.view()), tile) << what;
        Oracle oracle(b);
        oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small);
        oracle.checkSimt(equal, what);
        if (HasFatalFailure())
          return;
      }
}

TEST(Product, SumsAreRoundedOnce) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_F16, MORTISE_BF16}) {
    TestGraph b;
    V x = b.input(dtype, {33, 300}), w = b.input(dtype, {40, 300}), bias = b.input(dtype, {40});
    b.output(b.op("linear", {x, w, bias}, dtype, {33, 40}, {{"weight_transposed", false}}));
    Oracle oracle(b);
    for (V each : {x, w, bias})
      oracle.fill(each, Fill::Plain);
    oracle.checkSimt(roundings, dtypeName(dtype));
  }
}

TEST(Product, LargeTilesWithEdges) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {2049, 9}), w = b.input(MORTISE_F32, {2100, 9});
  b.output(dot(b, x, w, {}, {}, {1}, {1}));
  EXPECT_EQ(tileOf(b.view()), Tile(128, 128));
  Oracle oracle(b);
  oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small);
  oracle.checkSimt(equal);
}

// Terms behind the last one are no terms: neither 0 * infinity nor NaN.
TEST(Product, EdgesAddNothing) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {20, 17}), w = b.input(MORTISE_F32, {17, 30});
  b.output(matmul(b, x, w));
  Oracle oracle(b);
  oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small);
  for (int64_t column = 0; column < 30; column += 2)
    setElement(oracle.memory.at(w->index), MORTISE_F32, 16 * 30 + column, column % 4 ? INFINITY : NAN);
  setElement(oracle.memory.at(x->index), MORTISE_F32, 16, -INFINITY);
  oracle.checkSimt(equal);
}

TEST(Product, BatchesAndManyDimensions) {
  const auto check = [](V (*make)(TestGraph &, V, V), Dims lhs, Dims rhs) {
    TestGraph b;
    V x = b.input(MORTISE_F32, lhs), y = b.input(MORTISE_F32, rhs);
    b.output(make(b, x, y));
    EXPECT_NE(tileOf(b.view()).first, 0U);
    Oracle oracle(b);
    oracle.fill(x, Fill::Small), oracle.fill(y, Fill::Small);
    oracle.checkSimt(equal);
  };
  const auto heads = [](TestGraph &b, V x, V y) { return dot(b, x, y, {0, 1}, {0, 1}, {3}, {3}); };
  check(heads, {2, 3, 20, 12}, {2, 3, 24, 12});
  check([](TestGraph &b, V x, V y) { return dot(b, x, y, {1}, {2}, {2}, {0}); }, {9, 3, 10}, {10, 11, 3});
  check([](TestGraph &b, V x, V y) { return dot(b, x, y, {}, {}, {3, 1}, {0, 2}); }, {4, 3, 5, 6}, {6, 7, 3, 8});
  check([](TestGraph &b, V x, V y) { return dot(b, x, y, {0}, {3}, {1}, {1}); }, {3, 40, 5, 4}, {4, 40, 7, 3});
}

TEST(Product, OperandsAreReadThroughViews) {
  TestGraph b; // queries and keys as linear layers leave them, two heads of keys for four of queries
  V q = b.input(MORTISE_F32, {2, 20, 4, 16}), k = b.input(MORTISE_F32, {2, 24, 2, 16});
  V keys = b.op("broadcast", {k}, MORTISE_F32, {2, 24, 2, 2, 16},
                {{"shape", Dims{2, 24, 2, 2, 16}}, {"axes", Dims{0, 1, 2, 4}}});
  keys = b.op("reshape", {keys}, MORTISE_F32, {2, 24, 4, 16}, {{"shape", Dims{2, 24, 4, 16}}});
  b.output(dot(b, transpose(b, q, {0, 2, 1, 3}), transpose(b, keys, {0, 2, 3, 1}), {0, 1}, {0, 1}, {3}, {2}));
  EXPECT_EQ(tileOf(b.view()), Tile(64, 64));
  Oracle oracle(b);
  oracle.fill(q, Fill::Small), oracle.fill(k, Fill::Small);
  oracle.checkSimt(equal);
}

TEST(Product, WhatIsPointwiseSharesItsGroup) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16}) {
    TestGraph b;
    V x = b.input(dtype, {40, 50}), y = b.input(dtype, {40, 50}), w = b.input(dtype, {60, 50}),
      bias = b.input(dtype, {60}), residual = b.input(dtype, {40, 60});
    V sum = b.op("linear", {add(b, x, y), w, bias}, dtype, {40, 60}, {{"weight_transposed", false}});
    V active = unary(b, "gelu", sum, {{"approximate", "none"}});
    b.output(add(b, active, residual));
    b.output(sum);
    EXPECT_EQ(tileOf(b.view()), Tile(64, 64));
    Oracle oracle(b);
    for (V each : {x, y, w, bias, residual})
      oracle.fill(each, Fill::Plain);
    oracle.checkSimt(roundings, dtypeName(dtype));
  }
}

// What tiles would compute again and again, or in an order in which they share nothing, has memory of its own.
TEST(Product, WhatDoesNotFitHasAGroupOfItsOwn) {
  const auto check = [](size_t count, const std::function<V(TestGraph &, V, V)> &make) {
    TestGraph b;
    V x = b.input(MORTISE_F32, {40, 48}), w = b.input(MORTISE_F32, {48, 48});
    b.output(make(b, x, w));
    const std::vector<Group> groups = groupsOf(b.view());
    EXPECT_EQ(groups.size(), count) << groups[0].name;
    EXPECT_TRUE(std::ranges::any_of(groups, [](const Group &group) { return group.kind == GroupKind::Product; }));
    Oracle oracle(b);
    oracle.fill(x, Fill::Plain), oracle.fill(w, Fill::Plain);
    oracle.checkSimt(roundings);
  };
  check(2, [](TestGraph &b, V x, V w) { return matmul(b, unary(b, "exp", x), w); });
  check(2, [](TestGraph &b, V x, V w) { return matmul(b, unary(b, "softmax", x, {{"axis", 1}}), w); });
  check(2, [](TestGraph &b, V x, V w) { return unary(b, "softmax", matmul(b, x, w), {{"axis", 1}}); });
  check(2, [](TestGraph &b, V x, V w) { return matmul(b, matmul(b, x, w), w); });
  check(2, [](TestGraph &b, V x, V w) { return transpose(b, matmul(b, x, w), {1, 0}); });
  check(2, [](TestGraph &b, V x, V w) { return unary(b, "cumsum", matmul(b, x, w), {{"axis", 1}}); });
  check(2, [](TestGraph &b, V x, V w) { // the product would be computed for each repetition
    return b.op("broadcast", {matmul(b, x, w)}, MORTISE_F32, {3, 40, 48},
                {{"shape", Dims{3, 40, 48}}, {"axes", Dims{1, 2}}});
  });
  check(1, [](TestGraph &b, V x, V w) { // one that sums nothing
    V row = b.op("slice", {x}, MORTISE_F32, {1, 48},
                 {{"starts", Dims{0, 0}}, {"limits", Dims{1, 48}}, {"strides", Dims{1, 1}}});
    return dot(b, row, w, {}, {}, {}, {});
  });
}

// The window of a convolution or pool, with as many entries as there are spatial dimensions.
struct Window {
  Dims x, extents, strides, low, high, dilations;
  std::vector<Attr> attributes() const {
    return {{"strides", strides}, {"low", low}, {"high", high}, {"dilations", dilations}};
  }
  Dims result(int64_t channels) const {
    Dims dims{x[0], channels};
    for (size_t i = 0; i < extents.size(); ++i)
      dims.push_back((x[i + 2] + low[i] + high[i] - dilations[i] * (extents[i] - 1) - 1) / strides[i] + 1);
    return dims;
  }
};
const Window windows[] = {
    {{2, 6, 9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 6, 9, 11}, {3, 2}, {2, 1}, {1, 0}, {0, 2}, {1, 2}},
    {{1, 6, 16, 16}, {4, 4}, {4, 4}, {0, 0}, {0, 0}, {1, 1}}, // patches
    {{3, 6, 40}, {5}, {1}, {4}, {0}, {1}},
    {{1, 6, 4, 5, 6}, {2, 3, 1}, {1, 2, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 1}},
    {{2, 6, 1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
};

TEST(Product, ConvolutionsAreProductsOfWindows) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
    for (const Window &window : windows)
      for (const int64_t groups : {1, 2, 6}) {
        TestGraph b;
        Dims weights{12, 6 / groups};
        weights.insert(weights.end(), window.extents.begin(), window.extents.end());
        V x = b.input(dtype, window.x), w = b.input(dtype, weights), bias = b.input(dtype, {12});
        std::vector<Attr> attributes = window.attributes();
        attributes.push_back({"groups", groups});
        const Dims result = window.result(12);
        V y = b.op("convolution", {x, w}, dtype, result, attributes);
        V wide = b.op("broadcast", {bias}, dtype, result, {{"shape", result}, {"axes", Dims{1}}});
        b.output(unary(b, "relu", add(b, y, wide)));
        const bool hasMany = elementCount(*y->type) / 12 >= 4; // positions
        EXPECT_EQ(tileOf(b.view()).first != 0, hasMany && groups < 6) << window.x.size() << " " << groups;
        Oracle oracle(b);
        for (V each : {x, w, bias})
          oracle.fill(each, Fill::Small);
        oracle.checkSimt(equal, std::to_string(window.x.size()) + "-d " + std::to_string(groups) + " groups");
        if (HasFatalFailure())
          return;
      }
}

// NaN wins, and padding neither is chosen nor adds anything.
TEST(Product, PoolsAreReductionsOfWindows) {
  for (const char *op : {"max_pool", "sum_pool"})
    for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_I32, MORTISE_UI8})
      for (const Window &window : windows) {
        TestGraph b;
        V x = b.input(dtype, window.x);
        std::vector<Attr> attributes = window.attributes();
        attributes.push_back({"window", window.extents});
        b.output(b.op(op, {x}, dtype, window.result(6), attributes));
        const bool isSum = std::string_view(op) == "sum_pool";
        Oracle oracle(b);
        oracle.fill(x, isSum ? Fill::Small : Fill::Hostile);
        oracle.checkSimt(equal, std::string(op) + " " + dtypeName(dtype) + " ");
        if (HasFatalFailure())
          return;
      }
}

// One function for all values of two symbols, compared with the reference for each of these. `build` gives the inputs.
void checkExtents(const std::function<std::pair<V, V>(TestGraph &, const Dim &, const Dim &)> &build,
                  TestGraph &symbolic, std::span<const std::pair<int64_t, int64_t>> values) {
  const std::vector<Group> groups = groupsOf(symbolic.view());
  const auto functions = Emulator::shared().compile(symbolic.view(), groups);
  ASSERT_TRUE(functions) << functions.error().message;
  EXPECT_EQ(invalidSpirv(symbolic.view(), groups), "");
  for (const auto &[first, second] : values) {
    TestGraph fixed;
    const auto [x, y] = build(fixed, first, second);
    Oracle oracle(fixed);
    oracle.fill(x, Fill::Small), oracle.fill(y, Fill::Small);
    const std::string what = std::to_string(first) + "x" + std::to_string(second);
    oracle.interpret(what);
    oracle.run(groups, *functions, std::vector<int64_t>{first, second}, equal, what);
  }
}
using Extents = std::vector<std::pair<int64_t, int64_t>>;

TEST(Product, ConvolutionsOfSymbolicExtents) {
  const auto build = [](TestGraph &g, const Dim &images, const Dim &length) {
    V x = g.symbolicInput(MORTISE_F32, {images, 3, length}), w = g.input(MORTISE_F32, {8, 3, 3});
    g.output(g.symbolicOp(
        "convolution", {x, w}, MORTISE_F32, {images, 8, floorDiv(length - 1, Dim(2)) + 1},
        {{"strides", Dims{2}}, {"low", Dims{1}}, {"high", Dims{1}}, {"dilations", Dims{1}}, {"groups", int64_t{1}}}));
    return std::pair(x, w);
  };
  TestGraph symbolic;
  const Dim images = symbolic.symbol("images", 0, 64), length = symbolic.symbol("length", 1, 4096);
  build(symbolic, images, length);
  checkExtents(build, symbolic, Extents{{1, 1}, {3, 40}, {2, 129}, {0, 7}});
}

TEST(Product, SymbolicExtents) {
  const auto build = [](TestGraph &g, const Dim &rows, const Dim &terms) {
    V x = g.symbolicInput(MORTISE_F32, {2, rows, terms}), y = g.symbolicInput(MORTISE_F32, {2, rows, terms});
    V scores = g.symbolicOp(
        "dot", {x, y}, MORTISE_F32, {2, rows, rows},
        {{"lhs_batch", Dims{0}}, {"rhs_batch", Dims{0}}, {"lhs_contract", Dims{2}}, {"rhs_contract", Dims{2}}});
    g.output(g.symbolicOp("relu", {scores}, MORTISE_F32, {2, rows, rows}));
    return std::pair(x, y);
  };
  TestGraph symbolic;
  const Dim rows = symbolic.symbol("rows", 0, 4096), terms = symbolic.symbol("terms", 0, 4096);
  build(symbolic, rows, terms);
  EXPECT_EQ(tileOf(symbolic.view()), Tile(64, 64));
  checkExtents(build, symbolic, Extents{{1, 1}, {3, 40}, {64, 16}, {65, 7}, {20, 0}, {0, 5}});
}

// ---- Few rows

SimtSchedule scheduleOf(const MortiseGraph &graph) {
  const std::vector<Group> groups = groupsOf(graph);
  EXPECT_EQ(groups.size(), 1U);
  auto plan = LoopPlan::make(std::move(*buildDag(graph, groups.at(0))), simtFuseTarget().lanes);
  EXPECT_TRUE(plan);
  return scheduleSimt(**plan, target);
}

V linear(TestGraph &b, V x, V w) {
  Dims dims(x->type->dims, x->type->dims + x->type->rank);
  dims.back() = w->type->dims[0];
  return b.op("linear", {x, w}, x->type->dtype, dims, {{"weight_transposed", false}});
}

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
    checkExtents(build, symbolic, Extents{{1, 8}, {3, 40}, {2, 4096}, {0, 16}, {2, 0}, {1, 20000}});
  }
  TestGraph symbolic; // few rows for certain
  const Dim terms = symbolic.symbol("terms", 0, 1 << 16, 8), unused = symbolic.symbol("unused", 0, 3);
  const auto two = [&](TestGraph &g, const Dim &terms, const Dim &) { return build(g, 2, terms); };
  two(symbolic, terms, unused);
  EXPECT_EQ(scheduleOf(symbolic.view()).results(), 4U);
  checkExtents(two, symbolic, Extents{{8, 0}, {4096, 0}, {0, 0}, {1000, 0}, {20000, 0}});
}

} // namespace
