// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The algebra of strided views: the layout of one value in the memory of another, through reshapes, transposes,
// broadcasts and slices, so that a kernel reads and writes in place instead of copying. Extents and strides are
// expressions over the graph's symbols (View), for decisions that hold for all values, or numbers (FixedView), for one
// call. Header only. All functions are pure and may be called from any thread.
//
// Strides count elements. They may be 0 or negative, and elements may overlap (a broadcast, a sliding window);
// functions that need a stricter layout say so. Arithmetic that overflows 63 bits never gives a view: the result is
// nullopt or an error.
#pragma once

#include <mortise/ops.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mortise {

// Element (i0, i1, ...) is at offset + sum(i * stride) in the memory of `base`. `dims` and `strides` have one entry per
// dimension.
template <typename Number> struct BasicView {
  uint32_t base = 0; // MortiseValue::index of a value that has memory of its own
  Number offset = 0;
  std::vector<Number> dims, strides;
  bool operator==(const BasicView &) const = default;
};
using View = BasicView<Dim>;
using FixedView = BasicView<int64_t>;

// Row-major strides of `dims`. An extent of 0 counts as 1, so that the strides of an empty tensor look like those of
// its neighbours. Strides that overflow 63 bits are 0.
inline std::vector<int64_t> denseStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(dims[i], 1), &stride))
      stride = 0;
  }
  return strides;
}
inline std::vector<Dim> denseStrides(std::span<const Dim> dims) {
  std::vector<Dim> strides(dims.size());
  Dim stride(1);
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    if (dims[i] != Dim(0))
      stride *= dims[i];
  }
  return strides;
}

// The view of a value in its own memory: with the strides of its type, or dense.
inline View denseView(const MortiseValue &value) {
  View view{value.index, 0, dimsOf(*value.type), {}};
  if (value.type->strides)
    view.strides = stridesOf(*value.type);
  else
    view.strides = denseStrides(std::span<const Dim>(view.dims));
  return view;
}

// The view for one set of symbol values. Errors: MORTISE_INVALID_ARGUMENT (overflow, division by 0, a symbol without a
// value).
inline Result<FixedView> evaluate(const View &view, std::span<const int64_t> symbols) {
  Result<int64_t> offset = view.offset.evaluate(symbols);
  if (!offset)
    return offset.error();
  Result<std::vector<int64_t>> dims = evaluate(std::span<const Dim>(view.dims), symbols);
  if (!dims)
    return dims.error();
  Result<std::vector<int64_t>> strides = evaluate(std::span<const Dim>(view.strides), symbols);
  if (!strides)
    return strides.error();
  return FixedView{view.base, *offset, std::move(*dims), std::move(*strides)};
}

namespace detail {

inline std::optional<int64_t> times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}
inline std::optional<Dim> times(const Dim &a, const Dim &b) {
  Dim product = a * b;
  return product.isValid() ? std::optional(std::move(product)) : std::nullopt;
}
// a / b, if it is exact for all values of the symbols.
inline std::optional<int64_t> quotient(int64_t a, int64_t b) {
  return b > 0 && a % b == 0 ? std::optional(a / b) : std::nullopt;
}
inline std::optional<Dim> quotient(const Dim &a, const Dim &b) {
  return b != Dim(0) && mod(a, b) == Dim(0) ? std::optional(floorDiv(a, b)) : std::nullopt;
}

template <typename Number> bool isDense(std::span<const Number> dims, std::span<const Number> strides) {
  if (std::find(dims.begin(), dims.end(), Number(0)) != dims.end())
    return true;
  std::optional<Number> stride = Number(1); // nullopt: larger than any stride
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == Number(1))
      continue;
    if (!stride || strides[i] != *stride)
      return false;
    stride = times(*stride, dims[i]);
  }
  return true;
}

// Splits and merges dimensions block by block. `blocks` are the view's dimensions without those of extent 1, merged
// where they are contiguous, that is, where the outer stride is the inner stride times the inner extent.
template <typename Number>
std::optional<BasicView<Number>> reshape(const BasicView<Number> &view, std::span<const Number> to) {
  if (std::equal(view.dims.begin(), view.dims.end(), to.begin(), to.end()))
    return view;
  const Number one(1);
  std::vector<std::pair<Number, Number>> blocks; // extent, stride
  for (size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == Number(0))
      return std::nullopt;
    if (view.dims[i] == one)
      continue;
    const std::optional<Number> outer = times(view.strides[i], view.dims[i]);
    std::optional<Number> extent;
    if (!blocks.empty() && outer && blocks.back().second == *outer)
      extent = times(blocks.back().first, view.dims[i]);
    if (extent)
      blocks.back() = {*extent, view.strides[i]};
    else
      blocks.push_back({view.dims[i], view.strides[i]});
  }
  BasicView<Number> result{view.base, view.offset, {to.begin(), to.end()}, std::vector<Number>(to.size(), Number(0))};
  Number left(1), stride(0); // of the current block
  for (size_t j = to.size(); j-- > 0;) {
    if (to[j] == one)
      continue;
    if (left == one) {
      if (blocks.empty())
        return std::nullopt;
      left = blocks.back().first;
      stride = blocks.back().second;
      blocks.pop_back();
    }
    std::optional<Number> rest = quotient(left, to[j]);
    if (!rest)
      return std::nullopt;
    result.strides[j] = stride;
    left = std::move(*rest);
    if (left == one)
      continue;
    std::optional<Number> next = times(stride, to[j]);
    if (!next)
      return std::nullopt;
    stride = std::move(*next);
  }
  if (left != one || !blocks.empty())
    return std::nullopt;
  return result;
}

} // namespace detail

// Whether the elements are in row-major order without gaps: element n is at position n. Strides of extents of 1 do not
// matter, and an empty tensor is dense.
inline bool isDense(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  return detail::isDense(dims, strides);
}
// The same for a view, which must also start at offset 0 unless it is empty. A View must be dense for all values.
inline bool isDense(const FixedView &view) {
  return detail::isDense<int64_t>(view.dims, view.strides) &&
         (view.offset == 0 || std::find(view.dims.begin(), view.dims.end(), 0) != view.dims.end());
}
inline bool isDense(const View &view) {
  return detail::isDense<Dim>(view.dims, view.strides) &&
         (view.offset == Dim(0) || std::find(view.dims.begin(), view.dims.end(), Dim(0)) != view.dims.end());
}

// The same elements in the same row-major order, with other extents. nullopt when that needs a copy, when the number of
// elements differs or, for a View, when either cannot be proved. An empty view keeps its extents or gives nullopt.
inline std::optional<FixedView> reshapeView(const FixedView &view, std::span<const int64_t> dims) {
  return detail::reshape(view, dims);
}
inline std::optional<View> reshapeView(const View &view, std::span<const Dim> dims) {
  return detail::reshape(view, dims);
}

// The step along a broadcast's operand for one step along the result: 0 for a repeated extent, else 1; min(extent - 1,
// 1) if the operand's extent may be either 1 or the result's.
inline Dim repetition(const Dim &from, const Dim &to) {
  return from == Dim(1) ? Dim(0) : from == to || from.isNumber() ? Dim(1) : min(from - 1, Dim(1));
}

// The view of a node's result in the memory that `operand`, the view of its first operand, refers to: for transpose,
// broadcast, slice and, where strides allow it, reshape. nullopt for other ops, for reshapes that need a copy, and for
// attributes that do not fit the types.
inline std::optional<View> viewThrough(const MortiseNode &node, const View &operand) {
  if (node.operand_count != 1 || node.result_count != 1)
    return std::nullopt;
  View view{operand.base, operand.offset, dimsOf(*node.results[0]->type), {}};
  const size_t rank = view.dims.size(), from = operand.dims.size();
  view.strides.assign(rank, Dim(0));
  const auto isAxis = [](int64_t axis, size_t rank) { return axis >= 0 && static_cast<size_t>(axis) < rank; };
  switch (opOf(node)) {
  case Op::Reshape:
    return reshapeView(operand, view.dims);
  case Op::Transpose: {
    const std::span<const int64_t> permutation = intsAttribute(node, "permutation");
    if (permutation.size() != rank || from != rank)
      return std::nullopt;
    for (size_t i = 0; i < rank; ++i) {
      if (!isAxis(permutation[i], rank))
        return std::nullopt;
      view.strides[i] = operand.strides[static_cast<size_t>(permutation[i])];
    }
    break;
  }
  case Op::Broadcast: {
    const std::span<const int64_t> axes = intsAttribute(node, "axes");
    if (axes.size() != from)
      return std::nullopt;
    for (size_t i = 0; i < from; ++i) {
      if (!isAxis(axes[i], rank))
        return std::nullopt;
      const auto axis = static_cast<size_t>(axes[i]);
      view.strides[axis] = operand.strides[i] * repetition(operand.dims[i], view.dims[axis]);
    }
    break;
  }
  case Op::Slice: {
    const std::vector<Dim> starts = dimsAttribute(node, "starts");
    const std::span<const int64_t> steps = intsAttribute(node, "strides");
    if (starts.size() != rank || steps.size() != rank || from != rank)
      return std::nullopt;
    for (size_t i = 0; i < rank; ++i) {
      view.strides[i] = operand.strides[i] * steps[i];
      view.offset += operand.strides[i] * starts[i];
    }
    break;
  }
  default:
    return std::nullopt;
  }
  const auto isValid = [](const Dim &dim) { return dim.isValid(); };
  if (!view.offset.isValid() || !std::all_of(view.strides.begin(), view.strides.end(), isValid))
    return std::nullopt;
  return view;
}

// The inverse of viewThrough, for transpose and reshape: the view through which the node's operand, which has the
// extents `dims`, must be written so that the node's result has the view `result`.
inline std::optional<View> viewBack(const MortiseNode &node, const View &result, std::span<const Dim> dims) {
  if (isOp(node, Op::Reshape))
    return reshapeView(result, dims);
  const std::span<const int64_t> permutation = intsAttribute(node, "permutation");
  if (!isOp(node, Op::Transpose) || permutation.size() != dims.size() || result.dims.size() != dims.size())
    return std::nullopt;
  View view{result.base, result.offset, {dims.begin(), dims.end()}, std::vector<Dim>(dims.size(), Dim(0))};
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] < 0 || static_cast<size_t>(permutation[i]) >= dims.size())
      return std::nullopt;
    view.strides[static_cast<size_t>(permutation[i])] = result.strides[i];
  }
  return view;
}

} // namespace mortise
