// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates extents over the graph's symbols at run time, once, before the loops.
#include "emit/emitter.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

// Quotients round down. Divisors are positive wherever something is computed, but a divisor that is an extent of 0,
// where nothing is computed, must not trap.
Value Emitter::combineExtents(int32_t op, const Dim &left, Value x, const Dim &right, Value y) {
  switch (op) {
  case MORTISE_EXPR_ADD:
    return c.addI(x, y);
  case MORTISE_EXPR_SUB:
    return c.subI(x, y);
  case MORTISE_EXPR_MUL:
    return c.mulI(x, y);
  case MORTISE_EXPR_MIN:
    return c.two<arith::MinSIOp>(x, y);
  case MORTISE_EXPR_MAX:
    return c.two<arith::MaxSIOp>(x, y);
  default:
    break;
  }
  Value divisor = positive(right), quotient;
  if (plan.space.facts.atLeast(left, 0)) {
    quotient = c.two<arith::DivUIOp>(x, divisor);
  } else {
    quotient = c.two<arith::DivSIOp>(x, divisor);
    Value below = c.compareI(I::slt, c.subI(x, c.mulI(quotient, divisor)), c.i64(0));
    quotient = c.subI(quotient, c.resizeInt(below, b.getI64Type(), false));
  }
  return op == MORTISE_EXPR_FLOORDIV ? quotient : c.subI(x, c.mulI(quotient, divisor));
}

Value Emitter::extent(const Dim &dim) {
  if (auto number = dim.number())
    return c.i64(*number);
  if (auto found = extents.find(dim); found != extents.end())
    return found->second;
  return within(0, [&] {
    SmallVector<std::pair<Dim, Value>> stack;
    for (const MortiseExprStep &step : dim.steps()) {
      Dim part;
      if (step.op == MORTISE_EXPR_CONST) {
        stack.emplace_back(step.value, c.i64(step.value));
        continue;
      }
      Dim right;
      Value y;
      if (step.op == MORTISE_EXPR_SYMBOL) {
        part = Dim::symbol(static_cast<uint32_t>(step.value));
      } else {
        std::tie(right, y) = stack.pop_back_val();
        const Dim &left = stack.back().first;
        part = step.op == MORTISE_EXPR_ADD        ? left + right
               : step.op == MORTISE_EXPR_SUB      ? left - right
               : step.op == MORTISE_EXPR_MUL      ? left * right
               : step.op == MORTISE_EXPR_FLOORDIV ? floorDiv(left, right)
               : step.op == MORTISE_EXPR_MOD      ? mod(left, right)
               : step.op == MORTISE_EXPR_MIN      ? min(left, right)
                                                  : max(left, right);
      }
      Value &known = extents[part];
      if (!known && step.op == MORTISE_EXPR_SYMBOL)
        known = symbol(static_cast<uint32_t>(step.value));
      else if (!known)
        known = combineExtents(step.op, stack.back().first, stack.back().second, right, y);
      if (step.op != MORTISE_EXPR_SYMBOL)
        stack.pop_back();
      stack.emplace_back(part, known);
    }
    return extents[dim] = stack.back().second;
  });
}

Value Emitter::positive(const Dim &dim) {
  return plan.space.facts.atLeast(dim, 1) ? extent(dim) : extent(max(dim, Dim(1)));
}

// The extent with the integer type of `shape`: a scalar or a vector.
Value Emitter::extentLike(Value shape, const Dim &dim) {
  if (auto number = dim.number())
    return c.integer(shape.getType(), *number);
  return Code::isVector(shape) ? repeatedExtent(dim, Code::element(shape))
                               : c.resizeInt(extent(dim), shape.getType(), true);
}

Value Emitter::repeatedExtent(const Dim &dim, Type element) {
  Value &known = repeatedExtents[{dim, element.getAsOpaquePointer()}];
  if (!known) {
    Value scalar = extent(dim);
    known = within(0, [&] { return c.splat(c.resizeInt(scalar, element, true)); });
  }
  return known;
}

// The vector 0, step, 2 * step, ...
Value Emitter::stepsOf(Type element, const Dim &step) {
  if (auto number = step.number())
    return c.steps(element, *number);
  Value &known = extentSteps[{step, element.getAsOpaquePointer()}];
  if (!known) {
    Value repeated = repeatedExtent(step, element);
    known = within(0, [&] { return c.mulI(repeated, c.steps(element, 1)); });
  }
  return known;
}

// floor(a / d), computed as floor((a + 1/2) * (1 / d)). The exact value is at least 1 / (2 d) away from an integer,
// which is more than the three roundings of f64 can move it while a + d is below 2^50. No memory is that large.
Value Emitter::laneQuotient(Value argument, const Dim &divisor) {
  Type real = b.getF64Type();
  Value &inverse = inverses[{divisor, real.getAsOpaquePointer()}];
  if (!inverse) {
    Value whole = positive(divisor);
    inverse = within(0, [&] {
      Value number = arith::SIToFPOp::create(b, c.loc, real, whole);
      return c.splat(c.div(c.constant(real, 1), number));
    });
  }
  Value number = arith::SIToFPOp::create(b, c.loc, c.like(argument, real), argument);
  Value quotient = c.one<math::FloorOp>(c.mul(c.add(number, 0.5), inverse));
  return arith::FPToSIOp::create(b, c.loc, argument.getType(), quotient);
}

} // namespace mortise::codegen
