// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions compiled once for symbolic extents, run at many sets of values, and compared with the reference interpreter.
#include "network.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

namespace mortise::test {
namespace {

const Shapes twenty = {{2, 2},  {2, 3},  {3, 2}, {2, 7},  {5, 5},  {7, 11}, {4, 16}, {8, 8},  {3, 17}, {16, 2},
                       {2, 31}, {6, 13}, {9, 4}, {2, 64}, {4, 33}, {13, 3}, {3, 48}, {11, 9}, {2, 65}, {5, 24}};
const Shapes few = {{2, 3}, {5, 2}, {3, 17}, {4, 64}};

ValueId norm(Network &net, ValueId x, int64_t width) {
  return net.op("layer_norm", {x, net.weight({width}), net.weight({width})},
                {integer("axis", static_cast<int64_t>(net.dims(x).size()) - 1), real("epsilon", 1e-5)});
}

// An encoder from token ids to states, as in BERT: embeddings, merged projections, attention with a mask, gelu.
void encoder(Network &net, int64_t batch, int64_t tokens) {
  constexpr int64_t width = 32, heads = 4, size = width / heads, inner = 80;
  ValueId ids = net.input(MORTISE_I64, {batch, tokens}), mask = net.input(MORTISE_I1, {batch, tokens});
  ValueId x = net.op("embedding", {net.weight({60, width}), ids});
  ValueId positions = net.op("slice", {net.weight({tableRows(tokens), width})},
                             {ints("starts", {0, 0}), ints("limits", {tokens, width}), ints("strides", {1, 1})});
  x = norm(net, net.op("add", {x, net.broadcast(positions, {batch, tokens, width}, {1, 2})}), width);
  ValueId hidden = net.op("select", {net.broadcast(mask, {batch, heads, tokens, tokens}, {0, 3}),
                                     net.splat(0, {batch, heads, tokens, tokens}),
                                     net.splat(-1e30, {batch, heads, tokens, tokens})});
  for (int layer = 0; layer < 2; ++layer) {
    auto project = [&] {
      ValueId y = net.linear(x, net.weight({width, width}), net.weight({width}));
      return net.transpose(net.reshape(y, {batch, tokens, heads, size}), {0, 2, 1, 3});
    };
    ValueId q = project(), k = project(), v = project();
    ValueId scores = net.dot(q, k, {0, 1}, {0, 1}, {3}, {3});
    scores = net.op("add", {net.op("mul", {scores, net.splat(0.35, net.dims(scores))}), hidden});
    ValueId y = net.dot(net.op("softmax", {scores}, {integer("axis", 3)}), v, {0, 1}, {0, 1}, {3}, {2});
    y = net.reshape(net.transpose(y, {0, 2, 1, 3}), {batch, tokens, width});
    x = norm(net, net.op("add", {net.linear(y, net.weight({width, width}), net.weight({width})), x}), width);
    ValueId h =
        net.op("gelu", {net.linear(x, net.weight({inner, width}), net.weight({inner}))}, {text("approximate", "none")});
    x = norm(net, net.op("add", {net.linear(h, net.weight({width, inner}), net.weight({width})), x}), width);
  }
  net.output(x);
  net.output(
      net.op("tanh", {net.linear(net.reshape(net.op("slice", {x},
                                                    {ints("starts", {0, 0, 0}), ints("limits", {batch, 1, width}),
                                                     ints("strides", {1, 1, 1})}),
                                             {batch, width}),
                                 net.weight({width, width}), net.weight({width}))}));
}

TEST(Symbolic, EncoderAtTwentyShapesWithoutNewCode) {
  auto compiled = compileForShapes(encoder);
  ASSERT_TRUE(compiled) << compiled.error().message;
  Check how;
  how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
    randomFill(value, position, bytes);
    if (value.type->dtype == MORTISE_I1) // the first token of each sequence is unmasked
      for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(value.type->dims[1]))
        bytes[i] = std::byte(1);
  };
  uint64_t code = (*compiled)->codeBytes();
  EXPECT_GT(code, 0u);
  auto checked = checkShapes(encoder, twenty, how);
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->instanceCount(), twenty.size());
  EXPECT_EQ(checked->codeBytes(), code) << "an instance, or a second kernel of the same region, compiled something";
  EXPECT_FALSE(checked->hasStep("product_loop")) << checked->text();
  EXPECT_TRUE(checked->hasStep("side by side")) << checked->text();
}

TEST(Symbolic, ProductsOfEveryArrangement) {
  // Batch and contracted dimensions that are symbols, in any position; epilogues; results stored transposed.
  checkShapes(
      [](Network &net, int64_t batch, int64_t tokens) {
        ValueId x = net.input(MORTISE_F32, {batch, tokens, 24}), y = net.input(MORTISE_F32, {batch, 24, tokens});
        net.output(net.dot(x, y, {0}, {0}, {2}, {1}));
        net.output(net.dot(x, y, {0}, {0}, {1}, {2}));
        net.output(net.dot(x, net.weight({24, 10}), {}, {}, {2}, {0}));
        net.output(net.transpose(net.dot(x, net.weight({24, 8}), {}, {}, {2}, {0}), {0, 2, 1}));
        ValueId z = net.linear(net.reshape(x, {batch * tokens, 24}), net.weight({12, 24}), net.weight({12}));
        net.output(net.op("relu", {net.op("add", {net.reshape(z, {batch, tokens, 12}),
                                                  net.input(MORTISE_F32, {batch, tokens, 12})})}));
        ValueId w = net.input(MORTISE_F32, {tokens, 6});
        net.output(net.dot(x, w, {}, {}, {1}, {0}));
        net.output(net.dot(x, x, {}, {}, {0, 1}, {0, 1}));
      },
      few);
}

TEST(Symbolic, TypesWithLoopsOfOurOwn) {
  for (int32_t dtype : {MORTISE_F64, MORTISE_I32, MORTISE_BF16, MORTISE_F16}) {
    SCOPED_TRACE(dtypeName(dtype));
    checkShapes(
        [&](Network &net, int64_t batch, int64_t tokens) {
          ValueId x = net.input(dtype, {batch, tokens, 9}), y = net.input(dtype, {batch, tokens, 9});
          net.output(net.dot(x, y, {0}, {0}, {2}, {2}));
        },
        few);
  }
}

TEST(Symbolic, SymbolsThatMayBeOneOrNothing) {
  Check how;
  checkShapes(
      [](Network &net, int64_t batch, int64_t tokens) {
        ValueId x = net.input(MORTISE_F32, {batch, tokens, 16});
        auto project = [&] { return net.linear(x, net.weight({16, 16}), net.weight({16})); };
        ValueId q = project(), k = project();
        net.output(net.op("softmax", {net.dot(q, k, {0}, {0}, {2}, {2})}, {integer("axis", 2)}));
        net.output(
            net.op("gelu", {net.linear(x, net.weight({20, 16}), net.weight({20}))}, {text("approximate", "tanh")}));
        net.output(net.transpose(x, {1, 0, 2}));
      },
      {{1, 1}, {1, 5}, {4, 1}, {3, 2}, {0, 3}, {2, 0}}, how, 0);
}

TEST(Symbolic, ExtentsThatTypicalValuesDoNotSuit) {
  checkShapes( // 64 tokens, the typical value, would give a negative extent
      [](Network &net, int64_t batch, int64_t tokens) {
        ValueId x = net.input(MORTISE_F32, {batch, tokens, 8});
        ValueId y =
            net.op("slice", {x},
                   {ints("starts", {0, 100, 0}), ints("limits", {batch, tokens, 8}), ints("strides", {1, 1, 1})});
        net.output(net.op("relu", {net.linear(y, net.weight({8, 8}), net.weight({8}))}));
      },
      {{2, 101}, {3, 164}}, {}, 2);
}

TEST(Symbolic, CacheIsUpdatedInPlace) {
  auto compiled = checkShapes(
      [](Network &net, int64_t batch, int64_t tokens) {
        ValueId cache = net.input(MORTISE_F32, {batch, 2, tokens, 4}, MORTISE_VALUE_STATE);
        ValueId at = net.input(MORTISE_I64, {1}), step = net.input(MORTISE_F32, {batch, 1, 2, 4});
        ValueId updated =
            net.op("put", {cache, at, net.transpose(step, {0, 2, 1, 3})}, {integer("axis", 2), text("mode", "set")});
        net.output(net.dot(net.input(MORTISE_F32, {batch, 2, 1, 4}), updated, {0, 1}, {0, 1}, {3}, {3}));
        net.output(updated, 0);
      },
      {{2, 8}, {3, 5}, {2, 33}});
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("in place")) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("copy")) << compiled->text();
}

TEST(Symbolic, ConvolutionsOfAnyBatch) {
  checkShapes(
      [](Network &net, int64_t batch, int64_t) {
        ValueId x = net.input(MORTISE_F32, {batch, 3, 17, 16});
        auto block = [&](ValueId v, int64_t out, int64_t stride) {
          ValueId y = net.convolution(v, net.weight({out, net.dims(v)[1], 3, 3}), {stride, stride}, {1, 1});
          return net.op(
              "batch_norm",
              {y, net.weight({out}), net.weight({out}), net.weight({out}), net.op("exp", {net.weight({out})})},
              {real("epsilon", 1e-5)});
        };
        ValueId y = net.op("relu", {block(x, 16, 2)});
        y = net.op("max_pool", {y},
                   {ints("window", {3, 3}), ints("strides", {2, 2}), ints("low", {1, 1}), ints("high", {1, 1}),
                    ints("dilations", {1, 1})});
        y = net.op("relu", {net.op("add", {block(y, 16, 1), y})});
        net.output(net.linear(net.op("mean", {y}, {ints("axes", {2, 3})}), net.weight({10, 16}), net.weight({10})));
      },
      {{2, 2}, {3, 2}, {8, 2}, {17, 2}});
}

// Height and width are symbols too. The library's layouts are kept between convolutions, normalisations are folded into
// the weights, and residuals run in place. (frontend/torch/test/test_dynamic.py tests strides, whose extents are
// quotients.)
TEST(Symbolic, ConvolutionsOfAnySize) {
  auto compiled = checkShapes(
      [](Network &net, int64_t batch, int64_t height) {
        ValueId x = net.input(MORTISE_F32, {batch, 3, height, height + 5});
        auto block = [&](ValueId v, int64_t out, int64_t window, int64_t pad) {
          ValueId y = net.convolution(v, net.weight({out, net.dims(v)[1], window, window}), {1, 1}, {pad, pad});
          return net.op(
              "batch_norm",
              {y, net.weight({out}), net.weight({out}), net.weight({out}), net.op("exp", {net.weight({out})})},
              {real("epsilon", 1e-5)});
        };
        ValueId y = net.op("relu", {block(x, 16, 5, 2)});
        for (const char *pool : {"max_pool", "sum_pool"})
          y = net.op(pool, {y},
                     {ints("window", {3, 2}), ints("strides", {1, 1}), ints("low", {1, 0}), ints("high", {1, 1}),
                      ints("dilations", {1, 1})});
        for (int i = 0; i < 2; ++i)
          y = net.op("relu", {net.op("add", {block(net.op("relu", {block(y, 16, 3, 1)}), 16, 1, 0), y})});
        y = net.convolution(y, net.weight({16, 1, 3, 3}), {1, 1}, {0, 0}, 16);
        net.output(net.linear(net.op("mean", {y}, {ints("axes", {2, 3})}), net.weight({10, 16}), net.weight({10})));
        net.output(y);
      },
      {{2, 8}, {3, 33}, {1, 17}, {5, 9}, {2, 64}}, {}, 1);
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->instanceCount(), 5u);
  EXPECT_TRUE(compiled->hasStep("+ residual")) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("plain")) << compiled->text();
}

TEST(Symbolic, OutputsOfEveryKind) {
  checkShapes(
      [](Network &net, int64_t batch, int64_t tokens) {
        ValueId x = net.input(MORTISE_F32, {batch, tokens}), w = net.weight({5, 6});
        ValueId y = net.linear(net.input(MORTISE_F32, {batch, 6}), w);
        net.output(y);
        net.output(net.reshape(y, {batch * 5}));
        net.output(net.transpose(y, {1, 0}));
        net.output(x);
        net.output(net.transpose(x, {1, 0}));
        net.output(net.splat(3, {tokens, 2}));
        net.output(net.broadcast(net.op("exp", {net.weight({6})}), {tokens, 6}, {1}));
        net.output(net.op("reduce_sum", {x}, {ints("axes", {0})}));
        net.output(net.op("iota", {}, {ints("shape", {batch, tokens}), text("dtype", "i64"), integer("axis", 1)}));
      },
      few);
}

TEST(Symbolic, InstancesShareTheirWeights) {
  auto build = [](Network &net, int64_t batch, int64_t tokens) {
    ValueId x = net.input(MORTISE_F32, {batch, tokens, 64});
    net.output(net.linear(net.op("relu", {net.linear(x, net.weight({256, 64}), net.weight({256}))}),
                          net.weight({64, 256}), net.weight({64})));
  };
  auto compiled = checkShapes(build, few);
  ASSERT_TRUE(compiled);
  EXPECT_LE(compiled->instanceBytes, compiled->packedBytes) << "of " << few.size() << " shapes together";
}

// Nothing of them is read before an instance knows how long they are: typical values of the symbol may be more.
TEST(Symbolic, ConstantsOfAnySize) {
  const auto compiled = checkShapes(
      [](Network &net, int64_t batch, int64_t width) {
        const ValueId x = net.input(MORTISE_F32, {batch, width});
        net.output(net.linear(x, net.weight({5, width})));
        net.output(net.op("exp", {net.weight({width})}));
      },
      {{2, 3}});
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->packedBytes, 0u);
}

TEST(Symbolic, ManyThreadsMakeAndRunInstances) {
  auto build = [](Network &net, int64_t batch, int64_t tokens) {
    ValueId x = net.input(MORTISE_F32, {batch, tokens});
    net.output(net.op("softmax", {net.op("exp", {x})}, {integer("axis", 1)}));
  };
  auto compiled = compileForShapes(build);
  ASSERT_TRUE(compiled) << compiled.error().message;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < 8; ++round) {
        int64_t batch = 2 + round, tokens = 3 + t;
        std::vector<float> x(batch * tokens, 0.5f), y(x.size());
        const void *in[] = {x.data()};
        void *out[] = {y.data()};
        if (!(*compiled)->runOnce({batch, tokens}, in, out))
          ++wrong;
        for (float element : y)
          if (std::abs(element - 1.0f / static_cast<float>(tokens)) > 1e-6f)
            ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Symbolic, WithoutAnInstanceTheErrorSaysWhatToDo) {
  auto compiled = compileForShapes(
      [](Network &net, int64_t batch, int64_t) { net.output(net.op("exp", {net.input(MORTISE_F32, {batch})})); });
  ASSERT_TRUE(compiled) << compiled.error().message;
  float x[2] = {}, y[2] = {};
  const void *in[] = {x};
  void *out[] = {y};
  Result<void> result = (*compiled)->run(in, out);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("instance"), std::string::npos) << result.error().message;
}

} // namespace
} // namespace mortise::test
