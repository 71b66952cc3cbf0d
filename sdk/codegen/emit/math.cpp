// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exponentials, logarithms, hyperbolic and error functions of f32 and f64, scalars and vectors. NaN propagates through
// every step: clamps compare so that NaN passes.
#include "emit/code.hpp"
#include "emit/coefficients.hpp"

#include <cmath>
#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;

static constexpr double infinity = std::numeric_limits<double>::infinity();

static Value clamp(Code &c, P isBeyond, Value x, double bound, Code::Clamp how) {
  Value limit = c.constant(x.getType(), bound);
  return c.select(how == Code::Clamp::Rough ? c.roughCompare(isBeyond, x, limit) : c.compare(isBeyond, x, limit), limit,
                  x);
}
Value Code::atMost(Value x, double bound, Clamp how) { return clamp(*this, P::OGT, x, bound, how); }
Value Code::atLeast(Value x, double bound, Clamp how) { return clamp(*this, P::OLT, x, bound, how); }

Value Code::polynomial(Value x, const Fit &fit) {
  const std::span<const double> coefficients = isDouble(x) ? fit.f64 : fit.f32;
  return polynomial(x, ArrayRef<double>(coefficients.data(), coefficients.size()));
}

// A number as the sum of two, the first of which has few enough bits that its product with an exponent is exact.
struct Parts {
  double high, low;
};
static constexpr Parts ln2[] = {{0.693145751953125, 1.42860682030941723212e-6},
                                {0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45}};
static constexpr Parts log10Of2[] = {{0x1.344p-2, 0x1.3509f79fef312p-18}, {0x1.34413509f78p-2, 0x1.fef311f12b358p-46}};
// These only as exact as two numbers are.
static constexpr Parts log2e[] = {{0x1.715476p+0, 0x1.4ae0bf85ddf44p-26},
                                  {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}};
static constexpr Parts log10e[] = {{0x1.bcb7b2p-2, -0x1.5b235e39ab2a9p-27},
                                   {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}};

// Adding 1.5 * 2^(digits - 1) to a float rounds it to an integer, which stands in the low bits of the sum. The bits
// above it need not be taken away where the integer becomes an exponent, since powerOf2 shifts them out.
static double magic(Value x) { return Code::isDouble(x) ? 0x1.8p52 : 0x1.8p23; }
static int64_t digits(Value x) { return Code::isDouble(x) ? 52 : 23; } // stored ones
static int64_t bias(Value x) { return Code::isDouble(x) ? 1023 : 127; }

// x = n ln 2 + r with |r| <= ln 2 / 2, and n in the low bits.
Value Code::expReduced(Value x, Value &n) {
  const Parts &part = ln2[isDouble(x)];
  Value shifted = normalFma(x, constant(x.getType(), log2e[1].high), magic(x));
  Value whole = add(shifted, -magic(x));
  n = intBits(shifted);
  Value r = fma(whole, constant(x.getType(), -part.high), x);
  return fma(whole, constant(x.getType(), -part.low), r);
}

Value Code::powerOf2(Value n, Value like) {
  Value biased = addI(n, integer(n.getType(), bias(like)));
  return bitcast(arith::ShLIOp::create(b, loc, biased, integer(n.getType(), digits(like))), element(like));
}

// Scales in two steps, so that subnormal results are rounded once and 2^128 (2^1024) does not overflow early. n has the
// exponent in its low bits and is not negative: it is shifted without a sign, since not every CPU has signed shifts of
// 64 bits.
Value Code::scaleByPowerOf2(Value x, Value n) {
  Value half = two<arith::ShRUIOp>(n, integer(n.getType(), 1));
  return mul(mul(x, powerOf2(half, x)), powerOf2(subI(n, half), x));
}

// e^x = m 2^n, for those x whose result is finite.
Value Code::expParts(Value x, Value &n) {
  Value r = expReduced(atLeast(x, isDouble(x) ? -746 : -104.5, Clamp::Rough), n);
  return add(normalFma(polynomial(r, expTail), mul(r, r), r), 1.0);
}

Value Code::exp(Value x, Sign sign) {
  if (approximates(x))
    return sign == Sign::NonPositive ? approximateDecay(x) : approximateExp(x);
  Value n, m = expParts(sign == Sign::NonPositive ? x : atMost(x, isDouble(x) ? 710 : 89, Clamp::Rough), n);
  return scaleByPowerOf2(m, n);
}

Value Code::expm1(Value x) {
  Value n, r = expReduced(atLeast(atMost(x, isDouble(x) ? 710 : 89), isDouble(x) ? -40 : -20), n);
  Value tail = fma(polynomial(r, expm1Tail), mul(r, r), r);
  Value scale = powerOf2(addI(n, integer(n.getType(), -1)), x);
  Value half = fma(scale, tail, add(scale, -0.5));
  return copySign(add(half, half), x);
}

// 2^(x + rest) = m 2^n, n in the low bits, with a small rest, if any. The difference of x to the nearest integer is
// exact.
Value Code::exp2Parts(Value x, Value rest, const Fit &tail, Value &n) {
  Value shifted = add(x, magic(x)), r = sub(x, add(shifted, -magic(x)));
  if (rest)
    r = add(r, rest);
  n = intBits(shifted);
  return normalFma(polynomial(r, tail), r, 1.0);
}

Value Code::exp2(Value x, Value rest) {
  x = atLeast(atMost(x, isDouble(x) ? 1025 : 129, Clamp::Rough), isDouble(x) ? -1077 : -152, Clamp::Rough);
  Value n, m = exp2Parts(x, rest, exp2Tail, n);
  return scaleByPowerOf2(m, n);
}

// x = (1 + f) 2^e with 1 + f in [sqrt(1/2), sqrt(2)). Subnormals are scaled up first.
Value Code::logReduced(Value x, Value &e) {
  Value tiny = compare(P::OLT, x, isDouble(x) ? 0x1p-1022 : 0x1p-126);
  Value bits = intBits(select(tiny, mul(x, std::ldexp(1.0, digits(x))), x));
  auto lit = [&](int64_t v) { return integer(bits.getType(), v); };
  const int64_t one = bias(x) << digits(x), least = isDouble(x) ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  Value exponent = arith::ShRUIOp::create(b, loc, addI(bits, lit(one - least)), lit(digits(x)));
  exponent = subI(exponent, lit(bias(x)));
  Value m = bitcast(subI(bits, arith::ShLIOp::create(b, loc, exponent, lit(digits(x)))), element(x));
  exponent = resizeInt(subI(exponent, select(tiny, lit(digits(x)), lit(0))), b.getI32Type(), true);
  e = arith::SIToFPOp::create(b, loc, x.getType(), exponent);
  return add(m, -1.0);
}

// log(1 + f) = f - square / 2 + rest, where square is f^2. With s = f / (2 + f), it is 2 artanh(s), and 2 s is
// f - square / 2 + s square / 2.
Value Code::logRest(Value f, Value square, const Fit *series) {
  if (!isDouble(f))
    return mul(mul(square, f), polynomial(f, logTail));
  Value s = div(f, add(f, 2.0)), z = mul(s, s);
  return mul(s, fma(square, constant(f.getType(), 0.5), mul(z, polynomial(z, series ? *series : logSeries))));
}

// What logarithms have in common: log(0), log(infinity), and no logarithms of negative numbers.
Value Code::logSpecial(Value x, Value result) {
  result = select(compare(P::OEQ, x, infinity), x, result);
  result = select(compare(P::OEQ, x, 0.0), constant(x.getType(), -infinity), result);
  return select(compare(P::ULT, x, 0.0), constant(x.getType(), std::numeric_limits<double>::quiet_NaN()), result);
}

Value Code::log(Value x) {
  const Parts &part = ln2[isDouble(x)];
  Value e, f = logReduced(x, e), square = mul(f, f);
  Value tail = fma(e, constant(x.getType(), part.low), logRest(f, square));
  tail = fma(square, constant(x.getType(), -0.5), tail);
  return logSpecial(x, fma(e, constant(x.getType(), part.high), add(f, tail)));
}

Value Code::log2(Value x, const Fit *series) {
  const Parts &part = log2e[isDouble(x)];
  Value e, f = logReduced(x, e), square = mul(f, f);
  Value natural = add(f, fma(square, constant(x.getType(), -0.5), logRest(f, square, series)));
  Value result = fma(natural, constant(x.getType(), part.low), e);
  return logSpecial(x, fma(natural, constant(x.getType(), part.high), result));
}

Value Code::log10(Value x) {
  const Parts &part = log10e[isDouble(x)], &perDigit = log10Of2[isDouble(x)];
  Value e, f = logReduced(x, e), square = mul(f, f);
  Value natural = add(f, fma(square, constant(x.getType(), -0.5), logRest(f, square)));
  Value result = fma(natural, constant(x.getType(), part.low), mul(e, perDigit.low));
  result = fma(natural, constant(x.getType(), part.high), result);
  return logSpecial(x, fma(e, constant(x.getType(), perDigit.high), result));
}

Value Code::log1p(Value x) {
  // log(u) + lost / u, where u is the rounded 1 + x and `lost` its rounding error.
  Value one = constant(x.getType(), 1), u = add(x, 1.0);
  Value lost = select(compare(P::OGE, x, 1.0), sub(one, sub(u, x)), sub(x, add(u, -1.0)));
  Value result = add(log(u), div(lost, u));
  result = select(compare(P::OEQ, x, infinity), x, result);
  result = select(compare(P::OEQ, x, -1.0), constant(x.getType(), -infinity), result);
  return copySign(result, x);
}

Value Code::tanh(Value x) {
  Value a = abs(x), z = mul(x, x);
  Value near = fma(mul(polynomial(z, tanhTail), z), a, a);
  Value e = exp(add(a, a)), one = constant(x.getType(), 1);
  Value far = sub(one, div(constant(x.getType(), 2), add(e, one)));
  return copySign(select(compare(P::OLT, z, 0.4), near, far), x);
}

// e^a / 2 for a >= 0, which is finite where sinh and cosh are.
static Value halfExp(Code &c, Value a) {
  Value n, m = c.expParts(c.atMost(a, Code::isDouble(a) ? 711 : 90, Code::Clamp::Rough), n);
  return c.scaleByPowerOf2(m, c.addI(n, c.integer(n.getType(), -1)));
}

Value Code::sinh(Value x) {
  Value a = abs(x), z = mul(x, x);
  Value near = fma(mul(polynomial(z, sinhTail), z), a, a);
  Value e = halfExp(*this, a), far = sub(e, div(constant(x.getType(), 0.25), e));
  return copySign(select(compare(P::OLT, a, 1.0), near, far), x);
}

Value Code::cosh(Value x) {
  Value e = halfExp(*this, abs(x));
  return add(e, div(constant(x.getType(), 0.25), e));
}

// log(1 + y), where y is x itself if its square might overflow, and the result log(2 x).
static Value logOfDouble(Code &c, Value x, Value y) {
  Value huge = c.compare(P::OGT, x, 0x1p60);
  Value more = c.select(huge, c.constant(x.getType(), 0x1.62e42fefa39efp-1), c.constant(x.getType(), 0));
  return c.add(c.log1p(c.select(huge, x, y)), more);
}

// log(a + sqrt(a^2 + 1)), the sum less 1 being a + a^2 / (1 + sqrt(a^2 + 1)).
Value Code::asinh(Value x) {
  Value a = abs(x), square = mul(a, a), root = sqrt(add(square, 1.0));
  return copySign(logOfDouble(*this, a, add(a, div(square, add(root, 1.0)))), x);
}

// log(x + sqrt(x^2 - 1)), with t = x - 1 and x^2 - 1 = 2 t + t^2.
Value Code::acosh(Value x) {
  Value t = add(x, -1.0), root = sqrt(fma(t, t, add(t, t)));
  Value nan = constant(x.getType(), std::numeric_limits<double>::quiet_NaN());
  return select(compare(P::ULT, x, 1.0), nan, logOfDouble(*this, x, add(t, root)));
}

// log((1 + a) / (1 - a)) / 2
Value Code::atanh(Value x) {
  Value a = abs(x), ratio = div(add(a, a), sub(constant(x.getType(), 1), a));
  return copySign(mul(log1p(ratio), 0.5), x);
}

// factor * e^(-square) * s * p(1 - 4 s) with s = 1 / (a + 2), where `lost` is a^2 - square, the rounding error of
// `square`. The result depends on s more than proportionally: where `isExact`, the roundings of a + 2 and of the
// quotient are taken into account as well (`off` is their sum, relative to s), for an error below 4 ULP
// (math_test.cpp). The scaling by a power of 2 comes last, so that a subnormal result is rounded once.
Value Code::tailProbability(Value a, Value square, Value lost, Value factor, bool isExact) {
  Value n, e = expParts(neg(square), n);
  Value one = constant(a.getType(), 1), four = constant(a.getType(), -4);
  Value sum = add(a, 2.0), s = hasFlushingFma(sum) ? refinedReciprocal(sum) : div(one, sum),
        t = normalFma(s, four, 1.0), error = neg(lost);
  if (isExact) {
    Value down = neg(s), off = normalFma(down, sub(a, add(sum, -2.0)), normalFma(down, sum, one));
    error = sub(off, lost);
    t = normalFma(mul(s, off), four, t);
  }
  e = normalFma(e, error, e);
  return scaleByPowerOf2(mul(e, mul(mul(s, factor), polynomial(t, erfcScaled))), n);
}

static Value erfcOfSize(Code &c, Value x, bool isExact = false) {
  Value a = c.atMost(c.abs(x), Code::isDouble(x) ? 28 : 10.5, Code::Clamp::Rough), square = c.mul(a, a);
  return c.tailProbability(a, square, c.squareError(a, square), c.constant(a.getType(), 1), isExact);
}

Value Code::erfc(Value x) {
  Value tail = erfcOfSize(*this, x, true);
  return select(compare(P::OLT, x, 0.0), sub(constant(x.getType(), 2), tail), tail);
}

Value Code::erf(Value x) {
  Value a = abs(x), z = mul(x, x);
  Value near = mul(a, polynomial(z, erfNear));
  Value far = sub(constant(x.getType(), 1), erfcOfSize(*this, x));
  return copySign(select(compare(P::OLT, z, 1.0), near, far), x);
}

// x * Phi(x), with Phi(-|x|) = erfc(|x| / sqrt 2) / 2, which does not cancel; for x > 0 it is x - x * Phi(-x).
Value Code::gelu(Value x) {
  if (approximates(x))
    return approximateGelu(x);
  Value a = atMost(abs(x), isDouble(x) ? 40 : 15), square = mul(a, a);
  Value lost = squareError(a, square);
  Value tail = tailProbability(mul(a, 0.70710678118654752), mul(square, 0.5), mul(lost, 0.5), mul(copySign(a, x), 0.5),
                               isDouble(x));
  // The product with 0 makes the result at -inf NaN, as -inf * Phi(-inf) is.
  return select(compare(P::OLE, x, 0.0), fma(x, constant(x.getType(), 0), tail), sub(x, tail));
}

Value Code::logistic(Value x) {
  if (approximates(x))
    return approximateLogistic(x);
  Value e = exp(neg(abs(x))), one = constant(x.getType(), 1);
  if (hasFlushingFma(x)) // which may make 0 of a subnormal e - e^2
    return select(compare(P::OLT, x, -64.0), e, logisticOf(x, e));
  return div(select(compare(P::OLT, x, 0.0), e, one), add(one, e));
}

} // namespace mortise::codegen
