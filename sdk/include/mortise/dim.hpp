// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Extents as expressions over symbols: exact integer polynomials whose factors are symbols, quotients, remainders,
// minima and maxima. They are kept in one normal form, so that equal polynomials are equal objects. Header only. Values
// are immutable and may be shared between threads. Arithmetic that overflows 63 bits gives an extent for which
// isValid() is false.
#pragma once

#include <mortise/plugin.h>
#include <mortise/result.hpp>

#include <algorithm>
#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace mortise {

namespace detail {
__extension__ typedef __int128 Int128;
}

struct SymbolRange;
struct Interval;
class Prover;

class Dim {
public:
  Dim(int64_t number = 0)
      : constant(number) {} // NOLINT(google-explicit-constructor): numbers are the commonest
                            // extents
  static Dim symbol(uint32_t number) { return monomial(1, {{MORTISE_EXPR_SYMBOL, number, nullptr}}); }
  static Dim invalid() {
    Dim result;
    result.valid = false;
    return result;
  }

  bool isValid() const { return valid; }
  bool isNumber() const { return valid && terms == nullptr; }
  std::optional<int64_t> number() const { return isNumber() ? std::optional(constant) : std::nullopt; }
  // The number, or MORTISE_DYNAMIC.
  int64_t numberOrDynamic() const { return isNumber() ? constant : MORTISE_DYNAMIC; }
  // The symbol's number, when the extent is a single symbol.
  std::optional<uint32_t> asSymbol() const;
  void collectSymbols(std::set<uint32_t> &into) const;

  friend Dim operator+(const Dim &a, const Dim &b) { return a.plus(b, 1); }
  friend Dim operator-(const Dim &a, const Dim &b) { return a.plus(b, -1); }
  friend Dim operator*(const Dim &a, const Dim &b) { return a.times(b); }
  Dim &operator+=(const Dim &other) { return *this = *this + other; }
  Dim &operator-=(const Dim &other) { return *this = *this - other; }
  Dim &operator*=(const Dim &other) { return *this = *this * other; }
  // Rounds towards minus infinity. An exact quotient of polynomials is a polynomial.
  friend Dim floorDiv(const Dim &a, const Dim &b) { return a.divided(b); }
  friend Dim ceilDiv(const Dim &a, const Dim &b) { return a.divided(b, /*up=*/true); }
  friend Dim mod(const Dim &a, const Dim &b) { return a.remainder(b); }
  friend Dim min(const Dim &a, const Dim &b) { return extreme(MORTISE_EXPR_MIN, a, b); }
  friend Dim max(const Dim &a, const Dim &b) { return extreme(MORTISE_EXPR_MAX, a, b); }

  // Whether the extents are equal for all values of the symbols. Unequal ones may still be equal for some values.
  friend bool operator==(const Dim &a, const Dim &b) { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const Dim &a, const Dim &b); // of the form, not of the value

  // Writes and reads the postfix program that the ABI carries. Errors: MORTISE_INVALID_ARGUMENT.
  std::vector<MortiseExprStep> steps() const;
  static Result<Dim> from(std::span<const MortiseExprStep> steps, size_t symbolCount);
  static Result<Dim> from(const MortiseExpr &expr, size_t symbolCount) {
    return from(std::span(expr.steps, expr.count), symbolCount);
  }

  // Errors: MORTISE_INVALID_ARGUMENT (overflow, division by 0).
  Result<int64_t> evaluate(std::span<const int64_t> symbols) const;
  Dim substitute(const std::function<Dim(uint32_t)> &replacement) const;
  // "4*b*s + 1"; names come from `name`.
  std::string text(const std::function<std::string(uint32_t)> &name) const;

  // Limits, so that a program from outside cannot expand without end. An extent beyond them is invalid, as after
  // overflow.
  static constexpr size_t maxTerms = 256, maxDegree = 16;
  // The limit on symbols and operators written out. Products copy their factors, so n steps can stand for 2^n of them.
  static constexpr size_t maxSize = 1024;

private:
  struct Atom { // a symbol, or an operator that is not polynomial
    int32_t op = MORTISE_EXPR_SYMBOL;
    uint32_t symbol = 0;
    std::shared_ptr<const std::pair<Dim, Dim>> operands;
    std::strong_ordering operator<=>(const Atom &other) const;
    bool operator==(const Atom &other) const { return (*this <=> other) == 0; }
  };
  using Factors = std::vector<Atom>; // ascending, with repetition
  struct Term {
    int64_t coefficient = 1;
    Factors factors; // not empty
  };
  using Terms = std::vector<Term>; // larger degrees first, then by factors; coefficients not 0

  static std::strong_ordering compare(const Factors &a, const Factors &b);
  static Dim monomial(int64_t coefficient, Factors factors);
  static Dim make(int64_t constant, Terms terms);
  static Dim atom(int32_t op, const Dim &a, const Dim &b) {
    return monomial(1, {{op, 0, std::make_shared<const std::pair<Dim, Dim>>(a, b)}});
  }
  static Dim extreme(int32_t op, const Dim &a, const Dim &b);
  std::span<const Term> parts() const { return terms ? std::span<const Term>(*terms) : std::span<const Term>(); }
  Dim plus(const Dim &other, int64_t factor) const;
  Dim times(const Dim &other) const;
  Dim divided(const Dim &other, bool up = false) const;
  Dim remainder(const Dim &other) const;
  std::optional<Dim> exactQuotient(const Dim &other) const;
  // The terms that are multiples of a positive number, divided by it; and the remaining terms.
  std::pair<Dim, Dim> split(int64_t divisor) const;
  // For what split() leaves: the greatest common divisor of `divisor` and every coefficient except the constant.
  int64_t content(int64_t divisor) const;
  // The position of the only term floordiv(x, a) with a number a > 0 and coefficient 1; -1 when there is none or
  // several.
  int64_t loneQuotient() const;
  Dim quotientOfRest(int64_t divisor) const;
  Dim remainderOfRest(int64_t divisor) const;

  friend Interval bounds(const Dim &dim, std::span<const SymbolRange> symbols);
  friend int64_t knownDivisor(const Dim &dim, std::span<const SymbolRange> symbols);
  friend Dim simplify(const Dim &dim, std::span<const SymbolRange> symbols);
  friend class Prover;
  friend class Multiples;

  bool valid = true;
  uint32_t size = 0; // symbols and operators
  int64_t constant = 0;
  std::shared_ptr<const Terms> terms; // NULL when the extent is a number
};

// ---- Checked arithmetic of numbers, with the ABI's rules for quotients

// False on overflow, a divisor of 0 or an unknown operator.
inline bool combine(int32_t op, int64_t left, int64_t right, int64_t &result) {
  switch (op) {
  case MORTISE_EXPR_ADD:
    return !__builtin_add_overflow(left, right, &result);
  case MORTISE_EXPR_SUB:
    return !__builtin_sub_overflow(left, right, &result);
  case MORTISE_EXPR_MUL:
    return !__builtin_mul_overflow(left, right, &result);
  case MORTISE_EXPR_MIN:
    result = std::min(left, right);
    return true;
  case MORTISE_EXPR_MAX:
    result = std::max(left, right);
    return true;
  case MORTISE_EXPR_FLOORDIV:
    if (right == 0 || (left == INT64_MIN && right == -1))
      return false;
    result = left / right - (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);
    return true;
  case MORTISE_EXPR_MOD:
    if (right == 0)
      return false;
    result = right == -1 ? 0 : left % right;
    if (result != 0 && (result < 0) != (right < 0))
      result += right;
    return true;
  default:
    return false;
  }
}

// ---- Implementation

inline std::strong_ordering Dim::Atom::operator<=>(const Atom &other) const {
  if (const auto order = op <=> other.op; order != 0)
    return order;
  if (operands == other.operands)
    return symbol <=> other.symbol;
  if (const auto order = operands->first <=> other.operands->first; order != 0)
    return order;
  return operands->second <=> other.operands->second;
}

inline std::strong_ordering Dim::compare(const Factors &a, const Factors &b) {
  if (const auto order = b.size() <=> a.size(); order != 0)
    return order;
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
}

inline std::strong_ordering operator<=>(const Dim &a, const Dim &b) {
  if (const auto order = a.valid <=> b.valid; order != 0)
    return order;
  const auto left = a.parts(), right = b.parts();
  if (const auto order = left.size() <=> right.size(); order != 0)
    return order;
  for (size_t i = 0; i < left.size(); ++i) {
    if (const auto order = Dim::compare(left[i].factors, right[i].factors); order != 0)
      return order;
    if (const auto order = left[i].coefficient <=> right[i].coefficient; order != 0)
      return order;
  }
  return a.constant <=> b.constant;
}

inline Dim Dim::make(int64_t constant, Terms terms) {
  Dim result(constant);
  if (terms.empty())
    return result;
  size_t size = 0;
  for (const Term &term : terms)
    for (const Atom &factor : term.factors)
      size += 1 + (factor.operands ? factor.operands->first.size + factor.operands->second.size : 0);
  if (size > maxSize)
    return invalid();
  result.size = static_cast<uint32_t>(size);
  result.terms = std::make_shared<const Terms>(std::move(terms));
  return result;
}
inline Dim Dim::monomial(int64_t coefficient, Factors factors) {
  if (factors.empty() || coefficient == 0)
    return coefficient;
  std::sort(factors.begin(), factors.end(), [](const Atom &a, const Atom &b) { return (a <=> b) < 0; });
  return make(0, {{coefficient, std::move(factors)}});
}

inline Dim Dim::plus(const Dim &other, int64_t factor) const {
  int64_t sum, scaled;
  if (!valid || !other.valid || __builtin_mul_overflow(other.constant, factor, &scaled) ||
      __builtin_add_overflow(constant, scaled, &sum))
    return invalid();
  if (!terms && !other.terms)
    return sum;
  const auto left = parts(), right = other.parts();
  Terms merged;
  for (size_t i = 0, j = 0; i < left.size() || j < right.size();) {
    const auto order = i == left.size()    ? std::strong_ordering::greater
                       : j == right.size() ? std::strong_ordering::less
                                           : compare(left[i].factors, right[j].factors);
    if (order < 0) {
      merged.push_back(left[i++]);
      continue;
    }
    int64_t coefficient;
    if (__builtin_mul_overflow(right[j].coefficient, factor, &coefficient) ||
        (order == 0 && __builtin_add_overflow(left[i].coefficient, coefficient, &coefficient)))
      return invalid();
    if (coefficient != 0)
      merged.push_back({coefficient, right[j].factors});
    i += order == 0;
    ++j;
  }
  if (merged.size() > maxTerms)
    return invalid();
  return make(sum, std::move(merged));
}

inline Dim Dim::times(const Dim &other) const {
  int64_t product;
  if (!valid || !other.valid)
    return invalid();
  if (!terms && !other.terms)
    return __builtin_mul_overflow(constant, other.constant, &product) ? invalid() : Dim(product);
  const auto degree = [](const Dim &dim) { return dim.terms ? dim.terms->front().factors.size() : 0; };
  if (parts().size() * other.parts().size() > maxTerms || degree(*this) + degree(other) > maxDegree)
    return invalid();
  Dim result(0);
  const auto add = [&](int64_t a, int64_t b, const Factors *left, const Factors *right) {
    if (a == 0 || b == 0)
      return;
    if (__builtin_mul_overflow(a, b, &product)) {
      result = invalid();
      return;
    }
    Factors factors;
    for (const Factors *part : {left, right})
      if (part)
        factors.insert(factors.end(), part->begin(), part->end());
    result = result + monomial(product, std::move(factors));
  };
  for (const Term &left : parts()) {
    for (const Term &right : other.parts())
      add(left.coefficient, right.coefficient, &left.factors, &right.factors);
    add(left.coefficient, other.constant, &left.factors, nullptr);
  }
  for (const Term &right : other.parts())
    add(constant, right.coefficient, nullptr, &right.factors);
  add(constant, other.constant, nullptr, nullptr);
  return result;
}

namespace detail {
// INT64_MIN / -1 overflows.
inline bool divides(int64_t divisor, int64_t number) {
  return divisor != 0 && !(divisor == -1 && number == INT64_MIN) && number % divisor == 0;
}
inline int64_t gcd(int64_t a, int64_t b) { // 1 when the divisor is 2^63, which overflows
  uint64_t x = a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t y = b < 0 ? 0 - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x > INT64_MAX ? 1 : static_cast<int64_t>(x);
}
} // namespace detail

// Long division by the leading term. Gives the quotient only if the remainder is 0.
inline std::optional<Dim> Dim::exactQuotient(const Dim &other) const {
  if (!other.terms) {
    if (!detail::divides(other.constant, constant))
      return std::nullopt;
    for (const Term &term : parts())
      if (!detail::divides(other.constant, term.coefficient))
        return std::nullopt;
    Terms divided;
    for (const Term &term : parts())
      divided.push_back({term.coefficient / other.constant, term.factors});
    return make(constant / other.constant, std::move(divided));
  }
  Dim quotient(0), rest = *this;
  const Term &lead = other.terms->front();
  for (int round = 0; round < 64 && rest.valid; ++round) {
    if (!rest.terms)
      return rest.constant == 0 ? std::optional(quotient) : std::nullopt;
    const Term &first = rest.terms->front();
    Factors left;
    std::set_difference(first.factors.begin(), first.factors.end(), lead.factors.begin(), lead.factors.end(),
                        std::back_inserter(left), [](const Atom &a, const Atom &b) { return (a <=> b) < 0; });
    if (left.size() + lead.factors.size() != first.factors.size() ||
        !detail::divides(lead.coefficient, first.coefficient))
      return std::nullopt;
    const Dim part = monomial(first.coefficient / lead.coefficient, std::move(left));
    quotient = quotient + part;
    rest = rest - part * other;
  }
  return std::nullopt;
}

inline std::pair<Dim, Dim> Dim::split(int64_t divisor) const {
  Terms whole, rest;
  for (const Term &term : parts())
    if (term.coefficient % divisor == 0)
      whole.push_back({term.coefficient / divisor, term.factors});
    else
      rest.push_back(term);
  int64_t quotient, remainder;
  combine(MORTISE_EXPR_FLOORDIV, constant, divisor, quotient);
  combine(MORTISE_EXPR_MOD, constant, divisor, remainder);
  return {make(quotient, std::move(whole)), make(remainder, std::move(rest))};
}

inline int64_t Dim::content(int64_t divisor) const {
  for (const Term &term : parts())
    divisor = detail::gcd(divisor, term.coefficient);
  return divisor;
}

inline int64_t Dim::loneQuotient() const {
  int64_t found = -1;
  for (size_t i = 0; i < parts().size(); ++i) {
    const Term &term = parts()[i];
    if (term.coefficient != 1 || term.factors.size() != 1 || term.factors[0].op != MORTISE_EXPR_FLOORDIV)
      continue;
    if (const Dim &by = term.factors[0].operands->second; !by.isNumber() || by.constant <= 0)
      continue;
    if (found >= 0)
      return -1;
    found = static_cast<int64_t>(i);
  }
  return found;
}

// floordiv(g*x + c, g*n) is floordiv(x + floordiv(c, g), n), and floordiv(floordiv(x, a) + r, n) is
// floordiv(x + a*r, a*n), for positive a and n.
inline Dim Dim::quotientOfRest(int64_t divisor) const {
  if (const int64_t common = content(divisor); common > 1) {
    auto [whole, rest] = split(common); // rest is a number in [0, common)
    return whole.divided(divisor / common);
  }
  if (const int64_t at = loneQuotient(); at >= 0) {
    const auto &[dividend, inner] = *(*terms)[at].factors[0].operands;
    int64_t product;
    if (!__builtin_mul_overflow(inner.constant, divisor, &product)) {
      const Dim others = *this - make(0, {(*terms)[at]});
      if (const Dim raised = dividend + others * inner; raised.valid)
        return raised.divided(product);
    }
  }
  return atom(MORTISE_EXPR_FLOORDIV, *this, divisor);
}

// mod(g*x + c, g*n) is g * mod(x + floordiv(c, g), n) + mod(c, g); and c * mod(x, a) adds c*x where n divides c*a.
inline Dim Dim::remainderOfRest(int64_t divisor) const {
  if (const int64_t common = content(divisor); common > 1) {
    auto [whole, rest] = split(common);
    return Dim(common) * whole.remainder(divisor / common) + rest;
  }
  for (const Term &term : parts())
    for (size_t i = 0; i < term.factors.size(); ++i) {
      const Atom &factor = term.factors[i];
      if (factor.op != MORTISE_EXPR_MOD || !factor.operands->second.isNumber() || factor.operands->second.constant <= 0)
        continue;
      const detail::Int128 scaled = static_cast<detail::Int128>(term.coefficient) * factor.operands->second.constant;
      if (scaled % divisor != 0)
        continue;
      Factors others = term.factors;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      const Dim plain = monomial(term.coefficient, std::move(others)) * factor.operands->first;
      if (const Dim replaced = *this - make(0, {term}) + plain; replaced.valid)
        return replaced.remainder(divisor);
    }
  return atom(MORTISE_EXPR_MOD, *this, divisor);
}

inline Dim Dim::divided(const Dim &other, bool up) const {
  if (!valid || !other.valid || other == Dim(0))
    return invalid();
  if (constant != INT64_MIN) // INT64_MIN / -1 overflows
    if (const std::optional<Dim> exact = exactQuotient(other))
      return *exact;
  if (up && other.isNumber() && other.constant > 0)
    if (const Dim raised = plus(other.constant - 1, 1); raised.valid)
      return raised.divided(other);
  if (up) // the least integer not below the quotient
    return Dim(0) - (Dim(0) - *this).divided(other);
  if (other.isNumber() && other.constant > 0) {
    auto [whole, rest] = split(other.constant);
    return rest.terms ? whole + rest.quotientOfRest(other.constant) : whole;
  }
  int64_t quotient;
  if (isNumber() && other.isNumber())
    return combine(MORTISE_EXPR_FLOORDIV, constant, other.constant, quotient) ? Dim(quotient) : invalid();
  return atom(MORTISE_EXPR_FLOORDIV, *this, other);
}

inline Dim Dim::remainder(const Dim &other) const {
  if (!valid || !other.valid || other == Dim(0))
    return invalid();
  if (constant != INT64_MIN && exactQuotient(other))
    return 0;
  if (other.isNumber() && other.constant > 0) {
    Dim rest = split(other.constant).second;
    return rest.terms ? rest.remainderOfRest(other.constant) : rest;
  }
  int64_t result;
  if (isNumber() && other.isNumber())
    return combine(MORTISE_EXPR_MOD, constant, other.constant, result) ? Dim(result) : invalid();
  return atom(MORTISE_EXPR_MOD, *this, other);
}

inline Dim Dim::extreme(int32_t op, const Dim &a, const Dim &b) {
  if (!a.valid || !b.valid)
    return invalid();
  if (a.isNumber() && b.isNumber()) // their difference may overflow
    return (a.constant < b.constant) == (op == MORTISE_EXPR_MIN) ? a : b;
  const Dim difference = a - b;
  if (difference.isNumber())
    return (difference.constant < 0) == (op == MORTISE_EXPR_MIN) ? a : b;
  if (!difference.valid && (b - a).isNumber()) // a - b is 2^63
    return op == MORTISE_EXPR_MIN ? b : a;
  return (a <=> b) < 0 ? atom(op, a, b) : atom(op, b, a);
}

inline std::optional<uint32_t> Dim::asSymbol() const {
  if (!terms || constant != 0 || terms->size() != 1 || terms->front().coefficient != 1 ||
      terms->front().factors.size() != 1 || terms->front().factors[0].op != MORTISE_EXPR_SYMBOL)
    return std::nullopt;
  return terms->front().factors[0].symbol;
}

inline void Dim::collectSymbols(std::set<uint32_t> &into) const {
  for (const Term &term : parts())
    for (const Atom &factor : term.factors)
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        into.insert(factor.symbol);
      } else {
        factor.operands->first.collectSymbols(into);
        factor.operands->second.collectSymbols(into);
      }
}

inline std::vector<MortiseExprStep> Dim::steps() const {
  std::vector<MortiseExprStep> result;
  const auto push = [&](int32_t op, int64_t value = 0) { result.push_back({op, 0, value}); };
  const auto append = [&](const Dim &part) {
    const std::vector<MortiseExprStep> inner = part.steps();
    result.insert(result.end(), inner.begin(), inner.end());
  };
  bool first = true;
  for (const Term &term : parts()) {
    for (size_t i = 0; i < term.factors.size(); ++i) {
      const Atom &factor = term.factors[i];
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        push(MORTISE_EXPR_SYMBOL, factor.symbol);
      } else {
        append(factor.operands->first);
        append(factor.operands->second);
        push(factor.op);
      }
      if (i)
        push(MORTISE_EXPR_MUL);
    }
    if (term.coefficient != 1) {
      push(MORTISE_EXPR_CONST, term.coefficient);
      push(MORTISE_EXPR_MUL);
    }
    if (!first)
      push(MORTISE_EXPR_ADD);
    first = false;
  }
  if (first || constant != 0) {
    push(MORTISE_EXPR_CONST, constant);
    if (!first)
      push(MORTISE_EXPR_ADD);
  }
  return result;
}

inline Result<Dim> Dim::from(std::span<const MortiseExprStep> steps, size_t symbolCount) {
  const auto wrong = [](const std::string &what) {
    return Error{MORTISE_INVALID_ARGUMENT, "an extent's program " + what};
  };
  std::vector<Dim> stack;
  for (const MortiseExprStep &step : steps) {
    if (step.op == MORTISE_EXPR_CONST) {
      stack.emplace_back(step.value);
      continue;
    }
    if (step.op == MORTISE_EXPR_SYMBOL) {
      if (step.value < 0 || static_cast<uint64_t>(step.value) >= symbolCount)
        return wrong("names symbol " + std::to_string(step.value) + " of " + std::to_string(symbolCount));
      stack.push_back(symbol(static_cast<uint32_t>(step.value)));
      continue;
    }
    if (stack.size() < 2)
      return wrong("lacks an operand");
    const Dim right = stack.back();
    stack.pop_back();
    Dim &left = stack.back();
    switch (step.op) {
    case MORTISE_EXPR_ADD:
      left += right;
      break;
    case MORTISE_EXPR_SUB:
      left -= right;
      break;
    case MORTISE_EXPR_MUL:
      left *= right;
      break;
    case MORTISE_EXPR_FLOORDIV:
      left = floorDiv(left, right);
      break;
    case MORTISE_EXPR_MOD:
      left = mod(left, right);
      break;
    case MORTISE_EXPR_MIN:
      left = extreme(step.op, left, right);
      break;
    case MORTISE_EXPR_MAX:
      left = extreme(step.op, left, right);
      break;
    default:
      return wrong("holds the unknown operator " + std::to_string(step.op));
    }
    if (!left.isValid())
      return wrong("overflows, divides by 0 or is too large");
  }
  if (stack.size() != 1)
    return wrong("leaves " + std::to_string(stack.size()) + " values, expected one");
  return stack[0];
}

inline Result<int64_t> Dim::evaluate(std::span<const int64_t> symbols) const {
  const auto wrong = [] {
    return Error{MORTISE_INVALID_ARGUMENT, "an extent overflows, divides by 0 or lacks a symbol's value"};
  };
  if (!valid)
    return wrong();
  int64_t sum = constant;
  for (const Term &term : parts()) {
    int64_t product = term.coefficient;
    for (const Atom &factor : term.factors) {
      int64_t value;
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        if (factor.symbol >= symbols.size())
          return wrong();
        value = symbols[factor.symbol];
      } else {
        const Result<int64_t> left = factor.operands->first.evaluate(symbols);
        const Result<int64_t> right = factor.operands->second.evaluate(symbols);
        if (!left || !right || !combine(factor.op, *left, *right, value))
          return wrong();
      }
      if (__builtin_mul_overflow(product, value, &product))
        return wrong();
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return wrong();
  }
  return sum;
}

inline Dim Dim::substitute(const std::function<Dim(uint32_t)> &replacement) const {
  if (!valid)
    return invalid();
  Dim result(constant);
  for (const Term &term : parts()) {
    Dim product(term.coefficient);
    for (const Atom &factor : term.factors) {
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        product *= replacement(factor.symbol);
        continue;
      }
      const Dim left = factor.operands->first.substitute(replacement);
      const Dim right = factor.operands->second.substitute(replacement);
      product *= factor.op == MORTISE_EXPR_FLOORDIV ? floorDiv(left, right)
                 : factor.op == MORTISE_EXPR_MOD    ? mod(left, right)
                                                    : extreme(factor.op, left, right);
    }
    result += product;
  }
  return result;
}

inline std::string Dim::text(const std::function<std::string(uint32_t)> &name) const {
  if (!valid)
    return "invalid";
  std::string result;
  for (const Term &term : parts()) {
    const bool negative = term.coefficient < 0;
    result += result.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    const uint64_t size =
        negative ? 0 - static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
    if (size != 1)
      result += std::to_string(size) + "*";
    for (size_t i = 0; i < term.factors.size(); ++i) {
      const Atom &factor = term.factors[i];
      result += i ? "*" : "";
      if (factor.op == MORTISE_EXPR_SYMBOL) {
        result += name(factor.symbol);
        continue;
      }
      result += factor.op == MORTISE_EXPR_FLOORDIV ? "floordiv("
                : factor.op == MORTISE_EXPR_MOD    ? "mod("
                : factor.op == MORTISE_EXPR_MIN    ? "min("
                                                   : "max(";
      result += factor.operands->first.text(name) + ", " + factor.operands->second.text(name) + ")";
    }
  }
  if (result.empty())
    return std::to_string(constant);
  if (constant != 0)
    result += (constant < 0 ? " - " : " + ") +
              std::to_string(constant < 0 ? 0 - static_cast<uint64_t>(constant) : static_cast<uint64_t>(constant));
  return result;
}

} // namespace mortise
