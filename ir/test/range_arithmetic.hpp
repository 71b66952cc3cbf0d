// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interval arithmetic: the possible results of each op on numbers, and of rounding to an element type.
#pragma once

#include "ranges.hpp"

#include <mortise/graph.hpp>
#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace mortise::test {

using reference::visitFloat;
inline constexpr double infinite = std::numeric_limits<double>::infinity();

inline double nearest(int32_t dtype, double value) {
  return visitFloat(dtype, [&](auto type) {
    using T = decltype(type);
    return static_cast<double>(T::load(T::store(value)));
  });
}
// The next larger number of the type above `value`, which the type represents.
inline double next(int32_t dtype, double value) {
  if (dtype == MORTISE_F64)
    return std::nextafter(value, infinite);
  if (dtype == MORTISE_F32)
    return static_cast<double>(std::nextafterf(static_cast<float>(value), INFINITY));
  return visitFloat(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (sizeof(typename T::Storage) > 2)
      return value; // handled above
    else {
      auto bits = T::store(value);
      if (value == 0)
        bits = 1;
      else
        bits = static_cast<decltype(bits)>(value > 0 ? bits + 1 : bits - 1);
      double above = T::load(bits);
      return std::isnan(above) ? infinite : above;
    }
  });
}
inline double up(int32_t dtype, double value) {
  double rounded = nearest(dtype, value);
  if (std::isnan(rounded) || rounded >= value) // f8E4M3FN has no infinity: overflow gives NaN
    return std::isnan(rounded) && value < 0 ? -infinite : std::isnan(rounded) ? infinite : rounded;
  return next(dtype, rounded);
}
inline double down(int32_t dtype, double value) { return -up(dtype, -value); }

inline bool overflows(int32_t dtype, double value) {
  double rounded = nearest(dtype, value);
  return std::isfinite(value) && !std::isfinite(rounded);
}

// The range extended by every number that rounding to the type may give.
inline Range rounded(int32_t dtype, Range range) {
  if (!isFloat(dtype) || range.nan == Range::always)
    return range;
  double low = static_cast<double>(range.low), high = static_cast<double>(range.high);
  Range result{down(dtype, low), up(dtype, high), range.nan};
  if (overflows(dtype, low))
    result.low = low > 0 ? infinite : -infinite;
  if (overflows(dtype, high))
    result.high = high > 0 ? infinite : -infinite;
  else if (std::isfinite(high) && !std::isfinite(static_cast<double>(result.high)))
    result.high = high; // beyond the largest number, but rounds to it
  if (std::isfinite(low) && !overflows(dtype, low) && !std::isfinite(static_cast<double>(result.low)))
    result.low = low;
  if (nearest(dtype, low) == 0 && nearest(dtype, high) == 0)
    result.low = result.high = 0;
  if (dtype == MORTISE_F8E4M3FN && result.nan != Range::always) {
    bool below = result.low == -infinite, above = result.high == infinite;
    if ((below && result.high == -infinite) || (above && result.low == infinite))
      return {0, 0, Range::always};
    if (below || above)
      result = {below ? -448 : result.low, above ? 448 : result.high, Range::maybe};
  }
  return result;
}

inline Range hull(const Range &a, const Range &b) {
  if (a.nan == Range::always || b.nan == Range::always) {
    if (a.nan == b.nan)
      return a;
    Range other = a.nan == Range::always ? b : a;
    other.nan = Range::maybe;
    return other;
  }
  return {std::min(a.low, b.low), std::max(a.high, b.high), std::max(a.nan, b.nan)};
}
inline Range::Nan either(const Range &a, const Range &b) { return std::max(a.nan, b.nan); }
inline constexpr Range everything{-static_cast<long double>(infinite), infinite, Range::maybe};
inline const Range notANumber{0, 0, Range::always};

// Bounds for a + b in f64, one unit in the last place below and above unless the sum is exact.
inline double below(double sum, double error) {
  return error == 0 || !std::isfinite(sum) ? sum : std::nextafter(sum, -infinite);
}
inline double above(double sum, double error) {
  return error == 0 || !std::isfinite(sum) ? sum : std::nextafter(sum, infinite);
}
inline double residual(double a, double b, double sum) { // exact: a + b == sum + residual
  if (!std::isfinite(sum))
    return std::isfinite(a) && std::isfinite(b) ? 1 : 0;
  double part = sum - a;
  return (a - (sum - part)) + (b - part);
}

inline Range add(const Range &a, const Range &b) {
  if (either(a, b) == Range::always)
    return notANumber;
  double al = static_cast<double>(a.low), ah = static_cast<double>(a.high), bl = static_cast<double>(b.low),
         bh = static_cast<double>(b.high);
  Range result{0, 0, either(a, b)};
  if ((al == infinite && bh == -infinite) || (ah == -infinite && bl == infinite))
    return notANumber;
  if ((ah == infinite && bl == -infinite) || (al == -infinite && bh == infinite))
    result.nan = Range::maybe;
  double low = al + bl, high = ah + bh;
  result.low = std::isnan(low) ? -infinite : below(low, residual(al, bl, low));
  result.high = std::isnan(high) ? infinite : above(high, residual(ah, bh, high));
  return result;
}
inline Range negated(const Range &a) { return {-a.high, -a.low, a.nan}; }

struct Ends { // smallest and largest of candidates, widened by the error of each
  double low = infinite, high = -infinite;
  void take(double value, bool exact) {
    low = std::min(low, exact ? value : below(value, 1));
    high = std::max(high, exact ? value : above(value, 1));
  }
};
inline Range mul(const Range &a, const Range &b) {
  if (either(a, b) == Range::always)
    return notANumber;
  Ends ends;
  Range::Nan nan = either(a, b);
  for (long double x : {a.low, a.high})
    for (long double y : {b.low, b.high}) {
      auto p = static_cast<double>(x), q = static_cast<double>(y);
      double product = p * q;
      if (std::isnan(product)) // 0 * infinity; the other corners give the numbers near it
        ends.take(0, true);
      else
        ends.take(product, !std::isfinite(product)
                               ? !std::isfinite(p) || !std::isfinite(q)
                               : std::fma(p, q, -product) == 0 && (product != 0 || p == 0 || q == 0));
    }
  auto spansZero = [](const Range &r) { return r.low <= 0 && r.high >= 0; };
  auto unbounded = [](const Range &r) { return r.low == -infinite || r.high == infinite; };
  if ((spansZero(a) && unbounded(b)) || (spansZero(b) && unbounded(a)))
    nan = a.isPoint() && b.isPoint() ? Range::always : Range::maybe;
  return {ends.low, ends.high, nan};
}
inline Range div(const Range &a, const Range &b) {
  if (either(a, b) == Range::always)
    return notANumber;
  if (b.low <= 0 && b.high >= 0) {
    bool zero = b.low == b.high && b.nan == Range::never;
    if (zero && a.isPoint() && a.low == 0)
      return notANumber;
    if (zero && !(a.low <= 0 && a.high >= 0))
      return {-static_cast<long double>(infinite), infinite, a.nan};
    return everything;
  }
  Ends ends;
  Range::Nan nan = either(a, b);
  for (long double x : {a.low, a.high})
    for (long double y : {b.low, b.high}) {
      auto p = static_cast<double>(x), q = static_cast<double>(y);
      double quotient = p / q;
      if (std::isnan(quotient)) { // of infinities
        nan = a.isPoint() && b.isPoint() ? Range::always : Range::maybe;
        ends.take(0, true);
        ends.take(std::signbit(p) == std::signbit(q) ? infinite : -infinite, true);
      } else {
        ends.take(quotient,
                  !std::isfinite(p) || !std::isfinite(q) ||
                      (std::isfinite(quotient) && std::fma(quotient, q, -p) == 0 && (quotient != 0 || p == 0)));
      }
    }
  return {ends.low, ends.high, nan};
}

// The range of a nondecreasing function whose f64 value is within 2^-50; NaN outside [from, to]. `exact(x)`: the value
// at x is exact.
inline Range rising(
    const Range &a, double (*function)(double), double from = -infinite, double to = infinite,
    bool (*exact)(double) = [](double) { return false; }, double least = -infinite, double most = infinite) {
  if (a.nan == Range::always || a.high < from || a.low > to)
    return notANumber;
  Range::Nan nan = a.low < from || a.high > to ? Range::maybe : a.nan;
  auto low = static_cast<double>(a.low), high = static_cast<double>(a.high);
  low = std::max(low, from);
  high = std::min(high, to);
  double first = function(low), last = function(high);
  auto slack = [](double value) { return std::isfinite(value) ? std::abs(value) * 0x1p-50 + 0x1p-1074 : 0; };
  if (!exact(low))
    first -= slack(first);
  if (!exact(high))
    last += slack(last);
  return {std::clamp(first, least, most), std::clamp(last, least, most), nan};
}
inline Range falling(const Range &a, double (*function)(double), double from, double to, bool (*exact)(double),
                     double least, double most) {
  static thread_local double (*inner)(double);
  static thread_local bool (*innerExact)(double);
  inner = function;
  innerExact = exact;
  Range result = rising(
      negated(a), [](double x) { return inner(-x); }, -to, -from, [](double x) { return innerExact(-x); }, least, most);
  return result;
}
inline bool isZeroOrEnd(double x) { return x == 0 || !std::isfinite(x); }
inline bool isOneOrEnd(double x) { return x == 1 || x == 0 || !std::isfinite(x); }

inline Range squareRoot(const Range &a) {
  return rising(
      a, [](double x) { return std::sqrt(x); }, 0, infinite,
      [](double x) { return !std::isfinite(x) || std::fma(std::sqrt(x), std::sqrt(x), -x) == 0; }, 0, infinite);
}
inline Range reciprocalRoot(const Range &a) {
  return falling(a, [](double x) { return 1 / std::sqrt(std::abs(x)); }, 0, infinite, isOneOrEnd, 0, infinite);
}
inline Range cosine(const Range &a) { // |cos x - cos y| <= |x - y|
  if (a.nan == Range::always || a.isPoint())
    return a.nan == Range::always || !std::isfinite(static_cast<double>(a.low))
               ? notANumber
               : Range{std::cos(static_cast<double>(a.low)) - 0x1p-50, std::cos(static_cast<double>(a.low)) + 0x1p-50,
                       a.nan};
  if (a.low == -infinite || a.high == infinite)
    return everything;
  auto middle = static_cast<double>((a.low + a.high) / 2),
       reach = static_cast<double>(a.high - a.low) / 2 * 1.001 + 0x1p-50;
  return {std::max(-1.0, std::cos(middle) - reach), std::min(1.0, std::cos(middle) + reach), a.nan};
}
inline Range magnitude(const Range &a) {
  if (a.low >= 0)
    return a;
  if (a.high <= 0)
    return negated(a);
  return {0, std::max(-a.low, a.high), a.nan};
}
inline Range extreme(const Range &a, const Range &b, bool largest) {
  if (either(a, b) == Range::always)
    return notANumber;
  return largest ? Range{std::max(a.low, b.low), std::max(a.high, b.high), either(a, b)}
                 : Range{std::min(a.low, b.low), std::min(a.high, b.high), either(a, b)};
}

inline Range truth(bool mayBeFalse, bool mayBeTrue) {
  return {mayBeFalse ? 0.0L : 1.0L, mayBeTrue ? 1.0L : 0.0L, Range::never};
}
inline Range compared(const Range &a, const Range &b, std::string_view direction) {
  bool negative = direction == "ne";
  if (either(a, b) == Range::always)
    return truth(!negative, negative);
  bool yes, no; // possible
  if (direction == "eq" || negative) {
    yes = a.low <= b.high && b.low <= a.high;
    no = !(a.low == a.high && b.low == b.high && a.low == b.low);
    if (negative)
      std::swap(yes, no);
  } else if (direction == "lt" || direction == "ge") {
    yes = a.low < b.high;
    no = a.high >= b.low;
    if (direction == "ge")
      std::swap(yes, no);
  } else {
    yes = a.high > b.low;
    no = a.low <= b.high;
    if (direction == "le")
      std::swap(yes, no);
  }
  if (either(a, b) == Range::maybe)
    (negative ? yes : no) = true;
  return truth(no, yes);
}
inline Range converted(const Range &a, int32_t from, int32_t to) {
  if (to == MORTISE_I1)
    return a.nan == Range::always ? truth(false, true) : compared(a, Range::of(0), "ne");
  if (isFloat(to) || !isFloat(from))
    return a; // the caller rounds; integers that reach this stay in range
  Range result = reference::visitInt(to, [&](auto type) {
    using T = decltype(type);
    auto end = [](long double value) {
      return std::clamp(std::trunc(value), static_cast<long double>(T::lowest), static_cast<long double>(T::highest));
    };
    return Range{end(a.low), end(a.high), Range::never};
  });
  if (a.nan == Range::always)
    return Range::of(0);
  return a.nan == Range::maybe ? hull(result, Range::of(0)) : result;
}

// The range of a sum in f64, in any order.
struct Sum {
  Range range = Range::of(0);
  long double magnitude = 0;
  int64_t terms = 0;
  bool exact = true;

  void operator+=(const Range &term) {
    Range next = add(range, term);
    exact = exact && next.low == range.low + term.low && next.high == range.high + term.high;
    range = next;
    if (term.nan != Range::always)
      magnitude += std::max(std::abs(term.low), std::abs(term.high));
    ++terms;
  }
  Range result() const {
    if (range.nan == Range::always || exact)
      return range;
    if (std::isfinite(magnitude) && magnitude > std::numeric_limits<double>::max())
      return everything; // another order may overflow
    if (!std::isfinite(magnitude))
      return range;
    long double slack = magnitude * static_cast<long double>(terms) * 0x1p-52L;
    return {range.low - slack, range.high + slack, range.nan};
  }
};

} // namespace mortise::test
