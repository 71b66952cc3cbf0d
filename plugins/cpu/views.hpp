// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views as products need them: split into axes. The algebra of views is the SDK's (mortise/views.hpp).
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/views.hpp>

namespace mortise::cpu {

// One value per symbol. Throws where an expression has no value: the extents of a graph are checked before.
struct Values {
  std::vector<int64_t> symbols;
  int64_t operator()(const Dim &dim) const;
  std::vector<int64_t> operator()(std::span<const Dim> dims) const;
  FixedView operator()(const View &view) const;
};

inline Values sampleOf(const MortiseGraph &graph) { return {typicalValues(graph)}; }

// One dimension of a product, with its strides in lhs (a), rhs (b) and result (c).
template <typename Number> struct BasicAxis {
  Number extent = 1, a = 0, b = 0, c = 0;
  bool operator==(const BasicAxis &) const = default;
};
using Axis = BasicAxis<int64_t>;
using SymbolicAxis = BasicAxis<Dim>;

// Drops extents of 1, orders by result (then rhs) stride, and merges axes that are contiguous in all three. `sample`
// orders symbolic axes; what merges does so for all values.
std::vector<Axis> mergeAxes(std::vector<Axis> axes);
std::vector<SymbolicAxis> mergeAxes(std::vector<SymbolicAxis> axes, const Values &sample);

// Whether the library can describe the view: sorted by stride, each stride is at least the one before times its extent,
// for all values of the symbols. Not so where elements are repeated, or every second one of an odd number is taken.
bool nests(const View &view, const Values &sample, std::span<const SymbolRange> ranges);

} // namespace mortise::cpu
