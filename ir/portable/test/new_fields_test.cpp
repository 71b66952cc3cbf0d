// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The additions of format version 2 (programs in attributes, guards, bodies), and specialise, which resolves them.
#include "samples.hpp"
#include <mortise/portable/graph.hpp>

#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::test;

namespace {
std::shared_ptr<const Graph> sample() {
  EverythingNew sample;
  auto graph = Graph::copy(sample.view());
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? *graph : nullptr;
}
std::string specialiseError(std::vector<int64_t> symbols) {
  auto graph = specialise(sample()->view(), symbols);
  return graph ? "" : graph.error().message;
}
#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
} // namespace

TEST(NewFields, CopyKeepsThem) {
  auto graph = sample();
  ASSERT_TRUE(graph);
  const MortiseGraph &view = graph->view();
  const MortiseAttribute *shape = findAttribute(*view.nodes[0], "shape");
  ASSERT_NE(shape->exprs, nullptr);
  EXPECT_EQ(shape->i64s[0], MORTISE_DYNAMIC);
  EXPECT_EQ(shape->i64s[1], 2);
  int64_t symbols[] = {6, 9};
  EXPECT_EQ(*evaluate(shape->exprs[0], symbols), 3);
  EXPECT_EQ(*evaluate(shape->exprs[1], symbols), 2);
  EXPECT_EQ(*evaluate(shape->exprs[2], symbols), 9);
  ASSERT_EQ(view.guard_count, 2u);
  EXPECT_STREQ(view.guards[0]->reason, "model.py:7: length >= rows");
  EXPECT_EQ(view.guards[0]->relation, MORTISE_RELATION_AT_LEAST);
  EXPECT_EQ(*evaluate(view.guards[0]->expr, symbols), 3);
  ASSERT_EQ(view.nodes[1]->body_count, 1u);
  const MortiseGraph &body = *view.nodes[1]->bodies[0];
  EXPECT_EQ(body.symbol_count, 2u);
  EXPECT_EQ(body.guard_count, 0u);
  EXPECT_EQ(body.output_count, 2u);
  EXPECT_EQ(body.nodes[1]->operands[1], body.inputs[0]);
  EXPECT_EQ(body.inputs[0]->index, 0u);
  ASSERT_EQ(body.nodes[0]->body_count, 1u);
  EXPECT_STREQ(body.nodes[0]->bodies[0]->nodes[0]->op, "mortise.tanh");
  auto again = Graph::read(graph->bytes());
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::ranges::equal((*Graph::copy((*again)->view()))->bytes(), graph->bytes()));
}

TEST(NewFields, ABodyStandsForItself) {
  auto graph = sample();
  auto body = Graph::copy(*graph->view().nodes[1]->bodies[0]);
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_EQ((*body)->view().nodes[0]->body_count, 1u);
}

TEST(NewFields, RegionsKeepThem) {
  auto graph = sample();
  auto region = extractRegion(graph->view(), std::vector<uint32_t>{1});
  ASSERT_TRUE(region) << region.error().message;
  const MortiseGraph &view = region->graph->view();
  EXPECT_EQ(view.guard_count, 2u);
  EXPECT_EQ(view.symbol_count, 2u);
  ASSERT_EQ(view.nodes[0]->body_count, 1u);
  EXPECT_EQ(view.nodes[0]->bodies[0]->node_count, 2u);
  auto first = extractRegion(graph->view(), std::vector<uint32_t>{0});
  ASSERT_TRUE(first);
  EXPECT_NE(findAttribute(*(*first).graph->view().nodes[0], "shape")->exprs, nullptr);
  auto inner = extractRegion(*graph->view().nodes[1]->bodies[0], std::vector<uint32_t>{0});
  ASSERT_TRUE(inner) << inner.error().message;
}

TEST(NewFields, VersionOneIsWrittenWhereItSuffices) {
  ViewBuilder b;
  everything(b);
  const auto version = [](const MortiseGraph &view) {
    auto copied = Graph::copy(view);
    const std::span<const std::byte> bytes = (*copied)->bytes();
    // Reads the first field of the root table from the bytes, independently of flatc's accessors.
    uint32_t root = 0, value = 0;
    int32_t back = 0;
    uint16_t field = 0;
    std::memcpy(&root, bytes.data(), 4);
    std::memcpy(&back, bytes.data() + root, 4);
    std::memcpy(&field, bytes.data() + (static_cast<int64_t>(root) - back) + 4, 2);
    std::memcpy(&value, bytes.data() + root + field, 4);
    return value;
  };
  EXPECT_EQ(version(b.view()), 1u);
  EverythingNew newer;
  EXPECT_EQ(version(newer.view()), 2u);
}

TEST(NewFields, ViewsOfRevisionOneEndEarlier) {
  ViewBuilder b;
  everything(b);
  auto expected = Graph::copy(b.view());
  MortiseGraph old = b.view();
  old.struct_size = offsetof(MortiseGraph, guards);
  old.guard_count = 7; // beyond struct_size, so it must not be read
  std::vector<MortiseNode> nodes;
  std::vector<const MortiseNode *> list;
  for (size_t i = 0; i < old.node_count; ++i)
    nodes.push_back(*old.nodes[i]);
  for (MortiseNode &node : nodes) {
    node.struct_size = offsetof(MortiseNode, bodies);
    node.body_count = 9;
    list.push_back(&node);
  }
  old.nodes = list.data();
  auto copied = Graph::copy(old);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_TRUE(std::ranges::equal((*copied)->bytes(), (*expected)->bytes()));
  EXPECT_TRUE(extractRegion(old, std::vector<uint32_t>{0, 1}));
}

TEST(NewFields, WritingRefusesBodiesThatDoNotFit) {
  const auto refused = [](auto change) {
    EverythingNew sample;
    change(sample);
    auto graph = Graph::copy(sample.view());
    return graph ? std::string() : graph.error().message;
  };
  EXPECT_EQ(refused([](auto &) {}), "");
  EXPECT_HAS(refused([](auto &s) { s.bodyView.symbol_count = 1; }), "symbols of the graph around it");
  EXPECT_HAS(refused([](auto &s) { s.bodyView.guard_count = 1; }), "no guards");
  EXPECT_HAS(refused([](auto &s) { s.bodyView.alias_count = 1; }), "no aliases");
  EXPECT_HAS(refused([](auto &s) { s.innerView = s.bodyView; }), // a body that contains itself
             "nested at most 16");
}

TEST(Specialise, GivesNumbersEverywhere) {
  auto graph = sample();
  auto fixed = specialise(graph->view(), std::vector<int64_t>{6, 9});
  ASSERT_TRUE(fixed) << fixed.error().message;
  const MortiseGraph &view = (*fixed)->view();
  EXPECT_EQ(view.symbol_count, 0u);
  EXPECT_EQ(view.guard_count, 0u);
  EXPECT_EQ(typeString(*view.inputs[0]->type), "f32[6, 9]");
  EXPECT_EQ(typeString(*view.outputs[0]->type), "f32[3, 2, 9]");
  const MortiseAttribute *shape = findAttribute(*view.nodes[0], "shape");
  EXPECT_EQ(shape->exprs, nullptr);
  EXPECT_TRUE(std::ranges::equal(std::span(shape->i64s, 3), std::vector<int64_t>{3, 2, 9}));
  const MortiseGraph &body = *view.nodes[1]->bodies[0];
  EXPECT_EQ(body.symbol_count, 0u);
  EXPECT_EQ(typeString(*body.inputs[0]->type), "f32[6, 9]");
  EXPECT_EQ(typeString(*body.nodes[0]->bodies[0]->outputs[0]->type), "f32[6, 9]");
  for (size_t i = 0; i < view.value_count; ++i)
    EXPECT_TRUE(isStatic(*view.values[i]->type));
}

TEST(Specialise, ChecksTheNumbers) {
  EXPECT_EQ(specialiseError({6, 9}), "");
  EXPECT_HAS(specialiseError({6}), "each of the graph's 2 symbols, found 1");
  EXPECT_HAS(specialiseError({1026, 1500}), "'rows' to be at least 2 and at most 1024, found 1026");
  EXPECT_HAS(specialiseError({7, 9}), "'rows' to be a multiple of 2, found 7");
  EXPECT_HAS(specialiseError({6, 0}), "'length' to be at least 1, found 0");
  EXPECT_HAS(specialiseError({6, 3}),
             "guard 0 (model.py:7: length >= rows) does not hold: expected 0 or more, found -3");
  EXPECT_HAS(specialiseError({6, 10}), "guard 1 () does not hold: expected 0, found 1");
}

// A row of n numbers out of every 2n: strides over a symbol.
std::shared_ptr<const Graph> stridedGraph() {
  ViewBuilder b;
  b.symbol("n", 0, 8);
  const MortiseType *type =
      b.type(MORTISE_F32, {3, MORTISE_DYNAMIC}, {{constant(3)}, {symbol(0)}}, {MORTISE_DYNAMIC, 1},
             {{symbol(0), constant(2), apply(MORTISE_EXPR_MUL)}, {constant(1)}});
  b.output(b.input(type, 0, "x"));
  auto graph = Graph::copy(b.view());
  EXPECT_TRUE(graph) << graph.error().message;
  return *graph;
}

TEST(NewFields, StridesAreExpressions) {
  auto graph = stridedGraph();
  const MortiseType &type = *graph->view().inputs[0]->type;
  ASSERT_NE(type.stride_exprs, nullptr);
  EXPECT_EQ(type.strides[0], MORTISE_DYNAMIC);
  EXPECT_EQ(type.strides[1], 1);
  const int64_t symbols[] = {5};
  EXPECT_EQ(*evaluate(type.stride_exprs[0], symbols), 10);
  EXPECT_EQ(*evaluate(type.stride_exprs[1], symbols), 1);
  auto older = graph->bytesFor(MORTISE_OPSET, 1);
  ASSERT_FALSE(older);
  EXPECT_HAS(older.error().message, "symbolic strides are of format version 2");
  auto fixed = specialise(graph->view(), symbols);
  ASSERT_TRUE(fixed) << fixed.error().message;
  const MortiseType &numbers = *(*fixed)->view().inputs[0]->type;
  EXPECT_EQ(numbers.stride_exprs, nullptr);
  EXPECT_EQ(numbers.strides[0], 10);
  EXPECT_EQ(numbers.dims[1], 5);
}

TEST(NewFields, WrongStridesAreRefused) {
  const auto refusedFor = [&](std::vector<ViewBuilder::Program> programs) {
    ViewBuilder each;
    each.symbol("n", 0, 8);
    each.output(each.input(each.type(MORTISE_F32, {3, 4}, {}, {MORTISE_DYNAMIC, 1}, std::move(programs))));
    auto graph = Graph::copy(each.view());
    return graph ? "" : graph.error().message;
  };
  EXPECT_HAS(refusedFor({{symbol(1)}, {constant(1)}}), "symbol 1 of 1");
  EXPECT_HAS(refusedFor({}), "an expression that leaves one value");
  EXPECT_EQ(refusedFor({{symbol(0)}, {constant(1)}}), "");
}

TEST(Specialise, AStaticGraphStaysAsItIs) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F16, {2, 3}, {}, {1, 2});
  MortiseValue *x = b.input(type, MORTISE_VALUE_STATE, "x");
  b.output(b.op("relu", {x}, type, {integers("axes", {MORTISE_DYNAMIC})}));
  b.alias(0, 0);
  auto expected = Graph::copy(b.view());
  auto fixed = specialise(b.view(), {});
  ASSERT_TRUE(fixed) << fixed.error().message;
  EXPECT_TRUE(std::ranges::equal((*fixed)->bytes(), (*expected)->bytes()));
}

TEST(Specialise, ExtentsBelowZeroAreRefused) {
  ViewBuilder b;
  b.symbol("n", 0, 8);
  const MortiseType *type = b.type(MORTISE_F32, {MORTISE_DYNAMIC}, {{symbol(0), constant(4), apply(MORTISE_EXPR_SUB)}});
  b.output(b.input(type));
  auto fixed = specialise(b.view(), std::vector<int64_t>{3});
  ASSERT_FALSE(fixed);
  EXPECT_HAS(fixed.error().message, "is -1; expected 0 or more");
}
