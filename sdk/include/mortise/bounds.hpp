// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the ranges and divisors of the symbols prove about an extent (Dim): bounds, divisors, a simpler form, and
// comparisons that hold for all values. Header only. Functions answer "no" when they find no proof.
#pragma once

#include <mortise/dim.hpp>

namespace mortise {

// The known facts about a symbol: its inclusive range, and a number that divides every value.
struct SymbolRange {
  int64_t min = 0, max = INT64_MAX, divisor = 1;
  bool operator==(const SymbolRange &) const = default;
  // The least and the greatest multiple of the divisor in the range. The bound itself when the range holds no multiple,
  // or has no such bound.
  int64_t least() const;
  int64_t greatest() const;
  bool contains(int64_t value) const { return value >= min && value <= max && divisor >= 1 && value % divisor == 0; }
  // The greatest multiple of the divisor that is at most `target`, clamped to the range's multiples; `target` clamped
  // to the range when it holds no multiple.
  int64_t nearest(int64_t target) const;
};

// An inclusive range. INT64_MIN and INT64_MAX mean "unbounded".
struct Interval {
  int64_t low = INT64_MIN, high = INT64_MAX;
};

// The range of the values that an extent can have.
Interval bounds(const Dim &dim, std::span<const SymbolRange> symbols);
// A number that divides every value of the extent; 0 for the extent 0.
int64_t knownDivisor(const Dim &dim, std::span<const SymbolRange> symbols);
// Drops quotients, remainders, minima and maxima that ranges and divisors decide. Extents that are equal because of
// divisors get one form if they are polynomials in the quotients of symbols by their divisors.
Dim simplify(const Dim &dim, std::span<const SymbolRange> symbols);

// Whether a >= b, or a != b, is proved for all values of the symbols.
inline bool isAtLeast(const Dim &a, const Dim &b, std::span<const SymbolRange> symbols);
inline bool isDifferent(const Dim &a, const Dim &b, std::span<const SymbolRange> symbols);

namespace detail {

inline int64_t saturate(detail::Int128 value) {
  return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : static_cast<int64_t>(value);
}
inline bool isUnbounded(int64_t value) { return value == INT64_MAX || value == INT64_MIN; }
inline int64_t product(int64_t a, int64_t b) {
  if (a == 0 || b == 0)
    return 0;
  if (isUnbounded(a) || isUnbounded(b))
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  return saturate(static_cast<detail::Int128>(a) * b);
}
inline int64_t sum(int64_t a, int64_t b, int64_t unbounded) {
  return isUnbounded(a) || isUnbounded(b) ? unbounded : saturate(static_cast<detail::Int128>(a) + b);
}
inline Interval product(Interval a, Interval b) {
  const int64_t corners[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                             product(a.high, b.high)};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}
inline int64_t floorDivide(int64_t a, int64_t b) { // b > 0; an unbounded a stays unbounded
  return isUnbounded(a) ? a : a / b - (a % b < 0);
}

} // namespace detail

inline int64_t SymbolRange::least() const {
  int64_t rounded;
  if (divisor <= 1 || __builtin_add_overflow(min, divisor - 1, &rounded) || rounded / divisor * divisor > max)
    return min;
  return rounded / divisor * divisor;
}
inline int64_t SymbolRange::greatest() const {
  return divisor <= 1 || max == INT64_MAX || max / divisor * divisor < min ? max : max / divisor * divisor;
}

inline int64_t SymbolRange::nearest(int64_t target) const {
  const auto within = [](detail::Int128 value, detail::Int128 low, detail::Int128 high) {
    return static_cast<int64_t>(std::max(low, std::min(high, value)));
  };
  if (divisor <= 1)
    return within(target, min, max);
  const auto multiple = [&](detail::Int128 value) { // the greatest multiple that is at most `value`
    const detail::Int128 rest = value % divisor;
    return value - (rest < 0 ? rest + divisor : rest);
  };
  const detail::Int128 low = multiple(static_cast<detail::Int128>(min) + divisor - 1), high = multiple(max);
  return low > high ? within(target, min, max) : within(multiple(target), low, high);
}

inline Interval bounds(const Dim &dim, std::span<const SymbolRange> symbols) {
  if (!dim.valid)
    return {};
  Interval total{dim.constant, dim.constant};
  for (const Dim::Term &term : dim.parts()) {
    Interval part{term.coefficient, term.coefficient};
    for (const Dim::Atom &factor : term.factors) {
      Interval range;
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        if (factor.symbol < symbols.size())
          range = {symbols[factor.symbol].least(), symbols[factor.symbol].greatest()};
      } else {
        const Interval left = bounds(factor.operands->first, symbols), right = bounds(factor.operands->second, symbols);
        if (factor.op == MORTISE_EXPR_MIN)
          range = {std::min(left.low, right.low), std::min(left.high, right.high)};
        else if (factor.op == MORTISE_EXPR_MAX)
          range = {std::max(left.low, right.low), std::max(left.high, right.high)};
        else if (factor.op == MORTISE_EXPR_MOD && right.low > 0)
          range = {0, right.high == INT64_MAX ? INT64_MAX : right.high - 1};
        else if (factor.op == MORTISE_EXPR_FLOORDIV && right.low > 0)
          range = {left.low >= 0 ? (right.high == INT64_MAX ? 0 : detail::floorDivide(left.low, right.high))
                                 : detail::floorDivide(left.low, right.low),
                   left.high >= 0 ? detail::floorDivide(left.high, right.low)
                                  : (right.high == INT64_MAX ? -1 : detail::floorDivide(left.high, right.high))};
      }
      part = detail::product(part, range);
    }
    total = {detail::sum(total.low, part.low, INT64_MIN), detail::sum(total.high, part.high, INT64_MAX)};
  }
  return total;
}

inline int64_t knownDivisor(const Dim &dim, std::span<const SymbolRange> symbols) {
  if (!dim.valid)
    return 1;
  int64_t total = dim.constant;
  for (const Dim::Term &term : dim.parts()) {
    int64_t part = term.coefficient;
    for (const Dim::Atom &factor : term.factors) {
      int64_t divisor = 1;
      if (factor.op == MORTISE_EXPR_SYMBOL)
        divisor = factor.symbol < symbols.size() ? symbols[factor.symbol].divisor : 1;
      else if (factor.op == MORTISE_EXPR_FLOORDIV) {
        const std::optional<int64_t> by = factor.operands->second.number();
        const int64_t above = by && *by > 0 ? knownDivisor(factor.operands->first, symbols) : 1;
        divisor = above != 0 && by && *by > 0 && above % *by == 0 ? above / *by : 1;
      } else
        divisor =
            detail::gcd(knownDivisor(factor.operands->first, symbols), knownDivisor(factor.operands->second, symbols));
      if (divisor == 0 || __builtin_mul_overflow(part, divisor, &part))
        part = term.coefficient; // overflow: the coefficient is a divisor too
    }
    total = detail::gcd(total, part);
  }
  return total;
}

namespace detail {

// floorDiv(dividend, divisor). When the divisor divides everything but the dividend's constant, it divides both apart.
inline Dim quotient(const Dim &dividend, const Dim &divisor, std::span<const SymbolRange> symbols) {
  const std::optional<int64_t> number = divisor.number();
  const Dim constant = dividend.substitute([](uint32_t) { return Dim(0); });
  if (number && *number > 1 && constant.isNumber() && constant != Dim(0) && !dividend.isNumber() &&
      knownDivisor(dividend - constant, symbols) % *number == 0)
    return floorDiv(dividend - constant, divisor) + floorDiv(constant, divisor);
  return floorDiv(dividend, divisor);
}

} // namespace detail

// Substitutes d*t for each symbol s that is a multiple of d. Quotients and remainders that divisors decide then follow
// from the arithmetic of polynomials.
class Multiples {
public:
  explicit Multiples(std::span<const SymbolRange> symbols) : symbols(symbols) {
    for (const SymbolRange &range : symbols)
      ranges.push_back(isCounted(range) ? SymbolRange{range.least() / range.divisor,
                                                      range.max == INT64_MAX ? range.max : range.max / range.divisor, 1}
                                        : SymbolRange{range.min, range.max, 1});
  }
  // Whether the extent has a symbol with a divisor.
  static bool concern(const Dim &dim, std::span<const SymbolRange> symbols) {
    if (std::none_of(symbols.begin(), symbols.end(), isCounted))
      return false;
    std::set<uint32_t> used;
    dim.collectSymbols(used);
    return std::any_of(used.begin(), used.end(),
                       [&](uint32_t symbol) { return symbol < symbols.size() && isCounted(symbols[symbol]); });
  }
  Dim counted(const Dim &dim) const {
    return dim.substitute([&](uint32_t symbol) {
      return symbol < symbols.size() && isCounted(symbols[symbol]) ? Dim::symbol(symbol) * symbols[symbol].divisor
                                                                   : Dim::symbol(symbol);
    });
  }
  // The inverse: 6*t becomes floordiv(3*s, 4) if s is a multiple of 8.
  Dim restored(const Dim &dim) const;

  std::vector<SymbolRange> ranges; // of the symbols after the substitution

private:
  static bool isCounted(const SymbolRange &range) {
    return range.divisor > 1 && range.least() % range.divisor == 0 &&
           range.least() / range.divisor <= range.max / range.divisor;
  }
  std::span<const SymbolRange> symbols;
};

inline Dim Multiples::restored(const Dim &dim) const {
  if (!dim.valid)
    return dim;
  Dim result(dim.constant);
  for (const Dim::Term &term : dim.parts()) {
    int64_t coefficient = term.coefficient;
    Dim product(1);
    for (const Dim::Atom &factor : term.factors) {
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        const Dim symbol = Dim::symbol(factor.symbol);
        if (factor.symbol >= symbols.size() || !isCounted(symbols[factor.symbol])) {
          product *= symbol;
          continue;
        }
        const int64_t divisor = symbols[factor.symbol].divisor, common = detail::gcd(coefficient, divisor);
        coefficient /= common;
        product *= floorDiv(symbol, divisor / common);
        continue;
      }
      const Dim left = restored(factor.operands->first), right = restored(factor.operands->second);
      product *= factor.op == MORTISE_EXPR_FLOORDIV ? floorDiv(left, right)
                 : factor.op == MORTISE_EXPR_MOD    ? mod(left, right)
                                                    : Dim::extreme(factor.op, left, right);
    }
    result += product * coefficient;
  }
  return result;
}

inline Dim simplify(const Dim &dim, std::span<const SymbolRange> symbols) {
  if (!dim.valid || !dim.terms)
    return dim;
  if (Multiples::concern(dim, symbols)) {
    const Multiples multiples(symbols);
    if (const Dim counted = multiples.counted(dim); counted.isValid())
      if (const Dim simple = multiples.restored(simplify(counted, multiples.ranges)); simple.isValid())
        return simple;
  }
  Dim result(dim.constant);
  for (const Dim::Term &term : dim.parts()) {
    Dim product(term.coefficient);
    for (const Dim::Atom &factor : term.factors) {
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        const bool fixed = factor.symbol < symbols.size() && symbols[factor.symbol].min == symbols[factor.symbol].max;
        product *= fixed ? Dim(symbols[factor.symbol].min) : Dim::symbol(factor.symbol);
        continue;
      }
      const Dim left = simplify(factor.operands->first, symbols), right = simplify(factor.operands->second, symbols);
      const Interval lower = bounds(left, symbols), upper = bounds(right, symbols);
      const bool small = lower.low >= 0 && upper.low > 0 && isAtLeast(right, left + 1, symbols); // 0 <= left < right
      const std::optional<int64_t> number = right.number();
      const bool multiple = number && *number > 0 && knownDivisor(left, symbols) % *number == 0;
      if (factor.op == MORTISE_EXPR_MIN)
        product *= isAtLeast(left, right, symbols) ? right : isAtLeast(right, left, symbols) ? left : min(left, right);
      else if (factor.op == MORTISE_EXPR_MAX)
        product *= isAtLeast(left, right, symbols) ? left : isAtLeast(right, left, symbols) ? right : max(left, right);
      else if (factor.op == MORTISE_EXPR_FLOORDIV && multiple && term.coefficient % *number == 0)
        product = floorDiv(product, *number) * left; // 4 * floordiv(x, 2) is 2 * x
      else if (factor.op == MORTISE_EXPR_FLOORDIV)
        product *= small ? Dim(0) : detail::quotient(left, right, symbols);
      else if (multiple)
        product = 0;
      else
        product *= small ? left : mod(left, right);
    }
    result += product;
  }
  return result;
}

// Proves that an extent is never negative. The bounds of single terms do not prove that b*s >= b, so symbols are first
// counted from their minimum: (b0 + 1) * (s0 + 8) - (b0 + 1) is a sum of terms that are not negative. Quotients,
// remainders, minima and maxima are then replaced by their bounds, one at a time.
class Prover {
public:
  explicit Prover(std::span<const SymbolRange> symbols) : symbols(symbols) {
    for (const SymbolRange &range : symbols)
      fromMinimum.push_back({0, range.max == INT64_MAX ? INT64_MAX : range.max - range.min, 1});
  }
  bool neverNegative(const Dim &dim, int depth = 4) const {
    if (!dim.valid)
      return false;
    if (bounds(dim, symbols).low >= 0 || bounds(shifted(dim), fromMinimum).low >= 0)
      return true;
    for (size_t t = 0; depth > 0 && dim.terms && t < dim.terms->size(); ++t)
      for (size_t f = 0; f < (*dim.terms)[t].factors.size(); ++f)
        if ((*dim.terms)[t].factors[f].op != MORTISE_EXPR_SYMBOL && replaced(dim, t, f, depth - 1))
          return true;
    return false;
  }

private:
  Dim shifted(const Dim &dim) const {
    return dim.substitute([&](uint32_t symbol) {
      return symbol < symbols.size() ? Dim::symbol(symbol) + symbols[symbol].min : Dim::symbol(symbol);
    });
  }
  bool replaced(const Dim &dim, size_t t, size_t f, int depth) const {
    if (--budget < 0)
      return false;
    const Dim::Term &term = (*dim.terms)[t];
    Dim others(term.coefficient), rest = dim;
    for (size_t i = 0; i < term.factors.size(); ++i)
      if (i != f)
        others *= Dim::monomial(1, {term.factors[i]});
    rest -= Dim::monomial(term.coefficient, term.factors);
    const Dim::Atom &atom = term.factors[f];
    const Dim &left = atom.operands->first, &right = atom.operands->second;
    const Interval sign = bounds(others, symbols);
    const auto with = [&](const Dim &value) { return neverNegative(rest + others * value, depth); };
    if (atom.op == MORTISE_EXPR_MIN || atom.op == MORTISE_EXPR_MAX) {
      // It equals one of the two; where a bound in the right direction is enough, either will do.
      const bool helps = atom.op == MORTISE_EXPR_MIN ? sign.high <= 0 : sign.low >= 0;
      return helps ? with(left) || with(right) : with(left) && with(right);
    }
    const Interval dividend = bounds(left, symbols);
    const std::optional<int64_t> divisor = right.number();
    if (!divisor || *divisor <= 0)
      return false;
    if (atom.op == MORTISE_EXPR_MOD) // 0 <= mod(x, n), and <= x when x >= 0
      return (sign.low >= 0 && with(0)) ||
             (sign.high <= 0 && (with(*divisor - 1) || (dividend.low >= 0 && with(left))));
    // x - n + 1 <= n * floordiv(x, n) <= x
    const Dim scaled = rest * Dim(*divisor);
    return (sign.high <= 0 && neverNegative(scaled + others * left, depth)) ||
           (sign.low >= 0 && neverNegative(scaled + others * (left - *divisor + 1), depth));
  }

  std::span<const SymbolRange> symbols;
  std::vector<SymbolRange> fromMinimum;
  mutable int budget = 64; // replacements left
};

inline bool isAtLeast(const Dim &a, const Dim &b, std::span<const SymbolRange> symbols) {
  if (a.isNumber() && b.isNumber())
    return *a.number() >= *b.number();
  if (a.isValid() && a == b)
    return true;
  const Dim difference = a - b;
  if (difference.isValid() && Multiples::concern(difference, symbols)) {
    const Multiples multiples(symbols);
    if (const Dim counted = multiples.counted(difference); counted.isValid())
      return Prover(multiples.ranges).neverNegative(counted);
  }
  return Prover(symbols).neverNegative(difference);
}
inline bool isDifferent(const Dim &a, const Dim &b, std::span<const SymbolRange> symbols) {
  if (isAtLeast(a, b + 1, symbols) || isAtLeast(b, a + 1, symbols))
    return true;
  // 2 a + 1 is never 0: the divisor of all other terms does not divide the constant.
  const Dim difference = simplify(a - b, symbols),
            rest = difference - difference.substitute([](uint32_t) { return Dim(0); });
  const std::optional<int64_t> constant = (difference - rest).number();
  const int64_t divisor = knownDivisor(rest, symbols);
  return constant && divisor > 1 && *constant % divisor != 0;
}

} // namespace mortise
