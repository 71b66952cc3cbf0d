// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs over symbols, made from static ones.
#pragma once

#include "draft.hpp"

namespace mortise::conformance {

struct Lifted {
  std::shared_ptr<const Graph> graph;
  std::vector<int64_t> values; // of its symbols, in this case
};

// The graph with a symbol in place of each marker. `marked` and `actual` are the same row made with markers, and with
// `numbers` in their places: what is a marker in one and its number in the other is the symbol; what is equal in both
// stays. `mayBeEmpty`: symbols may be 0. Errors: MORTISE_UNSUPPORTED, where the row computes an extent or an attribute
// from an extent. `marked` is changed.
Result<Lifted> lifted(ViewBuilder &marked, const MortiseGraph &actual, std::span<const int64_t> markers,
                      std::span<const int64_t> numbers, bool mayBeEmpty);

} // namespace mortise::conformance
