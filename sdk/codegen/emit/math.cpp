// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementary functions of f32 scalars and vectors; f64 calls the C library (runtime.cpp). The coefficients come from
// tools/fit.py. NaN propagates through every step: clamps compare so that NaN passes.
#include "emit/code.hpp"

#include <iterator>
#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;

// expTail: [-0.34692, 0.34692], relative error 3.08e-09
static constexpr double expTail[] = {1.38144667408037739e-03, 8.36878042906188079e-03, 4.16683942173985689e-02,
                                     1.66665201076267477e-01, 4.99999934124697010e-01};
// expm1Tail: [-0.34692, 0.34692], relative error 5.25e-12
static constexpr double expm1Tail[] = {2.47963750019963688e-05, 1.99049728232487006e-04, 1.38889854689890047e-03,
                                       8.33328896560452809e-03, 4.16666659507393053e-02, 1.66666667543957675e-01,
                                       5.00000000010573209e-01};
// logTail: [-0.293186, 0.414628], relative error 8.88e-10
static constexpr double logTail[] = {6.74268965650696439e-02,  -1.16208570767589461e-01, 1.18581729118008128e-01,
                                     -1.24137216711974793e-01, 1.42254417595692462e-01,  -1.66676820449918939e-01,
                                     2.00017543193563074e-01,  -2.50000112932884211e-01, 3.33333195800882831e-01};
// tanhTail: [0, 0.4], relative error 2.07e-10
static constexpr double tanhTail[] = {2.13458360454395028e-03,  -8.17156151013963099e-03, 2.17001124326370726e-02,
                                      -5.39471079890751493e-02, 1.33332142374494894e-01,  -3.33333312628302569e-01};
// erfNear: [0, 1], relative error 3.32e-11
static constexpr double erfNear[] = {-9.64151803206636515e-06, 1.12569485919630785e-04,  -8.48282893766091634e-04,
                                     5.22094543884755753e-03,  -2.68654000440763999e-02, 1.12837819741323730e-01,
                                     -3.76126384346520959e-01, 1.12837916705802233e+00};
// erfcScaled: [-1, 0.77], relative error 5.36e-09
static constexpr double erfcScaled[] = {8.08776606548299606e-05,  6.61081520745514901e-05,  -5.97684694146888534e-04,
                                        -8.52070277515364874e-04, 3.06061116294419414e-03,  6.48293269515131700e-03,
                                        -2.15045658948333773e-02, -3.64427223196964328e-02, 2.79471647752710162e-01,
                                        -6.87160662622153029e-01, 1.02158271036201120e+00};
// sinTail: [0, 0.618085], relative error 1.72e-10
static constexpr double sinTail[] = {2.72487974073266289e-06, -1.98400772167909309e-04, 8.33333185482005613e-03,
                                     -1.66666666637943411e-01};
// cosTail: [0, 0.618085], relative error 5.72e-11
static constexpr double cosTail[] = {-2.73001737404399970e-07, 2.48005938848329938e-05, -1.38888876587924958e-03,
                                     4.16666666642820163e-02};
static constexpr double log2e = 1.4426950408889634;
static constexpr double ln2High = 0.693145751953125, ln2Low = 1.42860682030941723212e-6;
static constexpr double infinity = std::numeric_limits<double>::infinity();

static bool isDouble(Value x) { return Code::element(x).isF64(); }
static Value atMost(Code &c, Value x, double bound) {
  return c.select(c.compare(P::OGT, x, bound), c.constant(x.getType(), bound), x);
}
static Value atLeast(Code &c, Value x, double bound) {
  return c.select(c.compare(P::OLT, x, bound), c.constant(x.getType(), bound), x);
}

// x = n ln 2 + r with |r| <= ln 2 / 2, and n as an integer. Adding 1.5 * 2^23 leaves the rounded integer in the low
// bits.
Value Code::expReduced(Value x, Value &n) {
  static constexpr double magic = 12582912.0;
  Value shifted = fma(x, constant(x.getType(), log2e), magic);
  Value whole = add(shifted, -magic);
  Value bits = intBits(shifted);
  n = subI(bits, integer(bits.getType(), 0x4b400000));
  Value r = fma(whole, constant(x.getType(), -ln2High), x);
  return fma(whole, constant(x.getType(), -ln2Low), r);
}

static Value powerOf2(Code &c, Value n) {
  Value biased = c.addI(n, c.integer(n.getType(), 127));
  return c.bitcast(arith::ShLIOp::create(c.b, c.loc, biased, c.integer(n.getType(), 23)), c.b.getF32Type());
}

// Scales in two steps, so that subnormal results are rounded once and 2^128 does not overflow early.
Value Code::scaleByPowerOf2(Value x, Value n) {
  Value half = arith::ShRSIOp::create(b, loc, n, integer(n.getType(), 1));
  return mul(mul(x, powerOf2(*this, half)), powerOf2(*this, subI(n, half)));
}

// e^x = m 2^n, for those x whose result is finite.
Value Code::expParts(Value x, Value &n) {
  Value r = expReduced(atLeast(*this, x, -104.5), n);
  return add(fma(polynomial(r, expTail), mul(r, r), r), 1.0);
}

Value Code::exp(Value x) {
  if (isDouble(x))
    return call("mortise_exp_f64", x);
  Value n, m = expParts(atMost(*this, x, 89.0), n);
  return scaleByPowerOf2(m, n);
}

Value Code::expm1(Value x) {
  if (isDouble(x))
    return call("mortise_expm1_f64", x);
  Value n, r = expReduced(atLeast(*this, atMost(*this, x, 89.0), -20.0), n);
  Value tail = fma(polynomial(r, expm1Tail), mul(r, r), r);
  Value scale = powerOf2(*this, addI(n, integer(n.getType(), -1)));
  Value half = fma(scale, tail, add(scale, -0.5));
  return copySign(add(half, half), x);
}

Value Code::log(Value x) {
  if (isDouble(x))
    return call("mortise_log_f64", x);
  // Subnormals are scaled up first. Then x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  Value tiny = compare(P::OLT, x, 1.1754943508222875e-38);
  Value scaled = select(tiny, mul(x, 8388608.0), x);
  Value bits = intBits(scaled);
  auto lit = [&](int64_t v) { return integer(bits.getType(), v); };
  Value exponent = arith::ShRSIOp::create(b, loc, subI(bits, lit(0x3f3504f3)), lit(23));
  Value m = bitcast(subI(bits, arith::ShLIOp::create(b, loc, exponent, lit(23))), b.getF32Type());
  exponent = subI(exponent, select(tiny, lit(23), lit(0)));
  Value e = arith::SIToFPOp::create(b, loc, x.getType(), exponent);
  Value f = add(m, -1.0), square = mul(f, f);
  Value tail = mul(mul(square, f), polynomial(f, logTail));
  tail = fma(e, constant(x.getType(), ln2Low), tail);
  tail = fma(square, constant(x.getType(), -0.5), tail);
  Value result = fma(e, constant(x.getType(), ln2High), add(f, tail));
  result = select(compare(P::OEQ, x, infinity), x, result);
  result = select(compare(P::OEQ, x, 0.0), constant(x.getType(), -infinity), result);
  return select(compare(P::ULT, x, 0.0), constant(x.getType(), std::numeric_limits<double>::quiet_NaN()), result);
}

Value Code::log1p(Value x) {
  if (isDouble(x))
    return call("mortise_log1p_f64", x);
  // log(u) + lost / u, where u is the rounded 1 + x and `lost` its rounding error.
  Value one = constant(x.getType(), 1), u = add(x, 1.0);
  Value lost = select(compare(P::OGE, x, 1.0), sub(one, sub(u, x)), sub(x, add(u, -1.0)));
  Value result = add(log(u), div(lost, u));
  result = select(compare(P::OEQ, x, infinity), x, result);
  result = select(compare(P::OEQ, x, -1.0), constant(x.getType(), -infinity), result);
  return copySign(result, x);
}

Value Code::tanh(Value x) {
  if (isDouble(x))
    return call("mortise_tanh_f64", x);
  Value a = abs(x), z = mul(x, x);
  Value near = fma(mul(polynomial(z, tanhTail), z), a, a);
  Value e = exp(add(a, a)), one = constant(x.getType(), 1);
  Value far = sub(one, div(constant(x.getType(), 2), add(e, one)));
  return copySign(select(compare(P::OLT, z, 0.4), near, far), x);
}

// factor * e^(-square) * s * p(1 - 4 s) with s = 1 / (a + 2), where `lost` is a^2 - square, the rounding error of
// `square`. The result depends on s more than proportionally: where `isExact`, the roundings of a + 2 and of the
// quotient are taken into account as well (`off` is their sum, relative to s), for an error below 4 ULP
// (math_test.cpp). The scaling by a power of 2 comes last, so that a subnormal result is rounded once.
Value Code::tailProbability(Value a, Value square, Value lost, Value factor, bool isExact) {
  Value n, e = expParts(neg(square), n);
  Value one = constant(a.getType(), 1), four = constant(a.getType(), -4);
  Value sum = add(a, 2.0), s = div(one, sum), t = fma(s, four, 1.0), error = neg(lost);
  if (isExact) {
    Value down = neg(s), off = fma(down, sub(a, add(sum, -2.0)), fma(down, sum, one));
    error = sub(off, lost);
    t = fma(mul(s, off), four, t);
  }
  e = fma(e, error, e);
  return scaleByPowerOf2(mul(e, mul(mul(s, factor), polynomial(t, erfcScaled))), n);
}

static Value erfcOfSize(Code &c, Value x, bool isExact = false) {
  Value a = atMost(c, c.abs(x), 10.5), square = c.mul(a, a);
  return c.tailProbability(a, square, c.squareError(a, square), c.constant(a.getType(), 1), isExact);
}

Value Code::erfc(Value x) {
  if (isDouble(x))
    return call("mortise_erfc_f64", x);
  Value tail = erfcOfSize(*this, x, true);
  return select(compare(P::OLT, x, 0.0), sub(constant(x.getType(), 2), tail), tail);
}

Value Code::erf(Value x) {
  if (isDouble(x))
    return call("mortise_erf_f64", x);
  Value a = abs(x), z = mul(x, x);
  Value near = mul(a, polynomial(z, erfNear));
  Value far = sub(constant(x.getType(), 1), erfcOfSize(*this, x));
  return copySign(select(compare(P::OLT, z, 1.0), near, far), x);
}

// x * Phi(x), with Phi(-|x|) = erfc(|x| / sqrt 2) / 2, which does not cancel; for x > 0 it is x - x * Phi(-x).
Value Code::gelu(Value x) {
  if (isDouble(x))
    return call("mortise_gelu_f64", x);
  Value a = atMost(*this, abs(x), 15.0), square = mul(a, a);
  Value lost = squareError(a, square);
  Value tail = tailProbability(mul(a, 0.70710678118654752), mul(square, 0.5), mul(lost, 0.5), mul(copySign(a, x), 0.5));
  // The product with 0 makes the result at -inf NaN, as -inf * Phi(-inf) is.
  return select(compare(P::OLE, x, 0.0), fma(x, constant(x.getType(), 0), tail), sub(x, tail));
}

Value Code::logistic(Value x) {
  if (isDouble(x))
    return call("mortise_logistic_f64", x);
  Value e = exp(neg(abs(x))), one = constant(x.getType(), 1);
  Value high = div(one, add(one, e));
  return select(compare(P::OLT, x, 0.0), mul(e, high), high);
}

Value Code::rsqrt(Value x) { return div(constant(x.getType(), 1), one<math::SqrtOp>(x)); }

// |x| modulo 2 pi for |x| >= 2^20, as a multiple of pi / 2 (`quadrant`, i32) and a rest in [-pi / 4, pi / 4] (f64).
// With |x| = m 2^e, m an integer of 24 bits, m times the 96 bits of 1 / (2 pi) from 2^-e on is the fraction of a turn:
// what stands before them makes whole turns (Payne and Hanek, Radian reduction for trigonometric functions, 1983). A
// float is no nearer to a multiple of pi / 2 than 2^-33 turns, so that 64 bits of the product leave 31 for the rest.
Value Code::turns(Value x, Value &quadrant) {
  // 1 / (2 pi), 32 bits a word, behind a word of zeros for negative e.
  static constexpr uint64_t words[] = {0,          0x28be60db, 0x9391054a, 0x7f09d5f4,
                                       0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x7f9458ea};
  Value bits = intBits(abs(x));
  auto small = [&](int64_t v) { return integer(bits.getType(), v); };
  auto wide = [&](uint64_t v) { return integer(like(x, b.getI64Type()), static_cast<int64_t>(v)); };
  auto left = [&](Value v, Value by) -> Value { return arith::ShLIOp::create(b, loc, v, by); };
  auto right = [&](Value v, Value by) -> Value { return arith::ShRUIOp::create(b, loc, v, by); };
  Value m = resizeInt(orI(andI(bits, small(0x7fffff)), small(0x800000)), b.getI64Type(), false);
  Value position = subI(right(bits, small(23)), small(150 - 32)); // of the first of the 96 bits
  Value word = right(position, small(5)), shift = resizeInt(andI(position, small(31)), b.getI64Type(), false);
  Value first = wide(words[0] << 32 | words[1]), second = wide(words[2] << 32 | words[3]);
  for (int64_t w = 1; w + 3 < static_cast<int64_t>(std::size(words)); ++w) {
    Value there = compareI(arith::CmpIPredicate::eq, word, small(w));
    first = select(there, wide(words[w] << 32 | words[w + 1]), first);
    second = select(there, wide(words[w + 2] << 32 | words[w + 3]), second);
  }
  Value high = orI(left(first, shift), right(right(second, wide(1)), subI(wide(63), shift)));
  Value low = right(left(second, shift), wide(32));
  Value turn = addI(mulI(m, high), right(mulI(m, low), wide(32))); // of 2^64
  Value quarter = right(addI(turn, wide(uint64_t(1) << 61)), wide(62));
  Value rest = subI(turn, left(quarter, wide(62)));
  quadrant = resizeInt(quarter, b.getI32Type(), false);
  Value number = arith::SIToFPOp::create(b, loc, like(x, b.getF64Type()), rest);
  return mul(number, 0x1.921fb54442d18p-62);
}

// The sine or cosine of quadrant * pi / 2 + reduced.
Value Code::sinCosReduced(Value reduced, Value quadrant, bool cosine) {
  Value r = arith::TruncFOp::create(b, loc, like(reduced, b.getF32Type()), reduced), z = mul(r, r);
  if (cosine)
    quadrant = addI(quadrant, integer(quadrant.getType(), 1));
  Value sine = fma(mul(r, z), polynomial(z, sinTail), r);
  Value cos = fma(mul(z, z), polynomial(z, cosTail), fma(z, constant(z.getType(), -0.5), 1.0));
  auto bit = [&](int64_t mask) {
    return compareI(arith::CmpIPredicate::ne, andI(quadrant, integer(quadrant.getType(), mask)),
                    integer(quadrant.getType(), 0));
  };
  Value result = select(bit(1), cos, sine);
  return select(bit(2), neg(result), result);
}

// Reduces x by multiples of pi / 2 in f64. Without fma, the first part of pi / 2 has 33 bits, so that its product with
// a multiple of up to 20 bits is exact. Larger arguments are reduced as integers.
Value Code::sinCos(Value x, bool cosine) {
  if (isDouble(x))
    return call(cosine ? "mortise_cos_f64" : "mortise_sin_f64", x);
  static constexpr double magic = 6755399441055744.0; // 1.5 * 2^52
  Value wide = arith::ExtFOp::create(b, loc, like(x, b.getF64Type()), x);
  Value shifted = fma(wide, constant(wide.getType(), 0.63661977236758134), magic);
  Value whole = add(shifted, -magic);
  const bool once = instructions.fma;
  const double high = once ? 1.5707963267948966 : 0x1.921fb544p+0;
  const double low = once ? 6.123233995736766e-17 : 0x1.0b4611a626331p-34;
  Value reduced = fma(whole, constant(wide.getType(), -high), wide);
  reduced = fma(whole, constant(wide.getType(), -low), reduced);
  Value result = sinCosReduced(reduced, resizeInt(intBits(shifted), b.getI32Type(), false), cosine);
  if (!cosine)
    result = select(compare(P::OEQ, x, 0.0), x, result);
  Value huge = compare(P::OGE, abs(x), once ? 0x1p30 : 0x1p20);
  return ifAny(
      huge,
      [&] {
        Value quadrant, rest = turns(x, quadrant), large = sinCosReduced(rest, quadrant, cosine);
        if (!cosine)
          large = select(compare(P::OLT, x, 0.0), neg(large), large);
        large = select(compare(P::OEQ, abs(x), infinity), sub(x, x), large);
        return select(huge, large, result);
      },
      result);
}

} // namespace mortise::codegen
