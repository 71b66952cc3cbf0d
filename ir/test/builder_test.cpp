// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/graph.hpp>
#include <mortise/ir/builder.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace mortise::ir {
namespace {

struct Tensor {
  Tensor(int32_t dtype, std::vector<int64_t> extents) : dims(std::move(extents)) {
    type.struct_size = sizeof type;
    type.dtype = dtype;
    type.rank = static_cast<int32_t>(dims.size());
    type.dims = dims.data();
  }
  std::vector<int64_t> dims;
  MortiseType type{};
};

MortiseAttribute attribute(const char *name, int32_t kind) {
  MortiseAttribute made{};
  made.struct_size = sizeof made;
  made.name = name;
  made.kind = kind;
  return made;
}
MortiseAttribute integer(const char *name, int64_t value) {
  MortiseAttribute made = attribute(name, MORTISE_ATTRIBUTE_I64);
  made.i64 = value;
  return made;
}
MortiseAttribute real(const char *name, double value) {
  MortiseAttribute made = attribute(name, MORTISE_ATTRIBUTE_F64);
  made.f64 = value;
  return made;
}

class BuilderTest : public testing::Test {
protected:
  ValueId input(std::vector<int64_t> dims, int32_t dtype = MORTISE_F32, uint32_t flags = 0) {
    Tensor tensor(dtype, std::move(dims));
    Result<ValueId> id = builder.addInput("x", tensor.type, flags);
    EXPECT_TRUE(id) << id.error().message;
    return *id;
  }
  Result<std::vector<ValueId>> add(std::string_view op, std::vector<ValueId> operands,
                                   std::vector<MortiseAttribute> attributes = {}, std::string_view location = "") {
    std::vector<const MortiseAttribute *> pointers;
    for (const MortiseAttribute &entry : attributes)
      pointers.push_back(&entry);
    return builder.addOp(op, operands, pointers, location);
  }
  std::string failure(std::string_view op, std::vector<ValueId> operands, std::vector<MortiseAttribute> attributes = {},
                      std::string_view location = "") {
    auto result = add(op, std::move(operands), std::move(attributes), location);
    EXPECT_FALSE(result);
    return result ? "" : result.error().message;
  }
  std::string type(ValueId value) { return typeString(**builder.typeOf(value)); }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  Builder builder{context, "test"};
};

TEST_F(BuilderTest, InfersTypes) {
  ValueId x = input({2, 3});
  auto sum = add("mortise.add", {x, x});
  ASSERT_TRUE(sum);
  EXPECT_EQ(type((*sum)[0]), "f32[2, 3]");
  auto top = add("mortise.argmax", {x}, {integer("axis", 1)});
  ASSERT_TRUE(top);
  EXPECT_EQ(type((*top)[0]), "i64[2]");
}

TEST_F(BuilderTest, OptionalOperandsMayBeLeftOut) {
  ValueId x = input({2, 3}), bias = input({3});
  std::vector<MortiseAttribute> norm{integer("axis", 1), real("epsilon", 1e-5)};
  ASSERT_TRUE(add("mortise.layer_norm", {x, noValue, bias}, norm));
  ASSERT_TRUE(add("mortise.layer_norm", {x}, norm));
  ASSERT_TRUE(builder.addOutput(x, -1));
  auto module = builder.finish();
  ASSERT_TRUE(module);
  auto graph = exportGraph(**module);
  ASSERT_TRUE(graph) << graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  ASSERT_EQ(view.node_count, 2u);
  ASSERT_EQ(view.nodes[0]->operand_count, 3u);
  EXPECT_EQ(view.nodes[0]->operands[1], nullptr);
  EXPECT_EQ(view.nodes[0]->operands[2], view.inputs[1]);
  EXPECT_EQ(view.nodes[1]->operand_count, 3u);
  EXPECT_STREQ(view.nodes[0]->attributes[0]->name, "axis");
  EXPECT_EQ(view.nodes[0]->attribute_count, 2u);
}

TEST_F(BuilderTest, ErrorsSayWhatWasExpected) {
  ValueId x = input({2, 3}), y = input({3}), i = input({3}, MORTISE_I64);
  EXPECT_EQ(failure("mortise.sofmax", {x}), "mortise.sofmax: unknown op; the nearest known is 'mortise.softmax'");
  EXPECT_EQ(failure("func.return", {}), "func.return: an op of a vendor, and this builder knows no plugins");
  EXPECT_EQ(failure("mortise.add", {x}), "mortise.add: expected operands lhs, rhs, found 1");
  EXPECT_EQ(failure("mortise.add", {x, noValue}), "mortise.add: operand 'rhs' is missing; expected lhs, rhs");
  EXPECT_EQ(failure("mortise.add", {x, 99}), "mortise.add: operand 99 is not a value of this builder, which has 3");
  EXPECT_EQ(failure("mortise.add", {x, y}, {}, "model.py:3"),
            "mortise.add at model.py:3: operands must have one type, found tensor<2x3xf32> and tensor<3xf32>; "
            "broadcast or convert first (same_type_c1)");
  EXPECT_EQ(failure("mortise.softmax", {x}), "mortise.softmax: attribute 'axis' is missing");
  EXPECT_EQ(failure("mortise.softmax", {x}, {integer("axes", 1)}),
            "mortise.softmax: unknown attribute 'axes'; the nearest known is 'axis'");
  EXPECT_EQ(failure("mortise.softmax", {x}, {real("axis", 1)}),
            "mortise.softmax: attribute 'axis' must be of kind i64, found f64");
  EXPECT_EQ(failure("mortise.softmax", {x}, {integer("axis", 1), integer("axis", 1)}),
            "mortise.softmax: attribute 'axis' is given twice");
  EXPECT_EQ(failure("mortise.softmax", {x}, {integer("axis", 2)}),
            "mortise.softmax: axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (softmax_c1)");
  EXPECT_EQ(failure("mortise.exp", {i}),
            "mortise.exp: operand #0 must be tensor of known extents of float values, but got 'tensor<3xi64>'");
  EXPECT_EQ(failure("mortise.concatenate", {}, {integer("axis", 0)}),
            "mortise.concatenate: needs at least one operand (concatenate_c1)");
}

TEST_F(BuilderTest, RefusesTypes) {
  Tensor symbolic(MORTISE_F32, {2, MORTISE_DYNAMIC});
  auto id = builder.addInput("x", symbolic.type, 0);
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(id.error().message, "input 0, 'x': entry 1 is symbolic and has no expression");
  EXPECT_FALSE(builder.addInput("x", Tensor(99, {}).type, 0));
  EXPECT_FALSE(builder.addInput("x", Tensor(MORTISE_F32, {-1}).type, 0));
  EXPECT_FALSE(builder.addInput("x", Tensor(MORTISE_F32, {INT64_MAX, 16}).type, 0));
  EXPECT_FALSE(builder.addInput("x", Tensor(MORTISE_F32, {1}).type, MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE));
  Tensor strided(MORTISE_F32, {2, 3});
  int64_t strides[] = {1, 2};
  strided.type.strides = strides;
  auto refused = builder.addInput("x", strided.type, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
}

TEST_F(BuilderTest, OpsMayHaveSeveralResults) {
  ValueId x = input({2, 3}, MORTISE_F16);
  MortiseAttribute down = attribute("descending", MORTISE_ATTRIBUTE_BOOL), stable = down;
  stable.name = "stable";
  auto sorted = add("mortise.sort", {x}, {integer("axis", 1), down, stable});
  ASSERT_TRUE(sorted) << sorted.error().message;
  ASSERT_EQ(sorted->size(), 2u);
  EXPECT_EQ(type((*sorted)[0]), "f16[2, 3]");
  EXPECT_EQ(type((*sorted)[1]), "i64[2, 3]");
  EXPECT_EQ(failure("mortise.sort", {x}, {integer("axis", 2), down, stable}),
            "mortise.sort: axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (running_c1)");
  ASSERT_TRUE(builder.addOutput((*sorted)[1], -1));
  auto module = builder.finish();
  ASSERT_TRUE(module);
  auto graph = exportGraph(**module);
  ASSERT_TRUE(graph) << graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  ASSERT_EQ(view.nodes[0]->result_count, 2u);
  EXPECT_EQ(view.nodes[0]->since, 2u);
  EXPECT_EQ(view.outputs[0], view.nodes[0]->results[1]);
  EXPECT_EQ(view.outputs[0]->result_index, 1u);
}

TEST_F(BuilderTest, ExtentsMayBeSymbolic) {
  auto batch = builder.addSymbol("b", 2, 64, 1), rows = builder.addSymbol("s", 8, INT64_MAX, 8);
  ASSERT_TRUE(batch && rows);
  EXPECT_FALSE(builder.addSymbol("b", 0, 1, 1)); // twice
  EXPECT_FALSE(builder.addSymbol("t", 3, 2, 1)); // an empty range
  const MortiseExprStep first[] = {{MORTISE_EXPR_SYMBOL, 0, *batch}}, second[] = {{MORTISE_EXPR_SYMBOL, 0, *rows}};
  const MortiseExpr exprs[] = {{first, 1}, {second, 1}};
  Tensor tensor(MORTISE_F32, {MORTISE_DYNAMIC, MORTISE_DYNAMIC});
  tensor.type.dim_exprs = exprs;
  auto x = builder.addInput("x", tensor.type, 0);
  ASSERT_TRUE(x) << x.error().message;
  EXPECT_FALSE(builder.addSymbol("late", 0, 1, 1));
  auto twice = add("mortise.concatenate", {*x, *x}, {integer("axis", 1)});
  ASSERT_TRUE(twice) << twice.error().message;
  EXPECT_EQ(failure("mortise.add", {*x, (*twice)[0]}),
            "mortise.add: operands must have one type, found f32 [b, s] and f32 [b, 2*s]; broadcast or convert first "
            "(same_type_c1)");
  EXPECT_FALSE(builder.addGuard(exprs[0], 7, "no such relation"));
  ASSERT_TRUE(builder.addGuard(exprs[0], MORTISE_RELATION_AT_LEAST, "as traced"));
  ASSERT_TRUE(builder.addOutput((*twice)[0], -1));
  auto module = builder.finish();
  ASSERT_TRUE(module) << module.error().message;
  auto graph = exportGraph(**module);
  ASSERT_TRUE(graph) << graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  ASSERT_EQ(view.symbol_count, 2u);
  EXPECT_EQ(view.symbols[1]->divisor, 8);
  EXPECT_EQ(view.guard_count, 1u);
  Result<Dim> extent = Dim::from(view.outputs[0]->type->dim_exprs[1], 2);
  ASSERT_TRUE(extent);
  EXPECT_EQ(*extent, 2 * Dim::symbol(1));
}

TEST_F(BuilderTest, ChecksAliases) {
  ValueId cache = input({4}), weight = input({4}, MORTISE_F32, MORTISE_VALUE_CONSTANT), other = input({2});
  EXPECT_EQ(builder.addOutput(other, 0).error().message,
            "output 0 is written to input 0, but has type tensor<2xf32>, not tensor<4xf32>");
  EXPECT_EQ(builder.addOutput(cache, 1).error().message, "output 0 is written to input 1, which is constant");
  EXPECT_FALSE(builder.addOutput(cache, 3));
  EXPECT_FALSE(builder.addOutput(77, -1));
  ASSERT_TRUE(builder.addOutput(weight, 0));
  EXPECT_FALSE(builder.addOutput(cache, 0));
  auto module = builder.finish();
  ASSERT_TRUE(module);
  auto graph = exportGraph(**module);
  ASSERT_TRUE(graph);
  EXPECT_EQ((*graph)->view().alias_count, 1u);
  EXPECT_EQ((*graph)->view().inputs[0]->flags, static_cast<uint32_t>(MORTISE_VALUE_STATE));
  EXPECT_FALSE(builder.finish());
  EXPECT_FALSE(builder.addOutput(cache, -1));
}

TEST_F(BuilderTest, LiteralsKeepTheirBytes) {
  Tensor tensor(MORTISE_F32, {3});
  float numbers[] = {1, 1, 1};
  MortiseAttribute value = attribute("value", MORTISE_ATTRIBUTE_TENSOR);
  value.tensor_type = &tensor.type;
  value.tensor_data = numbers;
  value.count = 8;
  EXPECT_EQ(failure("mortise.constant", {}, {value}),
            "mortise.constant: attribute 'value' of type tensor<3xf32> must have 12 bytes, found 8");
  value.count = 12;
  auto made = add("mortise.constant", {}, {value});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(builder.addOutput((*made)[0], -1));
  auto module = builder.finish();
  ASSERT_TRUE(module);
  auto graph = exportGraph(**module);
  ASSERT_TRUE(graph);
  const MortiseAttribute &read = *(*graph)->view().nodes[0]->attributes[0];
  ASSERT_EQ(read.count, sizeof numbers);
  EXPECT_EQ(std::string_view(static_cast<const char *>(read.tensor_data), read.count),
            std::string_view(reinterpret_cast<const char *>(numbers), sizeof numbers));
}

// Two layers x -> relu(x * w) + x added op by op, and `copies` more by Builder::repeat.
class RepeatTest : public BuilderTest {
protected:
  static constexpr uint32_t copies = 3, perLayer = 3;

  ValueId layer(ValueId x, ValueId weight, const std::string &number, bool swapped = false) {
    const ValueId product = made("mortise.mul", {x, weight}, "mul_" + number);
    const ValueId positive = made("mortise.max", {product, zero}, "relu_" + number);
    return made("mortise.add", swapped ? std::vector<ValueId>{x, positive} : std::vector<ValueId>{positive, x},
                "add_" + number);
  }
  ValueId made(std::string_view op, std::vector<ValueId> operands, const std::string &location) {
    auto result = add(op, std::move(operands), {}, location);
    EXPECT_TRUE(result) << result.error().message;
    return (*result)[0];
  }
  // The own values are the weight and the result of the previous layer.
  Result<bool> repeat(ValueId first, std::vector<ValueId> own, std::vector<std::string> names) {
    std::vector<const char *> locations;
    for (const std::string &name : names)
      locations.push_back(name.c_str());
    return builder.repeat({first, perLayer, copies, own, locations});
  }
  static std::vector<std::string> names() {
    std::vector<std::string> result;
    for (int i = 1; i < 5; ++i)
      for (const char *op : {"mul_", "relu_", "add_"})
        result.push_back(op + std::to_string(i));
    return result;
  }
  std::vector<ValueId> weights(int64_t lastRows = 2) {
    std::vector<ValueId> result;
    for (int i = 0; i < 5; ++i)
      result.push_back(input({i == 4 ? lastRows : 2, 3}));
    return result;
  }
  std::vector<ValueId> own(const std::vector<ValueId> &weights, ValueId x, ValueId first) const {
    std::vector<ValueId> result;
    for (uint32_t i = 0; i < 5; ++i)
      result.insert(result.end(), {weights[i], i == 0 ? x : first + i * perLayer - 1});
    return result;
  }
  ValueId zero = input({2, 3});
};

TEST_F(RepeatTest, MakesWhatTheOpsWouldMake) {
  const ValueId x = input({2, 3});
  const std::vector<ValueId> w = weights();
  ValueId y = layer(x, w[0], "0");
  const ValueId first = y - perLayer + 1;
  y = layer(y, w[1], "1");
  const Result<bool> repeated = repeat(first, own(w, x, first), names());
  ASSERT_TRUE(repeated) << repeated.error().message;
  ASSERT_TRUE(*repeated);
  ASSERT_TRUE(builder.addOutput(first + 5 * perLayer - 1, -1));
  auto module = builder.finish();
  ASSERT_TRUE(module);
  auto graph = exportGraph(**module);
  ASSERT_TRUE(graph) << graph.error().message;

  std::destroy_at(&builder); // a new one in its place
  std::construct_at(&builder, context, "test");
  zero = input({2, 3});
  y = input({2, 3});
  const std::vector<ValueId> same = weights();
  for (int i = 0; i < 5; ++i)
    y = layer(y, same[i], std::to_string(i));
  ASSERT_TRUE(builder.addOutput(y, -1));
  auto expectedModule = builder.finish();
  ASSERT_TRUE(expectedModule);
  auto expected = exportGraph(**expectedModule);
  ASSERT_TRUE(expected);
  EXPECT_TRUE(std::ranges::equal((*graph)->bytes(), (*expected)->bytes())); // locations too
  EXPECT_STREQ((*graph)->view().nodes[10]->location, "relu_3");
}

TEST_F(RepeatTest, RefusesWhatDiffers) {
  const ValueId x = input({2, 3});
  const std::vector<ValueId> w = weights();
  ValueId y = layer(x, w[0], "0");
  const ValueId first = y - perLayer + 1;
  y = layer(y, w[1], "1", true); // with swapped operands
  Result<bool> repeated = repeat(first, own(w, x, first), names());
  ASSERT_TRUE(repeated);
  EXPECT_FALSE(*repeated);
}

TEST_F(RepeatTest, RefusesOwnValuesThatDoNotFit) {
  const ValueId x = input({2, 3});
  const std::vector<ValueId> w = weights(1);
  ValueId y = layer(x, w[0], "0");
  const ValueId first = y - perLayer + 1;
  y = layer(y, w[1], "1");
  std::string before = builder.text();
  Result<bool> repeated = repeat(first, own(w, x, first), names()); // the last weight has another type
  ASSERT_TRUE(repeated);
  EXPECT_FALSE(*repeated);
  EXPECT_EQ(builder.text(), before);
  std::vector<ValueId> unknown = own(w, x, first);
  unknown[4] = 1000;
  repeated = repeat(first, unknown, names());
  ASSERT_TRUE(repeated);
  EXPECT_FALSE(*repeated);
  EXPECT_EQ(builder.text(), before);
}

TEST_F(RepeatTest, RefusesPartsThatAreNotThere) {
  const ValueId x = input({2, 3});
  EXPECT_FALSE(builder.repeat({x, 1, 2, {}, {}}));
  EXPECT_FALSE(builder.repeat({0, 0, 2, {}, {}}));
  const std::vector<ValueId> three{0, 0, 0};
  EXPECT_FALSE(builder.repeat({0, 1, 2, three, {}})); // own values for four copies
  const std::vector<const char *> none{nullptr, nullptr, nullptr};
  EXPECT_FALSE(builder.repeat({0, 1, 2, {}, none}));
  Result<bool> inputs = builder.repeat({0, 1, 2, {}, {}});
  ASSERT_TRUE(inputs);
  EXPECT_FALSE(*inputs); // inputs are not results of ops
}

TEST_F(BuilderTest, TextShowsWhatIsThere) {
  ValueId x = input({2});
  ASSERT_TRUE(add("mortise.exp", {x}));
  EXPECT_NE(builder.text().find("mortise.exp"), std::string::npos);
}

} // namespace
} // namespace mortise::ir
