// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Error bounds: how far rounding may move a device's result from that of the reference interpreter. All C++ tests take
// their bounds from here. docs/conformance/error-bounds.md derives them; frontend/torch/test/error_bounds.py implements
// the same method in Python.
#pragma once

#include <mortise/graph.hpp>

#include <cmath>
#include <span>
#include <vector>

namespace mortise::conformance {

// A result must be within `confidence` standard errors, estimated from `measuredRuns` runs, plus `comparisonUlps` units
// in the last place (ULP): half a ULP for each side's last rounding, doubled for ties that round differently.
inline constexpr double confidence = 8;
inline constexpr int measuredRuns = 16;
inline constexpr double comparisonUlps = 2;

// Of a float dtype: bits of the significand, exponent of the smallest normal number.
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
// Half the distance from 1 to the next larger number.
inline double unitRoundoff(int32_t dtype) { return std::ldexp(1.0, -precisionOf(dtype).bits); }
// The distance between neighbouring numbers of `dtype` at `value`.
inline double ulp(double value, int32_t dtype) {
  const Precision precision = precisionOf(dtype);
  int exponent = precision.lowest; // of zeros
  if (value != 0)
    std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, precision.lowest) - (precision.bits - 1));
}
// The largest finite number of an IEEE 754 dtype.
inline double largestFinite(int32_t dtype) {
  const Precision precision = precisionOf(dtype);
  return std::ldexp(2 - std::ldexp(1.0, 1 - precision.bits), 1 - precision.lowest);
}
// The unit roundoff of the accumulator for sums of this dtype: f32, or f64 for f64.
inline double accumulatorRoundoff(int32_t dtype) {
  return unitRoundoff(dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32);
}

// The number of terms that a device adds for one element of the node's results; 1 for an op that does not add. Static
// shapes only.
int64_t sumLength(const MortiseNode &node);

// The standard error of each element of each output; empty for outputs that are not floats. The graph runs once
// unchanged and `measuredRuns` times with random noise added to each op's results: as much as one rounding to the dtype
// and the roundings of an accumulator may cause. The standard error is infinite for an element that is finite in some
// runs and not in others, or whose NaN or infinity differs between runs. Deterministic. Errors are those of the
// interpreter.
Result<std::vector<std::vector<double>>> standardErrors(const MortiseGraph &graph, std::span<const void *const> inputs);

// The largest permitted distance of a result from `expected`.
inline double allowed(double standardError, double expected, int32_t dtype) {
  return confidence * standardError + comparisonUlps * ulp(expected, dtype);
}

// What is wrong with a result: the first elements that are further from `want` than is allowed, and how many there are;
// "" when there is none. Both are dense. NaN has to be where it is in `want`. `errors`: the standard error of each
// element; without it elements have to be equal.
std::string differences(const MortiseType &type, std::span<const std::byte> got, std::span<const std::byte> want,
                        std::span<const double> errors = {});

// Compares the outputs of one run of a graph. The standard errors are measured once, and only where a float differs.
class Judge {
public:
  // Both outlive the judge. `inputs`: as they were before the run.
  Judge(const MortiseGraph &graph, std::span<const void *const> inputs) : graph(graph), inputs(inputs) {}
  // differences() of one output. Errors are those of the interpreter.
  Result<std::string> differences(size_t output, std::span<const std::byte> got, std::span<const std::byte> want);

private:
  const MortiseGraph &graph;
  std::span<const void *const> inputs;
  std::vector<std::vector<double>> errors;
};

} // namespace mortise::conformance
