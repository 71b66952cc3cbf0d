// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a node is one that the interpreter runs: the table entry of its op first, then the family's own check.
#include "check.hpp"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

namespace mortise::reference {
namespace {

constexpr int64_t maxElements = int64_t(1) << 48; // keeps byte counts and flops from overflowing

const char *describe(DTypes types) {
  switch (types) {
  case DTypes::number:
    return "numbers";
  case DTypes::floating:
    return "floats";
  case DTypes::bits:
    return "integers or booleans";
  default:
    return "elements of a known dtype";
  }
}
bool belongs(int32_t dtype, DTypes types) {
  switch (types) {
  case DTypes::number:
    return dtype != MORTISE_I1;
  case DTypes::floating:
    return isFloat(dtype);
  case DTypes::bits:
    return !isFloat(dtype);
  default:
    return true;
  }
}

Refusal checkType(const MortiseType &type) {
  if (dtypeBits(type.dtype) == 0)
    return {MORTISE_REASON_DTYPE, "the dtype " + std::to_string(type.dtype) + " is not known"};
  int64_t elements = 1;
  for (int64_t dim : dims(type)) {
    if (dim == MORTISE_DYNAMIC)
      return {MORTISE_REASON_NEEDS_STATIC, "the reference runs static shapes, found " + typeString(type)};
    if (dim < 0 || dim > maxElements / elements)
      return {MORTISE_REASON_SIZE, "the extents of " + typeString(type) + " are negative or too large"};
    elements *= std::max<int64_t>(dim, 1);
  }
  if (type.strides &&
      !std::ranges::equal(std::span(type.strides, static_cast<size_t>(type.rank)), denseStrides(dims(type))))
    return {MORTISE_REASON_LAYOUT, "the reference runs dense row-major tensors, found strides"};
  return {};
}

Refusal checkOperands(const MortiseNode &node, const OpSpec &spec) {
  if (node.operand_count < spec.minOperands || node.operand_count > spec.maxOperands ||
      (spec.results == anyNumber ? node.result_count == 0 : node.result_count != spec.results))
    return {MORTISE_REASON_OP,
            "expected " + std::to_string(spec.minOperands) + (spec.maxOperands != spec.minOperands ? " or more" : "") +
                " operands and " + std::to_string(spec.results) + (spec.results == 1 ? " result" : " results") +
                ", found " + std::to_string(node.operand_count) + " and " + std::to_string(node.result_count)};
  for (size_t i = 0; i < node.operand_count; ++i) {
    if (!node.operands[i] && (i >= 32 || !(spec.optional >> i & 1)))
      return {MORTISE_REASON_OP, "operand " + std::to_string(i) + " is missing"};
    if (Refusal refusal = node.operands[i] ? checkType(*node.operands[i]->type) : Refusal())
      return refusal;
  }
  for (size_t i = 0; i < node.result_count; ++i)
    if (Refusal refusal = checkType(*node.results[i]->type))
      return refusal;
  if (node.operand_count && !belongs(node.operands[0]->type->dtype, spec.first))
    return {MORTISE_REASON_DTYPE,
            std::string("expected ") + describe(spec.first) + ", found " + typeString(*node.operands[0]->type)};
  return {};
}

Refusal checkAttributes(const MortiseNode &node, const OpSpec &spec) {
  for (const AttributeSpec &wanted : spec.attributes) {
    const MortiseAttribute *found = findAttribute(node, wanted.name);
    if (!found || found->kind != wanted.kind)
      return {MORTISE_REASON_ATTRIBUTE,
              "the attribute '" + std::string(wanted.name) + "' is missing or of another kind"};
  }
  for (size_t i = 0; i < node.attribute_count; ++i) {
    const MortiseAttribute &attribute = *node.attributes[i];
    std::string_view name = attribute.name;
    // An op without symbolic types may have one: of extents, or of what a slice starts at.
    if (attribute.struct_size > offsetof(MortiseAttribute, exprs) && attribute.exprs)
      return {MORTISE_REASON_NEEDS_STATIC,
              "the reference runs static shapes, found an expression in the attribute '" + std::string(name) + "'"};
    if (std::ranges::find(spec.attributes, name, &AttributeSpec::name) == spec.attributes.end())
      return {MORTISE_REASON_ATTRIBUTE, "the attribute '" + std::string(name) + "' is not known"};
  }
  return {};
}

double macs(const MortiseNode &node) {
  auto dim = [&](size_t operand, size_t d) { return static_cast<double>(node.operands[operand]->type->dims[d]); };
  auto results = static_cast<double>(elementCount(*node.results[0]->type));
  if (isOp(node, "mortise.dot")) {
    double depth = 1;
    for (int64_t axis : intsAttribute(node, "lhs_contract"))
      depth *= dim(0, static_cast<size_t>(axis));
    return results * depth;
  }
  if (isOp(node, "mortise.linear"))
    return results * dim(0, static_cast<size_t>(node.operands[0]->type->rank - 1));
  if (isOp(node, "mortise.convolution"))
    return dim(1, 0) == 0 ? 0 : results * static_cast<double>(elementCount(*node.operands[1]->type)) / dim(1, 0);
  if (isOp(node, "mortise.attention"))
    return dim(0, 0) * dim(0, 1) * dim(0, 2) * dim(1, 2) * (dim(0, 3) + dim(2, 3));
  if (isOp(node, "mortise.ragged_attention"))
    return dim(0, 0) * dim(0, 1) * dim(1, 0) * (dim(0, 2) + dim(2, 2));
  return 0;
}

} // namespace

const OpSpec *findOp(std::string_view op) {
  static const std::unordered_map<std::string_view, const OpSpec *> all = [] {
    std::unordered_map<std::string_view, const OpSpec *> map;
    for (auto family : {elementwiseOps, shapeOps, indexingOps, contractionOps, reductionOps, windowOps,
                        normalisationOps, attentionOps, randomOps, quantisationOps, controlFlowOps, collectiveOps})
      for (const OpSpec &spec : family())
        map.emplace(spec.op, &spec);
    return map;
  }();
  constexpr std::string_view dialect = "mortise.";
  if (!op.starts_with(dialect))
    return nullptr;
  auto found = all.find(op.substr(dialect.size()));
  return found == all.end() ? nullptr : found->second;
}

int64_t rankCount(const MortiseNode &node) {
  const OpSpec *spec = findOp(node.op);
  if (!spec || !spec->runRanks)
    return 0;
  const MortiseAttribute *groups = findAttribute(node, "groups");
  return groups ? static_cast<int64_t>(groups->count) : intAttribute(node, "rank_count");
}

Refusal refuse(const MortiseNode &node) {
  if (Refusal refusal = checkNode(node))
    return refusal;
  if (int64_t ranks = rankCount(node); ranks > 1)
    return {MORTISE_REASON_OP,
            "is for " + std::to_string(ranks) + " ranks, and one is running; interpretRanks runs several"};
  return {};
}

Refusal checkNode(const MortiseNode &node) {
  const OpSpec *spec = findOp(node.op);
  if (!spec)
    return {MORTISE_REASON_OP, "the reference has no op of this name"};
  if (node.since > MORTISE_OPSET)
    return {MORTISE_REASON_OPSET, "expected an op of opset " + std::to_string(MORTISE_OPSET) + " or older, found " +
                                      std::to_string(node.since)};
  if (Refusal refusal = checkOperands(node, *spec))
    return refusal;
  if (Refusal refusal = checkAttributes(node, *spec))
    return refusal;
  return spec->check(Shapes(node));
}

Estimate estimate(const MortiseNode &node) {
  Estimate cost;
  for (size_t i = 0; i < node.operand_count; ++i)
    if (node.operands[i])
      cost.bytes += static_cast<double>(byteSize(*node.operands[i]->type));
  double elements = 0, products = macs(node);
  for (size_t i = 0; i < node.result_count; ++i) {
    elements += static_cast<double>(elementCount(*node.results[i]->type));
    cost.bytes += static_cast<double>(byteSize(*node.results[i]->type));
  }
  cost.flops = products > 0 ? 2 * products : elements;
  // Measured on one core: half a nanosecond a multiply-add in f64, some nanoseconds an element with its conversions.
  cost.ns = 1000 + products * 0.5 + cost.bytes * 2;
  return cost;
}

} // namespace mortise::reference
