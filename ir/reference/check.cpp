// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether the interpreter can run a node: checks its signature against the SDK's op table, then calls the family's own
// check.
#include "check.hpp"

#include <algorithm>
#include <cstddef>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

constexpr int64_t maxElements = int64_t(1) << 48; // keeps byte counts and flops from overflowing

// "floats", "dtype i64 or i32": the element types of a set of MortiseSlotInfo::dtypes.
std::string describe(uint32_t dtypes) {
  uint32_t every = 0, floats = 0, booleans = 0;
  std::vector<std::string> names;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype) {
    const uint32_t bit = uint32_t(1) << dtype;
    every |= bit;
    floats |= isFloat(dtype) ? bit : 0;
    booleans |= isBool(dtype) ? bit : 0;
    if (dtypes & bit)
      names.emplace_back(dtypeName(dtype));
  }
  if (dtypes == floats)
    return "floats";
  if (dtypes == (every & ~booleans))
    return "numbers";
  if (dtypes == (every & ~floats))
    return "integers or booleans";
  std::string text = "dtype ";
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
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
  if (type.strides && !isDense(dims(type), {type.strides, static_cast<size_t>(type.rank)}))
    return {MORTISE_REASON_LAYOUT, "the reference runs dense row-major tensors, found strides"};
  return {};
}

using Slots = std::span<const MortiseSlotInfo>;

// The number of values that the slots take: `least` to `most`.
struct Counts {
  size_t least = 0, most = 0;
  explicit Counts(Slots slots) : most(slots.size()) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].arity == MORTISE_ARITY_ONE)
        least = i + 1;
      if (slots[i].arity == MORTISE_ARITY_VARIADIC)
        most = SIZE_MAX;
    }
  }
  bool fit(size_t count) const { return count >= least && count <= most; }
  std::string text() const {
    return std::to_string(least) + (most == SIZE_MAX ? " or more" : most != least ? " to " + std::to_string(most) : "");
  }
};

Refusal checkValues(const MortiseValue *const *values, size_t count, Slots slots, const std::string &what) {
  for (size_t i = 0; i < count; ++i) {
    const MortiseSlotInfo &slot = slots[std::min(i, slots.size() - 1)]; // a variadic slot is the last one
    const std::string which = what + " " + std::to_string(i);
    if (!values[i]) {
      if (slot.arity == MORTISE_ARITY_OPTIONAL)
        continue;
      return {MORTISE_REASON_OP, which + " is missing; it is '" + slot.name + "'"};
    }
    const MortiseType &type = *values[i]->type;
    if (Refusal refusal = checkType(type))
      return refusal;
    if (!(slot.dtypes >> type.dtype & 1))
      return {MORTISE_REASON_DTYPE,
              "expected " + describe(slot.dtypes) + " as " + which + ", found " + typeString(type)};
  }
  return {};
}

Refusal checkSlots(const MortiseNode &node, const MortiseOpInfo &info) {
  const Slots operands(info.operands, info.operand_count), results(info.results, info.result_count);
  const bool anyResults = results[0].arity == MORTISE_ARITY_VARIADIC;
  if (const Counts taken(operands), made(results);
      !taken.fit(node.operand_count) || (anyResults ? node.result_count == 0 : !made.fit(node.result_count)))
    return {MORTISE_REASON_OP, "expected " + taken.text() + " operands and " +
                                   (anyResults ? "1 or more" : made.text()) + " results, found " +
                                   std::to_string(node.operand_count) + " and " + std::to_string(node.result_count)};
  Refusal refusal = checkValues(node.operands, node.operand_count, operands, "operand");
  return refusal ? refusal : checkValues(node.results, node.result_count, results, "result");
}

Refusal checkAttributes(const MortiseNode &node, const MortiseOpInfo &info) {
  const std::span wanted(info.attributes, info.attribute_count);
  for (const MortiseAttributeInfo &attribute : wanted) {
    const std::string what = "'" + std::string(attribute.name) + "'";
    const MortiseAttribute *found = findAttribute(node, attribute.name);
    if (!found)
      return {MORTISE_REASON_ATTRIBUTE, "the attribute " + what + " is missing"};
    if (found->kind != attribute.kind)
      return {MORTISE_REASON_ATTRIBUTE, "the attribute " + what + " is of another kind"};
    if (attribute.value_count == 0)
      continue;
    std::string names;
    bool isLegal = false;
    for (const char *value : std::span(attribute.values, attribute.value_count)) {
      isLegal |= found->string && std::string_view(found->string) == value;
      names += (names.empty() ? "" : ", ") + std::string(value);
    }
    if (!isLegal)
      return {MORTISE_REASON_ATTRIBUTE, "expected " + std::string(attribute.name) + " to be one of " + names +
                                            ", found '" + (found->string ? found->string : "") + "'"};
  }
  for (size_t i = 0; i < node.attribute_count; ++i) {
    const MortiseAttribute &attribute = *node.attributes[i];
    std::string_view name = attribute.name;
    // An op whose types are static may still have a symbolic attribute: extents, or the start of a slice.
    if (attribute.struct_size > offsetof(MortiseAttribute, exprs) && attribute.exprs)
      return {MORTISE_REASON_NEEDS_STATIC,
              "the reference runs static shapes, found an expression in the attribute '" + std::string(name) + "'"};
    if (std::ranges::find(wanted, name, &MortiseAttributeInfo::name) == wanted.end())
      return {MORTISE_REASON_ATTRIBUTE, "the attribute '" + std::string(name) + "' is not known"};
  }
  return {};
}

double macs(const MortiseNode &node) {
  auto dim = [&](size_t operand, size_t d) { return static_cast<double>(node.operands[operand]->type->dims[d]); };
  auto results = static_cast<double>(elementCount(*node.results[0]->type));
  if (isOp(node, Op::Dot)) {
    double depth = 1;
    for (int64_t axis : intsAttribute(node, "lhs_contract"))
      depth *= dim(0, static_cast<size_t>(axis));
    return results * depth;
  }
  if (isOp(node, Op::Linear))
    return results * dim(0, static_cast<size_t>(node.operands[0]->type->rank - 1));
  if (isOp(node, Op::Convolution))
    return dim(1, 0) == 0 ? 0 : results * static_cast<double>(elementCount(*node.operands[1]->type)) / dim(1, 0);
  if (isOp(node, Op::Attention) || isOp(node, Op::AttentionForward))
    return dim(0, 0) * dim(0, 1) * dim(0, 2) * dim(1, 2) * (dim(0, 3) + dim(2, 3));
  if (isOp(node, Op::AttentionGradient))
    return dim(0, 0) * dim(0, 1) * dim(0, 2) * dim(1, 2) * (3 * dim(0, 3) + 2 * dim(2, 3));
  if (isOp(node, Op::RaggedAttention))
    return dim(0, 0) * dim(0, 1) * dim(1, 0) * (dim(0, 2) + dim(2, 2));
  return 0;
}

} // namespace

const OpSpec *findOp(const MortiseNode &node) {
  static const std::vector<const OpSpec *> all = [] {
    std::vector<const OpSpec *> byOp(opCount);
    for (auto family : {elementwiseOps, shapeOps, indexingOps, contractionOps, reductionOps, windowOps,
                        normalisationOps, attentionOps, randomOps, quantisationOps, controlFlowOps, collectiveOps})
      for (const OpSpec &spec : family())
        byOp[static_cast<size_t>(spec.op)] = &spec;
    return byOp;
  }();
  return all[static_cast<size_t>(opOf(node))];
}

int64_t rankCount(const MortiseNode &node) {
  const OpSpec *spec = findOp(node);
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
  const OpSpec *spec = findOp(node);
  if (!spec)
    return {MORTISE_REASON_OP, std::string_view(node.op).starts_with("mortise.")
                                   ? "the reference has no op of this name"
                                   : "the op of a vendor, which only its plugin defines"};
  if (node.since > MORTISE_OPSET)
    return {MORTISE_REASON_OPSET, "expected an op of opset " + std::to_string(MORTISE_OPSET) + " or older, found " +
                                      std::to_string(node.since)};
  const MortiseOpInfo &info = *infoOf(spec->op);
  if (Refusal refusal = checkSlots(node, info))
    return refusal;
  if (Refusal refusal = checkAttributes(node, info))
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

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
