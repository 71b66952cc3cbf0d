// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changed copies of graphs: what changes, what is shared, and what is refused.
#include "view_builder.hpp"

#include <mortise/rewrite.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace mortise {
namespace {

using test::ViewBuilder;

// A rewriter that changes nodes by a function.
struct Changer : GraphRewriter {
  using GraphRewriter::copyOf, GraphRewriter::Draft, GraphRewriter::fail, GraphRewriter::keep, GraphRewriter::newValue,
      GraphRewriter::replaceUses;
  std::function<bool(Changer &, const MortiseNode &, std::vector<Draft> &)> node;
  bool changeNode(const MortiseNode &from, std::vector<Draft> &drafts) override {
    return !node || node(*this, from, drafts);
  }
};

// "add(0, 1) = 2" for each node.
std::vector<std::string> text(const MortiseGraph &graph) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    EXPECT_EQ(node.index, i);
    std::string line = std::string(node.op).substr(std::string(node.op).find('.') + 1) + "(";
    for (size_t k = 0; k < node.operand_count; ++k)
      line += (k ? ", " : "") + (node.operands[k] ? std::to_string(node.operands[k]->index) : "-");
    line += ") =";
    for (size_t k = 0; k < node.result_count; ++k) {
      line += " " + std::to_string(node.results[k]->index);
      EXPECT_EQ(node.results[k]->producer, &node);
      EXPECT_EQ(node.results[k]->result_index, k);
    }
    lines.push_back(line);
  }
  for (size_t i = 0; i < graph.value_count; ++i)
    EXPECT_EQ(graph.values[i]->index, i);
  return lines;
}
using Lines = std::vector<std::string>;

struct Rewrite : testing::Test {
  ViewBuilder builder;
  MortiseValue *x = builder.input(MORTISE_F32, {4}), *y = builder.input(MORTISE_F32, {4});
  Changer changer;
  MortiseValue *op(const char *name, std::vector<const MortiseValue *> operands) {
    return builder.op(name, operands, MORTISE_F32, {4}, {test::integer("b", 2), test::integer("a", 1)});
  }
  MortiseGraph rewritten() {
    Result<MortiseGraph> made = changer.rewrite(builder.view());
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return made ? *made : MortiseGraph{};
  }
  std::string refusal() {
    Result<MortiseGraph> made = changer.rewrite(builder.view());
    return made ? "" : made.error().message;
  }
};

TEST_F(Rewrite, NothingChangedIsShared) {
  MortiseValue *sum = op("add", {x, y});
  builder.output(op("mul", {sum, sum}));
  builder.alias(0, 0);
  const MortiseGraph &from = builder.view();
  const MortiseGraph to = rewritten();
  EXPECT_EQ(text(to), text(from));
  EXPECT_EQ(to.nodes[0]->op, from.nodes[0]->op);
  EXPECT_EQ(to.nodes[0]->attributes[0], from.nodes[0]->attributes[0]);
  EXPECT_EQ(to.values[0]->type, from.values[0]->type);
  EXPECT_NE(to.values[0], from.values[0]);
  EXPECT_EQ(to.aliases[0], from.aliases[0]);
  for (size_t i = 0; i < to.value_count; ++i)
    EXPECT_EQ(to.values[i]->use_count, from.values[i]->use_count) << i;
}

TEST_F(Rewrite, ANodeLeftOut) {
  MortiseValue *copy = op("copy", {x});
  MortiseValue *again = op("copy", {copy});
  builder.output(op("add", {again, copy}));
  builder.output(again);
  changer.node = [](Changer &self, const MortiseNode &node, auto &drafts) {
    if (std::string_view(node.op) == "mortise.copy") {
      self.replaceUses(node.results[0], node.operands[0]);
      self.replaceUses(node.operands[0], node.results[0]); // a cycle, which replaces nothing
      drafts.clear();
    }
    return true;
  };
  const MortiseGraph to = rewritten();
  EXPECT_EQ(text(to), (Lines{"add(0, 0) = 2"}));
  EXPECT_EQ(to.value_count, 3u);
  EXPECT_EQ(to.outputs[1], to.inputs[0]);
  EXPECT_EQ(to.inputs[0]->use_count, 3u);
  EXPECT_EQ(to.inputs[1]->use_count, 0u); // an input stays even when nothing reads it
}

TEST_F(Rewrite, ANodeBecomesSeveral) {
  builder.output(op("sub", {x, y}));
  changer.node = [](Changer &self, const MortiseNode &node, std::vector<Changer::Draft> &drafts) {
    const MortiseValue *negated = self.newValue(node.results[0]->type);
    Changer::Draft neg = drafts[0];
    neg.op = "mortise.neg";
    neg.operands = {node.operands[1]};
    neg.results = {negated};
    drafts[0].op = "mortise.add";
    drafts[0].since = 2;
    drafts[0].operands[1] = negated;
    MortiseAttribute *attribute = self.copyOf(*node.attributes[0]);
    attribute->name = self.keep(std::string("0 first"));
    drafts[0].attributes.push_back(attribute);
    drafts.insert(drafts.begin(), neg);
    return true;
  };
  const MortiseGraph to = rewritten();
  EXPECT_EQ(text(to), (Lines{"neg(1) = 3", "add(0, 3) = 2"}));
  EXPECT_EQ(to.outputs[0]->index, 2u);
  EXPECT_EQ(to.values[3]->use_count, 1u);
  EXPECT_EQ(to.nodes[1]->since, 2u);
  ASSERT_EQ(to.nodes[1]->attribute_count, 3u);
  EXPECT_STREQ(to.nodes[1]->attributes[0]->name, "0 first");
  EXPECT_STREQ(to.nodes[1]->attributes[1]->name, "a");
}

TEST_F(Rewrite, TypesFlagsAndOutputs) {
  struct Wider : GraphRewriter {
    bool changeType(const MortiseType *&type) override {
      MortiseType *made = copyOf(*type);
      made->dims = keep(std::vector<int64_t>{8});
      type = made;
      return true;
    }
    uint32_t changeFlags(uint32_t flags) override { return flags | MORTISE_VALUE_STATE; }
    bool changeGraph(MortiseGraph &graph) override {
      graph.output_count = 1;
      return true;
    }
  } wider;
  MortiseValue *sum = op("add", {x, y});
  builder.output(sum);
  builder.output(sum);
  const Result<MortiseGraph> to = wider.rewrite(builder.view());
  ASSERT_TRUE(to);
  EXPECT_EQ(to->values[0]->type->dims[0], 8);
  EXPECT_EQ(x->type->dims[0], 4); // the original is unchanged
  EXPECT_EQ(to->values[1]->flags, uint32_t(MORTISE_VALUE_STATE));
  EXPECT_EQ(to->outputs[0]->use_count, 1u);
}

TEST_F(Rewrite, Bodies) {
  ViewBuilder inner;
  inner.output(inner.op("copy", {inner.input(MORTISE_F32, {4})}, MORTISE_F32, {4}));
  builder.output(op("while", {x}));
  builder.body(inner.view());
  changer.node = [](Changer &, const MortiseNode &node, std::vector<Changer::Draft> &drafts) {
    if (std::string_view(node.op) == "mortise.copy")
      drafts[0].op = "mortise.neg";
    return true;
  };
  const MortiseGraph to = rewritten();
  ASSERT_EQ(bodiesOf(*to.nodes[0]).size(), 1u);
  EXPECT_EQ(text(*to.nodes[0]->bodies[0]), (Lines{"neg(0) = 1"}));
  EXPECT_EQ(text(inner.view()), (Lines{"copy(0) = 1"}));
}

TEST_F(Rewrite, BodiesNestedTooDeep) {
  std::deque<ViewBuilder> builders(maxNesting + 1);
  std::deque<MortiseGraph> views;
  for (size_t i = 0; i <= maxNesting; ++i) {
    ViewBuilder &b = builders[i];
    b.output(b.op("while", {b.input(MORTISE_F32, {4})}, MORTISE_F32, {4}));
    if (i)
      b.body(views.back());
    views.push_back(b.view());
  }
  EXPECT_TRUE(changer.rewrite(views.back()));
  builder.output(op("while", {x}));
  builder.body(views.back());
  EXPECT_NE(refusal().find("at most 16 deep"), std::string::npos) << refusal();
}

TEST_F(Rewrite, WhatIsReadHasToBeMade) {
  builder.output(op("add", {op("copy", {x}), y}));
  changer.node = [](Changer &, const MortiseNode &node, std::vector<Changer::Draft> &drafts) {
    if (std::string_view(node.op) == "mortise.copy")
      drafts.clear();
    return true;
  };
  EXPECT_NE(refusal().find("node 0 (mortise.add) reads value 2, which no earlier node"), std::string::npos)
      << refusal();
  changer.node = [](Changer &, const MortiseNode &, std::vector<Changer::Draft> &drafts) {
    drafts.clear();
    return true;
  };
  EXPECT_NE(refusal().find("output 0 reads value 3"), std::string::npos) << refusal();
  changer.node = [](Changer &, const MortiseNode &node, std::vector<Changer::Draft> &drafts) {
    drafts[0].operands[0] = node.results[0]; // its own result
    return true;
  };
  EXPECT_NE(refusal(), "");
}

TEST_F(Rewrite, ForeignValuesAreRefused) {
  ViewBuilder other;
  const MortiseValue *foreign = other.input(MORTISE_F32, {4});
  for (int i = 0; i < 9; ++i)
    foreign = other.input(MORTISE_F32, {4}); // the last has an index that this graph does not have
  builder.output(op("add", {x, y}));
  for (const MortiseValue *value : {foreign, other.view().inputs[0]}) {
    changer.node = [&](Changer &, const MortiseNode &, std::vector<Changer::Draft> &drafts) {
      drafts[0].operands[0] = value;
      return true;
    };
    EXPECT_NE(refusal().find("reads what is no value of the graph"), std::string::npos) << refusal();
    changer.node = [&](Changer &, const MortiseNode &, std::vector<Changer::Draft> &drafts) {
      drafts[0].results[0] = value;
      return true;
    };
    EXPECT_NE(refusal().find("result 0 is no value of the graph"), std::string::npos) << refusal();
  }
  changer.node = [&](Changer &, const MortiseNode &, std::vector<Changer::Draft> &drafts) {
    drafts.push_back(drafts[0]);
    return true;
  };
  EXPECT_NE(refusal().find("result 0 is made twice"), std::string::npos) << refusal();
}

TEST_F(Rewrite, AHooksErrorIsReturned) {
  builder.output(op("add", {x, y}));
  changer.node = [](Changer &self, const MortiseNode &, auto &) { return self.fail(MORTISE_UNSUPPORTED, "no"); };
  const Result<MortiseGraph> made = changer.rewrite(builder.view());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, MORTISE_UNSUPPORTED);
  EXPECT_EQ(made.error().message, "no");
  changer.node = nullptr; // the rewriter can be used for another graph
  EXPECT_TRUE(changer.rewrite(builder.view()));
}

// A struct of revision 1 ends before `bodies`; nothing behind it is read.
TEST_F(Rewrite, OlderStructs) {
  builder.output(op("add", {x, y}));
  builder.lastNode().struct_size = offsetof(MortiseNode, bodies);
  builder.lastNode().body_count = 5;
  const MortiseGraph to = rewritten();
  EXPECT_EQ(to.nodes[0]->struct_size, sizeof(MortiseNode));
  EXPECT_EQ(to.nodes[0]->body_count, 0u);
}

} // namespace
} // namespace mortise
