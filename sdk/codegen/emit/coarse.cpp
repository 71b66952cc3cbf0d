// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions for results that are rounded to f16 or bf16, with the machine's approximate instructions: within
// 2^-16 of the result, which moves the rounded one by at most 0.032 units in the last place of f16.
#include "emit/code.hpp"

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;

static constexpr double log2e = 1.4426950408889634;
// erfcCoarse: [-1, 0.7], relative error 1.81e-06
static constexpr double erfcCoarse[] = {2.68551306532413981e-03,  5.68748953459905036e-03, -2.14423321422904135e-02,
                                        -3.62138074422666129e-02, 2.79466288935153018e-01, -6.87177545576014737e-01,
                                        1.02158303785991800e+00};

// Calls an intrinsic of LLVM for each lane.
Value Code::approximate(const char *intrinsic, ArrayRef<Value> operands) {
  const auto call = [&](ValueRange scalars) -> Value {
    return LLVM::CallIntrinsicOp::create(b, loc, element(operands[0]), b.getStringAttr(intrinsic), scalars)
        .getResults();
  };
  if (!isVector(operands[0]))
    return call(operands);
  Value result = LLVM::PoisonOp::create(b, loc, operands[0].getType());
  for (int64_t lane = 0; lane < cast<VectorType>(operands[0].getType()).getDimSize(0); ++lane) {
    SmallVector<Value> scalars;
    for (Value operand : operands)
      scalars.push_back(extract(operand, lane));
    result = LLVM::InsertElementOp::create(b, loc, result, call(scalars), integer(b.getI32Type(), lane));
  }
  return result;
}

Value Code::coarseDiv(Value x, Value y) { return approximate(instructions.approximateDivide, {x, y}); }

// The product's rounding moves e^x by x 2^-24: 2^-18 at the ends of f32's range, 2^-20 at those of f16's.
Value Code::coarseExp(Value x) { return approximate(instructions.approximateExp2, mul(x, log2e)); }

// e^-|x| does not overflow, so that small results keep their digits.
Value Code::coarseLogistic(Value x) {
  Value e = coarseExp(neg(abs(x))), one = constant(x.getType(), 1);
  Value high = coarseDiv(one, add(one, e));
  return select(compare(P::OLT, x, 0.0), mul(e, high), high);
}

// As Code::gelu: x Phi(x) = x erfc(|x| / sqrt 2) / 2 for x <= 0, and x less that for x > 0.
Value Code::coarseGelu(Value x) {
  Value size = abs(x), big = constant(x.getType(), 15);
  Value a = select(compare(P::OGT, size, 15.0), big, size);
  Value s = coarseDiv(constant(x.getType(), 1), fma(a, constant(x.getType(), 0.70710678118654752), 2.0));
  Value scaled = mul(mul(s, polynomial(fma(s, constant(x.getType(), -4), 1.0), erfcCoarse)), mul(copySign(a, x), 0.5));
  Value tail = mul(approximate(instructions.approximateExp2, mul(mul(a, a), -0.5 * log2e)), scaled);
  return select(compare(P::OLE, x, 0.0), fma(x, constant(x.getType(), 0), tail), sub(x, tail));
}

} // namespace mortise::codegen
