// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far rounding may move what a device computes from what the reference interpreter gives: the one place of C++'s
// error bounds. docs/conformance/error-bounds.md derives them; frontend/torch/test/error_bounds.py is Python's copy of
// the method.
#pragma once

#include <mortise/graph.hpp>

#include <cmath>
#include <span>
#include <vector>

namespace mortise::conformance {

// A result is within `confidence` standard errors, of `measuredRuns` measurements, and `comparisonUlps` units in the
// last place: half of one for each side's last rounding, and as much again for a tie that falls the other way.
inline constexpr double confidence = 8;
inline constexpr int measuredRuns = 16;
inline constexpr double comparisonUlps = 2;

// Bits of the significand and the exponent of the smallest normal number; float dtypes only.
struct Precision {
  int bits, lowest;
};
constexpr Precision precisionOf(int32_t dtype) {
  switch (dtype) {
  case MORTISE_F64:
    return {53, -1022};
  case MORTISE_F32:
    return {24, -126};
  case MORTISE_F16:
    return {11, -14};
  case MORTISE_BF16:
    return {8, -126};
  case MORTISE_F8E4M3FN:
    return {4, -6};
  default:
    return {3, -14}; // f8E5M2
  }
}
// Half the distance of 1 to the next larger number.
inline double unitRoundoff(int32_t dtype) { return std::ldexp(1.0, -precisionOf(dtype).bits); }
// The distance of neighbours in `dtype` at `value`.
inline double ulp(double value, int32_t dtype) {
  const Precision precision = precisionOf(dtype);
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, precision.lowest) - (precision.bits - 1));
}
// Of an IEEE 754 dtype.
inline double largestFinite(int32_t dtype) {
  const Precision precision = precisionOf(dtype);
  return std::ldexp(2 - std::ldexp(1.0, 1 - precision.bits), 1 - precision.lowest);
}
// Sums of this dtype add in f32, or wider.
inline double accumulatorRoundoff(int32_t dtype) {
  return unitRoundoff(dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32);
}

// How many terms a device adds for one element of the node's results; 1 for an op that adds nothing. Static shapes.
int64_t sumLength(const MortiseNode &node);

// The standard error of each element of each output: empty for outputs that are not floats. The graph runs once as it
// is and `measuredRuns` times with each op's results moved at random, as much as one rounding of the dtype and the sums
// of an accumulator may move them. An element that is not finite in all runs has an infinite one where the kind
// differs between them. Deterministic. Errors are the interpreter's.
Result<std::vector<std::vector<double>>> standardErrors(const MortiseGraph &graph, std::span<const void *const> inputs);

// How far `found` may be from `expected`.
inline double allowed(double standardError, double expected, int32_t dtype) {
  return confidence * standardError + comparisonUlps * ulp(expected, dtype);
}

} // namespace mortise::conformance
