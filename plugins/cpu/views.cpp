// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "views.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>

namespace mortise::cpu {

template <typename T> static T valueOf(Result<T> found) {
  if (!found)
    throw std::overflow_error(found.error().message);
  return std::move(*found);
}

int64_t Values::operator()(const Dim &dim) const { return valueOf(dim.evaluate(symbols)); }
std::vector<int64_t> Values::operator()(std::span<const Dim> dims) const { return valueOf(evaluate(dims, symbols)); }
FixedView Values::operator()(const View &view) const { return valueOf(evaluate(view, symbols)); }

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

bool nests(const View &view, const Values &sample, std::span<const SymbolRange> ranges) {
  const std::vector<int64_t> strides = sample(view.strides);
  std::vector<size_t> order;
  for (size_t i = 0; i < view.dims.size(); ++i)
    if (!(view.dims[i] == 1))
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return strides[x] < strides[y]; });
  Dim least = 1;
  for (size_t i : order) {
    if (!(view.strides[i] == least) && bounds(view.strides[i] - least, ranges).low < 0)
      return false;
    std::optional<Dim> next = detail::times(view.strides[i], view.dims[i]);
    if (!next)
      return false;
    least = std::move(*next);
  }
  return true;
}

} // namespace mortise::cpu
