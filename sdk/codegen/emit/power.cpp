// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Powers, and the remainder of divisions of floats.
#include "emit/code.hpp"
#include "emit/coefficients.hpp"

#include <cmath>
#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

static constexpr double infinity = std::numeric_limits<double>::infinity();

// log2 of a positive f64 as the sum of two, with an error of about 2^-65 of the part that the mantissa gives: beside 2
// and 2/3 z, the series' other terms in z are so small that f64 is enough for them.
Value Code::log2Parts(Value x, Value &low) {
  auto lit = [&](double v) { return constant(x.getType(), v); };
  Value e, f = logReduced(x, e);
  // s = f / (2 + f), the sum of two, from the remainder of the division.
  Value sum = add(f, 2.0), lost = sub(f, add(sum, -2.0));
  Value s = div(f, sum), product = mul(s, sum);
  Value sLow = div(sub(sub(sub(f, product), productError(s, sum, product)), mul(s, lost)), sum);
  Value z = mul(s, s), zLow = add(productError(s, s, z), mul(add(s, s), sLow));
  // u = 2/3 + z q(z)
  Value more = mul(z, polynomial(z, logSecond));
  Value u = add(more, 0x1.5555555555555p-1),
        uLow = add(sub(more, add(u, -0x1.5555555555555p-1)), 0x1.5555555555555p-55);
  // g = 2 + z u
  Value w = mul(z, u), wLow = add(productError(z, u, w), add(mul(z, uLow), mul(zLow, u)));
  Value g = add(w, 2.0), gLow = add(sub(w, add(g, -2.0)), wLow);
  // s g / ln 2
  Value natural = mul(s, g), naturalLow = add(productError(s, g, natural), add(mul(s, gLow), mul(sLow, g)));
  Value scale = lit(0x1.71547652b82fep+0), binary = mul(natural, scale);
  Value binaryLow =
      add(productError(natural, scale, binary), add(mul(natural, 0x1.777d0ffda0d24p-56), mul(naturalLow, scale)));
  Value high = add(e, binary);
  low = add(sub(binary, sub(high, e)), binaryLow);
  return high;
}

// 2^(y log2 |x|): in f64 for f32, and for f64 with the logarithm and the product as the sums of two numbers.
Value Code::pow(Value x, Value y) {
  match(x, y);
  Value size = abs(x), result;
  if (isDouble(x)) {
    Value low, high = log2Parts(size, low);
    high = select(compare(P::OEQ, size, 0.0), constant(x.getType(), -infinity), high);
    high = select(compare(P::OEQ, size, infinity), constant(x.getType(), infinity), high);
    high = select(isNan(x), x, high);
    Value exponent = mul(y, high), rest = fma(y, low, productError(y, high, exponent));
    // Beyond, the result is 0 or infinite whatever the rest is, which is none where the product overflows.
    Value isUsual = compare(P::OLT, abs(exponent), 4096.0);
    result = exp2(exponent, select(isUsual, rest, constant(x.getType(), 0)));
  } else {
    auto wide = [&](Value v) -> Value { return arith::ExtFOp::create(b, loc, like(v, b.getF64Type()), v); };
    // Within these bounds are all results of f32, and no scaling of f64 overflows.
    Value n, m = exp2Parts(atLeast(atMost(mul(wide(y), log2(wide(size), &powLog)), 300), -300), {}, powExp, n);
    result = arith::TruncFOp::create(b, loc, x.getType(), mul(m, powerOf2(n, m)));
  }
  auto isWhole = [&](Value v) { return compare(P::OEQ, one<math::FloorOp>(v), v); };
  Value whole = isWhole(y), odd = andI(whole, notI(isWhole(mul(y, 0.5))));
  Value negative = compare(P::OLT, x, 0.0), finite = compare(P::OGT, x, -infinity);
  Value unit = constant(x.getType(), 1), nan = constant(x.getType(), std::numeric_limits<double>::quiet_NaN());
  result = select(compare(P::OEQ, size, 1.0), unit, result);
  result = select(isNan(y), y, result);
  result = select(andI(andI(negative, finite), notI(whole)), nan, result);
  result = select(odd, copySign(result, x), result);
  Value isOne = orI(compare(P::OEQ, y, 0.0), compare(P::OEQ, x, 1.0));
  return select(isOne, unit, result);
}

// By squaring; wraps. A negative exponent gives 0, except for the bases 1 and -1.
Value Code::intPower(Value x, Value y, bool isSigned) {
  match(x, y);
  // In 32 bits at least: LLVM 22's code for NVPTX leaves such a loop over i16 too early (seen on an H100).
  if (Type narrow = element(x); narrow.getIntOrFloatBitWidth() < 32) {
    Type wide = b.getI32Type();
    return resizeInt(intPower(resizeInt(x, wide, isSigned), resizeInt(y, wide, isSigned), isSigned), narrow, isSigned);
  }
  Value zero = integer(y.getType(), 0), unit = integer(y.getType(), 1), ones = integer(y.getType(), -1);
  Value negative = isSigned ? compareI(I::slt, y, zero) : Value();
  Value left = isSigned ? select(negative, zero, y) : y;
  auto isOdd = [&](Value v) { return compareI(I::ne, andI(v, unit), zero); };
  auto found = repeat(
      {unit, x, left}, [&](ValueRange state) { return compareI(I::ne, state[2], zero); },
      [&](ValueRange state) {
        Value product = select(isOdd(state[2]), mulI(state[0], state[1]), state[0]);
        return SmallVector<Value>{product, mulI(state[1], state[1]), two<arith::ShRUIOp>(state[2], unit)};
      });
  if (!isSigned)
    return found[0];
  Value flipped = select(isOdd(y), x, unit); // of the bases 1 and -1
  Value isUnit = orI(compareI(I::eq, x, unit), compareI(I::eq, x, ones));
  return select(negative, select(isUnit, flipped, zero), found[0]);
}

// x modulo y, exactly, with the sign of x. A quotient of up to `bits` bits takes one step: in f64 for f32, where the
// product of quotient and divisor is exact, and so is the rounded quotient's whole part; for f64 that may be one too
// large, and the product is the sum of two numbers. Larger quotients are found from their highest bits down, with
// multiples of y by powers of 2: each rest is smaller than its divisor and a multiple of its unit in the last place.
Value Code::remainder(Value x, Value y) {
  match(x, y);
  const bool full = isDouble(x);
  const int64_t bits = full ? 52 : 28;
  auto wide = [&](Value v) -> Value {
    return full ? v : Value(arith::ExtFOp::create(b, loc, like(v, b.getF64Type()), v));
  };
  Value a = wide(abs(x)), d = wide(abs(y));
  Value finite = compare(P::OLT, a, infinity);
  Value isUsual = andI(finite, andI(compare(P::OGT, d, 0.0), compare(P::OLT, d, infinity)));
  Value dividend = select(isUsual, a, constant(a.getType(), 0)), divisor = select(isUsual, d, constant(a.getType(), 1));
  auto step = [&](Value rest, Value by) -> Value {
    if (!full)
      return sub(rest, mul(one<math::TruncOp>(div(rest, by)), by));
    // Large numbers are made smaller, so that neither a product nor the halves of a factor overflow.
    Value scale = select(compare(P::OGT, by, 0x1p848), constant(by.getType(), 0x1p-64), constant(by.getType(), 1));
    Value divided = mul(rest, scale), divides = mul(by, scale);
    Value quotient = one<math::TruncOp>(div(divided, divides)), product = mul(quotient, divides);
    Value left = sub(sub(divided, product), productError(quotient, divides, product));
    left = div(select(compare(P::OLT, left, 0.0), add(left, divides), left), scale);
    return select(compare(P::OLT, rest, by), rest, left);
  };
  auto exponent = [&](Value v) -> Value {
    return arith::ShRUIOp::create(b, loc, intBits(v), integer(intBits(v).getType(), 52));
  };
  Value tiny = compare(P::OLT, divisor, 0x1p-1022);
  Value lowest = exponent(select(tiny, mul(divisor, 0x1p54), divisor));
  lowest = subI(lowest, select(tiny, integer(lowest.getType(), 54), integer(lowest.getType(), 0)));
  Value largest = mul(divisor, std::ldexp(1.0, static_cast<int>(bits)));
  auto found = repeat(
      {dividend}, [&](ValueRange state) { return compare(P::OGE, state[0], largest); },
      [&](ValueRange state) {
        Value by = subI(subI(exponent(state[0]), lowest), integer(lowest.getType(), bits - 1));
        by = two<arith::MaxSIOp>(by, integer(by.getType(), 0));
        return SmallVector<Value>{step(state[0], scaleByPowerOf2(divisor, by))};
      });
  Value rest = step(found[0], divisor);
  if (!full)
    rest = arith::TruncFOp::create(b, loc, x.getType(), rest);
  Value nan = constant(x.getType(), std::numeric_limits<double>::quiet_NaN());
  Value unusual = select(andI(finite, compare(P::OEQ, d, infinity)), x, nan);
  return copySign(select(isUsual, rest, unusual), x);
}

} // namespace mortise::codegen
