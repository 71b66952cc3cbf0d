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
static constexpr double ln2 = 0x1.62e42fefa39efp-1;

Value Code::eachLane(Value x, llvm::function_ref<Value(Value)> function) {
  if (!isVector(x))
    return function(x);
  Value result = LLVM::PoisonOp::create(b, loc, x.getType());
  for (int64_t lane = 0; lane < cast<VectorType>(x.getType()).getDimSize(0); ++lane)
    result = LLVM::InsertElementOp::create(b, loc, result, function(extract(x, lane)), integer(b.getI32Type(), lane));
  return result;
}
Value Code::approximateExp2(Value x, bool subnormals) {
  return eachLane(x, [&](Value each) { return instructions.approximations->exp2(*this, each, subnormals); });
}
Value Code::approximateReciprocal(Value x) {
  return eachLane(x, [&](Value each) { return instructions.approximations->reciprocal(*this, each); });
}

// Part of the next instruction, as Code::neg is not, which keeps the payload of NaN.
static Value minus(Code &c, Value x) { return c.one<arith::NegFOp>(x); }

// e^(sign * x) = 2^power (1 + lost): `power` is x log2 e rounded, and `lost`, times log2 e, what this and rounding log2
// e lose.
static Value expPower(Code &c, Value x, double sign, Value &lost) {
  Value factor = c.constant(x.getType(), sign * log2e), power = c.mul(x, factor);
  Value error = c.fma(x, factor, minus(c, power));
  lost = c.fma(x, c.constant(x.getType(), sign * log2eRest * ln2), c.mul(error, ln2));
  return power;
}

// Within 3.5 ULP.
Value Code::approximateExp(Value x) {
  x = two<arith::MaximumFOp>(two<arith::MinimumFOp>(x, constant(x.getType(), 90)), constant(x.getType(), -110));
  Value lost, power = expPower(*this, x, 1, lost);
  return mul(approximateExp2(power, true), add(lost, 1.0)); // which does not make NaN of infinity
}

// With e = e^-|x| and q = e / (1 + e): e - e q for x < 0, and 1 - q else. So the error of q counts little where e is
// small, and all in all it is within 3.7 ULP.
Value Code::approximateLogistic(Value x) {
  Value size = two<arith::MinimumFOp>(abs(x), constant(x.getType(), 110)), one = constant(x.getType(), 1);
  Value lost, power = expPower(*this, size, -1, lost), e = approximateExp2(power, true);
  e = fma(e, lost, e);
  Value sum = add(e, 1.0), r = approximateReciprocal(sum);
  r = fma(r, fma(minus(*this, sum), r, one), r); // a step of Newton's
  Value q = mul(e, r), whole = select(compare(P::OLT, x, 0.0), e, one);
  return fma(minus(*this, whole), q, whole);
}

// max(x, 0) - |x| Phi(-|x|), where -Phi(-a) = e^(-a^2/2) s p(s) with s = 1 / (1 + 0.55 a). The error of Phi counts only
// beside 1, so that it is 4.5 w at most: near 0, where it is largest, the roundings of s weigh 1.5 w, those of 2^x
// 1.2 w, and those of p 1.2 w. Far out it is 2^-14 of the result. Infinity times Phi = 0 would be NaN, which is right
// only at -infinity.
Value Code::approximateGelu(Value x) {
  Value zero = constant(x.getType(), -0.0), most = constant(x.getType(), 0x1p127);
  Value s = approximateReciprocal(fma(abs(x), constant(x.getType(), 0.55), 1.0));
  Value e = approximateExp2(mul(mul(x, -0.5 * log2e), x), false);
  Value tail = mul(mul(s, polynomial(s, geluTail)), e);
  return fma(abs(two<arith::MinNumFOp>(x, most)), tail, two<arith::MaxNumFOp>(x, zero));
}

} // namespace mortise::codegen
