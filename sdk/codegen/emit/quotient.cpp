// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quotients and square roots of f32, correctly rounded, for machines with a fused multiply-add but without instructions
// that promise it: Vulkan lets a quotient be off by 2.5 ULP, and f64, which is exact enough, divides by a slow routine.
// Both end in a step of Newton's with an exact residual (Markstein, Computation of elementary functions on the IBM RISC
// System/6000 processor, 1990). Operands so small or large that a residual may be subnormal, zero or infinite take the
// machine's division, which is f64's.
#include "emit/code.hpp"

#include <mlir/IR/Matchers.h>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;

Value Approximations::reciprocal(Code &c, Value x) const { return reciprocalRoot(c, c.mul(x, x)); }
Value Approximations::reciprocalRoot(Code &c, Value x) const {
  return c.two<arith::DivFOp>(c.constant(x.getType(), 1), c.one<math::SqrtOp>(x));
}

static Value isWithin(Code &c, Value size, double least, double end) {
  return c.andI(c.roughCompare(P::OGE, size, c.constant(size.getType(), least)),
                c.roughCompare(P::OLT, size, c.constant(size.getType(), end)));
}

// With y and x / y in [1, 2): a quotient has a distance of at least 2^-47 / y from the middle m of two f32, since x - m
// y is a multiple of 2^-47 and not 0. Before the last step it is off by little more than half a unit, 2^-24, and after
// it, but for the last rounding, by that times the relative error of r, which thus has to be below 2^-23 / y. From 2.5
// ULP, that is 2.5 y 2^-24, Newton's step leads to 2^-25 y + 6.25 y^2 2^-48, which is enough for y < 2 - 2^-18. Larger
// y are left out: 1 / (2 - 2^-23), for one, would be wrong.
Value Code::div(Value x, Value y) {
  match(x, y);
  if (!hasFlushingFma(x))
    return two<arith::DivFOp>(x, y);
  llvm::APFloat divisor(0.0F), inverse(0.0F);
  if (matchPattern(y, m_ConstantFloat(&divisor)) && divisor.getExactInverse(&inverse))
    return mul(x, inverse.convertToFloat());
  Value size = roughAbs(y), r = refinedReciprocal(size), numerator = roughAbs(x), quotient = mul(numerator, r);
  for (int step = 0; step < 2; ++step)
    quotient = normalFma(normalFma(roughNeg(quotient), size, numerator), r, quotient);
  Value isOrdinary = orI(isWithin(*this, numerator, 0x1p-70, 0x1p70), compare(P::OEQ, x, 0.0));
  isOrdinary = andI(isOrdinary, isWithin(*this, size, 0x1p-50, 0x1p50));
  Value mantissa = andI(intBits(y), bits(y, 0x7fffff));
  isOrdinary = andI(isOrdinary, compareI(arith::CmpIPredicate::ult, mantissa, bits(y, 0x7fffe0)));
  return ifAny(notI(isOrdinary), [&] { return two<arith::DivFOp>(x, y); }, copySign(quotient, mul(x, y)));
}

Value Code::approximateRsqrt(Value x) {
  return eachLane(x, [&](ArrayRef<Value> each) { return instructions.approximations->reciprocalRoot(*this, each[0]); });
}

// Tried for all f32 of two binades, which stand for the others, with each r within 2 ULP.
Value Code::sqrt(Value x) {
  if (!hasFlushingFma(x))
    return one<math::SqrtOp>(x);
  Value r = approximateRsqrt(x);
  Value root = mul(x, r), half = mul(r, 0.5), error = normalFma(roughNeg(root), half, 0.5);
  root = normalFma(root, error, root), half = normalFma(half, error, half);
  root = normalFma(normalFma(roughNeg(root), root, x), half, root);
  return ifAny(notI(isWithin(*this, x, 0x1p-70, 0x1p126)), [&] { return one<math::SqrtOp>(x); }, root);
}

Value Code::rsqrt(Value x) {
  const auto exact = [&] { return div(constant(x.getType(), 1), sqrt(x)); };
  if (!approximates(x) || !hasFlushingFma(x))
    return exact();
  return ifAny(notI(isWithin(*this, x, 0x1p-70, 0x1p126)), exact, approximateRsqrt(x));
}

} // namespace mortise::codegen
