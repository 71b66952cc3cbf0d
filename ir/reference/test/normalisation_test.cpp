// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

#include <numbers>

using namespace mortise;
using namespace mortise::test;

TEST(Activation, AgainstTheirFormulas) {
  for (int32_t dtype : floatTypes) {
    SCOPED_TRACE(dtypeName(dtype));
    Data x = noise(dtype, {50});
    std::vector<double> relu, silu, gelu, tanh;
    for (double v : x.values) {
      relu.push_back(v > 0 ? v : 0);
      silu.push_back(rounded(dtype, v / (1 + std::exp(-v))));
      gelu.push_back(rounded(dtype, v * (0.5 + 0.5 * std::erf(v / std::numbers::sqrt2))));
      tanh.push_back(
          rounded(dtype, 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)))));
    }
    expectValues(runOp("relu", {x}, dtype, {50}), relu);
    double tolerance = dtype == f64 ? 1e-15 : 0;
    expectNear(runOp("silu", {x}, dtype, {50}), silu, tolerance);
    expectNear(runOp("gelu", {x}, dtype, {50}, {string("approximate", "none")}), gelu, tolerance);
    expectNear(runOp("gelu", {x}, dtype, {50}, {string("approximate", "tanh")}), tanh, tolerance);
  }
}

TEST(Activation, HostileValues) {
  expectValues(runOp("relu", {vector(f32, {NaN, inf, -inf, -0.0, -1})}, f32, {5}), {NaN, inf, 0, 0, 0});
  expectValues(runOp("relu", {vector(i8, {-128, 5})}, i8, {2}), {0, 5});
  expectValues(runOp("silu", {vector(f32, {NaN, inf, -0.0, -1000})}, f32, {4}), {NaN, inf, -0.0, -0.0});
  // The tails keep their relative accuracy: Phi(-10) is 7.619853024160527e-24.
  expectNear(runOp("gelu", {vector(f64, {-10, 10, inf})}, f64, {3}, {string("approximate", "none")}),
             {-7.619853024160527e-23, 10, inf}, 1e-36);
  expectValues(runOp("gelu", {vector(f32, {NaN, inf, 0})}, f32, {3}, {string("approximate", "tanh")}), {NaN, inf, 0});
  EXPECT_NE(opError("gelu", {vector(f32, {1})}, f32, {1}, {string("approximate", "fast")}).find("fast"),
            std::string::npos);
}

TEST(Softmax, AlongEachAxis) {
  Data x = noise(f64, {3, 4, 5});
  for (int64_t axis : {0, 1, 2}) {
    int64_t extent = x.dims[size_t(axis)], inner = axis == 0 ? 20 : (axis == 1 ? 5 : 1);
    std::vector<double> soft(60), logarithm(60);
    for (int64_t i = 0; i < 60; ++i) {
      int64_t start = i / (extent * inner) * extent * inner + i % inner;
      double sum = 0;
      for (int64_t k = 0; k < extent; ++k)
        sum += std::exp(x.values[size_t(start + k * inner)]);
      soft[size_t(i)] = std::exp(x.values[size_t(i)]) / sum;
      logarithm[size_t(i)] = x.values[size_t(i)] - std::log(sum);
    }
    expectNear(runOp("softmax", {x}, f64, x.dims, {integer("axis", axis)}), soft, 1e-15);
    expectNear(runOp("log_softmax", {x}, f64, x.dims, {integer("axis", axis)}), logarithm, 1e-14);
  }
}

TEST(Softmax, HostileRows) {
  auto softmax = [](std::vector<double> row) {
    return runOp("softmax", {vector(f32, row)}, f32, {int64_t(row.size())}, {integer("axis", 0)});
  };
  expectValues(softmax({1000, 1000, -1000, -inf}), {0.5, 0.5, 0, 0});
  expectValues(softmax({-inf, -inf}), {NaN, NaN});
  expectValues(softmax({inf, 0}), {NaN, NaN});
  expectValues(softmax({NaN, 0}), {NaN, NaN});
  expectValues(softmax({-3e38}), {1});
  EXPECT_TRUE(softmax({}).values.empty());
  expectNear(runOp("log_softmax", {vector(f64, {1000, 0})}, f64, {2}, {integer("axis", 0)}), {0, -1000}, 1e-15);
}

TEST(LayerNorm, RowsByHand) {
  Data x{f64, {2, 2, 2}, {1, 3, 5, 7, -1, 1, -1, 1}};
  double d = std::sqrt(5 + 0.25), e = std::sqrt(1 + 0.25);
  auto list = [](int64_t axis) { return std::vector<Attribute>{integer("axis", axis), real("epsilon", 0.25)}; };
  expectNear(runOp("layer_norm", {x, absent(), absent()}, f64, x.dims, list(1)),
             {-3 / d, -1 / d, 1 / d, 3 / d, -1 / e, 1 / e, -1 / e, 1 / e}, 1e-15);
  Data scale{f64, {2}, {2, 10}}, bias{f64, {2}, {100, 200}};
  expectNear(
      runOp("layer_norm", {x, scale, bias}, f64, x.dims, list(2)),
      {100 - 2 / e, 200 + 10 / e, 100 - 2 / e, 200 + 10 / e, 100 - 2 / e, 200 + 10 / e, 100 - 2 / e, 200 + 10 / e},
      1e-15);
  expectNear(runOp("layer_norm", {x, absent(), bias}, f64, x.dims, list(2)),
             {100 - 1 / e, 200 + 1 / e, 100 - 1 / e, 200 + 1 / e, 100 - 1 / e, 200 + 1 / e, 100 - 1 / e, 200 + 1 / e},
             1e-15);
  EXPECT_NE(opError("layer_norm", {x, {f64, {3}, {1, 1, 1}}}, f64, x.dims, list(2)).find("operand 1"),
            std::string::npos);
}

TEST(LayerNorm, KeepsSmallDifferencesOfLargeNumbers) {
  Data x = vector(f32, {16777216, 16777218});
  expectNear(runOp("layer_norm", {x, absent(), absent()}, f32, {2}, {integer("axis", 0), real("epsilon", 0)}), {-1, 1},
             1e-7);
  expectValues(runOp("layer_norm", {vector(f32, {3, 3}), absent(), absent()}, f32, {2},
                     {integer("axis", 0), real("epsilon", 0)}),
               {NaN, NaN});
  expectValues(runOp("layer_norm", {vector(f16, {inf, 0}), absent(), absent()}, f16, {2},
                     {integer("axis", 0), real("epsilon", 1)}),
               {NaN, NaN});
}

TEST(RmsNorm, ByHand) {
  double d = std::sqrt(12.5 + 0.5);
  expectNear(runOp("rms_norm", {{f32, {1, 2}, {3, 4}}, vector(f32, {1, 10})}, f32, {1, 2},
                   {integer("axis", 1), real("epsilon", 0.5)}),
             {3 / d, 40 / d}, 1e-7);
  expectValues(
      runOp("rms_norm", {vector(f16, {300, 300}), absent()}, f16, {2}, {integer("axis", 0), real("epsilon", 0)}),
      {1, 1});
}

TEST(GroupNorm, EachGroupIsALayerNorm) {
  Data x{f64, {1, 4, 2}, {1, 3, 5, 7, 0, 0, 2, 2}}, scale = vector(f64, {1, 2, 3, 4}),
                                                    bias = vector(f64, {0, 10, 20, 30});
  double d = std::sqrt(5.0), e = 1;
  expectNear(runOp("group_norm", {x, scale, bias}, f64, x.dims, {integer("groups", 2), real("epsilon", 0)}),
             {-3 / d, -1 / d, 10 + 2 / d, 10 + 6 / d, 20 - 3 / e, 20 - 3 / e, 30 + 4 / e, 30 + 4 / e}, 1e-15);
  EXPECT_TRUE(runOp("group_norm", {{f32, {0, 4, 2}, {}}, absent(), absent()}, f32, {0, 4, 2},
                    {integer("groups", 2), real("epsilon", 0)})
                  .values.empty());
  EXPECT_TRUE(runOp("group_norm", {{f32, {1, 4, 0}, {}}, absent(), absent()}, f32, {1, 4, 0},
                    {integer("groups", 2), real("epsilon", 0)})
                  .values.empty());
  EXPECT_NE(
      opError("group_norm", {x, scale, bias}, f64, x.dims, {integer("groups", 3), real("epsilon", 0)}).find("divides"),
      std::string::npos);
}

TEST(BatchNorm, ByHand) {
  Data x{f32, {2, 2, 1}, {1, 2, 3, 4}}, mean = vector(f32, {1, 2}), variance = vector(f32, {3, 15});
  expectValues(runOp("batch_norm", {x, vector(f32, {2, 4}), vector(f32, {1, 1}), mean, variance}, f32, x.dims,
                     {real("epsilon", 1)}),
               {1, 1, 3, 3});
  expectValues(runOp("batch_norm", {x, absent(), absent(), mean, variance}, f32, x.dims, {real("epsilon", 1)}),
               {0, 0, 1, 0.5});
  EXPECT_NE(opError("batch_norm", {x, absent(), absent(), absent(), variance}, f32, x.dims, {real("epsilon", 1)})
                .find("missing"),
            std::string::npos);
}

TEST(Swiglu, IsSiluTimesUp) {
  Data gate = noise(f32, {50}, 1), up = noise(f32, {50}, 2);
  std::vector<double> expected;
  for (size_t i = 0; i < 50; ++i)
    expected.push_back(gate.values[i] / (1 + std::exp(-gate.values[i])) * up.values[i]);
  expectNear(runOp("swiglu", {gate, up}, f32, {50}), expected, 1e-6);
  expectValues(runOp("swiglu", {vector(f32, {inf, -inf, NaN, 0}), vector(f32, {1, 1, 1, inf})}, f32, {4}),
               {inf, NaN, NaN, NaN});
}

TEST(CrossEntropy, ChoosesIgnoresAndSmooths) {
  Data logits = noise(f64, {4, 3}, 5), targets = vector(i64, {2, -100, 0, 1});
  auto run = [&](const Data &chosen, const char *reduction, double smoothing) {
    return runOp("cross_entropy", {logits, chosen}, f64, reduction == std::string("none") ? Dims{4} : Dims{},
                 {integer("ignore_index", -100), real("label_smoothing", smoothing), string("reduction", reduction)});
  };
  std::vector<double> losses, smoothed;
  for (size_t row = 0; row < 4; ++row) {
    const double *x = &logits.values[row * 3];
    double log = std::log(std::exp(x[0]) + std::exp(x[1]) + std::exp(x[2])), t = targets.values[row];
    losses.push_back(t < 0 ? 0 : log - x[static_cast<size_t>(t)]);
    smoothed.push_back(t < 0 ? 0 : 0.9 * losses.back() + 0.1 * (log - (x[0] + x[1] + x[2]) / 3));
  }
  expectNear(run(targets, "none", 0), losses, 1e-14);
  expectNear(run(targets, "none", 0.1), smoothed, 1e-14);
  expectNear(run(targets, "sum", 0), {losses[0] + losses[2] + losses[3]}, 1e-14);
  expectNear(run(targets, "mean", 0), {(losses[0] + losses[2] + losses[3]) / 3}, 1e-14);
  expectValues(run(vector(i64, {-100, -100, -100, -100}), "mean", 0), {NaN});
  expectValues(run(vector(i64, {-100, -100, -100, -100}), "sum", 0), {0});
  expectValues(run(vector(i64, {3, -1, -100, -100}), "none", 0), {NaN, NaN, 0, 0});
}

// Intermediate results overflow as in the decomposition: in f32, the square of 1e30 is infinite.
TEST(RmsNorm, OverflowsInTheComputeType) {
  std::vector<Attribute> attributes{integer("axis", 0), real("epsilon", 1e-5)};
  expectValues(runOp("rms_norm", {vector(f32, {1e30, 0})}, f32, {2}, attributes), {0, 0});
  expectNear(runOp("rms_norm", {vector(f64, {1e30, 0})}, f64, {2}, attributes), {std::sqrt(2.0), 0}, 1e-14);
}
