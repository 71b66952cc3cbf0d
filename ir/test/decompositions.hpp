// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// interpret(op) == interpret(decompose(op)) for every composite op of the dialect: both results, and those of the
// one-level and of the canonicalised decomposition, lie in the range that rounding explains (ranges.hpp), with NaN in
// the same places.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mortise::test {

// One composite at one set of attributes. `arguments` and `op` are MLIR text, in which "{2*b, 8}" is a tensor type of
// the case's element type, "{b, 8:i64}" one of another ("wide": f32, f64 when the case is of f64), and "[[b, 8]]" an
// attribute of extents; b and s are symbols. The name of an argument selects its values, see fill in
// decompositions.cpp.
struct Case {
  std::string composite, arguments, op, results;
  std::vector<std::string> elements = {"f64", "f32", "f16", "bf16"};
  bool exact = false;                       // results must be equal bit by bit
  std::vector<std::pair<int, int>> extents; // values of b and s; empty: the default list
};
const std::vector<Case> &cases();

// The names of all composites of the dialect.
std::vector<std::string> composites();
// Element types that a composite accepts in its cases but that no case lists, as "top_k of i1".
std::vector<std::string> untried();

struct Outcome {
  int passed = 0, failed = 0;
  long elements = 0;  // elements compared
  long open = 0;      // elements whose range allows both infinity and finite numbers, or both NaN and numbers
  long differing = 0; // open elements for which exactly one side gave a number
  long tight = 0;     // elements whose range is at most 8 units in the last place of the element type
  std::vector<std::string> failures;
  void add(const Outcome &other);
};

// The kinds of numbers that float inputs are filled with.
const std::vector<std::string> &kinds(); // random nan infinity zero subnormal extreme mixed

// Runs every shape of the case, `rounds` times with each of these kinds of values.
Outcome runCase(const Case &test, const std::string &element, const std::vector<std::string> &kinds, int rounds);
// Compares decomposing the symbolic op and then specialising with specialising first and then decomposing.
Outcome runSymbolic(const Case &test, const std::string &element);
// As runCase, but compares with the decomposition of `other`, and so must fail where the two ops differ.
Outcome runAgainst(const Case &test, const Case &other, const std::string &element);

} // namespace mortise::test
