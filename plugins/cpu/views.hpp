// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strided views as products and convolutions need them: reshaped, inverted, and split into axes. Decisions are made on
// views whose extents are expressions; library calls are made from views whose symbols have their values.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/dim.hpp>
#include <mortise/graph.hpp>

namespace mortise::cpu {

using codegen::View;
using mortise::elementCount;

// A view in numbers.
struct FixedView {
  uint32_t base = 0;
  int64_t offset = 0;
  std::vector<int64_t> dims, strides;
};

// One value per symbol. Throws where an expression has no value: the extents of a graph are checked before.
struct Values {
  std::vector<int64_t> symbols;
  int64_t operator()(const Dim &dim) const;
  std::vector<int64_t> operator()(std::span<const Dim> dims) const;
  FixedView operator()(const View &view) const;
};

// sample.cpp: typical values of a graph's symbols, near 64, within their ranges, for which the guards hold and every
// extent is one. Where none are found, the nearest: the caller has to look at the extents.
Values sampleOf(const MortiseGraph &graph);

// The same elements under other extents; nullopt when that needs a copy.
std::optional<View> reshapeView(const View &view, std::span<const Dim> dims);
std::optional<FixedView> reshapeView(const FixedView &view, std::span<const int64_t> dims);

// Row-major strides of `dims`.
std::vector<int64_t> denseStrides(std::span<const int64_t> dims);

// The view of a node's operand, which has the extents `dims`, inside the memory of its result, for transpose and
// reshape: the inverse of viewThrough.
std::optional<View> viewBack(const MortiseNode &node, const View &result, std::span<const Dim> dims);

// Row-major without gaps, from offset 0.
bool isDense(const View &view);
bool isDense(const FixedView &view);

Dim elementCount(std::span<const Dim> dims);
int64_t elementCount(std::span<const int64_t> dims);

// One dimension of a product, with its strides in lhs (a), rhs (b) and result (c).
template <typename Number> struct BasicAxis {
  Number extent = 1, a = 0, b = 0, c = 0;
};
using Axis = BasicAxis<int64_t>;
using SymbolicAxis = BasicAxis<Dim>;

// Drops extents of 1, orders by result (then rhs) stride, and merges axes that are contiguous in all three. `sample`
// orders symbolic axes; what merges does so for all values.
std::vector<Axis> mergeAxes(std::vector<Axis> axes);
std::vector<SymbolicAxis> mergeAxes(std::vector<SymbolicAxis> axes, const Values &sample);

} // namespace mortise::cpu
