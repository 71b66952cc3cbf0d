// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A case as it is run: what the plugin is shown, what its inputs hold, and what is expected of its outputs.
#pragma once

#include "table.hpp"

#include <optional>

namespace mortise::conformance {

using Tensors = std::vector<std::vector<std::byte>>; // dense, in the order of a graph's inputs or outputs

// How a result is compared. Bits: as they are, NaNs too. Exact: equal numbers, with the sign of zeros; a NaN has any
// bits. Bounded: within the bound of docs/conformance/error-bounds.md. Signed: Bounded, with the sign of zeros.
enum class Exactness { Bits, Exact, Bounded, Signed };

struct Case {
  std::string id;
  Point point;
  std::shared_ptr<const Graph> graph; // with the strides, flags and aliases of the point's layout
  std::shared_ptr<const Graph> plain; // dense, and without them
  Tensors inputs, expected;
  std::vector<int64_t> symbols;     // their values; empty unless the point is dynamic
  std::vector<Exactness> exactness; // of the outputs
};

// Errors: the row makes something that the op does not allow, which is a fault of the kit.
// `others`: 0, or which other values the same graph gets.
Result<Case> makeCase(const Point &point, uint64_t seed, uint64_t others = 0);

// The case's graph with other values, by which a kernel is judged as well: one that is compiled for few points would
// meet few classes of values otherwise. Where no sum or product hides what became of one element, numbers of the
// classes Random, Zeros and Ties stand beside each other; elsewhere all are Random, or Ties where the point's are
// Random. None of these classes has what a device may be known not to keep, such as NaN and subnormals. Symbols have
// other values, too. `seed`: that of the case. nullopt where the values would change the graph, and for large tensors
// of f64, because what is expected of them takes seconds to compute (MPFR).
Result<std::optional<Case>> makeOther(const Case &made, uint64_t seed);

// Strides of the type in a layout, in elements, and how many elements lie between the first and the last.
std::vector<int64_t> stridesOf(const MortiseType &type, Layout layout);

} // namespace mortise::conformance
