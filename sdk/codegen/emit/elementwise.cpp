// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise ops on registers, with the semantics of ir/families/elementwise.td.
#include "emit/emitter.hpp"

#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

// Unsigned integers and booleans.
static bool isNatural(int32_t dtype) { return isUnsigned(dtype) || isBool(dtype); }

Value Emitter::compare(Direction direction, Value x, Value y, int32_t dtype) {
  size_t which = static_cast<size_t>(direction);
  static constexpr P floats[] = {P::OEQ, P::UNE, P::OLT, P::OLE, P::OGT, P::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I naturals[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  if (isFloat(dtype))
    return c.compare(floats[which], x, y);
  return c.compareI(isNatural(dtype) ? naturals[which] : ints[which], x, y);
}

Value Emitter::maximum(Value x, Value y, int32_t dtype, bool largest) {
  if (isFloat(dtype))
    return largest ? c.two<arith::MaximumFOp>(x, y) : c.two<arith::MinimumFOp>(x, y);
  if (isBool(dtype))
    return largest ? c.orI(x, y) : c.andI(x, y);
  if (isNatural(dtype))
    return largest ? c.two<arith::MaxUIOp>(x, y) : c.two<arith::MinUIOp>(x, y);
  return largest ? c.two<arith::MaxSIOp>(x, y) : c.two<arith::MinSIOp>(x, y);
}

Value Emitter::combineUpdates(UpdateMode mode, Value old, Value update, int32_t dtype) {
  switch (mode) {
  case UpdateMode::Set:
    return update;
  case UpdateMode::Add:
    return isFloat(dtype) ? c.add(old, update) : isBool(dtype) ? c.orI(old, update) : c.addI(old, update);
  case UpdateMode::Mul:
    return isFloat(dtype) ? c.mul(old, update) : isBool(dtype) ? c.andI(old, update) : c.mulI(old, update);
  case UpdateMode::Max:
  case UpdateMode::Min:
    break;
  }
  return maximum(old, update, dtype, mode == UpdateMode::Max);
}

// x / 0 has all bits set and x % 0 is x; MIN / -1 is MIN and MIN % -1 is 0. The CPU would trap, so it divides by 1
// there.
Value Emitter::intDivide(Value x, Value y, int32_t dtype, bool remainder) {
  c.match(x, y);
  Value zero = c.integer(y.getType(), 0), one = c.integer(y.getType(), 1), ones = c.integer(y.getType(), -1);
  Value byZero = c.compareI(I::eq, y, zero);
  if (isNatural(dtype)) {
    Value safe = c.select(byZero, one, y);
    return remainder ? c.select(byZero, x, c.two<arith::RemUIOp>(x, safe))
                     : c.select(byZero, ones, c.two<arith::DivUIOp>(x, safe));
  }
  Value byMinus = c.compareI(I::eq, y, ones);
  Value safe = c.select(c.orI(byZero, byMinus), one, y);
  if (remainder)
    return c.select(byZero, x, c.select(byMinus, zero, c.two<arith::RemSIOp>(x, safe)));
  return c.select(byZero, ones, c.select(byMinus, c.subI(zero, x), c.two<arith::DivSIOp>(x, safe)));
}

// Truncates. NaN gives 0, and values out of range saturate.
Value Emitter::floatToInt(Value x, int32_t to) {
  Type type = c.registerType(to);
  unsigned width = type.getIntOrFloatBitWidth();
  bool isSigned = !isUnsigned(to);
  double low = isSigned ? -std::ldexp(1.0, width - 1) : 0, above = std::ldexp(1.0, isSigned ? width - 1 : width);
  Value under = c.compare(P::OLT, x, low), over = c.compare(P::OGE, x, above);
  Value safe = c.select(c.orI(c.orI(under, over), c.isNan(x)), c.constant(x.getType(), 0), x);
  Value number = c.resizeInt(arith::FPToSIOp::create(b, c.loc, c.like(x, b.getIntegerType(std::max(width, 32u))), safe),
                             type, true);
  int64_t least = isSigned ? std::numeric_limits<int64_t>::min() >> (64 - width) : 0;
  int64_t most = isSigned ? ~least : (int64_t(1) << width) - 1;
  number = c.select(under, c.integer(number.getType(), least), number);
  return c.select(over, c.integer(number.getType(), most), number);
}

// Integers of 64 bits as ones that f64 holds exactly and that round to the same f16 or bf16: above 2^53 the 11 lowest
// bits are cut off, and the lowest one that is left is set where they were not 0 (rounding to odd; Boldo and Melquiond,
// Emulation of FMA and correctly rounded sums, 2008).
Value Emitter::oddAbove53(Value x) {
  const auto number = [&](int64_t value) { return c.integer(x.getType(), value); };
  constexpr int64_t lost = (1 << 11) - 1;
  Value high = c.two<arith::ShRSIOp>(x, number(53));
  Value isExact = c.compareI(I::ult, c.addI(high, number(1)), number(2)); // all of the high bits are the sign
  Value odd = c.select(c.compareI(I::ne, c.andI(x, number(lost)), number(0)), number(lost + 1), number(0));
  return c.select(isExact, x, c.orI(c.andI(x, number(~lost)), odd));
}

Value Emitter::convert(Value x, int32_t from, int32_t to) {
  Type type = c.registerType(to), shaped = c.like(x, type);
  if (isBool(to)) {
    if (isBool(from))
      return x;
    return isFloat(from) ? c.compare(P::UNE, x, 0.0) : c.compareI(I::ne, x, c.integer(x.getType(), 0));
  }
  if (!isFloat(to)) {
    if (isFloat(from))
      return floatToInt(x, to);
    return c.resizeInt(x, type, !isNatural(from));
  }
  Value result = x;
  if (!isFloat(from)) {
    // Integers convert to f64 before f16 or bf16: f64 is exact up to 2^53, so the result is rounded once.
    if (isNarrowFloat(to) && dtypeBits(from) == 64)
      x = oddAbove53(x);
    Type via = isNarrowFloat(to) ? Type(b.getF64Type()) : type;
    if (isNatural(from))
      result = arith::UIToFPOp::create(b, c.loc, c.like(x, via), x);
    else
      result = arith::SIToFPOp::create(b, c.loc, c.like(x, via), x);
    from = via.isF64() ? MORTISE_F64 : MORTISE_F32;
  }
  if (isNarrowFloat(to))
    return c.roundTo(result, to);
  if (Code::element(result) == type)
    return result;
  return type.isF64() ? Value(arith::ExtFOp::create(b, c.loc, shaped, result))
                      : Value(arith::TruncFOp::create(b, c.loc, shaped, result));
}

// A shift by the width or more gives 0, or the sign when a signed value is shifted right.
Value Emitter::shift(Value x, Value y, int32_t dtype, bool left) {
  c.match(x, y);
  if (isBool(dtype))
    return c.andI(x, c.notI(y));
  const int64_t width = static_cast<int64_t>(dtypeBits(dtype));
  Value zero = c.integer(x.getType(), 0);
  Value inside = c.compareI(I::ult, y, c.integer(y.getType(), width));
  if (!left && !isNatural(dtype))
    return c.two<arith::ShRSIOp>(x, c.select(inside, y, c.integer(y.getType(), width - 1)));
  Value by = c.select(inside, y, zero);
  return c.select(inside, left ? c.two<arith::ShLIOp>(x, by) : c.two<arith::ShRUIOp>(x, by), zero);
}

// The operands of one elementwise op in registers.
struct Emitter::Element {
  Emitter &emitter;
  Code &c;
  const Expr &expr;
  Value x, y, z;
  int32_t dtype; // of x

  bool isReal() const { return isFloat(dtype); }
  Value zero() const { return isReal() ? c.constant(x.getType(), 0) : c.integer(x.getType(), 0); }
  Value compare(Direction direction) const { return emitter.compare(direction, x, zero(), dtype); }
};

// One row per elementwise op that has generated code: the cost of one element (an addition is 1) and the code for it.
// supports() refuses an op without a row, unless it is a composite, which is expanded.
struct Emitter::Rule {
  Op op;
  int cost;
  Value (*emit)(const Element &);
};

struct Emitter::Rules {
  static Value abs(const Element &e) {
    if (e.isReal())
      return e.c.abs(e.x);
    return isNatural(e.dtype) ? e.x : e.c.two<arith::MaxSIOp>(e.x, e.c.subI(e.zero(), e.x));
  }
  static Value sign(const Element &e) {
    if (e.isReal()) {
      Value unit = e.c.copySign(e.c.constant(e.x.getType(), 1), e.x);
      return e.c.select(e.c.compare(P::UEQ, e.x, 0.0), e.x, unit); // zeros and NaN are kept
    }
    Type type = e.c.registerType(e.dtype);
    Value above = e.c.resizeInt(e.compare(Direction::Gt), type, false);
    return isNatural(e.dtype) ? above : e.c.subI(above, e.c.resizeInt(e.compare(Direction::Lt), type, false));
  }
  static Value relu(const Element &e) {
    return e.isReal() ? e.c.select(e.c.compare(P::UGT, e.x, 0.0), e.x, e.zero())
                      : e.emitter.maximum(e.x, e.zero(), e.dtype, true);
  }
  static Value add(const Element &e) {
    return e.isReal() ? e.c.add(e.x, e.y) : isBool(e.dtype) ? e.c.orI(e.x, e.y) : e.c.addI(e.x, e.y);
  }
  static Value mul(const Element &e) {
    return e.isReal() ? e.c.mul(e.x, e.y) : isBool(e.dtype) ? e.c.andI(e.x, e.y) : e.c.mulI(e.x, e.y);
  }
  static Value div(const Element &e) {
    return e.isReal() ? e.c.div(e.x, e.y) : e.emitter.intDivide(e.x, e.y, e.dtype, false);
  }
  static Value rem(const Element &e) {
    return e.isReal() ? e.c.remainder(e.x, e.y) : e.emitter.intDivide(e.x, e.y, e.dtype, true);
  }

  static Value pow(const Element &e) {
    return e.isReal() ? e.c.pow(e.x, e.y) : e.c.intPower(e.x, e.y, !isNatural(e.dtype));
  }

  static const std::vector<Rule> &all() {
    static const std::vector<Rule> rules = {
        {Op::Keep, 0, [](const Element &e) { return e.x; }},
        {Op::Abs, 1, abs},
        {Op::Neg, 1, [](const Element &e) { return e.isReal() ? e.c.neg(e.x) : e.c.subI(e.zero(), e.x); }},
        {Op::Sign, 1, sign},
        {Op::Sqrt, 4, [](const Element &e) { return e.c.sqrt(e.x); }},
        {Op::Rsqrt, 5, [](const Element &e) { return e.c.rsqrt(e.x); }},
        {Op::Exp, 16, [](const Element &e) { return e.c.exp(e.x); }},
        {Op::ExpOfNonPositive, 16, [](const Element &e) { return e.c.exp(e.x, Code::Sign::NonPositive); }},
        {Op::Expm1, 16, [](const Element &e) { return e.c.expm1(e.x); }},
        {Op::Log, 16, [](const Element &e) { return e.c.log(e.x); }},
        {Op::Log1p, 16, [](const Element &e) { return e.c.log1p(e.x); }},
        {Op::Tanh, 16, [](const Element &e) { return e.c.tanh(e.x); }},
        {Op::Logistic, 16, [](const Element &e) { return e.c.logistic(e.x); }},
        {Op::Sin, 30, [](const Element &e) { return e.c.circular(e.x, Code::Circular::Sine); }},
        {Op::Cos, 30, [](const Element &e) { return e.c.circular(e.x, Code::Circular::Cosine); }},
        {Op::Erf, 30, [](const Element &e) { return e.c.erf(e.x); }},
        {Op::Erfc, 30, [](const Element &e) { return e.c.erfc(e.x); }},
        {Op::Gelu, 30, [](const Element &e) { return e.c.gelu(e.x); }},
        {Op::Tan, 40, [](const Element &e) { return e.c.circular(e.x, Code::Circular::Tangent); }},
        {Op::Asin, 20, [](const Element &e) { return e.c.asin(e.x); }},
        {Op::Acos, 20, [](const Element &e) { return e.c.acos(e.x); }},
        {Op::Atan, 25, [](const Element &e) { return e.c.atan(e.x); }},
        {Op::Sinh, 25, [](const Element &e) { return e.c.sinh(e.x); }},
        {Op::Cosh, 20, [](const Element &e) { return e.c.cosh(e.x); }},
        {Op::Asinh, 40, [](const Element &e) { return e.c.asinh(e.x); }},
        {Op::Acosh, 40, [](const Element &e) { return e.c.acosh(e.x); }},
        {Op::Atanh, 40, [](const Element &e) { return e.c.atanh(e.x); }},
        {Op::Log2, 16, [](const Element &e) { return e.c.log2(e.x); }},
        {Op::Log10, 16, [](const Element &e) { return e.c.log10(e.x); }},
        {Op::Exp2, 16, [](const Element &e) { return e.c.exp2(e.x); }},
        {Op::Pow, 80, pow},
        {Op::Atan2, 40, [](const Element &e) { return e.c.atan2(e.x, e.y); }},
        {Op::Rem, 40, rem},
        {Op::Floor, 1, [](const Element &e) { return e.c.one<math::FloorOp>(e.x); }},
        {Op::Ceil, 1, [](const Element &e) { return e.c.one<math::CeilOp>(e.x); }},
        {Op::Round, 1, [](const Element &e) { return e.c.one<math::RoundEvenOp>(e.x); }},
        {Op::Relu, 1, relu},
        {Op::Convert, 1, [](const Element &e) { return e.emitter.convert(e.x, e.dtype, e.expr.dtype); }},
        {Op::Add, 1, add},
        {Op::Sub, 1, [](const Element &e) { return e.isReal() ? e.c.sub(e.x, e.y) : e.c.subI(e.x, e.y); }},
        {Op::Mul, 1, mul},
        {Op::MulAdd, 1, [](const Element &e) { return e.c.fma(e.x, e.y, e.z); }},
        {Op::Div, 4, div},
        {Op::Max, 1, [](const Element &e) { return e.emitter.maximum(e.x, e.y, e.dtype, true); }},
        {Op::Min, 1, [](const Element &e) { return e.emitter.maximum(e.x, e.y, e.dtype, false); }},
        {Op::Copysign, 1, [](const Element &e) { return e.c.copySign(e.x, e.y); }},
        {Op::Not, 1, [](const Element &e) { return e.c.notI(e.x); }},
        {Op::And, 1, [](const Element &e) { return e.c.andI(e.x, e.y); }},
        {Op::Or, 1, [](const Element &e) { return e.c.orI(e.x, e.y); }},
        {Op::Xor, 1, [](const Element &e) { return e.c.two<arith::XOrIOp>(e.x, e.y); }},
        {Op::ShiftLeft, 1, [](const Element &e) { return e.emitter.shift(e.x, e.y, e.dtype, true); }},
        {Op::ShiftRight, 1, [](const Element &e) { return e.emitter.shift(e.x, e.y, e.dtype, false); }},
        {Op::Compare, 1, [](const Element &e) { return e.emitter.compare(e.expr.direction, e.x, e.y, e.dtype); }},
        {Op::Select, 1, [](const Element &e) { return e.c.select(e.x, e.y, e.z); }},
    };
    return rules;
  }

  static const Rule *find(Op op) {
    static const std::vector<const Rule *> byOp = [] {
      std::vector<const Rule *> found(static_cast<size_t>(Op::ReduceFastMax) + 1);
      for (const Rule &rule : all())
        found[static_cast<size_t>(rule.op)] = &rule;
      return found;
    }();
    return byOp[static_cast<size_t>(op)];
  }
};

std::optional<int> Emitter::costOf(Op op) {
  const Rule *rule = Rules::find(op);
  return rule ? std::optional(rule->cost) : std::nullopt;
}
std::optional<int> elementwiseCost(Op op) { return Emitter::costOf(op); }

Value Emitter::elementwise(const Expr &expr, ArrayRef<Value> x) {
  auto operand = [&](size_t i) { return i < x.size() ? x[i] : Value(); };
  const Element element{*this, c, expr, x[0], operand(1), operand(2), plan.dag.exprs[expr.operands[0]].dtype};
  return Rules::find(expr.op)->emit(element);
}

} // namespace mortise::codegen
