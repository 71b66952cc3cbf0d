// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, running reductions and sorting.
#include "rows.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

// Whether there is no such case, because the variant "first" of so few dimensions is "last": what runs along other
// memory would be tried with fewer values.
bool isRepeated(Draft &draft, const Dims &dims, bool isFirst) {
  if (!isFirst || dims.size() > 1)
    return false;
  draft.skip("the first dimension is the last");
  return true;
}

// last, first: along one axis; all; none: the result is the operand.
void reduce(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  if (isRepeated(draft, dims, draft.point.variant == 1))
    return;
  std::vector<int64_t> axes;
  Dims to;
  for (int64_t i = 0; i <= lastAxis(dims); ++i) {
    const int variant = draft.point.variant;
    const bool gone = variant == 0 ? i == lastAxis(dims) : variant == 1 ? i == 0 : variant == 2;
    if (gone)
      axes.push_back(i);
    else
      to.push_back(dims[static_cast<size_t>(i)]);
  }
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, to}}, {integers("axes", axes)});
}

// The variants "last" and "first" take turns.
bool isFirst(const Draft &draft) { return draft.point.variant % 2; }
int64_t axisOf(const Draft &draft, const Dims &dims) { return isFirst(draft) ? 0 : lastAxis(dims); }

void argument(Draft &draft) {
  Dims dims = draft.extents(1, 6);
  if (isRepeated(draft, dims, isFirst(draft)))
    return;
  const int64_t axis = axisOf(draft, dims);
  const Dims to = without(dims, axis);
  if (dims[static_cast<size_t>(axis)] == 0 && product(to) != 0) { // there has to be something to find
    dims[static_cast<size_t>(axis)] = 1;
    if (dims.size() == 1)
      return draft.skip("nothing is the largest of no elements");
    dims[dims.size() - 1 - static_cast<size_t>(axis)] = 0;
  }
  draft.node({draft.operand(draft.point.dtype, dims, repeating)}, {{MORTISE_I64, without(dims, axis)}},
             {integer("axis", axis)});
}

void running(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  if (isRepeated(draft, dims, isFirst(draft)))
    return;
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}},
             {integer("axis", axisOf(draft, dims))});
}

void runningWithIndices(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  if (isRepeated(draft, dims, isFirst(draft)))
    return;
  draft.node({draft.operand(draft.point.dtype, dims, repeating)}, {{draft.point.dtype, dims}, {MORTISE_I64, dims}},
             {integer("axis", axisOf(draft, dims))});
}

void sort(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  if (isRepeated(draft, dims, isFirst(draft)))
    return;
  const int variant = draft.point.variant; // up-last, up-first, down-last, down-first
  draft.node({draft.operand(draft.point.dtype, dims, repeating)}, {{draft.point.dtype, dims}, {MORTISE_I64, dims}},
             {integer("axis", axisOf(draft, dims)), flag("descending", variant >= 2), flag("stable", true)});
}

void topK(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  if (isRepeated(draft, dims, isFirst(draft)))
    return;
  const int64_t axis = axisOf(draft, dims);
  const int variant = draft.point.variant; // most-last, most-first, least-last, least-first
  Dims to = dims;
  int64_t &k = to[static_cast<size_t>(axis)];
  k = (k + 1) / 2;
  draft.node({draft.operand(draft.point.dtype, dims, repeating)}, {{draft.point.dtype, to}, {MORTISE_I64, to}},
             {integer("axis", axis), integer("k", k), flag("largest", variant < 2), flag("sorted", true)});
}

} // namespace

std::vector<Row> reductionRows() {
  std::vector<Row> rows;
  for (const Op op : {Op::ReduceSum, Op::ReduceProd, Op::ReduceMax, Op::ReduceMin, Op::Mean})
    rows.push_back({op, {"last", "first", "all", "none"}, reduce});
  for (const Op op : {Op::Argmax, Op::Argmin})
    rows.push_back({op, {"last", "first"}, argument});
  for (const Op op : {Op::Cumsum, Op::Cumprod, Op::Cumlogsumexp})
    rows.push_back({op, {"last", "first"}, running});
  for (const Op op : {Op::Cummax, Op::Cummin})
    rows.push_back({op, {"last", "first"}, runningWithIndices});
  rows.push_back({Op::Sort, {"up-last", "up-first", "down-last", "down-first"}, sort});
  rows.push_back({Op::TopK, {"most-last", "most-first", "least-last", "least-first"}, topK});
  return rows;
}

} // namespace mortise::conformance
