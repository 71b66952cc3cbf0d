// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Error bounds of single ops in closed form, and the exact results that they are around.
// docs/conformance/error-bounds.md derives them.
#pragma once

#include <mortise/result.hpp>

#include <mortise/graph.hpp>
#include <mortise/ops.hpp>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

namespace mortise::conformance {

// A function that a device approximates is within this many units in the last place of its accumulator's format.
inline constexpr double functionUlps = 4;

// Whether the op's float results may be others than the numbers that it means; false for ops that select, move or turn
// the sign.
inline bool rounds(Op op) {
  constexpr Op others[] = {Op::Abs, Op::Constant, Op::Max, Op::Min, Op::Neg, Op::Relu, Op::Select};
  return !has(op, Trait::Movement) && std::ranges::find(others, op) == std::end(others);
}

// One float output, by element.
struct ExactResult {
  std::vector<double> values; // not rounded to the output's type; f64: rounded once, from 128 bits
  std::vector<double> bounds; // the largest distance of a device's result from `values`
};

// Of a static graph: for outputs that are floats, and the first result of a node, or any of attention in training;
// empty for the others. A node's operands are what the interpreter makes of the nodes before it, rounded to their
// types. Bounds of ops without a closed form are measured (standardErrors). A bound is not finite where rounding alone
// may make an intermediate result infinite, or 0 before it meets an infinity. Errors are those of the interpreter.
Result<std::vector<ExactResult>> exactResults(const MortiseGraph &graph, std::span<const void *const> inputs);

} // namespace mortise::conformance
