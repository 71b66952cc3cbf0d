// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "views.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>

namespace mortise::cpu {

int64_t Values::operator()(const Dim &dim) const {
  if (std::optional<int64_t> number = dim.number())
    return *number;
  Result<int64_t> found = dim.evaluate(symbols);
  if (!found)
    throw std::overflow_error(found.error().message);
  return *found;
}

std::vector<int64_t> Values::operator()(std::span<const Dim> dims) const {
  std::vector<int64_t> numbers;
  numbers.reserve(dims.size());
  for (const Dim &dim : dims)
    numbers.push_back((*this)(dim));
  return numbers;
}

FixedView Values::operator()(const View &view) const {
  return {view.base, (*this)(view.offset), (*this)(std::span<const Dim>(view.dims)),
          (*this)(std::span<const Dim>(view.strides))};
}

static int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : a / b; }
static Dim quotient(const Dim &a, const Dim &b) { return b == Dim(0) ? Dim(0) : floorDiv(a, b); }

// Splits and merges dimensions block by block; merging needs outer stride = inner stride * inner extent.
template <typename AnyView, typename Number>
static std::optional<AnyView> reshape(const AnyView &view, std::span<const Number> to) {
  if (std::equal(view.dims.begin(), view.dims.end(), to.begin(), to.end()))
    return view;
  const Number one(1);
  std::vector<Number> blocks, steps; // without extents of 1, merged where contiguous
  for (size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == Number(0))
      return std::nullopt;
    if (view.dims[i] == one)
      continue;
    if (!blocks.empty() && steps.back() == view.strides[i] * view.dims[i]) {
      blocks.back() = blocks.back() * view.dims[i];
      steps.back() = view.strides[i];
    } else {
      blocks.push_back(view.dims[i]);
      steps.push_back(view.strides[i]);
    }
  }
  AnyView result = view;
  result.dims.assign(to.begin(), to.end());
  result.strides.assign(to.size(), Number(0));
  size_t block = blocks.size();
  Number left = one, stride(0);
  for (size_t j = to.size(); j-- > 0;) {
    if (to[j] == one)
      continue;
    if (left == one) {
      if (block == 0)
        return std::nullopt;
      --block;
      left = blocks[block];
      stride = steps[block];
    }
    Number rest = quotient(left, to[j]);
    if (!(rest * to[j] == left))
      return std::nullopt;
    result.strides[j] = stride;
    stride = stride * to[j];
    left = rest;
  }
  if (!(left == one) || block != 0)
    return std::nullopt;
  return result;
}

std::optional<View> reshapeView(const View &view, std::span<const Dim> dims) { return reshape(view, dims); }
std::optional<FixedView> reshapeView(const FixedView &view, std::span<const int64_t> dims) {
  return reshape(view, dims);
}

std::vector<int64_t> denseStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= std::max<int64_t>(dims[i], 1))
    strides[i] = stride;
  return strides;
}

std::optional<View> viewBack(const MortiseNode &node, const View &result, std::span<const Dim> dims) {
  if (isOp(node, "mortise.reshape"))
    return reshapeView(result, dims);
  if (!isOp(node, "mortise.transpose"))
    return std::nullopt;
  View view = result;
  view.dims.assign(dims.begin(), dims.end());
  std::span<const int64_t> permutation = intsAttribute(node, "permutation");
  for (size_t i = 0; i < permutation.size(); ++i)
    view.strides[permutation[i]] = result.strides[i];
  return view;
}

template <typename AnyView, typename Number> static bool dense(const AnyView &view, Number stride) {
  if (!(view.offset == Number(0)))
    return false;
  for (size_t i = view.dims.size(); i-- > 0;) {
    if (!(view.dims[i] == Number(1)) && !(view.strides[i] == stride))
      return false;
    if (!(view.dims[i] == Number(0)))
      stride = stride * view.dims[i];
  }
  return true;
}
bool isDense(const View &view) { return dense(view, Dim(1)); }
bool isDense(const FixedView &view) { return dense(view, int64_t(1)); }

Dim elementCount(std::span<const Dim> dims) {
  Dim count(1);
  for (const Dim &dim : dims)
    count *= dim;
  return count;
}
int64_t elementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

template <typename Number> static std::vector<BasicAxis<Number>> merge(const std::vector<BasicAxis<Number>> &axes) {
  std::vector<BasicAxis<Number>> merged;
  for (const BasicAxis<Number> &axis : axes) {
    if (!merged.empty()) {
      BasicAxis<Number> &outer = merged.back();
      if (outer.a == axis.a * axis.extent && outer.b == axis.b * axis.extent && outer.c == axis.c * axis.extent) {
        outer = {outer.extent * axis.extent, axis.a, axis.b, axis.c};
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

std::vector<Axis> mergeAxes(std::vector<Axis> axes) {
  std::erase_if(axes, [](const Axis &axis) { return axis.extent == 1; });
  std::sort(axes.begin(), axes.end(), [](const Axis &x, const Axis &y) {
    return std::tie(x.c, x.b, x.a, x.extent) > std::tie(y.c, y.b, y.a, y.extent);
  });
  return merge(axes);
}

std::vector<SymbolicAxis> mergeAxes(std::vector<SymbolicAxis> axes, const Values &sample) {
  std::erase_if(axes, [](const SymbolicAxis &axis) { return axis.extent == Dim(1); });
  std::vector<std::pair<std::array<int64_t, 4>, size_t>> order;
  for (size_t i = 0; i < axes.size(); ++i)
    order.push_back({{-sample(axes[i].c), -sample(axes[i].b), -sample(axes[i].a), -sample(axes[i].extent)}, i});
  std::sort(order.begin(), order.end());
  std::vector<SymbolicAxis> sorted;
  for (const auto &[key, i] : order)
    sorted.push_back(std::move(axes[i]));
  return merge(sorted);
}

} // namespace mortise::cpu
