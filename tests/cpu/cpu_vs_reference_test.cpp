// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions computed by the cpu plugin, compared with the reference interpreter.
#include "network.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

namespace mortise::test {
namespace {

TEST(Products, LinearOfManyShapes) {
  for (int64_t m : {1, 2, 7, 32, 129})
    for (int64_t k : {1, 3, 64, 257})
      for (int64_t n : {1, 5, 16, 130})
        for (bool transposed : {false, true}) {
          SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n));
          Network net;
          ValueId x = net.input(MORTISE_F32, {m, k});
          ValueId w = transposed ? net.weight({k, n}) : net.weight({n, k});
          net.output(net.linear(x, w, net.weight({n}), transposed));
          auto compiled = check(net);
          ASSERT_TRUE(compiled);
          EXPECT_TRUE(compiled->hasStep("onednn.matmul") || (m < 5 && compiled->hasStep("cpu.few_rows")));
        }
}

TEST(Products, DotOfEveryType) {
  for (int32_t dtype : {MORTISE_F64, MORTISE_F32, MORTISE_BF16, MORTISE_F16, MORTISE_I64, MORTISE_I32, MORTISE_I16,
                        MORTISE_I8, MORTISE_UI8}) {
    SCOPED_TRACE(dtypeName(dtype));
    Network net;
    ValueId x = net.input(dtype, {3, 17, 33}), y = net.input(dtype, {3, 33, 9});
    net.output(net.dot(x, y, {0}, {0}, {2}, {1}));
    check(net);
  }
}

TEST(Products, DotOfEveryArrangement) {
  // Contracted and batch dimensions in any position; constant operands on either side.
  for (int64_t xSum = 0; xSum < 3; ++xSum)
    for (int64_t ySum = 0; ySum < 3; ++ySum)
      for (int64_t batch : {-1, 0, 1}) {
        if (batch == xSum || batch == ySum)
          continue;
        SCOPED_TRACE(std::to_string(xSum) + std::to_string(ySum) + std::to_string(batch));
        std::vector<int64_t> xDims{4, 4, 5}, yDims{4, 4, 6};
        xDims[xSum] = yDims[ySum] = 4;
        if (batch >= 0)
          xDims[batch] = yDims[batch] = 4;
        Network net;
        ValueId x = net.input(MORTISE_F32, xDims), y = net.input(MORTISE_F32, yDims), w = net.weight(yDims),
                u = net.weight(xDims);
        std::vector<int64_t> batches;
        if (batch >= 0)
          batches = {batch};
        net.output(net.dot(x, y, batches, batches, {xSum}, {ySum}));
        net.output(net.dot(x, w, batches, batches, {xSum}, {ySum}));
        net.output(net.dot(u, y, batches, batches, {xSum}, {ySum}));
        check(net);
      }
}

TEST(Products, SeveralContractedDimensions) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {2, 3, 4, 5}), y = net.input(MORTISE_F32, {5, 3, 7, 4});
  net.output(net.dot(x, y, {}, {}, {1, 3}, {1, 0}));
  net.output(net.dot(x, y, {}, {}, {3, 2}, {0, 3}));
  check(net);
}

TEST(Products, EmptyAndScalarResults) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {3, 0}), y = net.input(MORTISE_F32, {0, 4}), z = net.input(MORTISE_F32, {0, 3}),
          v = net.input(MORTISE_F32, {5});
  net.output(net.dot(x, y, {}, {}, {1}, {0}));
  net.output(net.dot(z, x, {}, {}, {1}, {0}));
  net.output(net.dot(v, v, {}, {}, {0}, {0}));
  check(net);
}

TEST(Products, EpiloguesAreFused) {
  for (const char *activation : {"relu", "gelu", "silu", "tanh", "logistic"})
    for (bool residual : {false, true}) {
      SCOPED_TRACE(activation);
      Network net;
      ValueId x = net.input(MORTISE_F32, {2, 16, 48}), other = net.input(MORTISE_F32, {2, 16, 40});
      ValueId y = net.linear(x, net.weight({40, 48}), net.weight({40}));
      y = std::string(activation) == "gelu" ? net.op("gelu", {y}, {text("approximate", "none")})
                                            : net.op(activation, {y});
      if (residual)
        y = net.op("add", {other, y});
      net.output(y);
      auto compiled = check(net);
      ASSERT_TRUE(compiled);
      EXPECT_EQ(compiled->steps().size(), 1u) << compiled->text();
    }
}

TEST(Products, EpilogueThroughReshapes) {
  Network net; // the form in which addmm is imported: a product of two dimensions between reshapes
  ValueId x = net.input(MORTISE_F32, {2, 8, 24});
  ValueId y = net.dot(net.reshape(x, {16, 24}), net.transpose(net.weight({32, 24}), {1, 0}), {}, {}, {1}, {0});
  y = net.addRow(y, net.weight({32}));
  y = net.reshape(y, {2, 8, 32});
  y = net.op("gelu", {y}, {text("approximate", "tanh")});
  net.output(net.op("mul", {y, net.input(MORTISE_F32, {2, 8, 32})}));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->steps().size(), 1u) << compiled->text();
}

TEST(Products, WithoutFusedActivations) {
  Network net;
  ValueId y = net.op("relu", {net.linear(net.input(MORTISE_F32, {4, 8}), net.weight({16, 8}))});
  net.output(y);
  Check how;
  how.options = {{"fuse_activations", "false"}};
  how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
    randomFill(value, position, bytes);
    if (position == 0)
      reinterpret_cast<float *>(bytes.data())[3] = -std::numeric_limits<float>::infinity();
  };
  auto compiled = check(net, how);
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("generated"));
}

TEST(Products, FusedActivationsKeepNaN) {
  for (const char *activation : {"relu", "silu"}) {
    Network net;
    net.output(net.op(activation, {net.linear(net.input(MORTISE_F32, {4, 8}), net.weight({16, 8}))}));
    Check how;
    how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
      randomFill(value, position, bytes);
      if (position == 0)
        reinterpret_cast<float *>(bytes.data())[3] = NAN;
    };
    check(net, how);
  }
}

TEST(Products, MergedSiblings) {
  for (int64_t tokens : {1, 2, 19})
    for (bool bias : {false, true}) {
      Network net;
      ValueId x = net.input(MORTISE_F32, {1, tokens, 32});
      auto project = [&](int64_t width) {
        return net.linear(x, net.weight({width, 32}), bias ? net.weight({width}) : ir::noValue);
      };
      ValueId q = project(32), k = project(16), v = project(16);
      net.output(net.op("exp", {q}));
      net.output(net.dot(net.reshape(k, {tokens, 16}), net.reshape(v, {tokens, 16}), {}, {}, {1}, {1}));
      auto compiled = check(net);
      ASSERT_TRUE(compiled);
      EXPECT_TRUE(compiled->hasStep("side by side"));
    }
}

TEST(Products, SiblingsWithOneNumberAsBias) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {3, 32});
  for (int64_t width : {8, 16}) {
    ValueId y = net.dot(x, net.weight({32, width}), {}, {}, {1}, {0});
    net.output(net.op("exp", {net.op("add", {y, net.broadcast(net.weight({}), {3, width}, {})})}));
  }
  check(net);
}

TEST(Products, AttentionReadsAndWritesThroughStrides) {
  for (int64_t batch : {1, 2})
    for (int64_t tokens : {1, 7, 32}) {
      Network net;
      ValueId x = net.input(MORTISE_F32, {batch, tokens, 64});
      auto heads = [&](ValueId value) {
        return net.transpose(net.reshape(value, {batch, tokens, 4, 16}), {0, 2, 1, 3});
      };
      auto project = [&] { return net.linear(x, net.weight({64, 64}), net.weight({64})); };
      ValueId q = heads(project()), k = heads(project()), v = heads(project());
      ValueId y = net.reshape(net.transpose(net.attention(q, k, v, 0.25), {0, 2, 1, 3}), {batch, tokens, 64});
      y = net.op("add", {x, net.linear(y, net.weight({64, 64}), net.weight({64}))});
      net.output(
          net.op("layer_norm", {y, net.weight({64}), net.weight({64})}, {integer("axis", 2), real("epsilon", 1e-5)}));
      auto compiled = check(net);
      ASSERT_TRUE(compiled);
      EXPECT_FALSE(compiled->hasStep("reorder"));
      EXPECT_LE(compiled->steps().size(), 6u) << compiled->text(); // qkv, scores, softmax, values, projection, norm
    }
}

TEST(Products, DerivedWeightsAreMadeOnce) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {4, 8}), w = net.weight({16, 8});
  ValueId scaled = net.op("mul", {w, net.op("exp", {net.broadcast(net.weight({16}), {16, 8}, {0})})});
  net.output(net.linear(x, scaled));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->steps().size(), 1u) << compiled->text();
}

TEST(Products, ConstantsOnly) {
  Network net; // products of constants run in each call; a much larger derived constant gets memory for its product
  ValueId w = net.linear(net.weight({6, 8}), net.weight({5, 8}), net.weight({5}));
  ValueId x = net.input(MORTISE_F32, {2, 3, 6});
  net.output(net.dot(x, net.broadcast(w, {2, 6, 5}, {1, 2}), {0}, {0}, {2}, {1}));
  ValueId large = net.op("exp", {net.broadcast(net.weight({400}), {300, 400}, {1})});
  net.output(net.dot(net.input(MORTISE_F32, {4, 300}), large, {}, {}, {1}, {0}));
  ValueId counts = net.op("iota", {}, {ints("shape", {7, 9}), text("dtype", "f32"), integer("axis", 1)});
  net.output(net.dot(net.input(MORTISE_F32, {2, 7}), counts, {}, {}, {1}, {0}));
  check(net);
}

TEST(Products, ConstantsSharedByBindAndRun) {
  Network net; // positions feed a small table (made once) and a large one (made in each call)
  ValueId ids = net.op("take_along",
                       {net.broadcast(net.input(MORTISE_I64, {1, 64}, MORTISE_VALUE_CONSTANT), {1, 64}, {0, 1}),
                        net.op("slice", {net.input(MORTISE_I64, {1, 64}, MORTISE_VALUE_CONSTANT)},
                               {ints("starts", {0, 0}), ints("limits", {1, 16}), ints("strides", {1, 1})})},
                       {integer("axis", 1)});
  ValueId wide = net.op("embedding", {net.weight({8, 96}), net.broadcast(ids, {32, 16}, {0, 1})});
  ValueId small = net.op("embedding", {net.weight({8, 4}), ids});
  net.output(net.op("add", {net.input(MORTISE_F32, {32, 16, 96}), wide}));
  net.output(net.op("mul", {net.input(MORTISE_F32, {1, 16, 4}), small}));
  check(net);
}

TEST(Convolutions, Shapes) {
  struct Case {
    std::vector<int64_t> x, w, strides, pad;
    int64_t groups;
    std::vector<int64_t> dilations;
  };
  for (const Case &c : std::vector<Case>{{{1, 3, 17, 19}, {8, 3, 3, 3}, {1, 1}, {1, 1}, 1, {1, 1}},
                                         {{2, 16, 9, 9}, {32, 16, 1, 1}, {2, 2}, {0, 0}, 1, {1, 1}},
                                         {{2, 8, 9, 9}, {8, 1, 3, 3}, {1, 1}, {1, 1}, 8, {1, 1}},
                                         {{1, 8, 11, 7}, {12, 4, 3, 2}, {2, 1}, {2, 0}, 2, {2, 1}},
                                         {{3, 5, 23}, {7, 5, 4}, {3}, {2}, 1, {1}},
                                         {{1, 4, 5, 6, 7}, {6, 4, 2, 3, 3}, {1, 1, 2}, {0, 1, 1}, 1, {1, 1, 1}}}) {
    for (int32_t dtype : {MORTISE_F32, MORTISE_BF16, MORTISE_F16}) {
      SCOPED_TRACE(dtypeName(dtype));
      Network net;
      ValueId x = net.input(dtype, c.x);
      net.output(net.convolution(x, net.weight(c.w, dtype), c.strides, c.pad, c.groups, c.dilations));
      net.output(net.convolution(x, net.input(dtype, c.w), c.strides, c.pad, c.groups, c.dilations));
      check(net);
    }
  }
}

ValueId batchNorm(Network &net, ValueId x) {
  int64_t channels = net.dims(x)[1];
  auto positive = [&] { return net.op("exp", {net.weight({channels})}); };
  return net.op("batch_norm", {x, net.weight({channels}), net.weight({channels}), net.weight({channels}), positive()},
                {real("epsilon", 1e-5)});
}

TEST(Convolutions, ResidualBlockStaysBlocked) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {1, 3, 32, 32});
  ValueId y = net.op("relu", {batchNorm(net, net.convolution(x, net.weight({32, 3, 7, 7}), {2, 2}, {3, 3}))});
  y = net.op("max_pool", {y},
             {ints("window", {3, 3}), ints("strides", {2, 2}), ints("low", {1, 1}), ints("high", {1, 1}),
              ints("dilations", {1, 1})});
  for (int64_t width : {32, 48}) {
    ValueId a =
        net.op("relu", {batchNorm(net, net.convolution(y, net.weight({16, net.dims(y)[1], 1, 1}), {1, 1}, {0, 0}))});
    a = net.op("relu", {batchNorm(net, net.convolution(a, net.weight({16, 16, 3, 3}), {1, 1}, {1, 1}))});
    a = batchNorm(net, net.convolution(a, net.weight({width, 16, 1, 1}), {1, 1}, {0, 0}));
    ValueId shortcut =
        width == 32 ? y : batchNorm(net, net.convolution(y, net.weight({width, 32, 1, 1}), {1, 1}, {0, 0}));
    y = net.op("relu", {net.op("add", {a, shortcut})});
  }
  net.output(net.op("mean", {y}, {ints("axes", {2, 3})}));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  size_t reorders = 0;
  for (const MortiseStep *step : compiled->steps())
    reorders += std::string_view(step->lowering) == "onednn.reorder";
  EXPECT_LE(reorders, 2u) << compiled->text();
}

TEST(Convolutions, BiasAndChannelScale) {
  Network net;
  ValueId y = net.convolution(net.input(MORTISE_F32, {2, 6, 8, 8}), net.weight({10, 6, 3, 3}), {1, 1}, {1, 1});
  y = net.op("add", {y, net.broadcast(net.weight({10}), {2, 10, 8, 8}, {1})});
  y = net.op("mul", {y, net.broadcast(net.weight({10}), {2, 10, 8, 8}, {1})});
  net.output(net.op("tanh", {y}));
  net.output(net.op("exp", {y}));
  check(net);
}

TEST(Pools, EveryTypeAndHostileValues) {
  for (int32_t dtype : {MORTISE_F64, MORTISE_F32, MORTISE_BF16, MORTISE_F16, MORTISE_I32, MORTISE_I8, MORTISE_UI8})
    for (const char *name : {"max_pool", "sum_pool"}) {
      SCOPED_TRACE(std::string(name) + " " + dtypeName(dtype));
      Network net;
      ValueId x = net.input(dtype, {2, 5, 9, 10});
      net.output(net.op(name, {x},
                        {ints("window", {3, 2}), ints("strides", {2, 1}), ints("low", {1, 0}), ints("high", {1, 1}),
                         ints("dilations", {1, 2})}));
      Check how;
      how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
        randomFill(value, position, bytes);
        if (value.type->dtype == MORTISE_F32) {
          float *data = reinterpret_cast<float *>(bytes.data());
          data[7] = NAN, data[60] = INFINITY, data[200] = -INFINITY, data[301] = -0.0f;
        }
      };
      check(net, how);
    }
}

// A row of row-major values is computed sixteen positions at a time; the last ones overlap, and borders are apart.
TEST(Pools, RowsOfEveryLength) {
  for (const char *name : {"max_pool", "sum_pool"})
    for (const int64_t out : {1, 2, 15, 16, 17, 33, 40})
      for (const int64_t stride : {1, 2, 3})
        for (const auto &[window, dilation, low, high] :
             {std::array<int64_t, 4>{1, 1, 0, 0}, {3, 1, 1, 1}, {2, 2, 1, 0}, {5, 1, 4, 4}, {3, 20, 20, 30}}) {
          const int64_t extent = (out - 1) * stride + (window - 1) * dilation + 1 - low - high;
          if (extent < 1)
            continue;
          SCOPED_TRACE(std::string(name) + " " + std::to_string(extent) + " to " + std::to_string(out) + ", stride " +
                       std::to_string(stride) + ", window " + std::to_string(window));
          Network net;
          const ValueId x = net.input(MORTISE_F32, {1, 3, 2, extent});
          net.output(net.op(name, {x},
                            {ints("window", {2, window}), ints("strides", {1, stride}), ints("low", {0, low}),
                             ints("high", {1, high}), ints("dilations", {1, dilation})}));
          check(net);
        }
}

bool takesLinear(int32_t dtype) {
  Network net;
  net.output(net.linear(net.input(dtype, {8, 16}), net.weight({16, 16}, dtype)));
  return static_cast<bool>(Compiled::make(net.finish()));
}

// Every float type of the plugin in the kinds of steps that models consist of, within the bounds of the type's
// rounding.
class Floats : public testing::TestWithParam<int32_t> {
protected:
  const int32_t dtype = GetParam();
  Network net;

  ValueId input(std::vector<int64_t> dims) { return net.input(dtype, std::move(dims)); }
  ValueId weight(std::vector<int64_t> dims) { return net.weight(std::move(dims), dtype); }
  // `linear`, or its decomposition if the plugin refuses linear of the type.
  ValueId linear(ValueId x, int64_t width) {
    const int64_t rank = static_cast<int64_t>(net.dims(x).size()), depth = net.dims(x).back();
    if (takesLinear(dtype))
      return net.linear(x, weight({width, depth}), weight({width}));
    return net.addRow(net.dot(x, weight({width, depth}), {}, {}, {rank - 1}, {1}), weight({width}));
  }
  ValueId attention(ValueId q, ValueId k, ValueId v, double scale) {
    ValueId scores = net.dot(q, k, {0, 1}, {0, 1}, {3}, {3});
    scores = net.op("mul", {scores, net.splat(scale, net.dims(scores), dtype)});
    return net.dot(net.op("softmax", {scores}, {integer("axis", 3)}), v, {0, 1}, {0, 1}, {3}, {2});
  }
};

TEST_P(Floats, Linear) {
  for (int64_t rows : {1, 3, 32})
    for (int64_t depth : {1, 10, 64, 257, 2048})
      for (int64_t width : {1, 17, 40})
        net.output(linear(input({rows, depth}), width));
  check(net);
}

TEST_P(Floats, Epilogues) {
  for (const char *activation : {"relu", "gelu", "silu", "tanh", "logistic"}) {
    ValueId y = linear(input({2, 16, 48}), 40);
    y = std::string(activation) == "gelu" ? net.op("gelu", {y}, {text("approximate", "none")})
                                          : net.op(activation, {y});
    net.output(net.op("add", {input({2, 16, 40}), y}));
  }
  check(net);
}

TEST_P(Floats, Norms) {
  ValueId x = input({4, 6, 40});
  Attribute axis = integer("axis", 2), epsilon = real("epsilon", 1e-5);
  net.output(net.op("layer_norm", {x, weight({40}), weight({40})}, {axis, epsilon}));
  net.output(net.op("rms_norm", {x, weight({40})}, {axis, epsilon}));
  net.output(net.op("group_norm", {x, weight({6}), weight({6})}, {epsilon, integer("groups", 3)}));
  ValueId positive = net.op("exp", {weight({6})});
  net.output(net.op("batch_norm", {x, weight({6}), weight({6}), weight({6}), positive}, {epsilon}));
  ValueId y = net.op("add", {x, input({4, 6, 40})});
  net.output(net.op("layer_norm", {y, weight({40}), weight({40})}, {axis, epsilon}));
  net.output(y);
  check(net);
}

// The mean is much larger than the distances from it, so that its rounding decides the error.
TEST_P(Floats, NormsOfRowsFarFromZero) {
  const std::vector<int64_t> shape = {200, 4, 2};
  ValueId x =
      net.op("add", {net.op("mul", {input(shape), net.splat(0.02, shape, dtype)}), net.splat(0.7, shape, dtype)});
  const Attribute epsilon = real("epsilon", 1e-5);
  net.output(net.op("layer_norm", {x, weight({2}), weight({2})}, {integer("axis", 2), epsilon}));
  net.output(net.op("group_norm", {x, weight({4}), weight({4})}, {epsilon, integer("groups", 4)}));
  check(net);
}

TEST_P(Floats, Softmax) {
  for (int64_t width : {1, 7, 64, 1000}) {
    SCOPED_TRACE(width);
    Network rows;
    ValueId x = rows.input(dtype, {5, width});
    ValueId steep = rows.op("mul", {x, rows.splat(20, {5, width}, dtype)});
    for (int64_t axis : {0, 1})
      for (const char *op : {"softmax", "log_softmax"}) {
        rows.output(rows.op(op, {x}, {integer("axis", axis)}));
        rows.output(rows.op(op, {steep}, {integer("axis", axis)}));
      }
    check(rows);
  }
}

TEST_P(Floats, Reductions) {
  ValueId x = input({3, 130, 33});
  for (const std::vector<int64_t> &axes : {std::vector<int64_t>{0}, {1}, {2}, {1, 2}, {0, 1, 2}})
    for (const char *op : {"reduce_sum", "reduce_max", "mean"})
      net.output(net.op(op, {x}, {ints("axes", axes)}));
  net.output(net.op("cumsum", {x}, {integer("axis", 1)}));
  check(net);
}

TEST_P(Floats, Attention) {
  for (int64_t tokens : {1, 7, 32}) {
    ValueId q = input({2, 4, tokens, 16}), k = input({2, 4, 50, 16}), v = input({2, 4, 50, 16});
    net.output(attention(q, k, v, 0.25));
    ValueId x = input({2, tokens, 64});
    auto heads = [&] { return net.transpose(net.reshape(linear(x, 64), {2, tokens, 4, 16}), {0, 2, 1, 3}); };
    q = heads(), k = heads(), v = heads();
    ValueId y = net.reshape(net.transpose(attention(q, k, v, 0.25), {0, 2, 1, 3}), {2, tokens, 64});
    net.output(net.op("add", {x, linear(y, 64)}));
  }
  check(net);
}

TEST_P(Floats, Windows) {
  ValueId x = input({2, 8, 13, 12});
  if (dtype != MORTISE_F64) { // the plugin refuses f64 convolutions
    net.output(net.convolution(x, weight({12, 8, 3, 3}), {1, 1}, {1, 1}));
    net.output(net.convolution(x, weight({12, 8, 1, 1}), {2, 2}, {0, 0}));
    net.output(net.convolution(x, weight({8, 1, 3, 3}), {1, 1}, {1, 1}, 8));
    net.output(net.convolution(x, input({12, 4, 3, 2}), {2, 1}, {2, 0}, 2, {2, 1}));
    ValueId y = net.convolution(x, weight({10, 8, 3, 3}), {1, 1}, {1, 1});
    y = net.op("add", {y, net.broadcast(weight({10}), net.dims(y), {1})});
    net.output(net.op("relu", {y}));
  }
  for (const char *pool : {"max_pool", "sum_pool"})
    net.output(net.op(pool, {x},
                      {ints("window", {3, 2}), ints("strides", {2, 1}), ints("low", {1, 0}), ints("high", {1, 1}),
                       ints("dilations", {1, 2})}));
  check(net);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Floats, testing::Values(MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16),
                         [](const auto &info) { return std::string(dtypeName(info.param)); });

TEST(Updates, CacheIsUpdatedInPlace) {
  Network net;
  ValueId cache = net.input(MORTISE_F32, {1, 2, 16, 4}, MORTISE_VALUE_STATE);
  ValueId at = net.input(MORTISE_I64, {1}), step = net.input(MORTISE_F32, {1, 1, 2, 4});
  ValueId updated =
      net.op("put", {cache, at, net.transpose(step, {0, 2, 1, 3})}, {integer("axis", 2), text("mode", "set")});
  ValueId q = net.input(MORTISE_F32, {1, 2, 1, 4});
  net.output(net.dot(q, updated, {0, 1}, {0, 1}, {3}, {3}));
  net.output(updated, 0);
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("in place"));
  EXPECT_FALSE(compiled->hasStep("copy"));
}

TEST(Updates, OldContentsReadAfterwards) {
  Network net;
  ValueId state = net.input(MORTISE_F32, {6, 4}, MORTISE_VALUE_STATE), at = net.input(MORTISE_I64, {2}),
          rows = net.input(MORTISE_F32, {2, 4});
  ValueId updated = net.op("put", {state, at, rows}, {integer("axis", 0), text("mode", "set")});
  net.output(net.op("add", {updated, state}));
  net.output(updated, 0);
  check(net);
}

TEST(Updates, StatesSwapAndOldContentsLeave) {
  Network net;
  ValueId a = net.input(MORTISE_F32, {9}, MORTISE_VALUE_STATE), b = net.input(MORTISE_F32, {9}, MORTISE_VALUE_STATE);
  net.output(b, 0);
  net.output(a, 1);
  net.output(a);
  ValueId c = net.input(MORTISE_F32, {6, 4}, MORTISE_VALUE_STATE), at = net.input(MORTISE_I64, {2});
  ValueId rows = net.op("slice", {c}, {ints("starts", {1, 0}), ints("limits", {3, 4}), ints("strides", {1, 1})});
  ValueId updated = net.op("put", {c, at, rows}, {integer("axis", 0), text("mode", "set")});
  net.output(updated, 2);
  net.output(c);
  net.output(updated);
  check(net);
}

TEST(Updates, ChainOfUpdatesStaysInPlace) {
  Network net;
  ValueId state = net.input(MORTISE_F32, {8, 4}, MORTISE_VALUE_STATE), first = net.input(MORTISE_I64, {1}),
          second = net.input(MORTISE_I32, {1});
  ValueId x = net.op("put", {state, first, net.input(MORTISE_F32, {1, 4})}, {integer("axis", 0), text("mode", "set")});
  x = net.op("put", {x, second, net.input(MORTISE_F32, {1, 4})}, {integer("axis", 0), text("mode", "set")});
  net.output(x, 0);
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_FALSE(compiled->hasStep("copy"));
}

TEST(Updates, StateAdvancedByArithmetic) {
  Network net; // another output reads the old value
  ValueId state = net.input(MORTISE_F32, {33}, MORTISE_VALUE_STATE), x = net.input(MORTISE_F32, {33});
  net.output(net.op("add", {net.op("mul", {state, net.splat(0.5, {33})}), x}), 0);
  net.output(net.op("reverse", {state}, {ints("axes", {0})}));
  check(net);
}

TEST(Outputs, EveryKind) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {4, 6}), w = net.weight({5, 6});
  ValueId y = net.linear(x, w);
  net.output(y);
  net.output(y);                        // the same output twice
  net.output(net.reshape(y, {20}));     // a view of all of its memory
  net.output(net.transpose(y, {1, 0})); // a strided view
  net.output(x);                        // an input
  net.output(w);                        // a constant
  net.output(net.transpose(w, {1, 0}));
  net.output(net.op("exp", {w})); // computed when constants are bound
  net.output(net.splat(3, {2, 2}));
  net.output(net.op("slice", {y}, {ints("starts", {1, 2}), ints("limits", {3, 5}), ints("strides", {1, 2})}));
  check(net);
}

TEST(Kernels, ManyThreadsShareOne) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {8, 64});
  ValueId y = net.op("softmax", {net.linear(x, net.weight({48, 64}), net.weight({48}))}, {integer("axis", 1)});
  net.output(net.linear(y, net.weight({16, 48})));
  auto graph = net.finish();
  auto compiled = Compiled::make(graph);
  ASSERT_TRUE(compiled) << compiled.error().message;
  std::vector<std::vector<std::byte>> weights(graph->view().input_count);
  std::vector<const void *> bound(weights.size());
  for (size_t i = 1; i < weights.size(); ++i) {
    weights[i].resize(byteSize(*graph->view().inputs[i]->type));
    randomFill(*graph->view().inputs[i], i, weights[i]);
    bound[i] = weights[i].data();
  }
  ASSERT_TRUE((*compiled)->bind(bound));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::byte> input(8 * 64 * 4), first(8 * 16 * 4), again(8 * 16 * 4),
          workspace((*compiled)->workspaceBytes() + 64);
      randomFill(*graph->view().inputs[0], 100 + t, input);
      std::vector<const void *> inputs(weights.size());
      inputs[0] = input.data();
      for (int round = 0; round < 50; ++round) {
        void *out = round ? again.data() : first.data();
        if (!(*compiled)->run(inputs, std::span(&out, 1), nullptr, workspace))
          ++wrong;
        if (round && std::memcmp(first.data(), again.data(), first.size()) != 0)
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Kernels, EqualConstantsArePackedOnce) {
  std::vector<float> w(64 * 64, 0.5f), x(2 * 64, 1), y(2 * 64);
  std::vector<std::unique_ptr<Compiled>> kernels;
  const void *bound[] = {nullptr, w.data()}, *passed[] = {x.data(), nullptr};
  void *out[] = {y.data()};
  for (int64_t rows : {1, 2, 2}) { // two shapes, the second of them twice
    Network net;
    net.output(net.linear(net.input(MORTISE_F32, {rows, 64}), net.weight({64, 64})));
    auto made = Compiled::make(net.finish());
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE((*made)->bind(bound));
    ASSERT_TRUE((*made)->run(passed, out));
    EXPECT_EQ(y[0], 32);
    kernels.push_back(std::move(*made));
  }
  EXPECT_GT(kernels[0]->packedBytes, 0u);
  EXPECT_EQ(kernels[2]->packedBytes, 0u);
  w[0] = 1; // other contents at the same address
  ASSERT_TRUE(kernels[2]->bind(bound));
  EXPECT_GT(kernels[2]->packedBytes, 0u);
  ASSERT_TRUE(kernels[2]->run(passed, out));
  EXPECT_EQ(y[0], 32.5f);
  ASSERT_TRUE(kernels[1]->run(passed, out));
  EXPECT_EQ(y[0], 32);
}

// Reduced from RecurrentGemma by `mortise reduce`: oneDNN read the bias as if the result were dense.
TEST(Products, BiasOfBatchedProductStoredTransposed) {
  Network net;
  ValueId y = net.dot(net.input(MORTISE_F32, {4, 32, 16}), net.weight({4, 16, 16}), {0}, {0}, {2}, {1});
  y = net.op("add", {y, net.broadcast(net.reshape(net.weight({4, 1, 16}), {4, 16}), {4, 32, 16}, {0, 2})});
  net.output(net.transpose(y, {1, 0, 2}));
  check(net);
}

// The library's answers and packed weights are cached for the process. Each case differs from another in only one
// thing, with the same weights.
TEST(Kernels, WhatIsKeptIsKeptForEqualQuestions) {
  struct Question {
    int32_t dtype = MORTISE_F32;
    double scale = 2, shift = 1;
    const char *activation = "gelu", *approximate = "none";
    bool transposed = false, bias = true;
    double epsilon = 1e-5;
  };
  const Question questions[] = {{},
                                {.scale = 3},
                                {.shift = -1},
                                {.approximate = "tanh"},
                                {.activation = "relu"},
                                {.activation = "silu"},
                                {.transposed = true},
                                {.bias = false},
                                {.dtype = MORTISE_BF16},
                                {.epsilon = 0.5},
                                {}};
  for (const char *fuse : {"true", "false"})
    for (const Question &question : questions) {
      SCOPED_TRACE(&question - questions);
      Network net;
      const auto dtype = question.dtype;
      const ValueId x = net.input(dtype, {8, 16}), w = net.weight({16, 16}, dtype);
      // The plugin refuses linear of bf16 where oneDNN computes bf16 through f32; hosts then decompose it.
      const bool whole = dtype == MORTISE_F32 || takesLinear(dtype);
      const ValueId bias = question.bias ? net.weight({16}, dtype) : ir::noValue;
      ValueId y = whole ? net.linear(x, w, bias, question.transposed)
                        : net.dot(x, w, {}, {}, {1}, {question.transposed ? 0 : 1});
      if (!whole && question.bias)
        y = net.addRow(y, bias);
      y = net.op("mul", {y, net.splat(question.scale, {8, 16}, dtype)});
      y = net.op("add", {y, net.splat(question.shift, {8, 16}, dtype)});
      y = std::string(question.activation) == "gelu" ? net.op("gelu", {y}, {text("approximate", question.approximate)})
                                                     : net.op(question.activation, {y});
      net.output(y);
      ValueId z = net.convolution(net.input(MORTISE_F32, {2, 4, 5, 5}), net.weight({6, 4, 3, 3}), {1, 1}, {1, 1});
      ValueId positive = net.op("exp", {net.weight({6})});
      net.output(net.op("batch_norm", {z, net.weight({6}), net.weight({6}), net.weight({6}), positive},
                        {real("epsilon", question.epsilon)}));
      Check how;
      how.options = {{"fuse_activations", fuse}};
      check(net, how);
    }
}

size_t residentBytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

// The blocks of one bind are adjacent; a block that nobody shares is freed with its kernel.
TEST(Kernels, PackedMemoryGoesWithItsLastOwner) {
  constexpr int64_t large = 3000, small = 64, rows = 8; // weights of fewer rows are read as they lie
  std::vector<float> big(large * large, 0.5f), shared(small * small, 0.25f), u(rows * small, 1), v(rows * small);
  Network both, one;
  both.output(both.linear(both.input(MORTISE_F32, {rows, large}), both.weight({large, large})));
  both.output(both.linear(both.input(MORTISE_F32, {rows, small}), both.weight({small, small})));
  one.output(one.linear(one.input(MORTISE_F32, {rows, small}), one.weight({small, small})));
  const void *all[] = {nullptr, big.data(), nullptr, shared.data()}, *part[] = {nullptr, shared.data()};
  auto first = Compiled::make(both.finish()), second = Compiled::make(one.finish());
  ASSERT_TRUE(first && second);
  const size_t before = residentBytes();
  ASSERT_TRUE((*first)->bind(all));
  EXPECT_GT(residentBytes(), before + large * large * 4 * 9 / 10)
      << "the test shows nothing: the weights are not packed";
  ASSERT_TRUE((*second)->bind(part));
  EXPECT_EQ((*second)->packedBytes, 0u) << "shared with the first";
  first->reset();
  EXPECT_LT(residentBytes(), before + large * large * 4 / 2);
  const void *passed[] = {u.data(), nullptr};
  void *out[] = {v.data()};
  ASSERT_TRUE((*second)->run(passed, out));
  EXPECT_EQ(v, std::vector<float>(rows * small, 16));
}

TEST(Kernels, SumsOfNothing) {
  for (const std::vector<int64_t> &dims : {std::vector<int64_t>{0, 4}, {4, 0}, {0, 100}, {3, 0, 20}, {0, 0}})
    for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis)
      for (const char *op : {"reduce_sum", "reduce_prod", "reduce_max", "softmax", "cumsum"}) {
        SCOPED_TRACE(op);
        Network net;
        const bool reduces = std::string(op).starts_with("reduce");
        net.output(
            net.op(op, {net.input(MORTISE_F32, dims)}, {reduces ? ints("axes", {axis}) : integer("axis", axis)}));
        check(net);
      }
}

TEST(Kernels, RefusalsSayWhy) {
  Network net;
  ValueId x = net.input(MORTISE_F8E4M3FN, {4, 4});
  net.output(net.dot(x, x, {}, {}, {1}, {0}));
  auto compiled = Compiled::make(net.finish());
  ASSERT_FALSE(compiled);
  EXPECT_NE(compiled.error().message.find("f8E4M3FN"), std::string::npos) << compiled.error().message;
}

} // namespace
} // namespace mortise::test
