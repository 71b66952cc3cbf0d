// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strided views as products and convolutions need them: reshaped, inverted, and split into axes.
#pragma once

#include <mortise/codegen/Codegen.h>
#include <mortise/graph.hpp>

namespace mortise::cpu {

using codegen::View;

// The same elements under other extents; nullopt when that needs a copy.
std::optional<View> reshapeView(const View &view, std::span<const int64_t> dims);

// Row-major strides of `dims`.
std::vector<int64_t> denseStrides(std::span<const int64_t> dims);

// The view of a node's operand inside the memory of its result, for transpose and reshape: the inverse of viewThrough.
std::optional<View> viewBack(const MortiseNode &node, const View &result);

// Row-major without gaps, from offset 0.
bool isDense(const View &view);

// One dimension of a product, with its strides in lhs (a), rhs (b) and result (c).
struct Axis {
  int64_t extent = 1, a = 0, b = 0, c = 0;
};

// Drops extents of 1, orders by result (then rhs) stride, and merges axes that are contiguous in all three.
std::vector<Axis> mergeAxes(std::vector<Axis> axes);

} // namespace mortise::cpu
