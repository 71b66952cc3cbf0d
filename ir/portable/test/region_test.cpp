// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "view_builder.hpp"
#include <mortise/portable/graph.hpp>

#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::test;

namespace {
using Indices = std::vector<uint32_t>;

// 0: a = relu(x)   1: b = neg(a)   2: c = add(a, b)   3: d = mul(c, w); outputs c, d, state' = d
struct Chain {
  ViewBuilder b;
  MortiseValue *x, *w, *state, *a, *n, *c, *d;
  Chain() {
    const MortiseType *type = b.type(MORTISE_F32, {4});
    b.symbol("s", 0, 8);
    x = b.input(type, 0, "x");
    w = b.input(type, MORTISE_VALUE_CONSTANT, "w");
    state = b.input(type, MORTISE_VALUE_STATE, "state");
    a = b.op("relu", {x}, type);
    n = b.op("neg", {a}, type);
    c = b.op("add", {a, n}, type);
    d = b.op("mul", {c, w, state}, type);
    b.output(c);
    b.output(d);
    b.alias(2, 1);
  }
  Result<Region> extract(Indices nodes) { return extractRegion(b.view(), nodes); }
};
} // namespace

TEST(Region, BordersFollowUses) {
  Chain chain;
  auto region = chain.extract({0, 1});
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->inputs, (Indices{chain.x->index}));
  EXPECT_EQ(region->outputs, (Indices{chain.a->index, chain.n->index}));
  const MortiseGraph &view = region->graph->view();
  ASSERT_EQ(view.node_count, 2u);
  EXPECT_STREQ(view.nodes[1]->op, "mortise.neg");
  EXPECT_EQ(view.nodes[1]->operands[0], view.nodes[0]->results[0]);
  EXPECT_EQ(view.outputs[0], view.nodes[0]->results[0]);
  EXPECT_STREQ(view.inputs[0]->name, "x");
  EXPECT_EQ(view.symbol_count, 1u);
  EXPECT_EQ(view.alias_count, 0u);
}

TEST(Region, FlagsNamesAndAliasesCarryOver) {
  Chain chain;
  auto region = chain.extract({2, 3});
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->inputs, (Indices{chain.w->index, chain.state->index, chain.a->index, chain.n->index}));
  EXPECT_EQ(region->outputs, (Indices{chain.c->index, chain.d->index}));
  const MortiseGraph &view = region->graph->view();
  EXPECT_EQ(view.inputs[0]->flags, uint32_t(MORTISE_VALUE_CONSTANT));
  EXPECT_STREQ(view.inputs[1]->name, "state");
  ASSERT_EQ(view.alias_count, 1u);
  EXPECT_EQ(view.aliases[0]->input, 1u);
  EXPECT_EQ(view.aliases[0]->output, 1u);
}

TEST(Region, AnInnerValueIsNoOutput) {
  Chain chain;
  auto region = chain.extract({0, 1, 2, 3});
  ASSERT_TRUE(region);
  EXPECT_EQ(region->outputs, (Indices{chain.c->index, chain.d->index}));
  EXPECT_EQ(region->inputs.size(), 3u);
}

TEST(Region, NotConvexIsRefused) {
  Chain chain;
  auto region = chain.extract({0, 2});
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_NE(region.error().message.find("mortise.neg"), std::string::npos) << region.error().message;
  EXPECT_FALSE(chain.extract({0, 3})) << "through a path of several nodes";
  EXPECT_TRUE(chain.extract({1, 2}));
}

TEST(Region, BadListsAreRefused) {
  Chain chain;
  EXPECT_FALSE(chain.extract({1, 0}));
  EXPECT_FALSE(chain.extract({1, 1}));
  EXPECT_FALSE(chain.extract({4}));
  EXPECT_TRUE(chain.extract({})) << "empty, but well formed";
}

TEST(Region, AnOutputListedTwiceStandsOnce) {
  ViewBuilder b;
  const MortiseType *type = b.type(MORTISE_F32, {4});
  MortiseValue *s = b.input(type, MORTISE_VALUE_STATE), *t = b.input(type, MORTISE_VALUE_STATE);
  MortiseValue *sum = b.op("add", {s, t}, type);
  b.output(sum);
  b.output(sum);
  b.alias(0, 0);
  b.alias(1, 1);
  auto region = extractRegion(b.view(), Indices{0});
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->outputs.size(), 1u);
  ASSERT_EQ(region->graph->view().alias_count, 1u) << "one memory only can be written in place";
  EXPECT_EQ(region->graph->view().aliases[0]->input, 0u);
}

TEST(Canonical, GraphsThatDifferInNamesAloneHaveEqualBytes) {
  const auto bytes = [](const char *name, const char *op) {
    ViewBuilder b;
    const MortiseType *type = b.type(MORTISE_F32, {4});
    b.output(b.op(op, {b.input(type, 0, name)}, type));
    const auto named = Graph::copy(b.view());
    const auto form = canonical((*named)->view());
    EXPECT_TRUE(form) << form.error().message;
    EXPECT_STREQ((*form)->view().inputs[0]->name, "");
    const auto list = [](const auto &graph) {
      return std::vector<std::byte>((*graph)->bytes().begin(), (*graph)->bytes().end());
    };
    return std::pair(list(named), list(form));
  };
  const auto [x, first] = bytes("x", "relu");
  const auto [y, second] = bytes("y", "relu");
  EXPECT_NE(x, y);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, bytes("x", "neg").second);
}

TEST(Canonical, InputsComeInTheOrderOfTheirUse) {
  const auto bytes = [](bool swapped, bool other) {
    ViewBuilder b;
    const MortiseType *type = b.type(MORTISE_F32, {4});
    const MortiseValue *first = b.input(type), *second = b.input(type);
    b.input(type); // nothing uses it
    const auto sum = b.op("sub", {b.op("neg", {swapped ? second : first}, type), swapped ? first : second}, type);
    b.output(other ? b.op("add", {sum, first}, type) : sum);
    const auto form = canonical(b.view());
    EXPECT_TRUE(form) << form.error().message;
    return std::vector<std::byte>((*form)->bytes().begin(), (*form)->bytes().end());
  };
  EXPECT_EQ(bytes(false, false), bytes(true, false));
  EXPECT_NE(bytes(false, true), bytes(true, true)); // what they are used for later differs
}

TEST(Canonical, FlagsAndAliasesStay) {
  Chain chain;
  const auto form = canonical(chain.b.view());
  ASSERT_TRUE(form) << form.error().message;
  const MortiseGraph &view = (*form)->view();
  EXPECT_EQ(view.inputs[1]->flags, static_cast<uint32_t>(MORTISE_VALUE_CONSTANT));
  EXPECT_EQ(view.inputs[2]->flags, static_cast<uint32_t>(MORTISE_VALUE_STATE));
  ASSERT_EQ(view.alias_count, 1u);
  EXPECT_EQ(view.aliases[0]->input, 2u);
  EXPECT_EQ(view.node_count, 4u);
}
