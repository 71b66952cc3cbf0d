// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise ops on registers, as ir/families/elementwise.td defines them.
#include "emitter.hpp"

#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

static bool isUnsigned(int32_t dtype) { return dtype == MORTISE_UI8 || dtype == MORTISE_I1; }

Value Emitter::compare(Direction direction, Value x, Value y, int32_t dtype) {
  size_t which = static_cast<size_t>(direction);
  static constexpr P floats[] = {P::OEQ, P::UNE, P::OLT, P::OLE, P::OGT, P::OGE};
  static constexpr I ints[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I naturals[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge};
  if (isFloat(dtype))
    return c.compare(floats[which], x, y);
  return c.compareI(isUnsigned(dtype) ? naturals[which] : ints[which], x, y);
}

Value Emitter::maximum(Value x, Value y, int32_t dtype, bool largest) {
  if (isFloat(dtype))
    return largest ? c.two<arith::MaximumFOp>(x, y) : c.two<arith::MinimumFOp>(x, y);
  if (dtype == MORTISE_I1)
    return largest ? c.orI(x, y) : c.andI(x, y);
  if (isUnsigned(dtype))
    return largest ? c.two<arith::MaxUIOp>(x, y) : c.two<arith::MinUIOp>(x, y);
  return largest ? c.two<arith::MaxSIOp>(x, y) : c.two<arith::MinSIOp>(x, y);
}

// Division by 0 gives all bits set, the minimum by -1 itself; the CPU would trap, so divide by something safe.
Value Emitter::intDivide(Value x, Value y, int32_t dtype, bool remainder) {
  c.match(x, y);
  Value zero = c.integer(y.getType(), 0), one = c.integer(y.getType(), 1), ones = c.integer(y.getType(), -1);
  Value byZero = c.compareI(I::eq, y, zero);
  if (isUnsigned(dtype)) {
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

// Truncates; NaN gives 0, values out of range saturate.
Value Emitter::floatToInt(Value x, int32_t to) {
  Type type = c.registerType(to);
  unsigned width = type.getIntOrFloatBitWidth();
  bool isSigned = to != MORTISE_UI8;
  double low = isSigned ? -std::ldexp(1.0, width - 1) : 0, above = std::ldexp(1.0, isSigned ? width - 1 : width);
  Value under = c.compare(P::OLT, x, low), over = c.compare(P::OGE, x, above);
  Value safe = c.select(c.orI(c.orI(under, over), c.isNan(x)), c.constant(x.getType(), 0), x);
  Value number = c.resizeInt(arith::FPToSIOp::create(b, c.loc, c.like(x, b.getIntegerType(std::max(width, 32u))), safe),
                             type, true);
  int64_t least = isSigned ? std::numeric_limits<int64_t>::min() >> (64 - width) : 0;
  int64_t most = isSigned ? ~least : 255;
  number = c.select(under, c.integer(number.getType(), least), number);
  return c.select(over, c.integer(number.getType(), most), number);
}

Value Emitter::convert(Value x, int32_t from, int32_t to) {
  Type type = c.registerType(to), shaped = c.like(x, type);
  if (to == MORTISE_I1) {
    if (from == MORTISE_I1)
      return x;
    return isFloat(from) ? c.compare(P::UNE, x, 0.0) : c.compareI(I::ne, x, c.integer(x.getType(), 0));
  }
  if (!isFloat(to)) {
    if (isFloat(from))
      return floatToInt(x, to);
    return c.resizeInt(x, type, !isUnsigned(from));
  }
  Value result = x;
  if (!isFloat(from)) {
    // Integers go to f64 first where f16 or bf16 follow: exact up to 2^53, and rounded once.
    Type via = (to == MORTISE_F16 || to == MORTISE_BF16) ? Type(b.getF64Type()) : type;
    if (isUnsigned(from))
      result = arith::UIToFPOp::create(b, c.loc, c.like(x, via), x);
    else
      result = arith::SIToFPOp::create(b, c.loc, c.like(x, via), x);
    from = via.isF64() ? MORTISE_F64 : MORTISE_F32;
  }
  if (to == MORTISE_F16 || to == MORTISE_BF16)
    return c.roundTo(result, to);
  if (Code::element(result) == type)
    return result;
  return type.isF64() ? Value(arith::ExtFOp::create(b, c.loc, shaped, result))
                      : Value(arith::TruncFOp::create(b, c.loc, shaped, result));
}

// By less than the width; else nothing is left but, to the right, the sign.
Value Emitter::shift(Value x, Value y, int32_t dtype, bool left) {
  c.match(x, y);
  if (dtype == MORTISE_I1)
    return c.andI(x, c.notI(y));
  const int64_t width = static_cast<int64_t>(dtypeBits(dtype));
  Value zero = c.integer(x.getType(), 0);
  Value inside = c.compareI(I::ult, y, c.integer(y.getType(), width));
  if (!left && !isUnsigned(dtype))
    return c.two<arith::ShRSIOp>(x, c.select(inside, y, c.integer(y.getType(), width - 1)));
  Value by = c.select(inside, y, zero);
  return c.select(inside, left ? c.two<arith::ShLIOp>(x, by) : c.two<arith::ShRUIOp>(x, by), zero);
}

static std::string suffixed(const char *name, int32_t dtype) {
  return std::string("mortise_") + name + "_" +
         (dtype == MORTISE_F16 || dtype == MORTISE_BF16 ? "f32" : dtypeName(dtype));
}

Value Emitter::elementwise(const Expr &expr, ArrayRef<Value> x) {
  int32_t dtype = plan.dag.exprs[expr.operands[0]].dtype;
  bool real = isFloat(dtype), truth = dtype == MORTISE_I1;
  Value a = x[0], second = x.size() > 1 ? x[1] : Value();
  auto zero = [&] { return real ? c.constant(a.getType(), 0) : c.integer(a.getType(), 0); };
  switch (expr.op) {
  case Op::Abs:
    return real ? c.abs(a) : isUnsigned(dtype) ? a : c.two<arith::MaxSIOp>(a, c.subI(zero(), a));
  case Op::Neg:
    return real ? c.neg(a) : c.subI(zero(), a);
  case Op::Sign: {
    if (real) {
      Value unit = c.copySign(c.constant(a.getType(), 1), a);
      return c.select(c.compare(P::UEQ, a, 0.0), a, unit); // zeros and NaN stay
    }
    Value above = c.resizeInt(compare(Direction::Gt, a, zero(), dtype), c.registerType(dtype), false);
    return isUnsigned(dtype)
               ? above
               : c.subI(above, c.resizeInt(compare(Direction::Lt, a, zero(), dtype), c.registerType(dtype), false));
  }
  case Op::Exp:
    return c.exp(a);
  case Op::Expm1:
    return c.expm1(a);
  case Op::Log:
    return c.log(a);
  case Op::Log1p:
    return c.log1p(a);
  case Op::Sqrt:
    return c.one<math::SqrtOp>(a);
  case Op::Rsqrt:
    return c.rsqrt(a);
  case Op::Sin:
    return c.sinCos(a, false);
  case Op::Cos:
    return c.sinCos(a, true);
  case Op::Tanh:
    return c.tanh(a);
  case Op::Erf:
    return c.erf(a);
  case Op::Erfc:
    return c.erfc(a);
  case Op::Logistic:
    return c.logistic(a);
  case Op::Gelu:
    return c.gelu(a);
  case Op::Floor:
    return c.one<math::FloorOp>(a);
  case Op::Ceil:
    return c.one<math::CeilOp>(a);
  case Op::Round:
    return c.one<math::RoundEvenOp>(a);
  case Op::Not:
    return c.notI(a);
  case Op::Relu:
    return real ? c.select(c.compare(P::UGT, a, 0.0), a, zero()) : maximum(a, zero(), dtype, true);
  case Op::Convert:
    return convert(a, dtype, expr.dtype);
  case Op::Keep:
    return a;
  case Op::Add:
    return real ? c.add(a, second) : truth ? c.orI(a, second) : c.addI(a, second);
  case Op::Sub:
    return real ? c.sub(a, second) : c.subI(a, second);
  case Op::Mul:
    return real ? c.mul(a, second) : truth ? c.andI(a, second) : c.mulI(a, second);
  case Op::MulAdd:
    return c.fma(a, second, x[2]);
  case Op::Div:
    return real ? c.div(a, second) : intDivide(a, second, dtype, false);
  case Op::Rem:
    return real ? c.call(suffixed("rem", dtype), a, second) : intDivide(a, second, dtype, true);
  case Op::Tan:
    return c.call(suffixed("tan", dtype), a);
  case Op::Asin:
    return c.call(suffixed("asin", dtype), a);
  case Op::Acos:
    return c.call(suffixed("acos", dtype), a);
  case Op::Atan:
    return c.call(suffixed("atan", dtype), a);
  case Op::Sinh:
    return c.call(suffixed("sinh", dtype), a);
  case Op::Cosh:
    return c.call(suffixed("cosh", dtype), a);
  case Op::Asinh:
    return c.call(suffixed("asinh", dtype), a);
  case Op::Acosh:
    return c.call(suffixed("acosh", dtype), a);
  case Op::Atanh:
    return c.call(suffixed("atanh", dtype), a);
  case Op::Log2:
    return c.call(suffixed("log2", dtype), a);
  case Op::Log10:
    return c.call(suffixed("log10", dtype), a);
  case Op::Exp2:
    return c.call(suffixed("exp2", dtype), a);
  case Op::ShiftLeft:
  case Op::ShiftRight:
    return shift(a, second, dtype, expr.op == Op::ShiftLeft);
  case Op::Pow:
    return c.call(suffixed("pow", dtype), a, second);
  case Op::Atan2:
    return c.call(suffixed("atan2", dtype), a, second);
  case Op::Max:
    return maximum(a, second, dtype, true);
  case Op::Min:
    return maximum(a, second, dtype, false);
  case Op::And:
    return c.andI(a, second);
  case Op::Or:
    return c.orI(a, second);
  case Op::Xor:
    return c.two<arith::XOrIOp>(a, second);
  case Op::Compare:
    return compare(expr.direction, a, second, dtype);
  case Op::Select:
    return c.select(a, second, x[2]);
  default:
    llvm_unreachable("not elementwise");
  }
}

} // namespace mortise::codegen
