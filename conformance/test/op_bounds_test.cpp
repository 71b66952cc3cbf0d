// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exact results and bounds of single ops, and how results are judged by them.
#include <kit/judge.hpp>

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/formats.hpp>
#include <view_builder.hpp>

#include <gmock/gmock.h>

#include <functional>

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

TEST_F(JudgedCase, AnInfinityIsNoLargeNumber) {
  const auto said = judge("exp/f32/prime/dense/random/#1",
                          [](std::vector<std::byte> &found) { reinterpret_cast<float *>(found.data())[0] = INFINITY; });
  EXPECT_THAT(said, HasSubstr("found inf"));
}

} // namespace
} // namespace mortise::conformance
