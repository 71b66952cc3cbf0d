// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions computed by the cpu plugin, compared with the reference interpreter.
#include "network.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

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

// Convolutions are looked at before siblings are merged, and read behind a view where the merged product stores.
TEST(Products, MergedSiblingsThatConvolutionsReadTransposed) {
  for (const int64_t groups : {1, 4, 32}) {
    Network net;
    ValueId x = net.input(MORTISE_F32, {2, 12, 32});
    const auto project = [&] { return net.linear(x, net.weight({32, 32})); };
    const ValueId k = project(), v = project();
    net.output(net.convolution(net.transpose(v, {0, 2, 1}), net.weight({32, 32 / groups, 3}), {1}, {1}, groups));
    net.output(net.op("exp", {k}));
    auto compiled = check(net);
    ASSERT_TRUE(compiled);
    EXPECT_TRUE(compiled->hasStep("side by side")) << compiled->text();
  }
}

// The library adds a convolution to what lies in its result's memory: never where the convolution, or another one
// behind it, still reads that.
TEST(Convolutions, AddToWhatIsReadAsWell) {
  for (const int64_t groups : {1, 4, 16})
    for (const bool readsAgain : {false, true})
      for (const bool ofItself : {true, false}) {
        SCOPED_TRACE(std::to_string(groups) + (readsAgain ? " again" : "") + (ofItself ? " of itself" : ""));
        Network net;
        const auto convolved = [&](ValueId x) {
          return net.convolution(x, net.weight({16, 16 / groups, 3, 3}), {1, 1}, {1, 1}, groups);
        };
        ValueId residual = net.input(MORTISE_F32, {2, 16, 6, 6});
        ValueId x = ofItself ? residual : net.input(MORTISE_F32, {2, 16, 6, 6});
        net.output(net.op("add", {convolved(x), residual}));
        if (readsAgain)
          net.output(net.op("relu", {convolved(residual)}));
        ASSERT_TRUE(check(net));
      }
}

// A transposed convolution of stride 2 is claimed before, and keeps the place where it reads.
TEST(Products, SiblingsThatATransposedConvolutionReads) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {2, 12, 32});
  const auto project = [&] { return net.linear(x, net.weight({32, 32})); };
  const ValueId k = project(), v = project();
  const ValueId spread = net.op("pad", {net.transpose(v, {0, 2, 1}), net.scalar(0)},
                                {ints("low", {0, 0, 3}), ints("high", {0, 0, 3}), ints("interior", {0, 0, 1})});
  net.output(net.convolution(spread, net.op("reverse", {net.weight({16, 32, 4})}, {ints("axes", {2})}), {1}, {0}));
  net.output(net.op("exp", {k}));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("gradient of the input")) << compiled->text();
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

// Vectors run along the channels, which lie side by side, although the reduced dimensions come last.
TEST_P(Floats, ReductionsOfChannelsLast) {
  Network net;
  const ValueId x = net.transpose(net.input(GetParam(), {3, 5, 7, 33}), {0, 3, 1, 2});
  for (const char *op : {"reduce_sum", "reduce_max", "mean"})
    net.output(net.op(op, {x}, {ints("axes", {0, 2, 3})}));
  net.output(net.op("reduce_sum", {net.op("mul", {x, x})}, {ints("axes", {0, 2, 3})}));
  net.output(net.op("argmax", {net.op("sign", {x})}, {integer("axis", 2)})); // of many equal elements
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("generated.columns")) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("generated.rows")) << compiled->text();
}

// As the backward pass of a batch norm: sums over all but the channels, and what is made of them, in one loop.
TEST_P(Floats, NormOfChannelsLast) {
  Network net;
  const std::vector<int64_t> shape{3, 33, 5, 7};
  const ValueId x = net.transpose(net.input(GetParam(), {3, 5, 7, 33}), {0, 3, 1, 2}),
                y = net.transpose(net.input(GetParam(), {3, 5, 7, 33}), {0, 3, 1, 2});
  const auto sum = [&](ValueId terms) {
    return net.broadcast(net.op("reduce_sum", {terms}, {ints("axes", {0, 2, 3})}), shape, {1});
  };
  const ValueId result = net.op("sub", {net.op("mul", {y, sum(net.op("mul", {x, y}))}), net.op("mul", {x, sum(x)})});
  net.output(net.transpose(result, {0, 2, 3, 1}));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  ASSERT_EQ(compiled->steps().size(), 1U) << compiled->text();
  EXPECT_TRUE(compiled->hasStep("generated.columns")) << compiled->text();
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

// More elements than one thread sums at a time, of one index and of many, and indices that repeat or are out of range.
TEST(Updates, AdditionsIn16Bits) {
  struct Case {
    int64_t outer, extent, inner, updates;
  };
  for (const Case &c : std::vector<Case>{{1, 20000, 1, 9000}, {2, 300, 70, 400}, {1, 5, 9000, 7}, {3, 1, 1, 5}})
    for (int32_t dtype : {MORTISE_F16, MORTISE_BF16})
      for (int32_t indices : {MORTISE_I32, MORTISE_I64}) {
        Network net;
        const ValueId old = net.input(dtype, {c.outer, c.extent, c.inner}), at = net.input(indices, {c.updates}),
                      added = net.input(dtype, {c.updates, c.inner, c.outer});
        net.output(
            net.op("put", {old, at, net.transpose(added, {2, 0, 1})}, {integer("axis", 1), text("mode", "add")}));
        Check how;
        how.fill = [&](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
          randomFill(value, position, bytes);
          const int64_t range = 2 * (c.extent + 1);
          for (size_t i = 0; position == 1 && i < static_cast<size_t>(c.updates); ++i) {
            const int64_t index = static_cast<int64_t>(i * i * 7919) % range - c.extent - 1;
            if (indices == MORTISE_I64)
              reinterpret_cast<int64_t *>(bytes.data())[i] = index;
            else
              reinterpret_cast<int32_t *>(bytes.data())[i] = static_cast<int32_t>(index);
          }
        };
        auto compiled = check(net, how);
        ASSERT_TRUE(compiled);
        EXPECT_TRUE(compiled->hasStep("cpu.put")) << compiled->text();
      }
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

// An optimiser's step: w and m are read once more, by the step that makes their new values.
TEST(Updates, WeightsAndMomentaAdvanceWhereTheyLie) {
  for (const std::vector<int64_t> &dims : std::vector<std::vector<int64_t>>{{64}, {33}, {96, 80}, {}}) {
    const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    for (const bool readAfterwards : {false, true}) {
      Network net;
      ValueId sum = ir::noValue;
      for (int64_t weight = 0; weight < 3; ++weight) {
        const ValueId w = net.input(MORTISE_F32, dims, MORTISE_VALUE_STATE),
                      m = net.input(MORTISE_F32, dims, MORTISE_VALUE_STATE), gradient = net.input(MORTISE_F32, dims);
        const ValueId moved = net.op("add", {net.op("mul", {m, net.splat(0.9, dims)}), gradient});
        net.output(net.op("sub", {w, net.op("mul", {moved, net.splat(0.1, dims)})}), 3 * weight);
        net.output(moved, 3 * weight + 1);
        sum = sum == ir::noValue ? w : net.op("mul", {sum, w});
      }
      if (readAfterwards)
        net.output(net.op("cumsum", {net.reshape(sum, {count})}, {integer("axis", 0)}));
      auto compiled = check(net);
      ASSERT_TRUE(compiled);
      const bool isWhole = count % 16 == 0 || dims.empty(); // otherwise the last vector is computed twice
      if (!readAfterwards && isWhole)
        EXPECT_FALSE(compiled->hasStep("copy")) << compiled->text();
    }
  }
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

// Reduced from RecurrentGemma by `mortise reduce`: oneDNN read the bias as if the result were dense.
TEST(Products, BiasOfBatchedProductStoredTransposed) {
  Network net;
  ValueId y = net.dot(net.input(MORTISE_F32, {4, 32, 16}), net.weight({4, 16, 16}), {0}, {0}, {2}, {1});
  y = net.op("add", {y, net.broadcast(net.reshape(net.weight({4, 1, 16}), {4, 16}), {4, 32, 16}, {0, 2})});
  net.output(net.transpose(y, {1, 0, 2}));
  check(net);
}

} // namespace
} // namespace mortise::test
