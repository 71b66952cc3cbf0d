// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of many queries, and its gradient, by the plugin's own kernels, in blocks of 64 queries and 512 keys:
// networks of the other tests, and cases of the conformance kit, have fewer keys than it takes.
#include "network.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace mortise::test {
namespace {

const int32_t dtypes[] = {MORTISE_F32, MORTISE_BF16}; // those that the plugin takes whole

ValueId attention(Network &net, ValueId q, ValueId k, ValueId v, ValueId mask = ir::noValue, bool causal = false) {
  return net.op("attention", {q, k, v, mask}, {real("scale", 0.3), boolean("causal", causal)});
}

void checkTaken(Network &net, const Check &how = {}) {
  const auto compiled = check(net, how);
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("cpu.attention")) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("onednn.matmul")) << compiled->text();
}

// The fill, and each `every`-th number of the input at `position` another one.
Fill withNumbers(size_t position, std::vector<float> numbers, size_t every) {
  return [=](const MortiseValue &value, size_t at, std::vector<std::byte> &bytes) {
    randomFill(value, at, bytes);
    if (at != position || value.type->dtype != MORTISE_F32)
      return;
    auto *data = reinterpret_cast<float *>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(float); i += every)
      data[i] = numbers[i / every % numbers.size()];
  };
}

TEST(CpuAttention, BlocksOfQueriesAndKeys) {
  for (const int32_t dtype : dtypes)
    for (const int64_t queries : {5, 64, 130})
      for (const int64_t keys : {96, 515, 1100})
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(std::to_string(queries) + " " + std::to_string(keys) + " " + dtypeName(dtype));
          Network net;
          const ValueId q = net.input(dtype, {1, 2, queries, 8}), k = net.input(dtype, {1, 2, keys, 8}),
                        v = net.input(dtype, {1, 2, keys, 11});
          net.output(attention(net, q, k, v, ir::noValue, causal));
          checkTaken(net);
          if (testing::Test::HasFatalFailure())
            return;
        }
}

// Along dimensions that differ, or are repeated; rows that see nothing, and whole blocks of keys that none sees.
TEST(CpuAttention, Masks) {
  for (const int32_t dtype : dtypes)
    for (const bool adds : {false, true})
      for (const bool causal : {false, true})
        for (const std::vector<int64_t> &dims :
             {std::vector<int64_t>{2, 2, 70, 600}, {1, 1, 70, 600}, {2, 1, 1, 600}, {1, 2, 70, 1}}) {
          Network net;
          const ValueId q = net.input(dtype, {2, 2, 70, 8}), k = net.input(dtype, {2, 2, 600, 8}),
                        v = net.input(dtype, {2, 2, 600, 8}), mask = net.input(adds ? dtype : MORTISE_I1, dims);
          net.output(attention(net, q, k, v, mask, causal));
          Check how;
          how.fill = [&](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
            randomFill(value, position, bytes);
            if (position != 3)
              return;
            const auto last = static_cast<size_t>(dims[3]), rows = static_cast<size_t>(dims[0] * dims[1] * dims[2]);
            const size_t size = bytes.size() / (last * rows);
            for (size_t row = 0; row < rows; ++row)
              for (size_t key = 0; key < last; ++key) {
                std::byte *at = &bytes[(row * last + key) * size];
                if (row % 7 != 0 && (row % 5 != 0 || key < 520))
                  continue;
                constexpr uint32_t infinity = 0xff800000; // -inf, whose high half is that of bf16
                std::memset(at, 0, size);
                if (adds)
                  std::memcpy(at, reinterpret_cast<const std::byte *>(&infinity) + (4 - size), size);
              }
          };
          checkTaken(net, how);
          if (testing::Test::HasFatalFailure())
            return;
        }
}

// Transposes around it cost nothing; heads of queries share those of keys.
TEST(CpuAttention, ReadsAndWritesThroughViews) {
  for (const int32_t dtype : dtypes) {
    Network net;
    const ValueId x = net.input(dtype, {2, 100, 3, 4, 8}); // q, k and v of a token side by side
    const auto part = [&](int64_t number, int64_t heads) {
      const ValueId slice = net.op("slice", {x},
                                   {ints("starts", {0, 0, number, 0, 0}),
                                    ints("limits", {2, 100, number + 1, heads, 8}), ints("strides", {1, 1, 1, 1, 1})});
      return net.transpose(net.reshape(slice, {2, 100, heads, 8}), {0, 2, 1, 3});
    };
    const ValueId y = attention(net, part(0, 4), part(1, 2), part(2, 2), ir::noValue, true);
    net.output(net.reshape(net.transpose(y, {0, 2, 1, 3}), {2, 100, 32}));
    const auto compiled = check(net);
    ASSERT_TRUE(compiled);
    EXPECT_EQ(compiled->steps().size(), 1U) << compiled->text();
  }
}

// Rows that overlap, lie backwards, or have their elements apart.
TEST(CpuAttention, RowsThatTheLibraryDoesNotRead) {
  for (const int32_t dtype : dtypes) {
    Network net;
    const ValueId q = net.op("reverse", {net.input(dtype, {1, 2, 70, 8})}, {ints("axes", {2})});
    const ValueId k = net.broadcast(net.input(dtype, {1, 2, 8}), {1, 2, 104, 8}, {0, 1, 3});
    const ValueId v = net.transpose(net.input(dtype, {1, 2, 8, 104}), {0, 1, 3, 2});
    net.output(attention(net, q, k, v));
    checkTaken(net);
  }
}

// Of q and k, and of v, whose infinite and large numbers meet weights. Keys behind a causal block are left out,
// whatever v has there; the interpreter multiplies it by 0.
TEST(CpuAttention, NumbersAtTheEndsOfTheirRange) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> infinite{infinity}, both{-infinity, infinity}, none{NAN}, far{1e4F, -1e4F},
      tiny{1e-40F, -3e-42F}, large{3e38F, -3e38F, 2e38F};
  for (const auto &[position, lists] :
       {std::pair<size_t, std::vector<std::vector<float>>>{0, {infinite, both, none, far}},
        {1, {infinite, both, none, far}},
        {2, {infinite, both, none, tiny, large}}})
    for (const std::vector<float> &list : lists)
      for (const size_t every : {1U, 97U})
        for (const bool causal : {false, true}) {
          if (causal && position == 2)
            continue;
          SCOPED_TRACE(std::to_string(position) + " " + std::to_string(list[0]) + " " + std::to_string(every));
          Network net;
          const ValueId q = net.input(MORTISE_F32, {1, 2, 70, 8}), k = net.input(MORTISE_F32, {1, 2, 530, 8}),
                        v = net.input(MORTISE_F32, {1, 2, 530, 8});
          net.output(attention(net, q, k, v, ir::noValue, causal));
          Check how;
          how.fill = withNumbers(position, list, every);
          checkTaken(net, how);
          if (testing::Test::HasFatalFailure())
            return;
        }
}

// A mean of numbers whose sum is none of f32, beside subnormal ones, whose last bits a scale would cost.
TEST(CpuAttention, MeansOfLargeAndOfTinyNumbers) {
  Network net;
  const ValueId q = net.input(MORTISE_F32, {1, 1, 64, 8}), k = net.input(MORTISE_F32, {1, 1, 600, 8}),
                v = net.input(MORTISE_F32, {1, 1, 600, 2});
  net.output(attention(net, q, k, v));
  Check how;
  how.fill = withNumbers(2, {3.1e38F, 1e-40F, 2.8e38F, 3e-41F, 3.3e38F, -7e-42F, 2.9e38F, 2e-40F}, 1);
  checkTaken(net, how);
}

TEST(CpuAttention, ExtentsAreSymbols) {
  const auto build = [](Network &net, int64_t batch, int64_t tokens) {
    const ValueId q = net.input(MORTISE_F32, {batch, 2, tokens, 8}), k = net.input(MORTISE_F32, {batch, 2, tokens, 8}),
                  v = net.input(MORTISE_F32, {batch, 2, tokens, 8}),
                  mask = net.input(MORTISE_I1, {batch, 1, 1, tokens});
    net.output(attention(net, q, k, v, mask, true));
  };
  const auto checked = checkShapes(build, {{1, 2}, {3, 64}, {1, 130}, {2, 700}});
  ASSERT_TRUE(checked);
  EXPECT_TRUE(checked->hasStep("cpu.attention")) << checked->text();
}

// ---- Training

struct Training {
  ValueId result, sums, ofQ, ofK, ofV;
};
// A training step's attention in one region; `gradient` is that of its result.
Training train(Network &net, ValueId q, ValueId k, ValueId v, ValueId gradient, ValueId mask = ir::noValue,
               bool causal = false) {
  const std::vector<Attribute> attributes = {real("scale", 0.3), boolean("causal", causal)};
  const auto made = net.ops("attention_forward", {q, k, v, mask}, attributes);
  const auto gradients = net.ops("attention_gradient", {q, k, v, made[0], made[1], gradient, mask}, attributes);
  return {made[0], made[1], gradients[0], gradients[1], gradients[2]};
}
void output(Network &net, const Training &all) {
  for (const ValueId value : {all.result, all.sums, all.ofQ, all.ofK, all.ofV})
    net.output(value);
}
void checkTrained(Network &net, const Check &how = {}) {
  const auto compiled = check(net, how);
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->hasStep("cpu.attention")) << compiled->text();
  EXPECT_TRUE(compiled->hasStep("cpu.attention_gradient")) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("onednn.matmul")) << compiled->text();
}

TEST(CpuAttentionGradient, BlocksOfQueriesAndKeys) {
  for (const int32_t dtype : dtypes)
    for (const int64_t queries : {5, 64, 130})
      for (const int64_t keys : {96, 515, 1100})
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(std::to_string(queries) + " " + std::to_string(keys) + " " + dtypeName(dtype));
          Network net;
          const ValueId q = net.input(dtype, {1, 4, queries, 8}), k = net.input(dtype, {1, 2, keys, 8}),
                        v = net.input(dtype, {1, 2, keys, 11}), gradient = net.input(dtype, {1, 4, queries, 11});
          output(net, train(net, q, k, v, gradient, ir::noValue, causal));
          checkTrained(net);
          if (testing::Test::HasFatalFailure())
            return;
        }
}

TEST(CpuAttentionGradient, Masks) {
  for (const int32_t dtype : dtypes)
    for (const bool adds : {false, true})
      for (const bool causal : {false, true})
        for (const std::vector<int64_t> &dims :
             {std::vector<int64_t>{2, 2, 70, 600}, {1, 1, 70, 600}, {2, 1, 1, 600}}) {
          Network net;
          const ValueId q = net.input(dtype, {2, 2, 70, 8}), k = net.input(dtype, {2, 2, 600, 8}),
                        v = net.input(dtype, {2, 2, 600, 8}), gradient = net.input(dtype, {2, 2, 70, 8}),
                        mask = net.input(adds ? dtype : MORTISE_I1, dims);
          output(net, train(net, q, k, v, gradient, mask, causal));
          checkTrained(net);
          if (testing::Test::HasFatalFailure())
            return;
        }
}

// As a training step has them: heads side by side, a gradient that is repeated, and rows that lie backwards.
TEST(CpuAttentionGradient, ReadsThroughViews) {
  for (const int32_t dtype : dtypes) {
    Network net;
    const auto heads = [&] { return net.transpose(net.input(dtype, {2, 100, 4, 8}), {0, 2, 1, 3}); };
    const ValueId q = heads(), k = heads(), v = net.op("reverse", {heads()}, {ints("axes", {2})});
    const ValueId gradient = net.broadcast(net.input(dtype, {4, 100}), {2, 4, 100, 8}, {1, 2});
    const Training all = train(net, q, k, v, gradient, ir::noValue, true);
    for (const ValueId value : {all.result, all.ofQ, all.ofK, all.ofV})
      net.output(net.reshape(net.transpose(value, {0, 2, 1, 3}), {2, 100, 32}));
    checkTrained(net);
  }
}

// Sums that are not those of the scores, as far as e^(score - sum) leaves the range of f32, and infinite operands.
TEST(CpuAttentionGradient, NumbersAtTheEndsOfTheirRange) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<size_t, std::vector<float>>> all = {{0, {infinity}},
                                                                  {0, {NAN}},
                                                                  {1, {-infinity, infinity}},
                                                                  {1, {NAN}},
                                                                  {2, {infinity}},
                                                                  {2, {1e-40F}},
                                                                  {3, {1e36F}},
                                                                  {4, {-200}},
                                                                  {4, {200}},
                                                                  {4, {infinity, -infinity}},
                                                                  {4, {NAN}},
                                                                  {5, {infinity}},
                                                                  {5, {3e38F, -3e38F}}};
  for (const auto &[position, list] : all)
    for (const size_t every : {1U, 97U}) {
      SCOPED_TRACE(std::to_string(position) + " " + std::to_string(list[0]) + " " + std::to_string(every));
      Network net;
      const ValueId q = net.input(MORTISE_F32, {1, 2, 70, 8}), k = net.input(MORTISE_F32, {1, 2, 530, 8}),
                    v = net.input(MORTISE_F32, {1, 2, 530, 8}), result = net.input(MORTISE_F32, {1, 2, 70, 8}),
                    sums = net.input(MORTISE_F32, {1, 2, 70}), gradient = net.input(MORTISE_F32, {1, 2, 70, 8});
      for (const ValueId value : net.ops("attention_gradient", {q, k, v, result, sums, gradient, ir::noValue},
                                         {real("scale", 0.3), boolean("causal", false)}))
        net.output(value);
      Check how;
      how.fill = withNumbers(position, list, every);
      const auto compiled = check(net, how);
      ASSERT_TRUE(compiled);
      EXPECT_TRUE(compiled->hasStep("cpu.attention_gradient")) << compiled->text();
      if (testing::Test::HasFatalFailure())
        return;
    }
}

TEST(CpuAttentionGradient, ExtentsAreSymbols) {
  const auto build = [](Network &net, int64_t batch, int64_t tokens) {
    const auto heads = [&] { return net.input(MORTISE_F32, {batch, 2, tokens, 8}); };
    const ValueId q = heads(), k = heads(), v = heads(), gradient = heads();
    output(net, train(net, q, k, v, gradient, net.input(MORTISE_I1, {batch, 1, 1, tokens}), true));
  };
  const auto checked = checkShapes(build, {{1, 2}, {3, 64}, {1, 130}, {2, 700}});
  ASSERT_TRUE(checked);
  EXPECT_TRUE(checked->hasStep("cpu.attention_gradient")) << checked->text();
}

} // namespace
} // namespace mortise::test
