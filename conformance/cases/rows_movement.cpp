// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creation and movement of elements.
#include "rows.hpp"

#include <algorithm>
#include <numeric>

namespace mortise::conformance {
namespace {

void constant(Draft &draft) {
  if (draft.point.dynamic)
    return draft.skip("a literal is static");
  const Dims dims = draft.extents(0, 6, 2, 64);
  const MortiseType *type = draft.builder.type(draft.point.dtype, dims);
  std::mt19937_64 random(seedOf(static_cast<uint64_t>(draft.pick(0, 1 << 30)), "literal"));
  const auto bytes = filled(*type, {}, draft.point.values, Combines::Nothing, random);
  std::vector<uint8_t> literal(bytes.size());
  std::ranges::transform(bytes, literal.begin(), [](std::byte byte) { return static_cast<uint8_t>(byte); });
  draft.node({}, {{draft.point.dtype, dims}}, {test::tensor("value", type, std::move(literal))});
}

void iota(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  const int64_t axis = draft.point.variant ? lastAxis(dims) : 0;
  draft.node({}, {{draft.point.dtype, dims}},
             {integer("axis", axis), string("dtype", dtypeName(draft.point.dtype)), integers("shape", dims)});
}

void extents(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  draft.node({}, {{MORTISE_I64, {static_cast<int64_t>(dims.size())}}}, {integers("shape", dims)});
}

// flat; merged: the first two dimensions become one; split: a dimension of 1 is put between all.
void reshape(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  Dims to;
  if (draft.point.variant == 0) {
    to = {product(dims)};
  } else if (draft.point.variant == 1) {
    if (dims.size() < 2)
      return draft.skip("there are not two dimensions to merge");
    to = without(dims, 0);
    to[0] *= dims[0];
  } else {
    for (const int64_t dim : dims)
      to.insert(to.end(), {dim, 1});
  }
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, to}}, {integers("shape", to)});
}

void transpose(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  std::vector<int64_t> permutation(dims.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (draft.point.variant == 0)
    std::ranges::reverse(permutation);
  else if (permutation.size() > 1)
    std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  Dims to;
  for (const int64_t axis : permutation)
    to.push_back(dims[static_cast<size_t>(axis)]);
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, to}},
             {integers("permutation", permutation)});
}

// rows, columns: the first or the last dimension is repeated; new: a dimension is put in front; all: a scalar is
// repeated.
void broadcast(Draft &draft) {
  const Dims to = draft.extents(1, 6);
  Dims from = to;
  std::vector<int64_t> axes(to.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (draft.point.variant == 0)
    from.front() = 1;
  else if (draft.point.variant == 1)
    from.back() = 1;
  else if (draft.point.variant == 2) {
    from.erase(from.begin());
    axes.erase(axes.begin());
  } else {
    from.clear();
    axes.clear();
  }
  draft.node({draft.input(draft.point.dtype, from)}, {{draft.point.dtype, to}},
             {integers("axes", axes), integers("shape", to)});
}

// front, back: half of each dimension; steps: every second element; nothing: an empty slice.
void slice(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  std::vector<int64_t> starts, limits, strides;
  Dims to;
  for (const int64_t dim : dims) {
    const int variant = draft.point.variant;
    starts.push_back(variant == 1 ? dim / 2 : variant == 2 ? std::min<int64_t>(1, dim) : 0);
    limits.push_back(variant == 0 ? (dim + 1) / 2 : variant == 3 ? 0 : dim);
    strides.push_back(variant == 2 ? 2 : 1);
    to.push_back((limits.back() - starts.back() + strides.back() - 1) / strides.back());
  }
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, to}},
             {integers("limits", limits), integers("starts", starts), integers("strides", strides)});
}

// first, last: three operands of different extents along this axis; one: a single operand.
void concatenate(Draft &draft) {
  const Dims dims = draft.extents(1, 6, 2, 10000);
  const auto axis = static_cast<size_t>(draft.point.variant == 1 ? lastAxis(dims) : 0);
  std::vector<const MortiseValue *> operands;
  Dims to = dims;
  to[axis] = 0;
  for (int64_t i = 0; i < (draft.point.variant == 2 ? 1 : 3); ++i) {
    Dims part = dims;
    part[axis] += draft.point.shape == Shape::One || draft.point.shape == Shape::Zero ? 0 : i;
    to[axis] += part[axis];
    operands.push_back(draft.operand(draft.point.dtype, part));
  }
  draft.node(operands, {{draft.point.dtype, to}}, {integer("axis", static_cast<int64_t>(axis))});
}

// around: low and high; inside: between neighbours; less: negative amounts.
void pad(Draft &draft) {
  const Dims dims = draft.extents(0, 6, 2, 15000);
  std::vector<int64_t> low, high, interior;
  Dims to;
  for (const int64_t dim : dims) {
    const int variant = draft.point.variant;
    low.push_back(variant == 0 ? 1 : variant == 2 ? -(dim / 3) : 0);
    high.push_back(variant == 0 ? 2 : variant == 2 ? -(dim / 4) : 0);
    interior.push_back(variant == 1 ? 1 : 0);
    to.push_back(dim + std::max<int64_t>(dim - 1, 0) * interior.back() + low.back() + high.back());
  }
  const auto *operand = draft.operand(draft.point.dtype, dims);
  draft.node({operand, draft.input(draft.point.dtype, {})}, {{draft.point.dtype, to}},
             {integers("high", high), integers("interior", interior), integers("low", low)});
}

void reverse(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i <= lastAxis(dims); ++i)
    if (draft.point.variant == 0 || (draft.point.variant == 1 ? i == lastAxis(dims) : i == 0))
      axes.push_back(i);
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}}, {integers("axes", axes)});
}

} // namespace

std::vector<Row> movementRows() {
  return {{Op::Constant, {""}, constant, -1},
          {Op::Iota, {"first", "last"}, iota, -1},
          {Op::Extents, {""}, extents, -1},
          {Op::Reshape, {"flat", "merged", "split"}, reshape},
          {Op::Transpose, {"reversed", "last-two"}, transpose},
          {Op::Broadcast, {"rows", "columns", "new", "all"}, broadcast},
          {Op::Slice, {"front", "back", "steps", "nothing"}, slice},
          {Op::Concatenate, {"first", "last", "one"}, concatenate},
          {Op::Pad, {"around", "inside", "less"}, pad},
          {Op::Reverse, {"all", "last", "first"}, reverse}};
}

} // namespace mortise::conformance
