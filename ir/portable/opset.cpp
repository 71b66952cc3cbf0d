// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/opset.hpp>

#include "changes.hpp"

#include <mortise/ops.h>

#include <algorithm>
#include <bit>
#include <span>

namespace mortise::portable {

bool AttributeValue::equals(const MortiseAttribute &attribute) const {
  if (attribute.kind != kind)
    return false;
  const auto isSame = [](double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); };
  switch (kind) {
  case MORTISE_ATTRIBUTE_BOOL:
  case MORTISE_ATTRIBUTE_I64:
    return attribute.i64 == i64;
  case MORTISE_ATTRIBUTE_F64:
    return isSame(attribute.f64, f64);
  case MORTISE_ATTRIBUTE_STRING:
    return attribute.string == string;
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    return (attribute.struct_size < sizeof(MortiseAttribute) || !attribute.exprs) &&
           std::equal(i64s.begin(), i64s.end(), attribute.i64s, attribute.i64s + attribute.count);
  case MORTISE_ATTRIBUTE_F64_ARRAY:
    return std::equal(f64s.begin(), f64s.end(), attribute.f64s, attribute.f64s + attribute.count, isSame);
  default:
    return false;
  }
}

const OpAttribute *Op::find(std::string_view attribute) const {
  for (const OpAttribute &candidate : attributes)
    if (candidate.name == attribute)
      return &candidate;
  return nullptr;
}

const Op *Opset::find(std::string_view op) const {
  auto found = std::lower_bound(ops.begin(), ops.end(), op, [](const Op &a, std::string_view b) { return a.name < b; });
  return found != ops.end() && found->name == op ? &*found : nullptr;
}

const OpRetired *Opset::findRetired(std::string_view op) const {
  for (const OpRetired &candidate : opsRetired)
    if (candidate.op.name == op)
      return &candidate;
  return nullptr;
}

const AttributeAdded *Opset::added(std::string_view op, std::string_view attribute) const {
  for (const AttributeAdded &candidate : attributesAdded)
    if (candidate.op == op && candidate.attribute == attribute)
      return &candidate;
  return nullptr;
}

namespace {

int32_t kindNamed(std::string_view name) {
  constexpr std::string_view kinds[] = {"BOOL", "I64", "F64", "STRING", "I64_ARRAY", "F64_ARRAY", "TENSOR"};
  const auto *found = std::find(std::begin(kinds), std::end(kinds), name);
  return found == std::end(kinds) ? 0 : static_cast<int32_t>(found - std::begin(kinds)) + MORTISE_ATTRIBUTE_BOOL;
}

// Removes and returns the text before `end`, and removes `end`; all of the text when it has no `end`.
std::string_view take(std::string_view &text, char end) {
  const size_t at = text.find(end);
  const std::string_view result = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return result;
}

} // namespace

std::vector<Op> parseOps(std::string_view lines) {
  std::vector<Op> ops;
  while (!lines.empty()) {
    std::string_view line = take(lines, '\n');
    Op &op = ops.emplace_back();
    op.name = take(line, ' ');
    op.since = 0;
    for (const char digit : take(line, ' '))
      op.since = op.since * 10 + static_cast<uint32_t>(digit - '0');
    take(line, '(');
    op.operands = take(line, ')');
    take(line, ' ');
    while (!line.empty()) {
      std::string_view word = take(line, ' ');
      OpAttribute &attribute = op.attributes.emplace_back();
      attribute.name = take(word, '=');
      attribute.kind = kindNamed(take(word, ':'));
      while (!word.empty())
        attribute.values.emplace_back(take(word, '|'));
    }
  }
  return ops;
}

namespace {

Op fromTable(const MortiseOpInfo &info) {
  Op op;
  op.name = info.name;
  op.since = info.since;
  for (const MortiseSlotInfo &slot : std::span(info.operands, info.operand_count)) {
    op.operands += slot.name;
    op.operands += slot.arity == MORTISE_ARITY_OPTIONAL ? "?," : slot.arity == MORTISE_ARITY_VARIADIC ? "*," : ",";
  }
  for (const MortiseAttributeInfo &attribute : std::span(info.attributes, info.attribute_count))
    op.attributes.push_back(
        {attribute.name, attribute.kind, {attribute.values, attribute.values + attribute.value_count}});
  return op;
}

} // namespace

const Opset &opset() {
  static const Opset ours = [] {
    Opset result;
    result.newest = MORTISE_OPSET;
    for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op)
      result.ops.push_back(fromTable(*mortise_op_info(op)));
    std::ranges::sort(result.ops, {}, &Op::name);
    result.attributesAdded = attributesAdded();
    result.valuesAdded = valuesAdded();
    result.opsRetired = opsRetired();
    return result;
  }();
  return ours;
}

} // namespace mortise::portable
