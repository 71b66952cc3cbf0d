// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ops of each operation set (opset) and the changes between opsets. They serve to upgrade a graph of an older opset
// and to write a graph for an older reader. Links no LLVM; immutable.
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
  // Compares bit by bit. A symbolic attribute never equals.
  bool equals(const MortiseAttribute &attribute) const;
};

struct OpAttribute {
  std::string name;
  int32_t kind = 0;
  std::vector<std::string> values; // the permitted strings of an enumeration; else empty
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
  AttributeValue implied; // the value that opsets before `since` implied
};

struct ValueAdded { // of an enumeration
  std::string op, attribute, value;
  uint32_t since;
};

// One of the ops that replace a retired one.
struct Replacement {
  struct Operand {
    const MortiseValue *value = nullptr; // a value of the graph; NULL when left out
    int32_t earlier = -1;                // if not negative, the result of this replacement instead
  };
  std::string op;
  std::vector<Operand> operands;
  std::vector<std::pair<std::string, AttributeValue>> attributes; // in addition to `kept`
  std::vector<const MortiseAttribute *> kept;                     // of the retired op
  const MortiseType *type = nullptr;                              // the last replacement has the retired op's results
};

struct OpRetired {
  Op op;            // the op before it was retired
  uint32_t retired; // the first opset without it, to which the replacements belong
  std::function<std::vector<Replacement>(const MortiseNode &)> replace; // never returns an empty list
};

struct Opset {
  uint32_t newest = 0;
  std::vector<Op> ops; // sorted by name
  std::vector<AttributeAdded> attributesAdded;
  std::vector<ValueAdded> valuesAdded;
  std::vector<OpRetired> opsRetired;

  const Op *find(std::string_view op) const;
  const OpRetired *findRetired(std::string_view op) const;
  // The entry for an attribute that was added after its op; NULL for other attributes.
  const AttributeAdded *added(std::string_view op, std::string_view attribute) const;
};

// The opset of this build: ops from the .td files, changes from changes.cpp.
const Opset &opset();

} // namespace mortise::portable
