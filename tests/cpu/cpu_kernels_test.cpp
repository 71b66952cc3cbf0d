// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the cpu plugin: what threads share, what is packed once and freed, and what is refused.
#include "network.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace mortise::test {
namespace {

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
