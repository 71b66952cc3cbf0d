// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What sound models become. Every operator is held against ONNX's own tests by the conformance kit; here stand the
// importer's own rules.
#include "models.hpp"

#include <gtest/gtest.h>

namespace mortise::onnx {
namespace {

using testing::ElementsAre;

TEST(OnnxImport, NodesBecomeOps) {
  Draft draft;
  draft.input("x", {2, 2});
  draft.input("y", {2}); // repeated to x
  draft.node("Add", {"x", "y"}, {"sum"});
  draft.node("Relu", {"sum"}, {"z"});
  draft.output("z", {2, 2});
  const auto made = draft.import();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->inputs, ElementsAre("x", "y"));
  EXPECT_THAT(made->outputs, ElementsAre("z"));
  EXPECT_TRUE(made->weights.empty());
  EXPECT_THAT(computed(*made, {{1, -2, 3, -4}, {1, 1}})[0], ElementsAre(2, 0, 4, 0));
}

TEST(OnnxImport, LargeInitializersAreWeightsAndSmallOnesLiterals) {
  Draft draft;
  draft.input("x", {200});
  draft.numbersAs("weight", {200}, std::vector<float>(200, 2));
  draft.numbersAs("one", {1}, {1});
  draft.node("Mul", {"x", "weight"}, {"y"});
  draft.node("Add", {"y", "one"}, {"z"});
  draft.output("z");
  const auto made = draft.import();
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(made->weights.size(), 1u);
  EXPECT_EQ(made->weights[0].name, "weight");
  const MortiseGraph &view = made->graph->view();
  ASSERT_EQ(view.input_count, 2u);
  EXPECT_EQ(view.inputs[1]->flags, static_cast<uint32_t>(MORTISE_VALUE_CONSTANT));
  EXPECT_EQ(computed(*made, {std::vector<float>(200, 3)})[0][7], 7);
}

// A shape that is computed from another tensor's, as exporters write it.
TEST(OnnxImport, WhatDependsOnShapesAloneIsComputed) {
  Draft draft;
  draft.input("x", {2, 12});
  draft.integersAs("two", {2});
  draft.integersAs("first", {0});
  draft.node("Shape", {"x"}, {"shape"});
  draft.node("Gather", {"shape", "first"}, {"rows"});
  draft.node("Mul", {"rows", "two"}, {"twice"});
  draft.node("Concat", {"twice", "rows", "two"}, {"target"}).add_attribute()->set_name("axis");
  auto &axis = *draft.model.mutable_graph()->mutable_node(3)->mutable_attribute(0);
  axis.set_type(proto::AttributeProto::INT);
  axis.set_i(0);
  draft.integersAs("minus", {-1});
  draft.node("Reshape", {"x", "target"}, {"y"});
  draft.output("y");
  EXPECT_THAT(draft.failure(), HasSubstr("expected a shape of as many elements as f32[2, 12], found [4, 2, 2]"));
  draft.model.mutable_graph()->mutable_node(3)->set_input(2, "minus");
  const auto made = draft.import();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(typeString(*made->graph->view().outputs[0]->type), "f32[4, 2, 3]");
}

TEST(OnnxImport, AValueThatHasToBeConstantCanBeBound) {
  Draft draft;
  draft.input("x", {2, 3});
  draft.input("shape", {1}, proto::TensorProto::INT64);
  draft.node("Reshape", {"x", "shape"}, {"y"});
  draft.output("y");
  EXPECT_THAT(draft.failure(), HasSubstr("needs constant: Reshape: expected 'shape' as a constant"));
  Options options;
  options.values.push_back({"shape", MORTISE_I64, {1}, bytesOf<int64_t>({-1})});
  const auto made = draft.import(options);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->bound, ElementsAre("shape"));
  EXPECT_EQ(typeString(*made->graph->view().outputs[0]->type), "f32[6]");
  options.values[0].dtype = MORTISE_I32;
  EXPECT_THAT(draft.failure(options), HasSubstr("input 'shape': expected a value of the input's type, found i32[1]"));
}

TEST(OnnxImport, SymbolicExtentsNeedNumbers) {
  Draft draft;
  draft.input("x", {0, 3});
  draft.model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("batch");
  draft.node("Exp", {"x"}, {"y"});
  draft.output("y");
  EXPECT_THAT(draft.failure(), HasSubstr("symbolic extent: input 'x': extent 0 is 'batch'; expected a number for it"));
  const auto made = draft.import({.extents = {{"batch", 4}}});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(typeString(*made->graph->view().outputs[0]->type), "f32[4, 3]");
}

TEST(OnnxImport, FunctionsOfTheModelAreItsNodes) {
  Draft draft;
  draft.model.add_opset_import()->set_domain("own");
  auto &function = *draft.model.add_functions();
  function.set_domain("own");
  function.set_name("AddAlong");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("along");
  function.add_opset_import()->set_version(18);
  Draft::fill(*function.add_node(), "CumSum", {"a", "axis"}, {"b"});
  auto &constant = *function.add_node();
  Draft::fill(constant, "Constant", {}, {"axis"});
  auto &value = *constant.add_attribute();
  value.set_name("value_int");
  value.set_type(proto::AttributeProto::INT);
  value.set_ref_attr_name("along");
  function.mutable_node()->SwapElements(0, 1);
  draft.input("x", {2, 2});
  auto &call = draft.node("AddAlong", {"x"}, {"y"});
  call.set_domain("own");
  Draft::integer(call, "along", 1);
  draft.output("y");
  const auto made = draft.import();
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(computed(*made, {{1, 2, 3, 4}})[0], ElementsAre(1, 3, 3, 7));
}

TEST(OnnxImport, AConditionThatIsKnownChoosesTheGraph) {
  for (const bool isYes : {false, true}) {
    Draft draft;
    draft.input("x", {2});
    draft.initializer("condition", {}, proto::TensorProto::BOOL).add_int32_data(isYes);
    auto &node = draft.node("If", {"condition"}, {"y"});
    for (const char *branch : {"then_branch", "else_branch"}) {
      auto &made = *node.add_attribute();
      made.set_name(branch);
      made.set_type(proto::AttributeProto::GRAPH);
      Draft::fill(*made.mutable_g()->add_node(), branch[0] == 't' ? "Neg" : "Abs", {"x"}, {"inner"}); // x from outside
      made.mutable_g()->add_output()->set_name("inner");
    }
    draft.output("y");
    const auto made = draft.import();
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_THAT(computed(*made, {{1, 2}})[0], ElementsAre(isYes ? -1 : 1, isYes ? -2 : 2));
  }
}

TEST(OnnxImport, RefusalsNameTheirReason) {
  Draft draft;
  draft.input("x", {2});
  draft.node("NonZero", {"x"}, {"y"});
  draft.output("y");
  EXPECT_EQ(draft.failure(), "operator: NonZero is not known to the importer");
  draft.model.mutable_graph()->mutable_node(0)->set_op_type("Relu");
  Draft::integer(*draft.model.mutable_graph()->mutable_node(0), "slope", 1);
  EXPECT_THAT(draft.failure(), HasSubstr("attribute: Relu: the importer does not know the attribute 'slope'"));
  draft.model.mutable_graph()->mutable_node(0)->clear_attribute();
  draft.model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      proto::TensorProto::COMPLEX64);
  EXPECT_EQ(draft.failure(), "element type: the language has no COMPLEX64");
  draft.model.mutable_opset_import(0)->set_version(12);
  EXPECT_THAT(draft.failure(), HasSubstr("opset: expected an opset from 13 to "));
}

} // namespace
} // namespace mortise::onnx
