// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exact results and bounds of single ops, and how results are judged by them.
#include <kit/judge.hpp>

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/formats.hpp>
#include <view_builder.hpp>

#include <gmock/gmock.h>

#include <functional>
#include <random>

namespace mortise::conformance {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// One op on one list of numbers.
class OneOp {
public:
  OneOp(const std::string &op, int32_t dtype, const std::vector<double> &x,
        std::vector<test::Attribute> attributes = {}, bool reduces = false)
      : dtype(dtype), bytes(x.size() * dtypeBits(dtype) / 8 + 8) {
    const Dims dims = {static_cast<int64_t>(x.size())};
    const auto *operand = builder.input(dtype, dims);
    builder.output(builder.op(op, {operand}, dtype, reduces ? Dims{} : dims, std::move(attributes)));
    reference::visitFloat(dtype, [&](auto kind) {
      using Kind = decltype(kind);
      for (size_t i = 0; i < x.size(); ++i)
        reinterpret_cast<typename Kind::Storage *>(bytes.data())[i] = Kind::store(x[i]);
    });
  }
  ExactResult exact() {
    const void *inputs[] = {bytes.data()};
    auto made = exactResults(builder.view(), inputs);
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->front() : ExactResult{};
  }
  double ulps(size_t i = 0) {
    const ExactResult of = exact();
    return of.bounds[i] / ulp(of.values[i], dtype);
  }

private:
  const int32_t dtype;
  test::ViewBuilder builder;
  std::vector<std::byte> bytes;
};

OneOp sumOf(int32_t dtype, const std::vector<double> &x) {
  return OneOp("reduce_sum", dtype, x, {test::integers("axes", {0})}, true);
}

// f64 loses the second term, and any order of f64 additions may.
TEST(OpBounds, ExpectedValuesOfF64HaveMoreThanF64) {
  const ExactResult sum = sumOf(MORTISE_F64, {1e30, 1, -1e30}).exact();
  EXPECT_EQ(sum.values[0], 1);
  EXPECT_EQ(OneOp("expm1", MORTISE_F64, {1e-300}).exact().values[0], 1e-300);
}

TEST(OpBounds, ExactResultsAreNotRounded) {
  const ExactResult made = OneOp("exp", MORTISE_F16, {1}).exact();
  EXPECT_DOUBLE_EQ(made.values[0], std::exp(1.0));
}

// What is computed in f32 and rounded once can be off by little more than half a ULP of f16.
TEST(OpBounds, AFunctionOfAWideAccumulatorRoundsOnce) {
  EXPECT_LT(OneOp("exp", MORTISE_F16, {1}).ulps(), 0.501);
  EXPECT_LT(OneOp("exp", MORTISE_BF16, {1}).ulps(), 0.501);
  EXPECT_EQ(OneOp("exp", MORTISE_F32, {1}).ulps(), functionUlps);
  EXPECT_EQ(OneOp("exp", MORTISE_F64, {1}).ulps(), functionUlps + 0.5);
}

TEST(OpBounds, ShortSumsHaveTheWorstCaseAndLongOnesTheProbableOne) {
  const double w = 0x1p-24;
  EXPECT_EQ(sumOf(MORTISE_F32, {3}).exact().bounds[0], 0);
  EXPECT_DOUBLE_EQ(sumOf(MORTISE_F32, {3, -3, 1}).exact().bounds[0], 2 * w * 7);
  const std::vector<double> many(1001, 1);
  EXPECT_DOUBLE_EQ(sumOf(MORTISE_F32, many).exact().bounds[0], 8 * std::sqrt(1000.0) * w * 1001);
}

// Terms that are alike are rounded alike by who adds them one after the other: the sum is further off than independent
// roundings make it, and right. Who adds in fewer bits than f32 is wrong.
TEST(OpBounds, WhatIsNotRoundedInsideIsExact) {
  for (const int32_t dtype : {MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16}) {
    EXPECT_EQ(sumOf(dtype, {}).ulps(), 0) << dtype;
    EXPECT_EQ(sumOf(dtype, {1.5}).ulps(), 0) << dtype;
    EXPECT_EQ(OneOp("reduce_prod", dtype, {}, {test::integers("axes", {0})}, true).ulps(), 0) << dtype;
    EXPECT_GT(sumOf(dtype, {1.5, 0.25}).ulps(), 0.2) << dtype;
  }
}

TEST(OpBounds, RoundingsOfTermsThatAreAlikeGoOneWay) {
  constexpr size_t count = 70000;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> x(count);
  for (double &term : x)
    term = static_cast<float>(1.3 * (1 + std::ldexp(normal(random), -12)));
  const ExactResult made = sumOf(MORTISE_F32, x).exact();
  float sum = 0;
  for (const double term : x)
    sum += static_cast<float>(term);
  const double error = std::abs(sum - made.values[0]);
  EXPECT_GT(error, 8 * std::sqrt(count) * 0x1p-24 * made.values[0]);
  EXPECT_LE(error, made.bounds[0]);
  EXPECT_LT(made.bounds[0], count * 0x1p-24 * made.values[0]); // the worst case
  for (const int32_t narrow : {MORTISE_F16, MORTISE_BF16}) {
    double coarse = 0;
    for (const double term : x)
      coarse = reference::visitFloat(narrow, [&](auto kind) {
        using Kind = decltype(kind);
        return static_cast<double>(Kind::load(Kind::store(coarse + term)));
      });
    EXPECT_GT(std::abs(coarse - made.values[0]), 100 * made.bounds[0]) << dtypeName(narrow);
  }
}

// Blocks keep their partial sums small; and terms of many sizes are rounded up as often as down, so that their bound is
// that of independent roundings.
TEST(OpBounds, RoundingsOfDifferentTermsDoNotGoOneWay) {
  constexpr size_t count = 70000;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> x(count);
  double size = 0;
  for (double &term : x) {
    term = static_cast<float>(normal(random));
    size += std::abs(term);
  }
  const double independent = 8 * std::sqrt(count - 1) * 0x1p-24 * size;
  const double bound = sumOf(MORTISE_F32, x).exact().bounds[0];
  EXPECT_GE(bound, independent);
  EXPECT_LT(bound, 1.1 * independent);
}

// The mean of each row, too, is a sum: what a norm takes away from all of its elements.
TEST(OpBounds, ANormOfNumbersThatAreAlikePaysForItsMean) {
  constexpr int64_t count = 70000;
  test::ViewBuilder builder;
  const auto *x = builder.input(MORTISE_F32, {1, count});
  builder.output(builder.op("layer_norm", {x, nullptr, nullptr}, MORTISE_F32, {1, count},
                            {test::integer("axis", 1), test::real("epsilon", 1e-5)}));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  float mean = 0;
  double exactMean = 0;
  for (float &value : values) {
    value = 1.3F + std::ldexp(normal(random), -12);
    mean += value;
    exactMean += static_cast<double>(value) / count;
  }
  mean /= count;
  const void *inputs[] = {values.data()};
  const auto made = exactResults(builder.view(), inputs);
  ASSERT_TRUE(made) << made.error().message;
  const double deviation = std::sqrt(std::ldexp(1.0, -24) + 1e-5);
  EXPECT_GT(std::abs(mean - exactMean), 8 * std::sqrt(count) * 0x1p-24 * exactMean);
  EXPECT_LT(std::abs(mean - exactMean) / deviation, made->front().bounds[0]);
}

// A product of two updates may be subnormal, and a third enlarges what it lost; or infinite in another order.
TEST(OpBounds, UpdatesThatMultiplyMayUnderflowInBetween) {
  const auto bound = [](const std::vector<float> &updates) {
    test::ViewBuilder builder;
    const auto count = static_cast<int64_t>(updates.size());
    const auto *x = builder.input(MORTISE_F32, {1}), *indices = builder.input(MORTISE_I64, {count}),
               *by = builder.input(MORTISE_F32, {count});
    builder.output(builder.op("scatter_along", {x, indices, by}, MORTISE_F32, {1},
                              {test::integer("axis", 0), test::string("mode", "mul")}));
    const float one = 1;
    const std::vector<int64_t> first(updates.size());
    const void *inputs[] = {&one, first.data(), updates.data()};
    const auto made = exactResults(builder.view(), inputs);
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->front().bounds[0] : 0;
  };
  EXPECT_EQ(bound({}), 0);
  EXPECT_LT(bound({3, 5}), 15 * 2.1 * 0x1p-24);
  EXPECT_GE(bound({0x1p-80F, 0x1p-69F, 0x1p20F}), 0x1p-150 * 0x1p20);
  EXPECT_EQ(bound({0x1p100F, 0x1p100F, 0x1p-120F}), INFINITY);
}

// What lies between two ops may be kept in more bits, whose difference is half a unit there: nothing beyond.
TEST(OpBounds, ArithmeticBehindArithmetic) {
  test::ViewBuilder builder;
  const auto *a = builder.input(MORTISE_F32, {1}), *b = builder.input(MORTISE_F32, {1}),
             *c = builder.input(MORTISE_F32, {1});
  builder.output(builder.op("sub", {builder.op("mul", {a, b}, MORTISE_F32, {1}), c}, MORTISE_F32, {1}));
  const float x = 1 + 0x1p-12F, y = 1 + 0x1p-12F, z = 1;
  const void *inputs[] = {&x, &y, &z};
  const auto made = exactResults(builder.view(), inputs);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->front().values[0], x * y - z);
  EXPECT_EQ(made->front().bounds[0], 0x1p-24 + 0x1p-35); // half of the product's unit, and of the result's
  EXPECT_LE(std::abs(std::fma(x, y, -z) - made->front().values[0]), made->front().bounds[0]);
}

// Each product may lose half the smallest number, whatever the sum of magnitudes is.
TEST(OpBounds, ProductsBelowTheNormalNumbersHaveATermOfTheirOwn) {
  test::ViewBuilder builder;
  const auto *a = builder.input(MORTISE_F32, {16}), *b = builder.input(MORTISE_F32, {16});
  builder.output(builder.op("dot", {a, b}, MORTISE_F32, {},
                            {test::integers("lhs_batch", {}), test::integers("rhs_batch", {}),
                             test::integers("lhs_contract", {0}), test::integers("rhs_contract", {0})}));
  const std::vector<float> left(16, 0x1p-100f), right(16, 0x1p-49f);
  const void *inputs[] = {left.data(), right.data()};
  const auto made = exactResults(builder.view(), inputs);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->front().values[0], 16 * 0x1p-149);
  EXPECT_GE(made->front().bounds[0], 16 * 0x1p-150);
  EXPECT_LT(made->front().bounds[0], 17 * 0x1p-150);
}

// The factor of x is subnormal in f32 though x times it is not.
TEST(OpBounds, AFactorMayBeSubnormal) {
  const double x = -100;
  EXPECT_GE(OneOp("silu", MORTISE_F32, {x}).exact().bounds[0], 100 * functionUlps * 0x1p-149);
}

// The exponentials of zeros are 1, exactly; their sum and the division are rounded.
TEST(OpBounds, SoftmaxOfZerosIsRounded) {
  OneOp softmax("softmax", MORTISE_F32, {0, 0, 0}, {test::integer("axis", 0)});
  EXPECT_GE(softmax.ulps(), 1);
}

// A mean that is large beside the deviation makes all elements uncertain.
TEST(OpBounds, LayerNormPaysForItsMean) {
  const auto bound = [](double offset) {
    test::ViewBuilder builder;
    const auto *x = builder.input(MORTISE_F32, {1, 2});
    builder.output(builder.op("layer_norm", {x, nullptr, nullptr}, MORTISE_F32, {1, 2},
                              {test::integer("axis", 1), test::real("epsilon", 1e-5)}));
    const std::vector<float> values = {static_cast<float>(offset - 1), static_cast<float>(offset + 1)};
    const void *inputs[] = {values.data()};
    const auto made = exactResults(builder.view(), inputs);
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->front().bounds[0] : 0;
  };
  EXPECT_GT(bound(1000), 100 * bound(0));
}

// The mean of two neighbouring subnormals lies between two numbers of f64, and the reciprocal root, 316, enlarges what
// its rounding loses.
TEST(OpBounds, ANormPaysForASubnormalMean) {
  test::ViewBuilder builder;
  const auto *x = builder.input(MORTISE_F64, {1, 2});
  builder.output(builder.op("layer_norm", {x, nullptr, nullptr}, MORTISE_F64, {1, 2},
                            {test::integer("axis", 1), test::real("epsilon", 1e-5)}));
  const std::vector<double> values = {0x1p-1074, 4 * 0x1p-1074};
  const void *inputs[] = {values.data()};
  const auto made = exactResults(builder.view(), inputs);
  ASSERT_TRUE(made) << made.error().message;
  const double mean = (values[0] + values[1]) / 2, root = 1 / std::sqrt(1e-5);
  const double distance = std::abs((values[0] - mean) * root - made->front().values[0]);
  EXPECT_GT(distance, 100 * 0x1p-1074);
  EXPECT_LE(distance, made->front().bounds[0]);
  EXPECT_LT(made->front().bounds[0], 2 * root * 0x1p-1074);
}

// A result of the case's first output with one element changed.
class JudgedCase : public testing::Test {
protected:
  std::string judge(const std::string &id, const std::function<void(std::vector<std::byte> &)> &change) {
    const auto point = pointOf(id);
    EXPECT_TRUE(point);
    const auto made = makeCase(*point, 3);
    EXPECT_TRUE(made) << made.error().message;
    std::vector<std::byte> found = made->expected[0];
    change(found);
    CaseJudge judge(*made);
    const auto text = judge.compare(0, found);
    EXPECT_TRUE(text) << text.error().message;
    distances = judge.distances;
    return text ? *text : "";
  }
  Distances distances;
};

TEST_F(JudgedCase, TheRoundedResultIsRight) {
  for (const char *id : {"exp/f16/prime/dense/random/#1", "tanh/f64/prime/dense/random/#1",
                         "dot/f32/prime/dense/cancelling/plain/#1", "softmax/bf16/prime/dense/random/last/#1",
                         "layer_norm/f32/prime/dense/random/last/#1", "attention/f32/prime/dense/random/none/#1"}) {
    EXPECT_THAT(judge(id, [](auto &) {}), IsEmpty()) << id;
    EXPECT_GT(distances.share, 0) << id;
    EXPECT_LE(distances.share, 1) << id;
    EXPECT_GT(distances.bound, 0) << id;
  }
}

TEST_F(JudgedCase, TwoUnitsOfANarrowTypeAreWrong) {
  const auto said = judge("exp/f16/prime/dense/random/#1",
                          [](std::vector<std::byte> &found) { reinterpret_cast<uint16_t *>(found.data())[0] += 2; });
  EXPECT_THAT(said, HasSubstr("1 of"));
}

// Of f64 the bound was twice as large: 4 ULP and the rounding of the expected value are allowed now.
TEST_F(JudgedCase, SixUnitsOfF64AreWrong) {
  const auto by = [&](uint64_t units) {
    return judge("exp/f64/prime/dense/random/#1",
                 [&](std::vector<std::byte> &found) { reinterpret_cast<uint64_t *>(found.data())[0] += units; });
  };
  EXPECT_THAT(by(4), IsEmpty());
  EXPECT_THAT(by(6), HasSubstr("which is 6 ULP away; at most 4.5"));
}

// Each product of a weight and a value loses up to half of the smallest number.
TEST_F(JudgedCase, ProductsOfAttentionMayUnderflow) {
  const auto by = [&](uint32_t units) {
    return judge("attention/f32/prime/dense/subnormal/none/#1",
                 [&](std::vector<std::byte> &found) { reinterpret_cast<uint32_t *>(found.data())[0] += units; });
  };
  EXPECT_THAT(by(1), IsEmpty());
  EXPECT_THAT(by(1000), HasSubstr("1 of"));
}

// The logarithm of 1 is 0, whose unit is the smallest number, and its bound is that of the sum.
TEST_F(JudgedCase, ABoundIsANumberOfUnits) {
  EXPECT_THAT(judge("log_softmax/f64/one/dense/random/last/#1", [](auto &) {}), IsEmpty());
  EXPECT_THAT(judge("log_softmax/f64/rank1/dense/zeros/last/#1", [](auto &) {}), IsEmpty());
  EXPECT_TRUE(std::isfinite(distances.bound));
  // Off by its bound where 0 is due.
  EXPECT_THAT(judge("log_softmax/f64/one/dense/random/last/#1",
                    [](std::vector<std::byte> &found) { reinterpret_cast<double *>(found.data())[0] = 1e-16; }),
              IsEmpty());
  EXPECT_GT(distances.share, 0);
  EXPECT_TRUE(std::isfinite(distances.bound));
}

// Beyond the largest number by less than its rounding, either is right; shares and bounds are numbers all the same.
TEST_F(JudgedCase, AnInfinityStandsForTheNextNumber) {
  for (const uint16_t found : {0x7bff, 0x7c00}) { // the largest number of f16, and infinity
    test::ViewBuilder builder;
    const auto *a = builder.input(MORTISE_F16, {1, 2}), *b = builder.input(MORTISE_F16, {2, 1});
    builder.output(builder.op("dot", {a, b}, MORTISE_F16, {1, 1},
                              {test::integers("lhs_batch", {}), test::integers("rhs_batch", {}),
                               test::integers("lhs_contract", {1}), test::integers("rhs_contract", {0})}));
    MortiseGraph view = builder.view();
    view.opset = MORTISE_OPSET;
    view.name = "case";
    const auto graph = Graph::copy(view);
    ASSERT_TRUE(graph) << graph.error().message;
    const auto bytes = [](std::vector<uint16_t> of) {
      const auto *at = reinterpret_cast<const std::byte *>(of.data());
      return std::vector<std::byte>(at, at + of.size() * 2);
    };
    Case made{"a sum of 65520", Point{.op = Op::Dot, .dtype = MORTISE_F16}, *graph, *graph, {}, {}, {}, {}};
    made.inputs = {bytes({0x7bff, 0x4c00}), bytes({0x3c00, 0x3c00})}; // 65504 + 16, halfway to the next number
    made.expected = {bytes({0x7c00})};
    made.exactness = {Exactness::Bounded};
    CaseJudge judge(made);
    const auto text = judge.compare(0, bytes({found}));
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, "") << found;
    EXPECT_TRUE(std::isfinite(judge.distances.bound) && std::isfinite(judge.distances.share));
  }
}

// silu(-200) is 0 in f32, and 0 times an infinity is NaN: the case has such a pair.
TEST(OpBounds, AFactorThatUnderflowsMeetsAnInfinity) {
  test::ViewBuilder builder;
  const auto *gate = builder.input(MORTISE_F32, {3}), *up = builder.input(MORTISE_F32, {3});
  builder.output(builder.op("swiglu", {gate, up}, MORTISE_F32, {3}));
  const std::vector<float> x = {-200, -20, 0}, by = {INFINITY, INFINITY, INFINITY};
  const void *inputs[] = {x.data(), by.data()};
  const auto made = exactResults(builder.view(), inputs);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->front().bounds, testing::ElementsAre(INFINITY, 0, 0));
}

TEST_F(JudgedCase, AnInfinityIsNoLargeNumber) {
  const auto said = judge("exp/f32/prime/dense/random/#1",
                          [](std::vector<std::byte> &found) { reinterpret_cast<float *>(found.data())[0] = INFINITY; });
  EXPECT_THAT(said, HasSubstr("found inf"));
}

} // namespace
} // namespace mortise::conformance
