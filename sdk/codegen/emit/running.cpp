// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running sums, products, logarithms of sums of exponentials, and extremes.
#include "emit/emitter.hpp"

#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

static constexpr double infinity = std::numeric_limits<double>::infinity();

// A logarithm is the largest element, and the sum of e^(x - largest). An extreme is an element and its position, which
// is -1 where there was none; elements of f16 and bf16 are the bits that they are in memory, since conversions may
// change a NaN.
Emitter::Carried Emitter::startOf(const Expr &running) {
  const Type type = c.registerType(running.dtype);
  const auto number = [&](double value) {
    return isFloat(running.dtype) ? c.constant(type, value) : c.integer(type, static_cast<int64_t>(value));
  };
  Carried start;
  switch (running.op) {
  case Op::Cumsum:
    start = {number(0)};
    break;
  case Op::Cumprod:
    start = {number(1)};
    break;
  case Op::Cumlogsumexp:
    start = {number(-infinity), number(0)};
    break;
  default:
    start = {isNarrowFloat(running.dtype) ? c.integer(b.getI16Type(), 0) : number(0), c.i64(-1)};
  }
  for (Value &each : start)
    each = c.splat(each);
  return start;
}

Emitter::Carried Emitter::elementOf(const Expr &running, TupleId at) {
  Carried element{value(running.operands[0], at, 0)};
  if (runSize(running.op) == 1)
    return element;
  if (running.op == Op::Cumlogsumexp)
    element.push_back(c.constant(element[0].getType(), 1));
  else
    element = {isNarrowFloat(running.dtype) ? c.intBits(c.toMemory(element[0], running.dtype)) : element[0],
               scalarIndex(plan.space.tuple(at)[static_cast<size_t>(running.axes[0])])};
  if (Code::isVector(element[0]))
    element[1] = c.splat(element[1]);
  return element;
}

Emitter::Carried Emitter::combineRuns(const Expr &running, Carried x, Carried y) {
  const bool isReal = isFloat(running.dtype);
  for (size_t i = 0; i < x.size(); ++i)
    c.match(x[i], y[i]);
  switch (running.op) {
  case Op::Cumsum:
    return {isReal ? c.add(x[0], y[0]) : c.addI(x[0], y[0])};
  case Op::Cumprod:
    return {isReal ? c.mul(x[0], y[0]) : c.mulI(x[0], y[0])};
  case Op::Cumlogsumexp: {
    Value largest = maximum(x[0], y[0], running.dtype, true), isFirst = c.compare(P::OEQ, x[0], largest);
    Value other = c.select(isFirst, y[0], x[0]), isEqual = c.compare(P::OEQ, other, largest); // infinities, too
    Value factor = c.exp(c.sub(other, largest));
    factor = c.select(isEqual, c.constant(factor.getType(), 1), factor);
    return {largest, c.add(c.select(isFirst, x[1], y[1]), c.mul(c.select(isFirst, y[1], x[1]), factor))};
  }
  default: {
    // The later one of equals, and a NaN before all others.
    const auto number = [&](Value stored) {
      return isNarrowFloat(running.dtype) ? c.fromMemory(stored, running.dtype) : stored;
    };
    Value before = number(x[0]), later = number(y[0]);
    Value wins = compare(running.op == Op::Cummax ? Direction::Ge : Direction::Le, later, before, running.dtype);
    if (isReal)
      wins = c.orI(c.isNan(later), c.andI(c.notI(c.isNan(before)), wins));
    Value zero = c.integer(x[1].getType(), 0);
    wins = c.andI(c.compareI(I::sge, y[1], zero), c.orI(wins, c.compareI(I::slt, x[1], zero)));
    return {c.select(wins, y[0], x[0]), c.select(wins, y[1], x[1])};
  }
  }
}

Value Emitter::resultOf(const Expr &running, const Carried &run) {
  if (running.op == Op::Cumlogsumexp)
    return c.add(run[0], c.log(run[1]));
  return runSize(running.op) > 1 && isNarrowFloat(running.dtype) ? c.fromMemory(run[0], running.dtype) : run[0];
}

Emitter::Carried Emitter::advance(const Expr &running, Carried &run, Carried element) {
  run = combineRuns(running, run, std::move(element));
  return run;
}

void Emitter::setRuns(const Carried &carried) {
  ArrayRef<Value> left(carried);
  for (const auto &run : plan.runs) {
    const auto size = static_cast<size_t>(runSize(plan.dag.exprs[run.first].op));
    running[run] = Carried(left.take_front(size));
    left = left.drop_front(size);
  }
}

// Computes what has no reader, too.
Emitter::Carried Emitter::takeRuns() {
  Carried carried;
  for (const auto &run : plan.runs) {
    value(run.first, run.second, 0);
    carried.append(running[run]);
  }
  return carried;
}

} // namespace mortise::codegen
