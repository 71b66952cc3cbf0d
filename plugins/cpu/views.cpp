// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "views.h"

#include <algorithm>
#include <tuple>

namespace mortise::cpu {

std::optional<View> reshapeView(const View &view, std::span<const int64_t> dims) {
  if (std::equal(view.dims.begin(), view.dims.end(), dims.begin(), dims.end()))
    return view;
  // A reshape node that exists only for this question.
  MortiseType type{};
  type.dims = dims.data();
  type.rank = static_cast<int32_t>(dims.size());
  MortiseValue value{};
  value.type = &type;
  const MortiseValue *operands[] = {nullptr}, *results[] = {&value};
  MortiseNode node{};
  node.op = "mortise.reshape";
  node.operands = operands;
  node.operand_count = 1;
  node.results = results;
  node.result_count = 1;
  return codegen::viewThrough(node, view);
}

std::vector<int64_t> denseStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= std::max<int64_t>(dims[i], 1))
    strides[i] = stride;
  return strides;
}

std::optional<View> viewBack(const MortiseNode &node, const View &result) {
  std::span<const int64_t> operandDims = dims(*node.operands[0]->type);
  if (isOp(node, "mortise.reshape"))
    return reshapeView(result, operandDims);
  if (!isOp(node, "mortise.transpose"))
    return std::nullopt;
  View view = result;
  view.dims.assign(operandDims.begin(), operandDims.end());
  std::span<const int64_t> permutation = intsAttribute(node, "permutation");
  for (size_t i = 0; i < permutation.size(); ++i)
    view.strides[permutation[i]] = result.strides[i];
  return view;
}

bool isDense(const View &view) {
  if (view.offset != 0)
    return false;
  std::vector<int64_t> strides = denseStrides(view.dims);
  for (size_t i = 0; i < strides.size(); ++i)
    if (view.dims[i] != 1 && view.strides[i] != strides[i])
      return false;
  return true;
}

std::vector<Axis> mergeAxes(std::vector<Axis> axes) {
  std::erase_if(axes, [](const Axis &axis) { return axis.extent == 1; });
  std::sort(axes.begin(), axes.end(), [](const Axis &x, const Axis &y) {
    return std::tie(x.c, x.b, x.a, x.extent) > std::tie(y.c, y.b, y.a, y.extent);
  });
  std::vector<Axis> merged;
  for (const Axis &axis : axes) {
    if (!merged.empty()) {
      Axis &outer = merged.back();
      if (outer.a == axis.a * axis.extent && outer.b == axis.b * axis.extent && outer.c == axis.c * axis.extent) {
        outer = {outer.extent * axis.extent, axis.a, axis.b, axis.c};
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

} // namespace mortise::cpu
