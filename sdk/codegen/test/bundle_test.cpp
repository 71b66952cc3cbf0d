// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bundles: several groups in one launch.
#include "oracle.hpp"

#include <numeric>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

V unary(TestGraph &b, const char *op, V x, std::vector<Attr> attributes = {}) {
  return b.op(op, {x}, x->type->dtype, Dims(x->type->dims, x->type->dims + x->type->rank), std::move(attributes));
}
V linear(TestGraph &b, V x, V w) {
  return b.op("linear", {x, w}, x->type->dtype, {x->type->dims[0], w->type->dims[0]}, {{"weight_transposed", false}});
}

std::vector<Group> groupsOf(const MortiseGraph &graph) {
  auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  EXPECT_TRUE(parts) << parts.error().message;
  return parts ? std::move(parts->groups) : std::vector<Group>();
}

Group bundleOf(const std::vector<Group> &parts) {
  Group bundle = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    bundle.inputs.insert(bundle.inputs.end(), parts[i].inputs.begin(), parts[i].inputs.end());
    bundle.outputs.insert(bundle.outputs.end(), parts[i].outputs.begin(), parts[i].outputs.end());
  }
  bundle.parts = parts;
  return bundle;
}

void checkBundle(TestGraph &b, size_t parts, std::span<const V> inputs, Bound bound) {
  const std::vector<Group> bundle{bundleOf(groupsOf(b.view()))};
  ASSERT_EQ(bundle[0].parts.size(), parts);
  const auto functions = Emulator::shared().compile(b.view(), bundle);
  ASSERT_TRUE(functions) << functions.error().message;
  Oracle oracle(b);
  for (V each : inputs)
    oracle.fill(each, Fill::Plain, each->index);
  oracle.interpret("");
  oracle.run(bundle, *functions, {}, bound, "");
  if (functions->at(0).alignment > 1) {
    oracle.memory.aligned = true;
    oracle.run(bundle, *functions, {}, bound, "aligned");
  }
}

// Products of one factor, each with weights of its own and as many blocks as it has columns.
TEST(Bundle, ProductsOfOneFactor) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
    for (const int64_t rows : {1, 3}) {
      TestGraph b;
      V x = b.input(dtype, {rows, 640}), q = b.input(dtype, {50, 640}), k = b.input(dtype, {8, 640}),
        v = b.input(dtype, {10, 640});
      for (V weights : {q, k, v})
        b.output(unary(b, "relu", linear(b, x, weights)));
      const std::vector<Group> groups = groupsOf(b.view());
      const auto compiler = SimtCompiler::create(*SimtTarget::cuda(9, 0, 1));
      const auto threads = (*compiler)->sharableThreads(b.view(), groups);
      ASSERT_TRUE(threads);
      EXPECT_EQ(threads->at(0), threads->at(1));
      EXPECT_EQ(threads->at(0), threads->at(2));
      checkBundle(b, 3, std::vector{x, q, k, v}, roundings);
    }
}

// Each has tables, exchanges and barriers of its own, and what one knows the next does not.
TEST(Bundle, PartsDoNotMeet) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {3, 4096}), y = b.input(MORTISE_F32, {5, 4096});
  const auto table = [&](float first) {
    std::vector<float> numbers(4096);
    std::iota(numbers.begin(), numbers.end(), first);
    return b.constant(MORTISE_F32, {4096}, numbers);
  };
  const auto plus = [&](V z, V numbers, int64_t rows) {
    V wide = b.op("broadcast", {numbers}, MORTISE_F32, {rows, 4096}, {{"shape", Dims{rows, 4096}}, {"axes", Dims{1}}});
    return b.op("add", {z, wide}, MORTISE_F32, {rows, 4096});
  };
  b.output(unary(b, "softmax", plus(x, table(0), 3), {{"axis", 1}}));
  b.output(unary(b, "softmax", plus(y, table(-4096), 5), {{"axis", 1}}));
  checkBundle(b, 2, std::vector{x, y}, roundings);
}

// Blocks of parts without elements are none.
TEST(Bundle, EmptyParts) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {0, 16}), y = b.input(MORTISE_F32, {40, 16}), z = b.input(MORTISE_F32, {1000, 3});
  for (V each : {x, y, z})
    b.output(unary(b, "neg", each));
  checkBundle(b, 3, std::vector{x, y, z}, equal);
}

// The blocks of each part follow from its own symbols.
TEST(Bundle, SymbolicExtents) {
  const auto build = [](TestGraph &g, const Dim &rows, const Dim &columns) {
    V x = g.symbolicInput(MORTISE_F32, {rows, 24}), y = g.symbolicInput(MORTISE_F32, {columns, 3});
    g.output(g.symbolicOp("neg", {x}, MORTISE_F32, {rows, 24}));
    g.output(g.symbolicOp("exp", {y}, MORTISE_F32, {columns, 3}));
    return std::pair(x, y);
  };
  TestGraph symbolic;
  const Dim rows = symbolic.symbol("rows", 0, 4096), columns = symbolic.symbol("columns", 0, 4096);
  build(symbolic, rows, columns);
  const std::vector<Group> bundle{bundleOf(groupsOf(symbolic.view()))};
  ASSERT_EQ(bundle[0].parts.size(), 2U);
  const auto functions = Emulator::shared().compile(symbolic.view(), bundle);
  ASSERT_TRUE(functions) << functions.error().message;
  for (const auto &[r, c] : {std::pair(1, 1), {300, 2}, {0, 700}, {90, 0}, {0, 0}}) {
    TestGraph fixed;
    const auto [x, y] = build(fixed, r, c);
    Oracle oracle(fixed);
    oracle.fill(x, Fill::Plain), oracle.fill(y, Fill::Plain);
    oracle.interpret("");
    oracle.run(bundle, *functions, std::vector<int64_t>{r, c}, roundings, "");
  }
}

// What a part may write over is among its own inputs.
TEST(Bundle, CodeOfAGpu) {
  TestGraph b;
  V x = b.input(MORTISE_BF16, {4, 512}), y = b.input(MORTISE_BF16, {9, 512});
  for (V each : {x, y})
    b.output(unary(b, "neg", each));
  const std::vector<Group> groups = groupsOf(b.view()), bundle{bundleOf(groups)};
  const auto compiler = SimtCompiler::create(*SimtTarget::cuda(9, 0, 1));
  const auto alone = (*compiler)->compile(b.view(), groups), together = (*compiler)->compile(b.view(), bundle);
  ASSERT_TRUE(together) << together.error().message;
  const SimtFunction &function = *together->at(0);
  ASSERT_EQ(function.launches.size(), 1U);
  EXPECT_EQ(*function.launches[0].blocks.number(),
            *alone->at(0)->launches[0].blocks.number() + *alone->at(1)->launches[0].blocks.number());
  EXPECT_EQ(function.over, (std::vector<std::vector<uint32_t>>{{0}, {1}}));
  EXPECT_EQ(function.arguments.size(), 4U);
  EXPECT_EQ(*function.bytes.number(), 2 * 2 * 13 * 512);
  EXPECT_EQ((*compiler)->compile(b.view(), bundle)->at(0), together->at(0)); // once
  EXPECT_NE((*compiler)->compile(b.view(), groups)->at(0), together->at(0));
}

// Those that fill the device, and those whose blocks need memory or a second kernel, are launched by themselves.
TEST(Bundle, LargeGroupsStandAlone) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {4096, 4096}), y = b.input(MORTISE_F32, {64, 64}), z = b.input(MORTISE_F32, {64, 64});
  b.output(unary(b, "neg", x));
  b.output(linear(b, y, z));
  b.output(unary(b, "neg", y));
  const auto compiler = SimtCompiler::create(*SimtTarget::cuda(9, 0, 1));
  const auto threads = (*compiler)->sharableThreads(b.view(), groupsOf(b.view()));
  ASSERT_TRUE(threads);
  EXPECT_EQ(*threads, (std::vector<unsigned>{0, 0, 256}));
}

} // namespace
