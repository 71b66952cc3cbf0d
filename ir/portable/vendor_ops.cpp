// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/vendor_ops.hpp>

#include <mortise/portable/opset.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mortise::portable {
namespace {

std::span<const MortiseAttributeDeclaration *const> attributesOf(const MortiseOpDeclaration &op) {
  return {op.attributes, op.attribute_count};
}

bool isWord(std::string_view word) {
  const auto isLetter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !word.empty() && isLetter(word[0]) &&
         std::ranges::all_of(word, [&](char c) { return isLetter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

// A fallback as a value that compares bit by bit.
AttributeValue valueOf(const MortiseAttribute &attribute) {
  AttributeValue value{.kind = attribute.kind, .i64 = attribute.i64, .f64 = attribute.f64};
  if (attribute.kind == MORTISE_ATTRIBUTE_STRING)
    value.string = attribute.string;
  if (attribute.kind == MORTISE_ATTRIBUTE_I64_ARRAY)
    value.i64s.assign(attribute.i64s, attribute.i64s + attribute.count);
  if (attribute.kind == MORTISE_ATTRIBUTE_F64_ARRAY)
    value.f64s.assign(attribute.f64s, attribute.f64s + attribute.count);
  return value;
}

bool isSame(const MortiseAttributeDeclaration &a, const MortiseAttributeDeclaration &b) {
  if (a.kind != b.kind || !a.fallback != !b.fallback)
    return false;
  return !a.fallback || valueOf(*a.fallback).equals(*b.fallback);
}

std::string countText(const MortiseOpDeclaration &op) {
  const std::string least = std::to_string(op.operands_min);
  return op.operands_max == UINT32_MAX        ? least + " or more operands"
         : op.operands_max == op.operands_min ? least + " operands"
                                              : least + " to " + std::to_string(op.operands_max) + " operands";
}

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = corner + (a[i] != b[j]);
      corner = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, changed}));
    }
  }
  return row.back();
}

} // namespace

const char *attributeKindName(int32_t kind) {
  constexpr const char *names[] = {"?",        "a boolean",          "an integer",       "a float",
                                   "a string", "a list of integers", "a list of floats", "a tensor"};
  return names[kind >= MORTISE_ATTRIBUTE_BOOL && kind <= MORTISE_ATTRIBUTE_TENSOR ? kind : 0];
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  constexpr size_t longestCompared = 64; // longer names get no suggestion
  std::string_view best;
  size_t least = SIZE_MAX;
  for (const std::string_view candidate : known)
    if (const size_t found = name.size() > longestCompared ? SIZE_MAX : distance(name, candidate); found < least) {
      least = found;
      best = candidate;
    }
  return best.empty() ? "" : "; the nearest known is '" + std::string(best) + "'";
}

bool isVendorOp(std::string_view name) {
  const size_t dot = name.find('.');
  return dot != std::string_view::npos && isWord(name.substr(0, dot)) && isWord(name.substr(dot + 1)) &&
         name.substr(0, dot) != "mortise";
}

Result<std::vector<const MortiseAttribute *>> completeAttributes(const MortiseOpDeclaration &op, size_t operandCount,
                                                                 std::span<const MortiseAttribute *const> given) {
  const auto refuse = [&](const std::string &what) {
    return Error{MORTISE_INVALID_ARGUMENT, std::string(op.name) + ": " + what};
  };
  if (operandCount < op.operands_min || operandCount > op.operands_max)
    return refuse("expected " + countText(op) + ", as its plugin declares, found " + std::to_string(operandCount));
  for (const MortiseAttribute *attribute : given)
    if (!attribute || !attribute->name)
      return refuse("an attribute is NULL or has no name");
  std::vector<const MortiseAttribute *> all;
  for (const MortiseAttributeDeclaration *declared : attributesOf(op)) {
    const std::string what = std::string("attribute '") + declared->name + "'";
    const auto isIt = [&](const MortiseAttribute *each) { return std::string_view(each->name) == declared->name; };
    const auto found = std::ranges::find_if(given, isIt);
    if (found == given.end() && !declared->fallback)
      return refuse(what + " is missing; it is " + attributeKindName(declared->kind));
    if (found != given.end() && std::find_if(found + 1, given.end(), isIt) != given.end())
      return refuse(what + " is given twice");
    all.push_back(found == given.end() ? declared->fallback : *found);
    if (all.back()->kind != declared->kind)
      return refuse("expected " + what + " to be " + attributeKindName(declared->kind) + ", found " +
                    attributeKindName(all.back()->kind));
  }
  for (const MortiseAttribute *attribute : given)
    if (std::ranges::find(all, attribute) == all.end()) {
      std::vector<std::string_view> known;
      for (const MortiseAttributeDeclaration *declared : attributesOf(op))
        known.emplace_back(declared->name);
      return refuse(std::string("its plugin declares no attribute '") + attribute->name + "'" +
                    suggestion(attribute->name, known));
    }
  return all;
}

std::string difference(const MortiseOpDeclaration &a, const MortiseOpDeclaration &b) {
  if (a.operands_min != b.operands_min || a.operands_max != b.operands_max)
    return countText(a) + " and " + countText(b);
  const auto names = [](const MortiseOpDeclaration &op, const MortiseOpDeclaration &other) -> std::string {
    for (const MortiseAttributeDeclaration *each : attributesOf(op)) {
      const auto found = std::ranges::find_if(attributesOf(other), [&](const MortiseAttributeDeclaration *declared) {
        return std::string_view(declared->name) == each->name;
      });
      if (found == attributesOf(other).end() || !isSame(*each, **found))
        return std::string("attribute '") + each->name + "'";
    }
    return "";
  };
  const std::string found = names(a, b);
  return found.empty() ? names(b, a) : found;
}

} // namespace mortise::portable
