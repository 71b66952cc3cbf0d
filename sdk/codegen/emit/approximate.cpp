// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions for results that are rounded to f16 or bf16, of a machine's approximate instructions. Before
// that rounding they are within the bounds that docs/conformance/error-bounds.md derives for functions in f32, in the
// worst case of all roundings (test/approximate_test.cpp); w is half a unit in the last place of 1.
#include "emit/code.hpp"
#include "emit/coefficients.hpp"

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;

static constexpr double log2e = 0x1.715476p+0, log2eRest = 0x1.4ae0bf85ddf44p-26; // a f32, and what it lacks
static constexpr double decayLift = 0x1p40;
static constexpr double ln2 = 0x1.62e42fefa39efp-1;

Value Code::eachLane(ArrayRef<Value> operands, llvm::function_ref<Value(ArrayRef<Value>)> function) {
  if (!isVector(operands[0]))
    return function(operands);
  Value result = LLVM::PoisonOp::create(b, loc, operands[0].getType());
  for (int64_t lane = 0; lane < cast<VectorType>(operands[0].getType()).getDimSize(0); ++lane) {
    SmallVector<Value, 3> each;
    for (Value operand : operands)
      each.push_back(extract(operand, lane));
    result = LLVM::InsertElementOp::create(b, loc, result, function(each), integer(b.getI32Type(), lane));
  }
  return result;
}
Value Code::approximateExp2(Value x, bool subnormals) {
  return eachLane(x,
                  [&](ArrayRef<Value> each) { return instructions.approximations->exp2(*this, each[0], subnormals); });
}
Value Code::approximateReciprocal(Value x) {
  return eachLane(x, [&](ArrayRef<Value> each) { return instructions.approximations->reciprocal(*this, each[0]); });
}

// Of numbers of which subnormal ones may count as 0.
template <typename OpT> static Value roughExtreme(Code &c, Value x, double bound) {
  return OpT::create(c.b, c.loc, x, c.constant(x.getType(), bound), arith::FastMathFlags::afn);
}

// e^(sign * x) = 2^power (1 + lost): `power` is x log2 e rounded, and `lost`, times log2 e, what this and rounding log2
// e lose.
static Value expPower(Code &c, Value x, double sign, Value &lost) {
  Value factor = c.constant(x.getType(), sign * log2e), power = c.mul(x, factor);
  Value error = c.normalFma(x, factor, c.roughNeg(power));
  lost = c.normalFma(x, c.constant(x.getType(), sign * log2eRest * ln2), c.mul(error, ln2));
  return power;
}

// 1 / x within 0.6 ULP for x from 2^-60 to 2^60, with a step of Newton's.
Value Code::refinedReciprocal(Value x) {
  Value r = approximateReciprocal(x);
  return normalFma(r, normalFma(roughNeg(x), r, constant(x.getType(), 1)), r);
}

// Within 3.5 ULP.
Value Code::approximateExp(Value x) {
  x = roughExtreme<arith::MinimumFOp>(*this, x, 90);
  x = roughExtreme<arith::MaximumFOp>(*this, x, -110);
  Value lost, power = expPower(*this, x, 1, lost);
  return mul(approximateExp2(power, true), add(lost, 1.0)); // which does not make NaN of infinity
}

// decayLift e^x for x <= 0, within 2.5 ULP from -110 on, and below that so small that e^x rounds to 0. x log2 e is a
// whole number and `rest`, so that only two roundings of a number below 1 are lost, and neither 2^rest nor the result
// is subnormal. The whole number may drop NaN, which the rest keeps.
Value Code::liftedDecay(Value x) {
  constexpr double magic = 0x1.8p23 + 127 + 40; // leaves the exponent of a f32 in the lowest bits of a sum
  const auto wide = [&](double value) { return constant(x.getType(), value); };
  Value shifted = normalFma(roughExtreme<arith::MaxNumFOp>(*this, x, -110), wide(log2e), magic);
  Value rest = normalFma(x, wide(log2e), roughNeg(add(shifted, -magic)));
  rest = normalFma(x, wide(log2eRest), rest);
  Value bits = intBits(shifted);
  bits = two<arith::ShLIOp>(bits, integer(bits.getType(), 23));
  return mul(approximateExp2(rest, false), bitcast(bits, element(x)));
}

// e^x for x <= 0, rounded once more where it is subnormal.
Value Code::approximateDecay(Value x) { return mul(liftedDecay(x), 1 / decayLift); }

// With e = e^-|x| and q = e / (1 + e): e - e q for x < 0, and 1 - q else. So the error of q counts little where e is
// small. Both e and the result are `scale` times as large.
Value Code::logisticOf(Value x, Value e, double scale) {
  Value one = constant(x.getType(), scale), q = mul(e, refinedReciprocal(add(e, one)));
  Value whole = select(roughCompare(P::OLT, x, constant(x.getType(), 0.0)), e, one);
  return normalFma(roughNeg(whole), q, whole);
}

// Within 3 ULP; a subnormal result is rounded once more.
Value Code::approximateLogistic(Value x) {
  Value e = liftedDecay(roughNeg(roughAbs(x)));
  return mul(logisticOf(x, e, decayLift), 1 / decayLift);
}

// max(x, 0) - |x| Phi(-|x|), where -Phi(-a) = e^(-a^2/2) s p(s) with s = 1 / (1 + 0.55 a). The error of Phi counts only
// beside 1, so that it is 4.5 w at most: near 0, where it is largest, the roundings of s weigh 1.5 w, those of 2^x
// 1.2 w, and those of p 1.2 w. Far out it is 2^-14 of the result. Infinity times Phi = 0 would be NaN, which is right
// only at -infinity.
Value Code::approximateGelu(Value x) {
  Value size = roughAbs(roughExtreme<arith::MinNumFOp>(*this, x, 0x1p127));
  Value sum = normalFma(size, constant(x.getType(), 0.55), 1.0);
  Value s = hasFlushingFma(x) ? refinedReciprocal(sum) : approximateReciprocal(sum);
  Value e = approximateExp2(mul(mul(x, -0.5 * log2e), x), false);
  Value tail = mul(mul(s, polynomial(s, geluTail)), e);
  Value result = normalFma(size, tail, roughExtreme<arith::MaxNumFOp>(*this, x, -0.0));
  if (!hasFlushingFma(x))
    return result;
  // The product may be subnormal.
  return select(roughCompare(P::OLT, roughAbs(x), constant(x.getType(), 0x1p-64)), mul(x, 0.5), result);
}

} // namespace mortise::codegen
