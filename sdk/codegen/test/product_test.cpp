// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products on the schedules of GPUs: tiles and their edges, operands through views, what is computed before and behind.
#include "product_graphs.hpp"

#include <array>
#include <cstring>
#include <optional>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

// The tile of the graph's only group; 0 x 0 where it has another schedule.
std::pair<unsigned, unsigned> tileOf(const MortiseGraph &graph) {
  const SimtSchedule schedule = scheduleOf(graph);
  return schedule.tile ? std::pair(schedule.tile->rows, schedule.tile->columns) : std::pair(0U, 0U);
}

using Tile = std::pair<unsigned, unsigned>;

struct Shape {
  int64_t rows, columns, terms;
  Tile tile;
};

// Tests of tiles on machines that multiply matrices, each in its own way, and on one that does not.
class Product : public testing::TestWithParam<const char *> {
  void SetUp() override {
    if (GetParam() == std::string_view("mma"))
      return;
    const auto target = SimtTarget::rocm(GetParam(), 1);
    ASSERT_TRUE(target) << target.error().message;
    machine.emplace(target->subgroup, target->matrices);
  }
  std::optional<Emulator::Subgroups> machine;
};
INSTANTIATE_TEST_SUITE_P(On, Product, testing::Values("mma", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto &info) { return std::string(info.param); });

TEST(ProductTiles, AreOfMatricesOnAllButTheOldest) {
  for (const auto &[chip, has] :
       {std::pair("gfx90a", false), {"gfx942", true}, {"gfx950", true}, {"gfx1100", true}, {"gfx1201", true}}) {
    const auto target = SimtTarget::rocm(chip, 1);
    ASSERT_TRUE(target) << target.error().message;
    for (const auto &[rows, columns] : {std::pair(64, 64), {9, 64}, {64, 9}, {1000, 1000}}) {
      TestGraph b;
      V x = b.input(MORTISE_BF16, {rows, 32}), w = b.input(MORTISE_BF16, {32, columns});
      b.output(matmul(b, x, w));
      const SimtSchedule schedule = scheduleOf(b.view(), *target);
      ASSERT_TRUE(schedule.tile);
      EXPECT_EQ(schedule.tile->matrices, has ? MORTISE_BF16 : 0) << chip << " " << rows << " x " << columns;
    }
  }
}

// Whole numbers, whose sums are exact in every type.
TEST_P(Product, AllShapesAndTypes) {
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

TEST_P(Product, SumsAreRoundedOnce) {
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

TEST_P(Product, LargeTilesWithEdges) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {2049, 9}), w = b.input(MORTISE_F32, {2100, 9});
  b.output(dot(b, x, w, {}, {}, {1}, {1}));
  EXPECT_EQ(tileOf(b.view()), Tile(128, 128));
  Oracle oracle(b);
  oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small);
  oracle.checkSimt(equal);
}

// Terms behind the last one are no terms: neither 0 * infinity nor NaN.
TEST_P(Product, EdgesAddNothing) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16}) {
    TestGraph b;
    V x = b.input(dtype, {20, 17}), w = b.input(dtype, {17, 30});
    b.output(matmul(b, x, w));
    Oracle oracle(b);
    oracle.fill(x, Fill::Small), oracle.fill(w, Fill::Small);
    for (int64_t column = 0; column < 30; column += 2)
      setElement(oracle.memory.at(w->index), dtype, 16 * 30 + column, column % 4 ? INFINITY : NAN);
    setElement(oracle.memory.at(x->index), dtype, 16, -INFINITY);
    oracle.checkSimt(equal, dtypeName(dtype));
  }
}

// Numbers of 16 bits, also where the result has 32, and what is computed of such numbers in front of the product.
TEST(ProductTiles, AreOfMatricesWhereBothFactorsAreNarrow) {
  const auto matrices = [](int32_t dtype, int32_t other, int32_t result, bool computes = false, int64_t rows = 64) {
    TestGraph b;
    V x = b.input(dtype, {rows, 32}), w = b.input(other, {32, 64});
    const auto as = [&](V value) {
      return value->type->dtype == result
                 ? value
                 : b.op("convert", {value}, result, Dims(value->type->dims, value->type->dims + 2),
                        {{"dtype", dtypeName(result)}});
    };
    b.output(matmul(b, as(computes ? add(b, x, x) : x), as(w)));
    const SimtSchedule schedule = scheduleOf(b.view(), matrixTarget);
    EXPECT_TRUE(schedule.tile);
    return schedule.tile ? schedule.tile->matrices : -1;
  };
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    EXPECT_EQ(matrices(dtype, dtype, dtype), dtype);
    EXPECT_EQ(matrices(dtype, dtype, dtype, /*computes=*/true), dtype);
    EXPECT_EQ(matrices(dtype, dtype, dtype, false, /*rows=*/9), dtype);
    EXPECT_EQ(matrices(dtype, dtype, MORTISE_F32), dtype);
  }
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_I32, MORTISE_I8})
    EXPECT_EQ(matrices(dtype, dtype, dtype), 0);
  EXPECT_EQ(matrices(MORTISE_F16, MORTISE_BF16, MORTISE_F32), 0);
  EXPECT_EQ(matrices(MORTISE_I32, MORTISE_I32, MORTISE_F32), 0);
}

// Matrices add towards 0: only so few of their sums follow each other that the errors do not add up.
TEST(ProductTiles, LongSumsKeepTheirDigits) {
  constexpr int64_t rows = 16, columns = 64, terms = 8192;
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    TestGraph b;
    V x = b.input(dtype, {rows, terms}), w = b.input(dtype, {columns, terms});
    const auto positive = [&](V value) {
      return b.op("convert", {unary(b, "abs", value)}, MORTISE_F32, {value->type->dims[0], terms}, {{"dtype", "f32"}});
    };
    V sums = dot(b, positive(x), positive(w), {}, {}, {1}, {1});
    b.output(sums);
    Oracle oracle(b);
    oracle.fill(x, Fill::Plain), oracle.fill(w, Fill::Plain);
    oracle.checkSimt(roundings, dtypeName(dtype));
    const auto number = [&](V value, int64_t i) {
      return std::abs(element(oracle.memory.at(value->index), value->type->dtype, i));
    };
    double worst = 0;
    for (int64_t i = 0; i < rows * columns; ++i) {
      double exact = 0; // to f64's digits
      for (int64_t term = 0; term < terms; ++term)
        exact += number(x, i / columns * terms + term) * number(w, i % columns * terms + term);
      worst = std::max(worst, std::abs(number(sums, i) - exact) / conformance::ulp(exact, MORTISE_F32));
    }
    EXPECT_LT(worst, 24) << dtypeName(dtype);
  }
}

TEST_P(Product, BatchesAndManyDimensions) {
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

TEST_P(Product, OperandsAreReadThroughViews) {
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

TEST_P(Product, WhatIsPointwiseSharesItsGroup) {
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
TEST_P(Product, WhatDoesNotFitHasAGroupOfItsOwn) {
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

TEST_P(Product, ConvolutionsAreProductsOfWindows) {
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

V turned(TestGraph &b, V x, bool toLast) { // channels
  const auto rank = static_cast<int64_t>(x->type->rank);
  Dims permutation{0};
  if (!toLast)
    permutation.push_back(rank - 1);
  for (int64_t axis = toLast ? 2 : 1; axis < rank - (toLast ? 0 : 1); ++axis)
    permutation.push_back(axis);
  if (toLast)
    permutation.push_back(1);
  return transpose(b, x, permutation);
}

// Compared with the same between transposes, of f32 and rounded behind what follows it.
TEST_P(Product, ConvolutionsOfChannelsLast) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16})
    for (const Window &window : windows) {
      const std::string what = std::string(dtypeName(dtype)) + " " + std::to_string(window.x.size()) + "-d";
      Dims weights{20, window.x[1]};
      weights.insert(weights.end(), window.extents.begin(), window.extents.end());
      const Dims result = window.result(20);
      const auto last = [](const Dims &dims) {
        Dims turned{dims[0]};
        turned.insert(turned.end(), dims.begin() + 2, dims.end());
        turned.push_back(dims[1]);
        return turned;
      };
      const auto convolved = [&](TestGraph &b, V x, V w, bool isLast) {
        std::vector<Attr> attributes = window.attributes();
        attributes.push_back({"groups", int64_t{1}});
        if (isLast)
          attributes.push_back({channelsLastAttribute, int64_t{1}});
        return b.op("convolution", {x, w}, MORTISE_F32, isLast ? last(result) : result, attributes);
      };
      const auto wide = [&](TestGraph &b, V value) {
        const Dims dims(value->type->dims, value->type->dims + value->type->rank);
        return dtype == MORTISE_F32 ? value : b.op("convert", {value}, MORTISE_F32, dims, {{"dtype", "f32"}});
      };
      const auto finished = [&](TestGraph &b, V y, V bias) {
        V all = b.op("broadcast", {wide(b, bias)}, MORTISE_F32, last(result),
                     {{"shape", last(result)}, {"axes", Dims{static_cast<int64_t>(result.size()) - 1}}});
        V active = unary(b, "relu", add(b, y, all));
        b.output(dtype == MORTISE_F32 ? active
                                      : b.op("convert", {active}, dtype, last(result), {{"dtype", dtypeName(dtype)}}));
      };
      const auto inputs = [&](TestGraph &b) {
        return std::array{b.input(dtype, last(window.x)), b.input(dtype, last(weights)), b.input(dtype, {20})};
      };
      TestGraph known, made;
      const auto [x, w, bias] = inputs(known);
      V y = convolved(known, turned(known, wide(known, x), false), turned(known, wide(known, w), false), false);
      finished(known, turned(known, y, true), bias);
      const auto [lastX, lastW, lastBias] = inputs(made);
      finished(made, convolved(made, lastX, lastW, true), lastBias);

      Oracle oracle(known);
      for (V each : {x, w, bias})
        oracle.fill(each, Fill::Small);
      oracle.interpret(what);
      const MortiseGraph &graph = made.view();
      const std::vector<Group> groups = groupsOf(graph);
      EXPECT_EQ(groups.size(), 1U) << what;
      const std::vector<EmulatedFunction> functions = kernelsOf(graph, groups);
      Memory memory(graph);
      memory.poison();
      for (size_t i = 0; i < graph.input_count; ++i)
        std::memcpy(memory.at(graph.inputs[i]->index), oracle.memory.at(known.view().inputs[i]->index),
                    byteSize(*graph.inputs[i]->type));
      for (size_t g = 0; g < groups.size(); ++g)
        runGroup(groups[g], functions[g], memory);
      const V found = graph.outputs[0], wanted = known.view().outputs[0];
      for (int64_t i = 0; i < elementCount(*found->type); ++i)
        ASSERT_EQ(element(memory.at(found->index), dtype, i), element(oracle.expected.at(wanted->index), dtype, i))
            << what << " element " << i;
    }
}

// NaN wins, and padding neither is chosen nor adds anything.
TEST_P(Product, PoolsAreReductionsOfWindows) {
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

TEST_P(Product, ConvolutionsOfSymbolicExtents) {
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
  checkExtents(build, symbolic, Sizes{{1, 1}, {3, 40}, {2, 129}, {0, 7}});
}

TEST_P(Product, SymbolicExtents) {
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
  checkExtents(build, symbolic, Sizes{{1, 1}, {3, 40}, {64, 16}, {65, 7}, {20, 0}, {0, 5}});
}

} // namespace
