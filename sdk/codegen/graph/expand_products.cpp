// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and windows as expressions: sums of products over a space of both operands' dimensions, and index maps.
#include "graph/expansion.hpp"

#include <mortise/codegen/simt.hpp>

#include <algorithm>
#include <limits>

namespace mortise::codegen {

// Whether neighbours along this dimension are neighbours in memory, as far as transposes tell.
bool Expansion::isInnermost(ExprId id, int64_t axis) const {
  while (at(id).op == Op::Transpose) {
    axis = at(id).axes[axis];
    id = at(id).operands[0];
  }
  const bool isView = at(id).op == Op::Input && !at(id).strides.empty(); // supports() knows no memory
  return isView ? at(id).strides[axis] == 1 : axis + 1 == static_cast<int64_t>(at(id).dims.size());
}

// What is left of an operand of a product without factors that are one number for all of it, which are appended to
// `common`. Only what a reduction of the group leads to is such a factor: the scale of a row's norm, so that
// sum(w * (x * f)) becomes f * sum(w * x), and f is computed beside the sum, not before it.
ExprId Expansion::withoutCommon(ExprId id, std::vector<ExprId> &common) {
  const Op op = at(id).op;
  if (!at(id).reductions || (op != Op::Keep && op != Op::Reshape && op != Op::Mul))
    return id;
  const std::vector<ExprId> operands = at(id).operands;
  const size_t before = common.size();
  std::vector<ExprId> left;
  for (const ExprId operand : operands)
    if (op == Op::Mul && at(operand).op == Op::Broadcast && at(operand).reductions &&
        elementCount(at(at(operand).operands[0]).dims) == Dim(1))
      common.push_back(at(operand).operands[0]);
    else
      left.push_back(withoutCommon(operand, common));
  if (left.empty())
    common.resize(before);
  if (common.size() == before)
    return id;
  if (op == Op::Reshape)
    return reshape(left[0], at(id).dims);
  return left.size() == 1 ? left[0] : make(Op::Mul, left); // Keep rounds nothing
}

// A sum of products over the space of the batch dimensions, those of one operand alone, and those that are summed:
// these are the innermost ones where rhs has them so in memory, else they stand before what only rhs has.
ExprId Expansion::product(const std::vector<int64_t> &lhsBatch, const std::vector<int64_t> &rhsBatch,
                          const std::vector<int64_t> &lhsSummed, const std::vector<int64_t> &rhsSummed) {
  dag.product = true;
  std::vector<ExprId> common;
  const bool isSum = !lhsSummed.empty();
  const ExprId lhs = isSum ? withoutCommon(operands[0], common) : operands[0],
               rhs = isSum ? withoutCommon(operands[1], common) : operands[1];
  std::vector<Dim> dims;
  std::vector<int64_t> lhsAxes(at(lhs).dims.size(), -1), rhsAxes(at(rhs).dims.size(), -1), summed;
  const auto place = [&](ExprId operand, std::vector<int64_t> &axes, int64_t axis) {
    axes[axis] = static_cast<int64_t>(dims.size());
    dims.push_back(at(operand).dims[axis]);
  };
  const auto placeRest = [&](ExprId operand, std::vector<int64_t> &axes, const std::vector<int64_t> &others) {
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] < 0 && std::ranges::find(others, static_cast<int64_t>(i)) == others.end())
        place(operand, axes, static_cast<int64_t>(i));
  };
  const auto placeSummed = [&] {
    for (size_t i = 0; i < lhsSummed.size(); ++i) {
      summed.push_back(static_cast<int64_t>(dims.size()));
      rhsAxes[rhsSummed[i]] = static_cast<int64_t>(dims.size());
      place(lhs, lhsAxes, lhsSummed[i]);
    }
  };
  for (size_t i = 0; i < lhsBatch.size(); ++i) {
    rhsAxes[rhsBatch[i]] = static_cast<int64_t>(dims.size());
    place(lhs, lhsAxes, lhsBatch[i]);
  }
  placeRest(lhs, lhsAxes, lhsSummed);
  const bool last = std::ranges::any_of(rhsSummed, [&](int64_t axis) { return isInnermost(rhs, axis); });
  if (!last)
    placeSummed();
  placeRest(rhs, rhsAxes, rhsSummed);
  if (last)
    placeSummed();
  // Plugins rewrite products of converted numbers, whose result is wider than its operands.
  const int32_t dtype = node.results[0]->type->dtype;
  const ExprId products =
      make(Op::Mul, {broadcast(keepAs(lhs, dtype), dims, lhsAxes), broadcast(keepAs(rhs, dtype), dims, rhsAxes)});
  if (summed.empty()) // a sum of one term, which begins at +0
    return make(Op::Add, {products, literal(products, 0.0)});
  ExprId sum = reduce(Op::ReduceSum, products, summed);
  for (const ExprId factor : common)
    sum = make(Op::Mul, {sum, broadcast(keepAs(reshape(factor, {}), dtype), at(sum).dims, {})});
  return sum;
}

ExprId Expansion::linear() {
  const auto rank = static_cast<int64_t>(at(operands[0]).dims.size());
  const bool isTransposed = intAttribute(node, "weight_transposed") != 0; // stored [K, N]
  const ExprId sum = product({}, {}, {rank - 1}, {isTransposed ? 0 : 1});
  return given(2) ? make(Op::Add, {sum, broadcast(operands[2], at(sum).dims, {rank - 1})}) : sum;
}

ExprId Expansion::window(ExprId operand, std::vector<Dim> dims, std::vector<int64_t> axes, std::vector<int64_t> steps) {
  Expr expr;
  expr.op = Op::Window;
  expr.dtype = at(operand).dtype;
  expr.dims = std::move(dims);
  expr.axes = std::move(axes);
  expr.steps = std::move(steps);
  expr.operands = {operand};
  return append(std::move(expr));
}

// With the node's padding along the spatial dimensions, where it has any: the number of the two that fits the dtype.
ExprId Expansion::padded(ExprId x, double real, int64_t integer, size_t firstSpatial) {
  const std::vector<int64_t> low = ints(node, "low"), high = ints(node, "high");
  const auto isZero = [](int64_t pad) { return pad == 0; };
  if (std::ranges::all_of(low, isZero) && std::ranges::all_of(high, isZero))
    return x;
  Expr padding;
  padding.op = Op::Constant;
  padding.dtype = at(x).dtype;
  padding.real = real;
  padding.integer = integer;
  Expr pad;
  pad.op = Op::Pad;
  pad.dtype = at(x).dtype;
  pad.dims = at(x).dims;
  pad.starts.assign(pad.dims.size(), 0);
  pad.steps.assign(pad.dims.size(), 0);
  for (size_t i = 0; i < low.size(); ++i) {
    pad.starts[i + firstSpatial] = low[i];
    pad.dims[i + firstSpatial] += low[i] + high[i];
  }
  pad.operands = {x, append(std::move(padding))};
  return append(std::move(pad));
}

// A sum of products over the space N, groups, O / groups, C / groups, window, positions: the positions stand last,
// because that is how the tensors lie.
ExprId Expansion::convolution(bool &known) {
  if (intAttribute(node, channelsLastAttribute))
    return convolutionOfLast();
  const std::vector<Dim> result = dimsOf(*node.results[0]->type), weights = at(operands[1]).dims;
  const std::vector<int64_t> strides = ints(node, "strides"), dilations = ints(node, "dilations");
  const int64_t groups = intAttribute(node, "groups");
  const auto spatial = static_cast<int64_t>(strides.size());
  const std::optional<int64_t> outputs = result[1].number(), inputs = weights[1].number(); // `inputs`: of a group
  known = groups == 1 || (outputs && inputs);
  if (!known)
    return 0;
  dag.product = true;
  std::vector<Dim> dims{result[0]};
  std::vector<int64_t> xAxes{0, -1}, xSteps{1, 0}, weightAxes, weightSteps;
  if (groups > 1) {
    dims.insert(dims.end(), {groups, *outputs / groups, *inputs});
    xAxes.insert(xAxes.end(), {1, 3}), xSteps.insert(xSteps.end(), {*inputs, 1});
    weightAxes = {1, 2, 3, -1}, weightSteps = {*outputs / groups, 1, 1, 0};
  } else {
    dims.insert(dims.end(), {result[1], weights[1]});
    xAxes.insert(xAxes.end(), {2, -1}), xSteps.insert(xSteps.end(), {1, 0});
    weightAxes = {1, -1, 2, -1}, weightSteps = {1, 0, 1, 0};
  }
  const auto first = static_cast<int64_t>(dims.size()); // of the window
  std::vector<int64_t> summed{first - 1};
  for (int64_t i = 0; i < spatial; ++i) {
    summed.push_back(first + i);
    xAxes.insert(xAxes.end(), {first + spatial + i, first + i}),
        xSteps.insert(xSteps.end(), {strides[i], dilations[i]});
    weightAxes.insert(weightAxes.end(), {first + i, -1}), weightSteps.insert(weightSteps.end(), {1, 0});
  }
  dims.insert(dims.end(), weights.begin() + 2, weights.end());
  dims.insert(dims.end(), result.begin() + 2, result.end());
  const ExprId x = window(padded(operands[0], 0, 0), dims, xAxes, xSteps);
  const ExprId sum =
      reduce(Op::ReduceSum, make(Op::Mul, {x, window(operands[1], dims, weightAxes, weightSteps)}), summed);
  return groups > 1 ? reshape(sum, result) : sum;
}

// Of channels last (channelsLastAttribute), over the space N, positions, O, window, C.
ExprId Expansion::convolutionOfLast() {
  const std::vector<Dim> result = dimsOf(*node.results[0]->type), weights = at(operands[1]).dims;
  const std::vector<int64_t> strides = ints(node, "strides"), dilations = ints(node, "dilations");
  const auto spatial = static_cast<int64_t>(strides.size());
  const int64_t outputs = spatial + 1, inputs = 2 * spatial + 2; // axes of the space
  dag.product = true;
  std::vector<Dim> dims = result;
  dims.insert(dims.end(), weights.begin() + 1, weights.end());
  std::vector<int64_t> xAxes{0, -1}, xSteps{1, 0}, weightAxes{outputs, -1}, weightSteps{1, 0}, summed;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t offset = outputs + 1 + i;
    summed.push_back(offset);
    xAxes.insert(xAxes.end(), {1 + i, offset}), xSteps.insert(xSteps.end(), {strides[i], dilations[i]});
    weightAxes.insert(weightAxes.end(), {offset, -1}), weightSteps.insert(weightSteps.end(), {1, 0});
  }
  summed.push_back(inputs);
  for (auto *axes : {&xAxes, &weightAxes})
    axes->insert(axes->end(), {inputs, -1});
  for (auto *steps : {&xSteps, &weightSteps})
    steps->insert(steps->end(), {1, 0});
  const int32_t dtype = node.results[0]->type->dtype;
  const ExprId x = window(padded(operands[0], 0, 0, 1), dims, xAxes, xSteps),
               weight = window(operands[1], dims, weightAxes, weightSteps);
  return reduce(Op::ReduceSum, make(Op::Mul, {keepAs(x, dtype), keepAs(weight, dtype)}), summed);
}

// A reduction over the space N, C, window, positions.
ExprId Expansion::pool(bool largest) {
  const std::vector<Dim> result = dimsOf(*node.results[0]->type);
  const std::vector<int64_t> extents = ints(node, "window"), strides = ints(node, "strides"),
                             dilations = ints(node, "dilations");
  const auto spatial = static_cast<int64_t>(extents.size());
  std::vector<Dim> dims{result[0], result[1]};
  std::vector<int64_t> axes{0, -1, 1, -1}, steps{1, 0, 1, 0}, summed;
  for (int64_t i = 0; i < spatial; ++i) {
    summed.push_back(2 + i);
    dims.push_back(extents[i]);
    axes.insert(axes.end(), {2 + spatial + i, 2 + i}), steps.insert(steps.end(), {strides[i], dilations[i]});
  }
  dims.insert(dims.end(), result.begin() + 2, result.end());
  const int32_t dtype = at(operands[0]).dtype;
  const size_t bits = std::clamp<size_t>(dtypeBits(dtype), 1, 64); // clang-analyzer takes 0 for possible
  const int64_t least = isUnsigned(dtype) || isFloat(dtype) ? 0 : -1 - (INT64_MAX >> (64 - bits));
  const ExprId x =
      largest ? padded(operands[0], -std::numeric_limits<double>::infinity(), least) : padded(operands[0], 0, 0);
  return reduce(largest ? Op::ReduceMax : Op::ReduceSum, window(x, dims, axes, steps), summed);
}

} // namespace mortise::codegen
