// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, running sums and selections along an axis.
#include "rows.hpp"

#include <cmath>

namespace mortise::onnx {
namespace {

// The axes are an attribute in older opsets and an operand in newer ones. All that are no attribute are constants.
struct Axes {
  Dims axes;
  bool keeps, isNone; // nothing is reduced
};
Axes axesOf(Node &node) {
  const int64_t rank = node[0].rank();
  const bool keeps = node.flag("keepdims", true), noneMeansNone = node.flag("noop_with_empty_axes", false);
  Dims given = node.list("axes", {});
  if (node.has(1))
    given = node.integers(1, "axes");
  if (!given.empty())
    return {node.axes(given, rank), keeps, false};
  return {upTo(rank), keeps, noneMeansNone};
}

template <typename Make> Values reduced(Node &node, const Value &x, Make &&make) {
  const Axes axes = axesOf(node);
  return {axes.isNone ? x : make(axes.axes, axes.keeps)};
}

Values reduce(Emitter &e, Node &node) {
  return reduced(node, node[0],
                 [&](const Dims &axes, bool keeps) { return e.reduce(node.row->op, node[0], axes, keeps); });
}
Values reduceMean(Emitter &e, Node &node) {
  if (!isFloat(node[0].dtype))
    unsupported("element type", node.place() + ": a mean of " + dtypeName(node[0].dtype));
  return reduce(e, node);
}
Values reduceL1(Emitter &e, Node &node) {
  const Value x = e.map("mortise.abs", node[0]);
  return reduced(node, x, [&](const Dims &axes, bool keeps) { return e.sum(x, axes, keeps); });
}
Values reduceSumSquare(Emitter &e, Node &node) {
  const Value x = e.mul(node[0], node[0]);
  return reduced(node, x, [&](const Dims &axes, bool keeps) { return e.sum(x, axes, keeps); });
}
Values reduceL2(Emitter &e, Node &node) { return {e.map("mortise.sqrt", reduceSumSquare(e, node)[0])}; }
Values reduceLogSum(Emitter &e, Node &node) { return {e.map("mortise.log", reduce(e, node)[0])}; }
// The largest element is taken out, so that no exponential overflows; 0 in place of infinities.
Values reduceLogSumExp(Emitter &e, Node &node) {
  const Value &x = node[0];
  const Axes axes = axesOf(node);
  if (axes.isNone)
    return {x};
  const Value most = e.reduce("mortise.reduce_max", x, axes.axes, true);
  const Value isFinite = e.compare("lt", e.map("mortise.abs", most), e.like(x, INFINITY));
  const Value base = e.select(isFinite, most, e.like(x, 0));
  const Value sum = e.sum(e.map("mortise.exp", e.sub(x, base)), axes.axes, axes.keeps);
  return {e.add(e.map("mortise.log", sum), e.reshape(base, sum.dims))};
}

Values arg(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", 0), x.rank());
  const bool keeps = node.flag("keepdims", true), isLast = node.flag("select_last_index", false);
  const auto at = static_cast<size_t>(axis);
  Value found = e.op(node.row->op, {isLast ? e.reverse(x, {axis}) : x}, {{"axis", axis}});
  if (isLast)
    found = e.sub(e.like(found, static_cast<double>(x.dims[at] - 1)), found);
  Dims shape = x.dims;
  shape[at] = 1;
  return {keeps ? e.reshape(found, shape) : found};
}

// Exclusive: an element is the one in front of it, and the first one that of nothing.
Values running(Emitter &e, Node &node) {
  Value x = node[0];
  const int64_t axis = node.axis(node.integer(1, "axis"), x.rank());
  const bool isExclusive = node.flag("exclusive", false), isReverse = node.flag("reverse", false);
  const auto at = static_cast<size_t>(axis);
  if (isReverse)
    x = e.reverse(x, {axis});
  if (isExclusive && x.dims[at] > 0) {
    Dims low(x.dims.size(), 0), high = low;
    low[at] = 1;
    high[at] = -1;
    x = e.pad(x, low, high, e.like(x, node.message.op_type() == "CumProd" ? 1 : 0));
  }
  x = e.op(node.row->op, {x}, {{"axis", axis}});
  return {isReverse ? e.reverse(x, {axis}) : x};
}

Values topK(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", -1), x.rank());
  return e.ops("mortise.top_k", {x},
               {{"k", node.integer(1, "K")},
                {"axis", axis},
                {"largest", node.flag("largest", true)},
                {"sorted", node.flag("sorted", true)}});
}

constexpr Row table[] = {
    {"ArgMax", arg, "mortise.argmax"},
    {"ArgMin", arg, "mortise.argmin"},
    {"CumProd", running, "mortise.cumprod"},
    {"CumSum", running, "mortise.cumsum"},
    {"ReduceL1", reduceL1},
    {"ReduceL2", reduceL2},
    {"ReduceLogSum", reduceLogSum, "mortise.reduce_sum"},
    {"ReduceLogSumExp", reduceLogSumExp},
    {"ReduceMax", reduce, "mortise.reduce_max"},
    {"ReduceMean", reduceMean, "mortise.mean"},
    {"ReduceMin", reduce, "mortise.reduce_min"},
    {"ReduceProd", reduce, "mortise.reduce_prod"},
    {"ReduceSum", reduce, "mortise.reduce_sum"},
    {"ReduceSumSquare", reduceSumSquare},
    {"TopK", topK},
};

} // namespace

std::span<const Row> reductionRows() { return table; }

} // namespace mortise::onnx
