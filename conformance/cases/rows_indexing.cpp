// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

// Of i64 and i32 in turn.
int32_t indexType(const Draft &draft) { return draft.point.number % 2 ? MORTISE_I64 : MORTISE_I32; }

// Indices that count from both ends, and in the class of extremes some that are out of range: reads clamp them, and
// writes drop them.
Fill indices(const Draft &draft, int64_t extent) {
  const int64_t beyond = draft.is(Values::Extreme) ? 2 : 0;
  return between(-extent - beyond, std::max<int64_t>(extent, 1) - 1 + beyond);
}

// What reads has to find something.
Dims filledAlong(Dims dims, size_t axis) {
  dims[axis] = std::max<int64_t>(dims[axis], 1);
  return dims;
}

void take(Draft &draft) {
  Dims dims = draft.extents(1, 5);
  const auto axis = static_cast<size_t>(draft.point.variant == 1 ? lastAxis(dims) : 0);
  dims = filledAlong(std::move(dims), axis);
  const Dims chosen = draft.point.variant == 2 ? Dims{2, 3} : Dims{draft.pick(1, 9, 576)}; // many: indices of rank 2
  Dims to(dims.begin(), dims.begin() + static_cast<int64_t>(axis));
  to.insert(to.end(), chosen.begin(), chosen.end());
  to.insert(to.end(), dims.begin() + static_cast<int64_t>(axis) + 1, dims.end());
  const auto *operand = draft.operand(draft.point.dtype, dims);
  const auto *where = draft.input(indexType(draft), chosen, indices(draft, dims[axis]));
  draft.node({operand, where}, {{draft.point.dtype, to}}, {integer("axis", static_cast<int64_t>(axis))});
}

void embedding(Draft &draft) {
  const Dims dims = filledAlong(draft.extents(1, 4), 0);
  Dims to = {2, draft.pick(1, 9, 288)};
  const auto *table = draft.operand(draft.point.dtype, dims);
  const auto *where = draft.input(indexType(draft), to, indices(draft, dims[0]));
  to.insert(to.end(), dims.begin() + 1, dims.end());
  draft.node({table, where}, {{draft.point.dtype, to}});
}

void takeAlong(Draft &draft) {
  Dims dims = draft.extents(1, 6);
  const auto axis = static_cast<size_t>(draft.point.variant ? 0 : lastAxis(dims));
  dims = filledAlong(std::move(dims), axis);
  Dims to = dims;
  to[axis] = draft.pick(1, 9, 576);
  const auto *operand = draft.operand(draft.point.dtype, dims);
  const auto *where = draft.input(indexType(draft), to, indices(draft, dims[axis]));
  draft.node({operand, where}, {{draft.point.dtype, to}}, {integer("axis", static_cast<int64_t>(axis))});
}

// The extents that coordinates in the last dimension of an index tensor address have to hold something; indices of all
// of them lie in the range of the shortest.
int64_t addressed(const Dims &dims, size_t count) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < count; ++i)
    least = std::min(least, dims[i]);
  return least;
}

void takeNd(Draft &draft) {
  Dims dims = draft.extents(1, 6);
  const size_t k = draft.point.variant == 0 ? 1 : dims.size(); // one, all
  for (size_t i = 0; i < k; ++i)
    dims = filledAlong(std::move(dims), i);
  const int64_t rows = draft.pick(1, 9, 576);
  Dims to = {rows};
  to.insert(to.end(), dims.begin() + static_cast<int64_t>(k), dims.end());
  const auto *operand = draft.operand(draft.point.dtype, dims);
  const auto *where =
      draft.input(indexType(draft), {rows, static_cast<int64_t>(k)}, indices(draft, addressed(dims, k)));
  draft.node({operand, where}, {{draft.point.dtype, to}});
}

constexpr const char *modes[] = {"set", "add", "mul", "max", "min"};

void put(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  const auto axis = static_cast<size_t>(draft.point.variant >= 2 ? lastAxis(dims) : 0); // set, add; set-last, add-last
  Dims updates = dims;
  updates[axis] = draft.pick(1, 5, 512);
  const auto *operand = draft.operand(draft.point.dtype, dims);
  const auto *where = draft.input(indexType(draft), {updates[axis]}, indices(draft, dims[axis]));
  draft.node({operand, where, draft.operand(draft.point.dtype, updates)}, {{draft.point.dtype, dims}},
             {integer("axis", static_cast<int64_t>(axis)), string("mode", modes[draft.point.variant % 2])});
}

void scatterAlong(Draft &draft) {
  const Dims dims = draft.extents(1, 6, 2, 10000);
  const auto axis = static_cast<size_t>(lastAxis(dims));
  Dims updates = dims;
  updates[axis] = draft.pick(1, 9, 256);
  const auto *operand = draft.operand(draft.point.dtype, dims);
  const auto *where = draft.input(indexType(draft), updates, indices(draft, dims[axis]));
  draft.node({operand, where, draft.operand(draft.point.dtype, updates)}, {{draft.point.dtype, dims}},
             {integer("axis", static_cast<int64_t>(axis)), string("mode", modes[draft.point.variant])});
}

void scatterNd(Draft &draft) {
  const Dims dims = draft.extents(1, 6, 2, 10000);
  const int64_t rows = draft.pick(1, 9, 256);
  Dims updates = {rows};
  updates.insert(updates.end(), dims.begin() + 1, dims.end());
  const auto *operand = draft.operand(draft.point.dtype, dims);
  const auto *where = draft.input(indexType(draft), {rows, 1}, indices(draft, dims[0]));
  draft.node({operand, where, draft.operand(draft.point.dtype, updates)}, {{draft.point.dtype, dims}},
             {string("mode", modes[draft.point.variant])});
}

void searchsorted(Draft &draft) {
  const Dims dims = draft.extents(1, 6);
  Dims sequence = {dims.back()}; // one sequence for all; rows: one for each
  if (draft.point.variant >= 2)
    sequence = dims;
  const auto *sorted = draft.input(draft.point.dtype, sequence, {Fill::Ascending});
  draft.node({sorted, draft.operand(draft.point.dtype, dims)}, {{MORTISE_I64, dims}},
             {flag("right", draft.point.variant % 2 != 0)});
}

} // namespace

std::vector<Row> indexingRows() {
  return {{Op::Take, {"first", "last", "many"}, take},
          {Op::Embedding, {""}, embedding},
          {Op::TakeAlong, {"last", "first"}, takeAlong},
          {Op::TakeNd, {"one", "all"}, takeNd},
          {Op::Put, {"set", "add", "set-last", "add-last"}, put},
          {Op::ScatterAlong, {"set", "add", "mul", "max", "min"}, scatterAlong},
          {Op::ScatterNd, {"set", "add", "mul", "max", "min"}, scatterNd},
          {Op::Searchsorted, {"left", "right", "left-rows", "right-rows"}, searchsorted}};
}

} // namespace mortise::conformance
