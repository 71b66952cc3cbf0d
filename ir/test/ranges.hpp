// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rounding error by interval analysis: runs a graph of core ops on ranges and widens each op's range by its rounding.
// The exact result, and the result of any evaluation that rounds after none, some or all of the ops, lie in the range.
// The range therefore bounds the difference of two such evaluations for each element, cancellation included, and no
// tolerance has to be chosen.
//
// A range allows for: each result rounded to its element type, or not; sums in f64 in any order; functions within 2^-50
// of their value; float literals within one unit in the last place, since 1 / n and sqrt(2) are rounded.
#pragma once

#include <mortise/portable/graph.hpp>

#include <span>
#include <string>
#include <vector>

namespace mortise::test {

struct Range {
  enum Nan : uint8_t { never, maybe, always };
  long double low = 0, high = 0; // holds every i64 exactly; meaningless when `nan` is always
  Nan nan = never;

  static Range of(long double value);
  bool isPoint() const { return nan == always || (nan == never && low == high); }
  // Whether an evaluation may give `value`.
  bool allows(double value) const;
  // Whether infinity and finite numbers are both allowed, or NaN and numbers.
  bool isOpen() const;
};
using Ranges = std::vector<Range>; // the elements of a tensor, row-major

// The ranges of the graph's outputs, for these inputs. Errors: MORTISE_UNSUPPORTED (an op without a rule here).
Result<std::vector<Ranges>> enclose(const MortiseGraph &graph, const std::vector<Ranges> &inputs);

// Convert between the interpreter's buffers (i4 packed) and numbers.
std::vector<long double> decode(const MortiseType &type, const void *bytes);
std::vector<char> encode(const MortiseType &type, std::span<const long double> values);

using Buffers = std::vector<std::vector<char>>;
// The graph's outputs, computed by the reference interpreter.
Result<Buffers> interpret(const MortiseGraph &graph, const Buffers &inputs);

} // namespace mortise::test
