// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

using namespace mortise;
using namespace mortise::test;

namespace {
struct Geometry {
  Dims strides, low, high, dilations;
};
std::vector<Attribute> attributes(const Geometry &g) {
  return {integers("strides", g.strides), integers("low", g.low), integers("high", g.high),
          integers("dilations", g.dilations)};
}
int64_t extent(int64_t in, int64_t k, const Geometry &g, size_t d) {
  return (in + g.low[d] + g.high[d] - g.dilations[d] * (k - 1) - 1) / g.strides[d] + 1;
}

// Convolution with two spatial dimensions, by the formula.
std::vector<double> direct(const Data &x, const Data &w, const Geometry &g, int64_t groups) {
  int64_t N = x.dims[0], C = x.dims[1], H = x.dims[2], W = x.dims[3], O = w.dims[0], c = w.dims[1], kh = w.dims[2],
          kw = w.dims[3];
  std::vector<double> all;
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t y = 0; y < extent(H, kh, g, 0); ++y)
        for (int64_t z = 0; z < extent(W, kw, g, 1); ++z) {
          double sum = 0;
          for (int64_t i = 0; i < c; ++i)
            for (int64_t a = 0; a < kh; ++a)
              for (int64_t b = 0; b < kw; ++b) {
                int64_t row = y * g.strides[0] - g.low[0] + a * g.dilations[0],
                        column = z * g.strides[1] - g.low[1] + b * g.dilations[1];
                if (row < 0 || row >= H || column < 0 || column >= W)
                  continue;
                int64_t channel = o / (O / groups) * c + i;
                sum += x.values[size_t(((n * C + channel) * H + row) * W + column)] *
                       w.values[size_t(((o * c + i) * kh + a) * kw + b)];
              }
          all.push_back(rounded(x.dtype, sum));
        }
  return all;
}
} // namespace

TEST(Convolution, OneDimensionByHand) {
  Geometry g{{1}, {1}, {1}, {1}};
  auto list = attributes(g);
  list.push_back(integer("groups", 1));
  expectValues(
      runOp("convolution", {{f32, {1, 1, 4}, {1, 2, 3, 4}}, {f32, {1, 1, 3}, {1, 10, 100}}}, f32, {1, 1, 4}, list),
      {210, 321, 432, 43}); // correlation, not flipped
}

TEST(Convolution, TwoDimensionsAgainstTheFormula) {
  struct Case {
    Dims x, w;
    Geometry g;
    int64_t groups;
  };
  const Case cases[] = {{{2, 3, 7, 5}, {4, 3, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1},
                        {{1, 4, 9, 8}, {6, 2, 3, 2}, {{2, 3}, {1, 0}, {0, 2}, {2, 1}}, 2},
                        {{1, 6, 5, 5}, {6, 1, 3, 3}, {{1, 2}, {2, 1}, {1, 0}, {1, 2}}, 6},
                        {{1, 70, 12, 12}, {65, 70, 1, 1}, {{1, 1}, {0, 0}, {0, 0}, {1, 1}}, 1}};
  for (int32_t dtype : {f64, f32, f16})
    for (const Case &c : cases) {
      Data x = noise(dtype, c.x, 1), w = noise(dtype, c.w, 2);
      Dims result{c.x[0], c.w[0], extent(c.x[2], c.w[2], c.g, 0), extent(c.x[3], c.w[3], c.g, 1)};
      auto list = attributes(c.g);
      list.push_back(integer("groups", c.groups));
      expectNear(runOp("convolution", {x, w}, dtype, result, list), direct(x, w, c.g, c.groups),
                 dtype == f64 ? 1e-13 : 0);
    }
}

TEST(Convolution, ThreeDimensions) {
  Geometry g{{1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}};
  auto list = attributes(g);
  list.push_back(integer("groups", 1));
  Data ones = counting(f32, {1, 1, 2, 2, 2});
  for (double &value : ones.values)
    value = 1;
  expectValues(runOp("convolution", {counting(f32, {1, 1, 2, 3, 2}), ones}, f32, {1, 1, 1, 2, 1}, list),
               {0 + 1 + 2 + 3 + 6 + 7 + 8 + 9, 2 + 3 + 4 + 5 + 8 + 9 + 10 + 11});
}

TEST(Convolution, EmptyAndRefused) {
  Geometry g{{1}, {0}, {0}, {1}};
  auto list = attributes(g);
  list.push_back(integer("groups", 1));
  EXPECT_TRUE(
      runOp("convolution", {{f32, {0, 1, 4}, {}}, counting(f32, {2, 1, 3})}, f32, {0, 2, 2}, list).values.empty());
  expectValues(runOp("convolution", {{f32, {1, 0, 3}, {}}, {f32, {1, 0, 3}, {}}}, f32, {1, 1, 1}, list), {0});
  EXPECT_NE(
      opError("convolution", {counting(f32, {1, 1, 2}), counting(f32, {1, 1, 3})}, f32, {1, 1, 0}, list).find("fits"),
      std::string::npos);
  EXPECT_NE(
      opError("convolution", {counting(f32, {1, 2, 3}), counting(f32, {1, 1, 3})}, f32, {1, 1, 1}, list).find("groups"),
      std::string::npos);
  list.back() = integer("groups", 0);
  EXPECT_NE(opError("convolution", {counting(f32, {1, 1, 3}), counting(f32, {1, 1, 3})}, f32, {1, 1, 1}, list), "");
}

TEST(Pool, MaximumNeverTakesPadding) {
  Geometry g{{2}, {1}, {1}, {1}};
  auto list = attributes(g);
  list.push_back(integers("window", {3}));
  expectValues(runOp("max_pool", {{f32, {1, 1, 4}, {-5, -3, -9, -1}}}, f32, {1, 1, 2}, list), {-3, -1});
  expectValues(runOp("max_pool", {{i8, {1, 1, 4}, {-5, -128, -9, -1}}}, i8, {1, 1, 2}, list), {-5, -1});
  expectValues(runOp("max_pool", {{f32, {1, 1, 4}, {-5, NaN, -9, -1}}}, f32, {1, 1, 2}, list), {NaN, NaN});
  expectValues(runOp("sum_pool", {{f32, {1, 1, 4}, {-5, -3, -9, -1}}}, f32, {1, 1, 2}, list), {-8, -13});
  expectValues(runOp("sum_pool", {{i8, {1, 1, 4}, {100, 100, 1, 2}}}, i8, {1, 1, 2}, list), {-56, 103});
}

TEST(Pool, TwoDimensionsWithDilation) {
  Geometry g{{1, 1}, {0, 0}, {0, 0}, {2, 1}};
  auto list = attributes(g);
  list.push_back(integers("window", {2, 2}));
  Data x = counting(f32, {1, 2, 3, 3});
  expectValues(runOp("max_pool", {x}, f32, {1, 2, 1, 2}, list), {7, 8, 16, 17});
  expectValues(runOp("sum_pool", {x}, f32, {1, 2, 1, 2}, list),
               {0 + 1 + 6 + 7, 1 + 2 + 7 + 8, 9 + 10 + 15 + 16, 10 + 11 + 16 + 17});
}

TEST(Pool, AWindowOfPaddingOnly) {
  Geometry g{{3}, {0}, {3}, {1}};
  auto list = attributes(g);
  list.push_back(integers("window", {2}));
  expectValues(runOp("max_pool", {{f32, {1, 1, 3}, {1, 2, 3}}}, f32, {1, 1, 2}, list), {2, -inf});
  expectValues(runOp("sum_pool", {{f32, {1, 1, 3}, {1, 2, 3}}}, f32, {1, 1, 2}, list), {3, 0});
}

TEST(FusedConvolution, ScalesShiftsAndActivates) {
  Data x = noise(f32, {1, 2, 5}, 1), weight = noise(f32, {3, 2, 3}, 2), scale = noise(f32, {3}, 3),
       bias = noise(f32, {3}, 4);
  std::vector<Attribute> window{integers("strides", {1}), integers("low", {1}), integers("high", {1}),
                                integers("dilations", {1}), integer("groups", 1)};
  Data plain = runOp("convolution", {x, weight}, f32, {1, 3, 5}, window);
  for (std::string name : {"none", "relu", "silu", "gelu", "gelu_tanh"}) {
    std::vector<double> expected;
    for (size_t i = 0; i < plain.values.size(); ++i) {
      double y = plain.values[i] * scale.values[i / 5] + bias.values[i / 5];
      expected.push_back(name == "relu"   ? std::max(y, 0.0)
                         : name == "silu" ? y / (1 + std::exp(-y))
                         : name == "gelu" ? y * 0.5 * (1 + std::erf(y / std::sqrt(2)))
                         : name == "none"
                             ? y
                             : y * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (y + 0.044715 * y * y * y))));
    }
    std::vector<Attribute> attributes = window;
    attributes.push_back(string("activation", name));
    expectNear(runOp("fused_convolution", {x, weight, scale, bias}, f32, {1, 3, 5}, attributes), expected, 1e-5);
  }
}
