// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole groups compared with plain loops.
#include "test_graph.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

struct Graph {
  explicit Graph(TestGraph &builder) : graph(builder.view()), memory(graph) {}
  void go() {
    static auto compiler = std::move(*Compiler::create(testTarget(2)));
    auto fused = fuse({&graph, {}, {}, {}}, testTarget(2));
    ASSERT_TRUE(fused) << fused.error().message;
    auto functions = compiler->compile(graph, fused->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    groups = fused->groups.size();
    for (size_t i = 0; i < groups; ++i) {
      runGroup(fused->groups[i], (*functions)[i], memory);
      for (uint32_t output : fused->groups[i].outputs)
        EXPECT_TRUE(memory.intact(output)) << fused->groups[i].name;
    }
  }
  void random(V value, float scale = 2) {
    std::mt19937 engine(value->index + 1);
    std::normal_distribution<float> normal(0, scale);
    for (int64_t i = 0; i < elementCount(*value->type); ++i)
      memory.as<float>(value)[i] = normal(engine);
  }
  const MortiseGraph &graph;
  Memory memory;
  size_t groups = 0;
};

class RowsTest : public testing::TestWithParam<int64_t> {};

TEST_P(RowsTest, LayerNormWithResidualAndGelu) {
  int64_t n = GetParam();
  TestGraph b;
  V x = b.input(MORTISE_F32, {3, 5, n}), r = b.input(MORTISE_F32, {3, 5, n}), s = b.input(MORTISE_F32, {n}),
    t = b.input(MORTISE_F32, {n});
  V sum = b.op("add", {x, r}, MORTISE_F32, {3, 5, n});
  V norm = b.op("layer_norm", {sum, s, t}, MORTISE_F32, {3, 5, n}, {{"axis", 2}, {"epsilon", 1e-5}});
  V g = b.op("gelu", {norm}, MORTISE_F32, {3, 5, n}, {{"approximate", "none"}});
  b.output(sum), b.output(g);
  Graph run(b);
  for (V v : {x, r, s, t})
    run.random(v);
  run.go();
  EXPECT_EQ(run.groups, 1u);
  for (int64_t row = 0; row < 15; ++row) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i) {
      float both = run.memory.as<float>(x)[row * n + i] + run.memory.as<float>(r)[row * n + i];
      EXPECT_EQ(run.memory.as<float>(sum)[row * n + i], both);
      mean += both;
    }
    mean /= n;
    for (int64_t i = 0; i < n; ++i)
      variance += std::pow(run.memory.as<float>(sum)[row * n + i] - mean, 2) / n;
    for (int64_t i = 0; i < n; ++i) {
      double y =
          (run.memory.as<float>(sum)[row * n + i] - mean) / std::sqrt(variance + 1e-5) * run.memory.as<float>(s)[i] +
          run.memory.as<float>(t)[i];
      y = 0.5 * y * std::erfc(-y / std::sqrt(2.0));
      EXPECT_NEAR(run.memory.as<float>(g)[row * n + i], y, 1e-5 + 1e-5 * std::fabs(y)) << n << " " << i;
    }
  }
}

TEST_P(RowsTest, SoftmaxAlongBothAxes) {
  int64_t n = GetParam();
  for (int64_t axis : {0, 1}) {
    TestGraph b;
    int64_t m = 7, length = axis ? n : m, step = axis ? 1 : n;
    V x = b.input(MORTISE_F32, {m, n});
    V y = b.op("softmax", {x}, MORTISE_F32, {m, n}, {{"axis", axis}});
    b.output(y);
    Graph run(b);
    run.random(x, 8);
    run.memory.as<float>(x)[0] = -INFINITY;
    run.go();
    for (int64_t other = 0; other < (axis ? m : n); ++other) {
      int64_t start = axis ? other * n : other;
      double top = -INFINITY, sum = 0;
      for (int64_t i = 0; i < length; ++i)
        top = std::max<double>(top, run.memory.as<float>(x)[start + i * step]);
      for (int64_t i = 0; i < length; ++i)
        sum += std::exp(run.memory.as<float>(x)[start + i * step] - top);
      for (int64_t i = 0; i < length; ++i) {
        double expected = std::exp(run.memory.as<float>(x)[start + i * step] - top) / sum;
        float found = run.memory.as<float>(y)[start + i * step];
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(found));
        else
          EXPECT_NEAR(found, expected, 1e-6 * expected + 1e-12) << n << " " << axis << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Extents, RowsTest, testing::Values(1, 2, 15, 16, 17, 31, 33, 64, 129, 384, 768, 1000));

} // namespace
