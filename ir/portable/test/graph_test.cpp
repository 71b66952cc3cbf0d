// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "samples.hpp"
#include <mortise/portable/graph.hpp>

#include <chrono>
#include <cmath>
#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::test;

TEST(Graph, CopyKeepsEverything) {
  ViewBuilder b;
  everything(b);
  auto graph = Graph::copy(b.view());
  ASSERT_TRUE(graph) << graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  EXPECT_STREQ(view.name, "test");
  EXPECT_EQ(view.opset, 1u);
  ASSERT_EQ(view.symbol_count, 2u);
  EXPECT_STREQ(view.symbols[0]->name, "batch");
  EXPECT_EQ(view.symbols[0]->divisor, 2);
  EXPECT_EQ(view.symbols[1]->max, INT64_MAX);
  ASSERT_EQ(view.input_count, 4u);
  const MortiseType &dynamic = *view.inputs[0]->type;
  EXPECT_EQ(dynamic.dims[0], MORTISE_DYNAMIC);
  EXPECT_EQ(dynamic.dims[1], 4);
  ASSERT_FALSE(isStatic(dynamic));
  int64_t symbols[] = {6, 9};
  EXPECT_EQ(*evaluate(dynamic.dim_exprs[0], symbols), 6);
  EXPECT_EQ(*evaluate(dynamic.dim_exprs[1], symbols), 4);
  EXPECT_EQ(*evaluate(dynamic.dim_exprs[2], symbols), 4);
  EXPECT_STREQ(view.inputs[1]->name, "layer.0.weight");
  EXPECT_EQ(view.inputs[1]->flags, uint32_t(MORTISE_VALUE_CONSTANT));
  EXPECT_EQ(view.inputs[2]->flags, uint32_t(MORTISE_VALUE_STATE));
  EXPECT_EQ(view.inputs[1]->type, view.inputs[2]->type) << "equal types stand once";
  ASSERT_NE(view.inputs[3]->type->strides, nullptr);
  EXPECT_EQ(view.inputs[3]->type->strides[1], 2);
  EXPECT_EQ(view.inputs[3]->result_index, 3u);

  ASSERT_EQ(view.node_count, 4u);
  EXPECT_STREQ(view.nodes[0]->location, "model.py:12");
  EXPECT_STREQ(view.nodes[1]->op, "mortise.add");
  EXPECT_EQ(view.nodes[1]->results[0]->producer, view.nodes[1]);
  const MortiseAttribute *literal = findAttribute(*view.nodes[2], "value");
  ASSERT_EQ(literal->count, 2u);
  EXPECT_EQ(static_cast<const uint8_t *>(literal->tensor_data)[0], 0x21);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(literal->tensor_data) % 16, 0u);
  const MortiseNode &vendor = *view.nodes[3];
  ASSERT_EQ(vendor.operand_count, 3u);
  EXPECT_EQ(vendor.operands[1], nullptr);
  ASSERT_EQ(vendor.attribute_count, 7u);
  EXPECT_EQ(intAttribute(vendor, "fast"), 1);
  EXPECT_EQ(intAttribute(vendor, "axis"), -3);
  EXPECT_EQ(floatAttribute(vendor, "scale"), 0.125);
  EXPECT_EQ(stringAttribute(vendor, "mode"), "wide");
  EXPECT_EQ(intsAttribute(vendor, "axes")[2], INT64_MIN);
  EXPECT_TRUE(std::signbit(findAttribute(vendor, "factors")->f64s[1]));
  EXPECT_EQ(intsAttribute(vendor, "empty").size(), 0u);

  ASSERT_EQ(view.output_count, 5u);
  EXPECT_EQ(view.outputs[3], view.inputs[0]);
  EXPECT_EQ(view.outputs[4], view.outputs[2]);
  EXPECT_EQ(view.outputs[2]->use_count, 2u);
  EXPECT_EQ(view.inputs[0]->use_count, 2u);
  ASSERT_EQ(view.alias_count, 1u);
  EXPECT_EQ(view.aliases[0]->input, 2u);
  EXPECT_EQ(view.aliases[0]->output, 1u);
}

TEST(Graph, ReadsItsOwnBytesAndWritesThemAgain) {
  ViewBuilder b;
  everything(b);
  auto first = Graph::copy(b.view());
  ASSERT_TRUE(first);
  auto second = Graph::read((*first)->bytes());
  ASSERT_TRUE(second) << second.error().message;
  auto third = Graph::copy((*second)->view());
  ASSERT_TRUE(third);
  EXPECT_TRUE(std::ranges::equal((*first)->bytes(), (*third)->bytes()));
}

TEST(Graph, EmptyGraph) {
  ViewBuilder b;
  auto graph = Graph::copy(b.view());
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ((*graph)->view().node_count, 0u);
}

TEST(Graph, OwnerKnowsItsViewOnly) {
  ViewBuilder b;
  everything(b);
  auto graph = Graph::copy(b.view());
  ASSERT_TRUE(graph);
  EXPECT_EQ(Graph::owner((*graph)->view()), graph->get());
  EXPECT_EQ(Graph::owner(b.view()), nullptr);
  MortiseGraph copied = (*graph)->view();
  EXPECT_EQ(Graph::owner(copied), nullptr);
  MortiseExtension foreign{sizeof(MortiseExtension), nullptr, 0x8001, 0};
  copied.extension = &foreign;
  EXPECT_EQ(Graph::owner(copied), nullptr);
}

TEST(Graph, CopyRefusesWhatIsNotWellFormed) {
  auto code = [](auto change) {
    ViewBuilder b;
    MortiseValue *x = b.input(MORTISE_F32, {2});
    MortiseValue *y = b.op("relu", {x}, MORTISE_F32, {2});
    b.output(y);
    MortiseGraph view = b.view();
    change(b, view, x, y);
    auto graph = Graph::copy(view);
    return graph ? MORTISE_OK : graph.error().code;
  };
  EXPECT_EQ(code([](auto &, auto &, auto *, auto *) {}), MORTISE_OK);
  EXPECT_EQ(code([](auto &b, auto &, auto *, auto *) { b.lastNode().since = 2; }), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto &b, auto &, auto *, auto *) { b.lastNode().op = "relu"; }), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto &, auto &view, auto *, auto *) { view.input_count = 0; }), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto &, auto &, auto *x, auto *) { x->index = 1; }), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto &, auto &, auto *, auto *y) { y->flags = 1; }), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto &, auto &view, auto *, auto *) { view.struct_size = 8; }), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(code([](auto &, auto &view, auto *, auto *) { view.opset = MORTISE_OPSET + 1; }), MORTISE_VERSION_MISMATCH);
}

TEST(Graph, AThousandNodesTakeAboutAMillisecond) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {128, 768});
  MortiseValue *x = b.input(type);
  for (int i = 0; i < 1000; ++i)
    x = i % 2 ? b.op("add", {x, x}, type) : b.op("softmax", {x}, type, {integer("axis", 1)});
  b.output(x);
  double copy = 1e9, read = 1e9; // best of several, in ms
  for (int round = 0; round < 10; ++round) {
    auto start = std::chrono::steady_clock::now();
    auto graph = Graph::copy(b.view());
    auto middle = std::chrono::steady_clock::now();
    ASSERT_TRUE(graph && Graph::read((*graph)->bytes()));
    auto end = std::chrono::steady_clock::now();
    copy = std::min(copy, std::chrono::duration<double, std::milli>(middle - start).count());
    read = std::min(read, std::chrono::duration<double, std::milli>(end - middle).count());
  }
  RecordProperty("copy_us", static_cast<int>(copy * 1000));
  RecordProperty("read_us", static_cast<int>(read * 1000));
  EXPECT_LT(copy, 20) << "unoptimised and sanitized builds are allowed that much";
  EXPECT_LT(read, 20);
}
