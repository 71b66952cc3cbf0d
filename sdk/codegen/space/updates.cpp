// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of updates and of sorts: in which order updates happen, and where each goes.
#include "space/plan.hpp"

#include <mortise/views.hpp>

namespace mortise::codegen {

// Updates that happen in their order leave most threads without work.
void LoopPlan::chooseUpdates(const FuseTarget &target) {
  constexpr double mostInOrder = 64;
  const Expr &root = dag.exprs[dag.roots[0]];
  isPutConsecutive = root.op == Op::Put && findConsecutive(root);
  // A sum of several updates of f16 or bf16 is rounded once, and not behind each of them.
  const bool needsSum = root.mode == UpdateMode::Add && isNarrowFloat(root.dtype);
  sortsUpdates =
      root.op != Op::Put || (target.sorts && !isPutConsecutive && (needsSum || typical(putCount()) > mostInOrder));
}

static std::optional<int> slopeOf(const Expr &expr, std::span<const Expr> exprs,
                                  std::span<const std::optional<int>> slopes) {
  if (elementCount(expr.dims) == Dim(1))
    return 0;
  // In narrower numbers a sum that wraps can come back into the range of positions.
  if (expr.dtype != MORTISE_I32 && expr.dtype != MORTISE_I64)
    return {};
  const auto of = [&](size_t i) { return slopes[expr.operands[i]]; };
  switch (expr.op) {
  case Op::Iota:
    return 1;
  case Op::Extent:
    return 0;
  case Op::Constant:
    return expr.data ? std::nullopt : std::optional(0);
  case Op::Broadcast:
  case Op::Reshape:
    return of(0) == 0 || exprs[expr.operands[0]].dims.size() == 1 ? of(0) : std::nullopt;
  case Op::Convert:
    return of(0);
  case Op::Add:
    return of(0) && of(1) && *of(0) + *of(1) <= 1 ? std::optional(*of(0) + *of(1)) : std::nullopt;
  case Op::Sub:
    return of(1) == 0 ? of(0) : std::nullopt;
  default:
    return {};
  }
}

std::optional<int> LoopPlan::slope(ExprId id) const {
  std::vector<std::optional<int>> slopes; // operands come before their users
  for (ExprId each = 0; each <= id; ++each)
    slopes.push_back(slopeOf(dag.exprs[each], dag.exprs, slopes));
  return slopes[id];
}

// Positions wrap once, where they are negative, so that no more of them than the axis has are all different.
bool LoopPlan::findConsecutive(const Expr &put) const {
  const Dim &extent = put.dims[put.axes[0]], &count = dag.exprs[put.operands[1]].dims[0];
  return put.mode == UpdateMode::Set && space.facts.isNarrow(extent) && space.facts.atLeast(extent, count) &&
         space.facts.atLeast(count, 1) && (count == 1 || slope(put.operands[1]) == 1);
}

Result<void> LoopPlan::placePut() {
  const Expr &put = dag.exprs[dag.roots[0]];
  int64_t axis = put.axes[0];
  putExtent = put.dims[axis];
  TupleId indexAt = space.tuple(std::vector<IndexId>{counters[axis]});
  if (level(put.operands[1], indexAt, 0) < 0 || level(put.operands[2], identityTuple, 0) < 0)
    return Error{MORTISE_UNSUPPORTED, failure};
  putFirstAt = space.tuple(std::vector<IndexId>{space.constant(0)});
  if (isPutConsecutive && level(put.operands[1], putFirstAt, 0) < 0)
    return Error{MORTISE_UNSUPPORTED, failure};
  std::vector<IndexId> at = counters;
  at[axis] = space.loaded(put.operands[1], indexAt, putExtent, false);
  putAddress = space.linearise(at, put.dims);
  at[axis] = space.loop(dims.size(), putExtent);
  putCopyAt = space.tuple(at);
  putCopyAddress = space.linearise(at, put.dims);
  if (level(put.operands[0], putCopyAt, 0) < 0)
    return Error{MORTISE_UNSUPPORTED, failure};
  roots.push_back({dag.roots[0], identityTuple});
  return {};
}

Result<void> LoopPlan::placeScatter() {
  const Expr &update = dag.exprs[dag.roots[0]];
  std::vector<IndexId> updateAt, copyAt, columnAt(update.dims.size(), space.constant(0));
  const std::vector<Dim> strides = denseStrides(std::span<const Dim>(update.dims));
  // What is kept are the last dimensions of the result, or, of a put, all but one.
  for (size_t i = 0; i < dims.size(); ++i)
    if (reduced[i])
      updateAt.push_back(counters[i]);
    else
      columnAt[i + (update.op == Op::Put ? 0 : update.dims.size() - dims.size())] = counters[i];
  for (size_t i = 0; i < update.dims.size(); ++i) {
    const auto number = static_cast<uint32_t>(dims.size() + i);
    scatterCopyLoops.push_back({update.dims[i], false, number, uint64_t(1) << number});
    copyAt.push_back(space.loop(number, update.dims[i]));
  }
  scatterPlaceAt = space.tuple(std::move(updateAt)), scatterCopyAt = space.tuple(std::move(copyAt));
  scatterColumn = space.dot(columnAt, strides);
  for (const auto &[operand, at] : {std::pair{0, scatterCopyAt}, {2, identityTuple}, {3, scatterPlaceAt}})
    if (level(update.operands[static_cast<size_t>(operand)], at, 0) < 0)
      return Error{MORTISE_UNSUPPORTED, failure};
  roots.push_back({dag.roots[0], identityTuple});
  return {};
}

Result<void> LoopPlan::placeSort() {
  if (level(dag.exprs[dag.roots[0]].operands[0], identityTuple, 0) < 0)
    return Error{MORTISE_UNSUPPORTED, failure};
  for (size_t i = 0; i < dag.roots.size(); ++i) {
    Root &root = roots.emplace_back(Root{dag.roots[i], identityTuple});
    root.address = space.dot(counters, dag.rootStrides[i], 0);
  }
  return {};
}

} // namespace mortise::codegen
