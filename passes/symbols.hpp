// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Questions of placement and the plan writer about a graph's symbols. Links no LLVM.
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace mortise::passes {

// The size in bytes of a dense tensor for these values of the symbols; 0 when an extent cannot be evaluated.
double bytesAt(const MortiseType &type, std::span<const int64_t> values);

// Whether the types, or their sizes in bytes, are equal for all values of the symbols.
bool equalTypes(const MortiseType &a, const MortiseType &b, size_t symbolCount);
bool equalBytes(const MortiseType &a, const MortiseType &b, size_t symbolCount);

struct SymbolSource {
  uint32_t input, dimension;
};
// For each symbol, the input and dimension whose extent is exactly that symbol; a call reads its value there. Errors:
// MORTISE_INVALID_ARGUMENT (a symbol without such a dimension; a constant input with symbolic extents).
Result<std::vector<SymbolSource>> symbolSources(const MortiseGraph &graph);

} // namespace mortise::passes
