// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// interpret(op) == interpret(decompose(op)) for every composite op of the dialect: both results, and those of one level
// and of the canonicalised decomposition, lie in the range that rounding explains (ranges.hpp), and NaN stands in the
// same places.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mortise::test {

// One composite at one set of attributes. `arguments` and `op` are MLIR text, in which "{2*b, 8}" is a tensor type of
// the case's element type, "{b, 8:i64}" one of another ("wide": f32, f64 when the case is of f64), and "[[b, 8]]" an
// attribute of extents; b and s are symbols. Argument names say what they hold: see fill in decompositions.cpp.
struct Case {
  std::string composite, arguments, op, results;
  std::vector<std::string> elements = {"f64", "f32", "f16", "bf16"};
  bool exact = false;                       // the same bits
  std::vector<std::pair<int, int>> extents; // values of b and s; none: those of all
};
const std::vector<Case> &cases();

// The composites that the dialect registers.
std::vector<std::string> composites();
// Element types that a composite takes in its cases' place of them, and that no case lists: "top_k of i1".
std::vector<std::string> untried();

struct Outcome {
  int passed = 0, failed = 0;
  long elements = 0;  // compared
  long open = 0;      // of them, with infinity beside finite numbers, or NaN beside numbers, in the range
  long differing = 0; // of these, a number from one and none from the other
  long tight = 0;     // of them, numbers whose range is at most 8 last places of the element type
  std::vector<std::string> failures;
  void add(const Outcome &other);
};

// Numbers that a float input is filled with.
const std::vector<std::string> &kinds(); // random nan infinity zero subnormal extreme mixed

// Every shape of the case, `rounds` times with each of these kinds of values.
Outcome runCase(const Case &test, const std::string &element, const std::vector<std::string> &kinds, int rounds);
// Symbolic: decomposed for all values, then specialised, against specialised, then decomposed.
Outcome runSymbolic(const Case &test, const std::string &element);
// The same as runCase, but against the decomposition of `other`: has to fail where the two ops differ.
Outcome runAgainst(const Case &test, const Case &other, const std::string &element);

} // namespace mortise::test
