// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions: their neutral elements, one step, and the combination of partial results and of lanes.
#include "emit/emitter.hpp"

#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

Value Emitter::neutral(const Expr &expr, Type type) {
  int32_t dtype = plan.dag.exprs[expr.operands[0]].dtype;
  bool largest = expr.op == Op::ReduceMax || expr.op == Op::ReduceFastMax || expr.op == Op::Argmax;
  if (isFloat(dtype)) {
    double infinity = std::numeric_limits<double>::infinity();
    double start = expr.op == Op::ReduceSum ? 0 : expr.op == Op::ReduceProd ? 1 : largest ? -infinity : infinity;
    return c.constant(type, start);
  }
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  bool natural = isUnsigned(dtype) || isBool(dtype);
  int64_t least = natural ? 0 : std::numeric_limits<int64_t>::min() >> (64 - width);
  if (expr.op == Op::ReduceSum)
    return c.integer(type, 0);
  if (expr.op == Op::ReduceProd)
    return c.integer(type, 1);
  return c.integer(type, largest ? least : natural ? -1 : ~least);
}

Emitter::Carried Emitter::initial(const Reduction &reduction, bool vector) {
  const Expr &expr = plan.dag.exprs[reduction.expr];
  Type element = c.registerType(plan.dag.exprs[expr.operands[0]].dtype);
  auto shaped = [&](Type type) { return vector && schedule.lanes > 1 ? c.vectorOf(type) : type; };
  Carried parts{neutral(expr, shaped(element))};
  if (isArg(expr.op))
    parts.push_back(c.integer(shaped(plan.space.facts.isNarrow(plan.rowLength) ? b.getI32Type() : b.getI64Type()), 0));
  return parts;
}

Emitter::Carried Emitter::combine(const Expr &expr, Carried x, Carried y, bool isBehind) {
  int32_t dtype = plan.dag.exprs[expr.operands[0]].dtype;
  bool real = isFloat(dtype);
  switch (expr.op) {
  case Op::ReduceSum:
    return {real ? c.add(x[0], y[0]) : c.addI(x[0], y[0])};
  case Op::ReduceProd:
    return {real ? c.mul(x[0], y[0]) : c.mulI(x[0], y[0])};
  case Op::ReduceFastMax:
    return {c.roughMaximum(x[0], y[0])};
  case Op::ReduceMax:
  case Op::ReduceMin:
    return {maximum(x[0], y[0], dtype, expr.op == Op::ReduceMax)};
  default: {
    // y wins where it is larger (argmin: smaller), or equal and earlier. NaN wins against numbers.
    c.match(x[0], y[0]), c.match(x[1], y[1]);
    Value wins = compare(expr.op == Op::Argmax ? Direction::Gt : Direction::Lt, y[0], x[0], dtype);
    Value xNan = real ? c.isNan(x[0]) : Value(), yNan = real ? c.isNan(y[0]) : Value();
    if (real)
      wins = c.orI(wins, c.andI(yNan, c.notI(xNan)));
    if (!isBehind) {
      Value equal = compare(Direction::Eq, y[0], x[0], dtype);
      if (real)
        equal = c.orI(equal, c.andI(yNan, xNan));
      wins = c.orI(wins, c.andI(equal, c.compareI(I::slt, y[1], x[1])));
    }
    return {c.select(wins, y[0], x[0]), c.select(wins, y[1], x[1])};
  }
  }
}

// Combines the lanes by halves.
Emitter::Carried Emitter::across(const Expr &expr, Carried x) {
  for (int64_t width = schedule.lanes / 2; width >= 1; width /= 2) {
    Carried low, high;
    for (Value part : x) {
      low.push_back(c.shuffle(part, 0, width));
      high.push_back(c.shuffle(part, width, width));
    }
    x = combine(expr, low, high);
  }
  Carried result;
  for (Value part : x)
    result.push_back(c.extract(part, 0));
  return result;
}

Emitter::Carried Emitter::first(const Reduction &reduction) {
  const Expr &expr = plan.dag.exprs[reduction.expr];
  Carried element{value(expr.operands[0], reduction.operandAt, 0)};
  if (isArg(expr.op)) {
    const bool narrow = plan.space.facts.isNarrow(plan.rowLength);
    element.push_back(varies(plan.space.loops(plan.rowIndex))
                          ? laneVector(plan.rowIndex, 0, narrow)
                          : c.resizeInt(scalarIndex(plan.rowIndex), narrow ? b.getI32Type() : b.getI64Type(), true));
  }
  return element;
}

Emitter::Carried Emitter::accumulate(const Reduction &reduction, Carried sum) {
  const Expr &expr = plan.dag.exprs[reduction.expr];
  const Expr &operand = plan.dag.exprs[expr.operands[0]];
  Carried next;
  if (expr.op == Op::ReduceSum && operand.op == Op::Mul && isFloat(operand.dtype) &&
      !plan.cached(expr.operands[0], reduction.operandAt)) {
    Value x = value(operand.operands[0], reduction.operandAt, 0),
          y = value(operand.operands[1], reduction.operandAt, 0);
    next = {c.fma(x, y, sum[0])};
  } else {
    next = combine(expr, sum, first(reduction), /*isBehind=*/true);
  }
  if (Value active = uncountedLanes ? uncountedLanes : schedule.laneInside ? tailMask : Value())
    for (size_t i = 0; i < next.size(); ++i)
      next[i] = c.select(active, next[i], sum[i]);
  return next;
}

} // namespace mortise::codegen
