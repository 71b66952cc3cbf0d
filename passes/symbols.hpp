// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the dispatcher and the plan writer ask about a graph's symbols. Links no LLVM.
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace mortise::passes {

// Bytes of a dense tensor for these values; 0 where they give no size.
double bytesAt(const MortiseType &type, std::span<const int64_t> values);

bool equalTypes(const MortiseType &a, const MortiseType &b, size_t symbolCount);
bool equalBytes(const MortiseType &a, const MortiseType &b, size_t symbolCount); // for all values of the symbols

struct SymbolSource {
  uint32_t input, dimension;
};
// Where a call finds each symbol's value: an input's extent that is just the symbol. Errors: MORTISE_INVALID_ARGUMENT
// (a symbol without one; a constant input with symbolic extents).
Result<std::vector<SymbolSource>> symbolSources(const MortiseGraph &graph);

} // namespace mortise::passes
