// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the outputs of a case with what is expected.
#pragma once

#include "../cases/case.hpp"

#include <mortise/conformance/op_bounds.hpp>

#include <array>

namespace mortise::conformance {

// Distances from the expected result in units in the last place: 0, up to 1, 2, 4, 8, 16, 64, 1024, and more.
inline constexpr double ulpBounds[] = {0, 1, 2, 4, 8, 16, 64, 1024};
inline constexpr size_t ulpBuckets = std::size(ulpBounds) + 1;
using Histogram = std::array<uint64_t, ulpBuckets>;

struct Distances {
  double worst = 0; // in ULP, of all finite elements
  // The largest share of its bound that an element's distance from the exact result takes; above 1 it is wrong. And the
  // bound of that element in ULP.
  double share = 0, bound = 0;
  Histogram histogram{};
};

class CaseJudge {
public:
  explicit CaseJudge(const Case &of);
  // "" when the output is as expected. Errors are those of the interpreter.
  Result<std::string> compare(size_t output, std::span<const std::byte> found);
  Distances distances;

private:
  template <typename Format> Result<std::string> compareFloats(size_t output, std::span<const std::byte> found);
  Result<void> measure();

  const Case &of;
  std::vector<const void *> inputs;
  std::vector<ExactResult> exact; // by output; made once
};

} // namespace mortise::conformance
