// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each operation set holds, and what changed between them: so that a graph of an older set is brought up to date
// when it is read, and one of today's can be written for an older reader. Links no LLVM; immutable.
#pragma once

#include <mortise/plugin.h>
#include <mortise/result.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::portable {

// An attribute's value, of a kind other than a tensor.
struct AttributeValue {
  int32_t kind = 0; // MortiseAttributeKind
  int64_t i64 = 0;
  double f64 = 0;
  std::string string;
  std::vector<int64_t> i64s;
  std::vector<double> f64s;

  static AttributeValue of(bool value) { return {MORTISE_ATTRIBUTE_BOOL, value}; }
  static AttributeValue of(int64_t value) { return {MORTISE_ATTRIBUTE_I64, value}; }
  static AttributeValue of(double value) { return {MORTISE_ATTRIBUTE_F64, 0, value}; }
  static AttributeValue of(const char *value) { return {MORTISE_ATTRIBUTE_STRING, 0, 0, value}; }
  static AttributeValue of(std::vector<int64_t> value) {
    return {MORTISE_ATTRIBUTE_I64_ARRAY, 0, 0, "", std::move(value)};
  }
  // Bit for bit; a symbolic attribute equals none.
  bool equals(const MortiseAttribute &attribute) const;
};

struct OpAttribute {
  std::string name;
  int32_t kind = 0;
  std::vector<std::string> values; // of an enumeration; else empty
};

struct Op {
  std::string name; // "mortise.add"
  uint32_t since = 1;
  std::string operands; // in order: name, then '?' (optional), '*' (any number) or nothing, and ','
  std::vector<OpAttribute> attributes;
  const OpAttribute *find(std::string_view attribute) const;
};

struct AttributeAdded {
  std::string op, attribute;
  uint32_t since;
  AttributeValue implied; // what sets before `since` meant
};

struct ValueAdded { // of an enumeration
  std::string op, attribute, value;
  uint32_t since;
};

// One of the ops that stand for a retired one.
struct Replacement {
  struct Operand {
    const MortiseValue *value = nullptr; // of the graph, or NULL: left out
    int32_t earlier = -1;                // else the result of this replacement
  };
  std::string op;
  std::vector<Operand> operands;
  std::vector<std::pair<std::string, AttributeValue>> attributes; // beside those kept
  std::vector<const MortiseAttribute *> kept;                     // of the retired op
  const MortiseType *type = nullptr;                              // of its result; the last one has the op's results
};

struct OpRetired {
  Op op;            // as it was
  uint32_t retired; // the first set without it; the replacements are of this set
  std::function<std::vector<Replacement>(const MortiseNode &)> replace; // not empty
};

struct Opset {
  uint32_t newest = 0;
  std::vector<Op> ops; // sorted by name
  std::vector<AttributeAdded> attributesAdded;
  std::vector<ValueAdded> valuesAdded;
  std::vector<OpRetired> opsRetired;

  const Op *find(std::string_view op) const;
  const OpRetired *findRetired(std::string_view op) const;
  // The set that introduced an attribute; NULL: as old as its op.
  const AttributeAdded *added(std::string_view op, std::string_view attribute) const;
};

// This build's: the ops from the .td files, the changes from changes.cpp.
const Opset &opset();

} // namespace mortise::portable
