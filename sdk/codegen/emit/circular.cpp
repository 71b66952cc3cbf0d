// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trigonometric functions and their inverses, of f32 and f64.
#include "emit/code.hpp"
#include "emit/coefficients.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;

static constexpr double infinity = std::numeric_limits<double>::infinity();

// 1 / (2 pi), 64 bits a word, behind a word of zeros for small exponents.
static constexpr uint64_t turnsPerRadian[] = {0,
                                              0x28be60db9391054a,
                                              0x7f09d5f47d4d3770,
                                              0x36d8a5664f10e410,
                                              0x7f9458eaf7aef158,
                                              0x6dc91b8e909374b8,
                                              0x01924bba82746487,
                                              0x3f877ac72c4a69cf,
                                              0xba208d7d4baed121,
                                              0x3a671c09ad17df90,
                                              0x4e64758e60d4ce7d,
                                              0x272117e2ef7e4a0e,
                                              0xc7fe25fff7816603,
                                              0xfbcbc462d6829b47,
                                              0xdb4d9fb3c9f2c26d,
                                              0xd3d18fd9a797fa8b,
                                              0x5d49eeb1faf97c5e,
                                              0xcf41ce7de294a4ba,
                                              0x9afed7ec47e35742,
                                              0x1580cc11bf1edaea};

// |x| modulo 2 pi for |x| >= 2^20, as a multiple of pi / 2 (`quadrant`, i32) and a rest in [-pi / 4, pi / 4] (f64).
// With |x| = m 2^e, m an integer of 24 bits, m times the 96 bits of 1 / (2 pi) from 2^-e on is the fraction of a turn:
// what stands before them makes whole turns (Payne and Hanek, Radian reduction for trigonometric functions, 1983). A
// float is no nearer to a multiple of pi / 2 than 2^-33 turns, so that 64 bits of the product leave 31 for the rest.
Value Code::turns(Value x, Value &quadrant) {
  static constexpr uint64_t words[] = {0,          0x28be60db, 0x9391054a, 0x7f09d5f4, // of 32 bits
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

// The same for f64: m has 53 bits and the window 192, so that 128 bits of the fraction are left, of which the nearest
// multiple of pi / 2 takes 61. The rest is the sum of `reduced` and `low`.
Value Code::wideTurns(Value x, Value &low, Value &quadrant) {
  Type word = like(x, b.getI64Type());
  auto lit = [&](uint64_t v) { return integer(word, static_cast<int64_t>(v)); };
  auto left = [&](Value v, Value by) -> Value { return arith::ShLIOp::create(b, loc, v, by); };
  auto right = [&](Value v, Value by) -> Value { return arith::ShRUIOp::create(b, loc, v, by); };
  auto carry = [&](Value sum, Value part) { // of an addition
    return resizeInt(compareI(arith::CmpIPredicate::ult, sum, part), b.getI64Type(), false);
  };
  Value bits = intBits(abs(x));
  Value m = orI(andI(bits, lit((uint64_t(1) << 52) - 1)), lit(uint64_t(1) << 52));
  Value position = subI(right(bits, lit(52)), lit(1075 - 64)); // of the first of the 192 bits
  Value which = right(position, lit(6)), shift = andI(position, lit(63));
  // The four words from `which` on, by binary steps.
  SmallVector<Value> words;
  for (uint64_t w : turnsPerRadian)
    words.push_back(lit(w));
  for (size_t step = 16; step > 0; step /= 2) {
    Value isSet = compareI(arith::CmpIPredicate::ne, andI(which, lit(step)), lit(0));
    const size_t kept = std::min(words.size(), step + 3);
    for (size_t i = 0; i < kept; ++i)
      words[i] = select(isSet, i + step < words.size() ? words[i + step] : lit(0), words[i]);
    words.resize(kept);
  }
  Value window[3];
  for (size_t i = 0; i < 3; ++i)
    window[i] = orI(left(words[i], shift), right(right(words[i + 1], lit(1)), subI(lit(63), shift)));
  auto first = arith::MulUIExtendedOp::create(b, loc, m, window[1]);
  auto second = arith::MulUIExtendedOp::create(b, loc, m, window[2]);
  Value fraction = addI(first.getLow(), second.getHigh());
  Value turn = addI(addI(mulI(m, window[0]), first.getHigh()), carry(fraction, second.getHigh())); // of 2^64
  quadrant = right(addI(turn, lit(uint64_t(1) << 61)), lit(62));
  turn = subI(turn, left(quadrant, lit(62)));
  // As two floats: what the conversion of the upper word leaves, and the lower word.
  Value upper = arith::SIToFPOp::create(b, loc, x.getType(), turn);
  Value left64 = subI(turn, arith::FPToSIOp::create(b, loc, word, upper));
  Value lower = mul(arith::UIToFPOp::create(b, loc, x.getType(), right(fraction, lit(1))), 0x1p-63);
  lower = add(arith::SIToFPOp::create(b, loc, x.getType(), left64), lower);
  Value rest, sum = twoSum(upper, lower, rest);
  Value radians = constant(x.getType(), 0x1.921fb54442d18p-62), product = mul(sum, radians);
  rest = fma(sum, constant(x.getType(), 0x1.1a62633145c07p-116), mul(rest, radians));
  rest = add(productError(sum, radians, product), rest);
  Value reduced = add(product, rest);
  low = add(sub(product, reduced), rest);
  return reduced;
}

// The function at quadrant * pi / 2 + reduced (f64: + low).
Value Code::circularReduced(Value reduced, Value low, Value quadrant, Circular function) {
  Value z = mul(reduced, reduced), cube = mul(reduced, z), sine, cosine;
  if (low) {
    Value half = mul(z, 0.5), most = sub(constant(z.getType(), 1), half), lost = sub(add(neg(most), 1.0), half);
    sine = add(reduced, fma(low, most, mul(cube, polynomial(z, sinTail))));
    cosine = add(most, fma(mul(z, z), polynomial(z, cosTail), sub(lost, mul(reduced, low))));
  } else {
    sine = fma(cube, polynomial(z, sinTail), reduced);
    cosine = fma(z, fma(z, polynomial(z, cosTail), -0.5), 1.0);
  }
  auto bit = [&](int64_t mask) {
    return compareI(arith::CmpIPredicate::ne, andI(quadrant, integer(quadrant.getType(), mask)),
                    integer(quadrant.getType(), 0));
  };
  if (function == Circular::Tangent)
    return div(select(bit(1), neg(cosine), sine), select(bit(1), sine, cosine));
  if (function == Circular::Cosine)
    quadrant = addI(quadrant, integer(quadrant.getType(), 1));
  Value result = select(bit(1), cosine, sine);
  return select(bit(2), neg(result), result);
}

// Reduces f32 by multiples of pi / 2 in f64. Without fma, the first part of pi / 2 has 33 bits, so that its product
// with a multiple of up to 20 bits is exact. f64 is reduced by four such parts, the sum of the differences being kept
// in two numbers. Larger arguments are reduced as integers.
Value Code::circular(Value x, Circular function) {
  const bool full = isDouble(x), once = instructions.fma;
  static constexpr double magic = 6755399441055744.0; // 1.5 * 2^52
  Value wide = full ? x : Value(arith::ExtFOp::create(b, loc, like(x, b.getF64Type()), x));
  Type type = wide.getType();
  Value shifted = fma(wide, constant(type, 0.63661977236758134), magic);
  Value whole = add(shifted, -magic), low, reduced, quadrant = intBits(shifted);
  if (full) {
    Value lost, more;
    reduced = sub(wide, mul(whole, 0x1.921fb544p+0));
    reduced = twoSum(reduced, mul(whole, -0x1.0b4611a6p-34), lost);
    reduced = twoSum(reduced, mul(whole, -0x1.3198a2ep-69), more);
    lost = add(add(lost, more), mul(whole, -0x1.b839a252049c1p-104));
    Value sum = add(reduced, lost);
    low = add(sub(reduced, sum), lost), reduced = sum;
  } else {
    reduced = fma(whole, constant(type, once ? -1.5707963267948966 : -0x1.921fb544p+0), wide);
    reduced = fma(whole, constant(type, once ? -6.123233995736766e-17 : -0x1.0b4611a626331p-34), reduced);
    reduced = arith::TruncFOp::create(b, loc, x.getType(), reduced);
    quadrant = resizeInt(quadrant, b.getI32Type(), false);
  }
  Value result = circularReduced(reduced, low, quadrant, function);
  if (function != Circular::Cosine)
    result = select(compare(P::OEQ, x, 0.0), x, result);
  Value huge = compare(P::OGE, abs(x), once && !full ? 0x1p30 : 0x1p20);
  return ifAny(
      huge,
      [&] {
        Value turned, less, rest;
        if (full)
          rest = wideTurns(x, less, turned);
        else
          rest = arith::TruncFOp::create(b, loc, x.getType(), turns(x, turned));
        Value large = circularReduced(rest, less, turned, function);
        if (function != Circular::Cosine)
          large = select(compare(P::OLT, x, 0.0), neg(large), large);
        large = select(compare(P::OEQ, abs(x), infinity), sub(x, x), large);
        return select(huge, large, result);
      },
      result);
}

// pi / 2, of f32 and f64.
static constexpr double halfPi[][2] = {{0x1.921fb6p+0, -0x1.777a5cf72cecep-25},
                                       {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54}};

// The arc sine of |x| or its rest: with s = |x| up to 1/2 and sqrt((1 - |x|) / 2) beyond (`far`), s + s z p(z).
Value Code::arcSineParts(Value x, Value &rest, Value &far) {
  Value a = abs(x), half = constant(x.getType(), 0.5);
  far = compare(P::OGT, a, half);
  Value z = select(far, mul(sub(constant(x.getType(), 1), a), half), mul(a, a));
  Value s = select(far, sqrt(z), a);
  rest = mul(mul(s, z), polynomial(z, asinTail));
  return s;
}

// pi / 2 - 2 asin(s) is twice the difference to pi / 4, which is exact where it is small.
Value Code::asin(Value x) {
  const double *right = halfPi[isDouble(x)];
  Value rest, far, s = arcSineParts(x, rest, far);
  Value beyond = sub(sub(constant(x.getType(), right[0] / 2), s), add(rest, -right[1] / 2));
  return copySign(select(far, add(beyond, beyond), add(s, rest)), x);
}

Value Code::acos(Value x) {
  const double *right = halfPi[isDouble(x)];
  Value rest, far, s = arcSineParts(x, rest, far), high = constant(x.getType(), right[0]);
  Value near = sub(high, add(copySign(s, x), add(copySign(rest, x), -right[1])));
  Value angle = add(s, rest);
  angle = select(compare(P::OLT, x, 0.0), sub(high, add(angle, -right[1])), angle);
  return select(far, add(angle, angle), near);
}

// The angle of (x, y), both not negative and not both 0 or infinite: that of y / x up to tan(pi / 8), above it that of
// (y - x) / (y + x) from pi / 4 on, and beyond tan(3 pi / 8) that of -x / y from pi / 2 on.
Value Code::arcTangent(Value y, Value x) {
  const double *right = halfPi[isDouble(y)];
  match(y, x);
  Value low = compare(P::OLE, y, mul(x, 0.41421356237309503)), middle = compare(P::OLE, y, mul(x, 2.4142135623730949));
  Value above = select(low, y, select(middle, sub(y, x), neg(x)));
  Value t = div(above, select(low, x, select(middle, add(y, x), y)));
  Value z = mul(t, t), zero = constant(y.getType(), 0);
  auto base = [&](double value) {
    return select(low, zero, select(middle, constant(y.getType(), value / 2), constant(y.getType(), value)));
  };
  Value rest = fma(mul(t, z), polynomial(z, atanTail), base(right[1]));
  return add(base(right[0]), add(t, rest));
}

Value Code::atan(Value x) { return copySign(arcTangent(abs(x), constant(x.getType(), 1)), x); }

// Large coordinates are made smaller, so that their sum does not overflow, and tiny ones larger, since products with
// subnormal numbers are not exact enough to be compared.
Value Code::atan2(Value y, Value x) {
  match(y, x);
  const double *right = halfPi[isDouble(y)];
  Value a = abs(y), w = abs(x), one = constant(y.getType(), 1), zero = constant(y.getType(), 0);
  auto both = [&](double value) -> Value { return andI(compare(P::OEQ, a, value), compare(P::OEQ, w, value)); };
  Value infinite = both(infinity);
  w = select(both(0), one, w);
  w = select(infinite, one, w), a = select(infinite, one, a);
  const double tiny = isDouble(y) ? 0x1p-900 : 0x1p-100, larger = isDouble(y) ? 0x1p200 : 0x1p64;
  Value areTiny = andI(compare(P::OLT, a, tiny), compare(P::OLT, w, tiny));
  Value scale = select(areTiny, constant(y.getType(), larger), one);
  scale = select(compare(P::OGT, a, 1.0), constant(y.getType(), 0.25), scale);
  Value angle = arcTangent(mul(a, scale), mul(w, scale));
  Value isLeft = compareI(arith::CmpIPredicate::slt, intBits(x), intBits(zero));
  Value other = sub(constant(y.getType(), 2 * right[0]), add(angle, -2 * right[1]));
  return copySign(select(isLeft, other, angle), y);
}

} // namespace mortise::codegen
