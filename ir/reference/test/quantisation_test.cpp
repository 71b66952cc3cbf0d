// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

namespace mortise::test {
namespace {

TEST(Quantize, RoundsHalfToEvenAndSaturates) {
  Data x = vector(f32, {0.5, 1.5, 2.5, -0.5, -1.5, 1000, -1000, inf, -inf, NaN, -0.0}), one{f32, {1}, {1}};
  expectValues(runOp("quantize", {x, one}, i8, {11}, {string("dtype", "i8")}),
               {0, 2, 2, 0, -2, 127, -128, 127, -128, 0, 0});
  expectValues(runOp("quantize", {x, one}, i4, {11}, {string("dtype", "i4")}), {0, 2, 2, 0, -2, 7, -8, 7, -8, 0, 0});
  Data zero{ui8, {1}, {128}};
  expectValues(runOp("quantize", {x, one, zero}, ui8, {11}, {string("dtype", "ui8")}),
               {128, 130, 130, 128, 126, 255, 0, 255, 0, 0, 128});
}

TEST(Quantize, FloatsOfEightBitsSaturateAndKeepNan) {
  Data x = vector(f32, {1000, -inf, NaN, 0.3, 1e-9}), half{f32, {1}, {0.5}};
  expectValues(runOp("quantize", {x, half}, f8e4, {5}, {string("dtype", "f8E4M3FN")}),
               {448, -448, NaN, rounded(f8e4, 0.6f), 0});
  expectValues(runOp("quantize", {x, half}, f8e5, {5}, {string("dtype", "f8E5M2")}),
               {2048, -57344, NaN, rounded(f8e5, 0.6f), 0});
}

// One scale for each group of two along the last dimension; the quotient rounds in f32, not in f64.
TEST(Quantize, GroupsFollowFromShapes) {
  Data x{f32, {2, 4}, {1, 2, 30, 40, -5, -6, 7, 8}}, scale{f32, {2, 2}, {0.5, 10, 1, 2}},
      zero{i32, {2, 2}, {1, 0, 0, -3}};
  expectValues(runOp("quantize", {x, scale, zero}, i8, {2, 4}, {string("dtype", "i8")}), {3, 5, 3, 4, -5, -6, 1, 1});
  Data back = runOp("dequantize", {{i8, {2, 4}, {3, 5, 3, 4, -5, -6, 1, 1}}, scale, zero}, f32, {2, 4},
                    {string("dtype", "f32")});
  expectValues(back, {1, 2, 30, 40, -5, -6, 8, 8});
  for (uint32_t seed = 1; seed < 50; ++seed) {
    Data y = noise(f32, {64}, seed), s{f32, {1}, {static_cast<double>(0.001f * static_cast<float>(seed))}};
    std::vector<double> expected;
    for (double value : y.values) {
      float quotient = static_cast<float>(value) / static_cast<float>(s.values[0]);
      expected.push_back(std::clamp(std::nearbyint(static_cast<double>(quotient)), -128.0, 127.0) + 0.0);
    }
    expectValues(runOp("quantize", {y, s}, i8, {64}, {string("dtype", "i8")}), expected);
  }
}

TEST(Dequantize, ProductRoundsOnce) {
  Data q{i8, {3}, {-128, 5, 127}}, scale{f32, {1}, {static_cast<double>(0.1f)}};
  std::vector<double> expected;
  for (double value : q.values)
    expected.push_back(static_cast<double>(static_cast<float>(value) * 0.1f));
  expectValues(runOp("dequantize", {q, scale}, f32, {3}, {string("dtype", "f32")}), expected);
  for (double &value : expected)
    value = rounded(f16, value);
  expectValues(runOp("dequantize", {q, scale}, f16, {3}, {string("dtype", "f16")}), expected);
}

TEST(DynamicQuantize, RowsOfZerosAndOfNothing) {
  Data x{f32, {3, 2}, {0, -0.0, 127, -254, NaN, 1}};
  std::vector<Data> found = runOps("dynamic_quantize", {x}, {{i8, {3, 2}}, {f32, {3, 1}}}, {string("dtype", "i8")});
  expectValues(found[0], {0, 0, 64, -127, 0, 0});
  expectValues(found[1], {1, 2, NaN});
  found = runOps("dynamic_quantize", {{f32, {2, 0}, {}}}, {{i8, {2, 0}}, {f32, {2, 1}}}, {string("dtype", "i8")});
  expectValues(found[1], {1, 1});
}

TEST(QuantizedLinear, IsLinearOfTheDequantisedWeight) {
  Data x = noise(f32, {3, 8}, 1), weight{i4, {2, 8}, {}}, scale = noise(f32, {2, 4}, 2), zero{i4, {2, 4}, {}},
       bias = noise(f32, {2}, 3);
  for (int i = 0; i < 16; ++i)
    weight.values.push_back(i % 16 - 8);
  for (int i = 0; i < 8; ++i)
    zero.values.push_back(i % 3 - 1);
  std::vector<double> expected;
  for (size_t m = 0; m < 3; ++m)
    for (size_t n = 0; n < 2; ++n) {
      double sum = bias.values[n];
      for (size_t k = 0; k < 8; ++k)
        sum +=
            x.values[m * 8 + k] * (weight.values[n * 8 + k] - zero.values[n * 4 + k / 2]) * scale.values[n * 4 + k / 2];
      expected.push_back(sum);
    }
  expectNear(runOp("quantized_linear", {x, weight, scale, zero, bias}, f32, {3, 2}, {flag("weight_transposed", false)}),
             expected, 1e-5);
  Data turned{i8, {8, 2}, {}};
  for (size_t k = 0; k < 8; ++k)
    for (size_t n = 0; n < 2; ++n)
      turned.values.push_back(weight.values[n * 8 + k]);
  Data one = scalar(f32, 0.5);
  for (size_t m = 0; m < 3; ++m)
    for (size_t n = 0; n < 2; ++n) {
      expected[m * 2 + n] = 0;
      for (size_t k = 0; k < 8; ++k)
        expected[m * 2 + n] += x.values[m * 8 + k] * weight.values[n * 8 + k] * 0.5;
    }
  expectNear(runOp("quantized_linear", {x, turned, one}, f32, {3, 2}, {flag("weight_transposed", true)}), expected,
             1e-5);
}

TEST(Quantisation, Refusals) {
  Data x = noise(f32, {4, 6}), scale = noise(f32, {4, 4});
  EXPECT_NE(opError("quantize", {x, scale}, i8, {4, 6}, {string("dtype", "i8")}).find("divide"), std::string::npos);
  EXPECT_NE(opError("quantize", {x, noise(f32, {4, 1})}, i32, {4, 6}, {string("dtype", "i32")}).find("dtype"),
            std::string::npos);
  EXPECT_NE(opError("quantize", {x, noise(f32, {4, 1}), {i8, {4, 1}, {0, 0, 0, 0}}}, f8e4, {4, 6},
                    {string("dtype", "f8E4M3FN")})
                .find("zero point"),
            std::string::npos);
}

} // namespace
} // namespace mortise::test
