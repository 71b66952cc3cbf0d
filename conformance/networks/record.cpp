// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs that somebody else has made, on a tape.
#include "tape.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

test::Attribute copyOf(const MortiseAttribute &from) {
  test::Attribute made{.name = from.name, .kind = from.kind, .i64 = from.i64, .f64 = from.f64};
  if (from.kind == MORTISE_ATTRIBUTE_STRING)
    made.string = from.string;
  if (from.kind == MORTISE_ATTRIBUTE_I64_ARRAY)
    made.i64s.assign(from.i64s, from.i64s + from.count);
  if (from.kind == MORTISE_ATTRIBUTE_F64_ARRAY)
    made.f64s.assign(from.f64s, from.f64s + from.count);
  if (from.kind == MORTISE_ATTRIBUTE_TENSOR) {
    const auto *bytes = static_cast<const uint8_t *>(from.tensor_data);
    made.bytes.assign(bytes, bytes + from.count);
    made.type = from.tensor_type;
  }
  return made;
}

// What an input is filled with: for indices small numbers, most of which are in range.
std::pair<double, double> rangeOf(const MortiseType &type) {
  if (isFloat(type.dtype))
    return {-1, 1};
  return {0, isBool(type.dtype) ? 1 : 7};
}

bool isEverywhere(const MortiseNode &node, const char *attribute, int64_t value) {
  return std::ranges::all_of(listOf(node, attribute), [&](int64_t entry) { return entry == value; });
}

// The windows that Tape makes are equal in all dimensions.
std::optional<Tape::Window> windowOf(const MortiseNode &node) {
  const Tape::Window made{listOf(node, "strides")[0], listOf(node, "low")[0], listOf(node, "dilations")[0],
                          intAttribute(node, "groups")};
  const bool isEqual = isEverywhere(node, "strides", made.stride) && isEverywhere(node, "low", made.padding) &&
                       isEverywhere(node, "high", made.padding) && isEverywhere(node, "dilations", made.dilation);
  return isEqual ? std::optional(made) : std::nullopt;
}

} // namespace

// NULL where the composite has no expansion with these attributes.
Value Tape::recordExpanded(const MortiseNode &node, const std::vector<Value> &x) {
  const auto number = [&](const char *name) { return intAttribute(node, name); };
  const auto text = [&](const char *name) { return stringAttribute(node, name); };
  const double epsilon = findAttribute(node, "epsilon") ? floatAttribute(node, "epsilon") : 0;
  switch (opOf(node)) {
  case Op::Expm1: // no composite: for who asks for the formula of ONNX's operators
    return shift(map("exp", x[0]), -1);
  case Op::Relu:
    return map("relu", x[0]);
  case Op::Silu:
    return map("silu", x[0]);
  case Op::Swiglu:
    return combine("swiglu", x[0], x[1]);
  case Op::Gelu:
    return gelu(x[0], text("approximate") == "tanh");
  case Op::Softmax:
    return softmax("softmax", x[0], number("axis"));
  case Op::LogSoftmax:
    return softmax("log_softmax", x[0], number("axis"));
  case Op::Mean:
    return mean(x[0], listOf(node, "axes"));
  case Op::Linear:
    return linear(x[0], number("weight_transposed") ? transpose(x[1], {1, 0}) : x[1], x[2]);
  case Op::Attention:
    return attention(x[0], x[1], x[2], x[3], floatAttribute(node, "scale"), number("causal") != 0);
  case Op::Rope:
    return number("interleaved") ? nullptr : rope(x[0], x[1], x[2]);
  case Op::LayerNorm:
    return layerNorm(x[0], x[1], x[2], number("axis"), epsilon);
  case Op::RmsNorm:
    return rmsNorm(x[0], x[1], number("axis"), epsilon);
  case Op::GroupNorm:
    return groupNorm(x[0], x[1], x[2], number("groups"), epsilon);
  case Op::BatchNorm:
    return batchNorm(x[0], x[1], x[2], x[3], x[4], epsilon);
  case Op::Embedding:
    return embedding(x[0], x[1]);
  case Op::FusedConvolution: {
    const auto window = windowOf(node);
    return window && !x[2] && x[3]
               ? fusedConvolution(x[0], x[1], x[3], *window, std::string(text("activation")).c_str())
               : nullptr;
  }
  default:
    return nullptr;
  }
}

std::vector<Value> Tape::recordNode(const MortiseNode &node, const std::vector<Value> &operands) {
  if (isExpanded(opOf(node)))
    if (Value made = recordExpanded(node, operands))
      return {made};
  std::vector<const MortiseType *> types;
  for (const MortiseValue *result : std::span(node.results, node.result_count))
    types.push_back(result->type);
  std::vector<test::Attribute> attributes;
  for (const MortiseAttribute *attribute : std::span(node.attributes, node.attribute_count))
    attributes.push_back(copyOf(*attribute));
  auto made = nodes(node.op, operands, types, std::move(attributes));
  for (const MortiseGraph *body : std::span(node.bodies, node.body_count))
    builder.body(*body);
  return made;
}

void Tape::record(const MortiseGraph &from) {
  std::vector<Value> values(from.value_count);
  for (const MortiseValue *given : std::span(from.inputs, from.input_count)) {
    const auto [low, high] = rangeOf(*given->type);
    const bool isConstant = given->flags & MORTISE_VALUE_CONSTANT;
    values[given->index] = isConstant ? weight(dimsOf(given), low, high, given->type->dtype)
                                      : input(dimsOf(given), low, high, given->type->dtype);
    const_cast<MortiseValue *>(values[given->index])->flags = given->flags & ~uint32_t(MORTISE_VALUE_DONATED);
  }
  for (const MortiseNode *node : std::span(from.nodes, from.node_count)) {
    std::vector<Value> operands;
    for (const MortiseValue *operand : std::span(node->operands, node->operand_count))
      operands.push_back(operand ? values[operand->index] : nullptr);
    const auto made = recordNode(*node, operands);
    for (size_t i = 0; i < made.size(); ++i)
      values[node->results[i]->index] = made[i];
  }
  for (const MortiseValue *result : std::span(from.outputs, from.output_count))
    output(values[result->index]);
  for (const MortiseAlias *alias : std::span(from.aliases, from.alias_count))
    builder.alias(alias->input, alias->output);
}

} // namespace mortise::conformance
