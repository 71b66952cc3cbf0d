// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symbols of a graph: extents as expressions (Dim), evaluation of postfix programs, checks of symbol values against
// ranges and guards, and typical values for decisions that need numbers. Header only. All functions are pure and may be
// called from any thread. A graph written by a revision 1 host has no guards and no symbolic attributes, and is read
// accordingly.
#pragma once

#include <mortise/bounds.hpp>
#include <mortise/graph.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mortise {

// ---- Extents as expressions

// `number`, or the expression if `number` is MORTISE_DYNAMIC. Invalid if that program is missing or malformed.
inline Dim dimOf(int64_t number, const MortiseExpr *expr, size_t symbolCount = SIZE_MAX) {
  if (number != MORTISE_DYNAMIC)
    return number;
  if (!expr)
    return Dim::invalid();
  Result<Dim> dim = Dim::from(*expr, symbolCount);
  return dim ? *dim : Dim::invalid();
}

// One per dimension of the type.
inline std::vector<Dim> dimsOf(const MortiseType &type, size_t symbolCount = SIZE_MAX) {
  std::vector<Dim> result;
  result.reserve(static_cast<size_t>(type.rank));
  for (int32_t i = 0; i < type.rank; ++i)
    result.push_back(dimOf(type.dims[i], type.dim_exprs ? type.dim_exprs + i : nullptr, symbolCount));
  return result;
}

// One per dimension of a type that has strides.
inline std::vector<Dim> stridesOf(const MortiseType &type, size_t symbolCount = SIZE_MAX) {
  std::vector<Dim> result;
  for (int32_t i = 0; i < type.rank; ++i)
    result.push_back(dimOf(type.strides[i], type.stride_exprs ? type.stride_exprs + i : nullptr, symbolCount));
  return result;
}

// The entries of an I64_ARRAY attribute; empty when the node has none of this name.
inline std::vector<Dim> dimsAttribute(const MortiseNode &node, std::string_view name, size_t symbolCount = SIZE_MAX) {
  std::vector<Dim> result;
  const MortiseAttribute *found = findAttribute(node, name);
  if (!found || found->kind != MORTISE_ATTRIBUTE_I64_ARRAY)
    return result;
  const MortiseExpr *exprs = exprsOf(*found);
  for (size_t i = 0; i < found->count; ++i)
    result.push_back(dimOf(found->i64s[i], exprs ? exprs + i : nullptr, symbolCount));
  return result;
}

// The product of the extents. A product of numbers that overflows 63 bits is INT64_MAX; a product of expressions is
// then invalid.
inline int64_t elementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool saturated = false;
  for (int64_t dim : dims) {
    if (dim == 0)
      return 0;
    saturated |= __builtin_mul_overflow(count, dim, &count);
  }
  return saturated ? INT64_MAX : count;
}
inline Dim elementCount(std::span<const Dim> dims) {
  Dim count(1);
  for (const Dim &dim : dims)
    count *= dim;
  return count;
}

// The range of each symbol, for the functions of bounds.hpp.
inline SymbolRange rangeOf(const MortiseSymbol &symbol) { return {symbol.min, symbol.max, symbol.divisor}; }
inline std::vector<SymbolRange> symbolRanges(const MortiseGraph &graph) {
  std::vector<SymbolRange> ranges;
  ranges.reserve(graph.symbol_count);
  for (size_t i = 0; i < graph.symbol_count; ++i)
    ranges.push_back(rangeOf(*graph.symbols[i]));
  return ranges;
}

// ---- Values

inline constexpr size_t maxExprSteps = 4096; // of one program
inline constexpr size_t maxExprDepth = 64;   // values on its stack

// Checks that every run of the program stays within the stack and `symbolCount`, for all values of the symbols. Errors:
// MORTISE_INVALID_ARGUMENT.
inline Result<void> checkExpr(std::span<const MortiseExprStep> steps, size_t symbolCount) {
  const auto invalid = [](std::string message) { return Error{MORTISE_INVALID_ARGUMENT, std::move(message)}; };
  if (steps.size() > maxExprSteps)
    return invalid("expected an expression of at most " + std::to_string(maxExprSteps) + " steps, found " +
                   std::to_string(steps.size()));
  size_t depth = 0;
  for (const MortiseExprStep &step : steps) {
    switch (step.op) {
    case MORTISE_EXPR_SYMBOL:
      if (step.value < 0 || static_cast<uint64_t>(step.value) >= symbolCount)
        return invalid("an expression names symbol " + std::to_string(step.value) + " of " +
                       std::to_string(symbolCount));
      [[fallthrough]];
    case MORTISE_EXPR_CONST:
      if (++depth > maxExprDepth)
        return invalid("an expression is nested deeper than " + std::to_string(maxExprDepth));
      break;
    default:
      if (step.op < MORTISE_EXPR_ADD || step.op > MORTISE_EXPR_MAX)
        return invalid("an expression holds the unknown operator " + std::to_string(step.op));
      if (depth < 2)
        return invalid("an operator of an expression lacks an operand");
      --depth;
    }
  }
  if (depth != 1)
    return invalid("expected an expression that leaves one value, found one that leaves " + std::to_string(depth));
  return {};
}

// Runs a postfix program. Errors: MORTISE_INVALID_ARGUMENT (malformed, overflow, division by 0).
inline Result<int64_t> evaluate(const MortiseExpr &expr, std::span<const int64_t> symbols) {
  const std::span<const MortiseExprStep> steps(expr.steps, expr.count);
  if (Result<void> checked = checkExpr(steps, symbols.size()); !checked)
    return checked.error();
  int64_t stack[maxExprDepth] = {};
  size_t depth = 0;
  for (const MortiseExprStep &step : steps) {
    if (step.op == MORTISE_EXPR_CONST) {
      stack[depth++] = step.value;
    } else if (step.op == MORTISE_EXPR_SYMBOL) {
      stack[depth++] = symbols[static_cast<size_t>(step.value)];
    } else {
      const int64_t left = stack[depth - 2], right = stack[depth - 1];
      if (!combine(step.op, left, right, stack[depth - 2]))
        return Error{MORTISE_INVALID_ARGUMENT, "an expression overflows or divides by 0 (operator " +
                                                   std::to_string(step.op) + " on " + std::to_string(left) + " and " +
                                                   std::to_string(right) + ")"};
      --depth;
    }
  }
  return stack[0];
}

// The values of several extents. Errors: MORTISE_INVALID_ARGUMENT (overflow, division by 0, a symbol without a value).
inline Result<std::vector<int64_t>> evaluate(std::span<const Dim> dims, std::span<const int64_t> symbols) {
  std::vector<int64_t> numbers;
  numbers.reserve(dims.size());
  for (const Dim &dim : dims) {
    Result<int64_t> number = dim.evaluate(symbols);
    if (!number)
      return number.error();
    numbers.push_back(*number);
  }
  return numbers;
}

// Whether the value of a guard's expression satisfies its relation (MortiseRelation). An unknown relation is not
// satisfied.
inline bool holds(int32_t relation, int64_t value) {
  return relation == MORTISE_RELATION_ZERO ? value == 0 : relation == MORTISE_RELATION_AT_LEAST && value >= 0;
}

// Checks the values for a call: one per symbol, in its range, a multiple of its divisor, and every guard holds. Errors:
// MORTISE_INVALID_ARGUMENT, naming the symbol or the guard.
inline Result<void> checkSymbols(const MortiseGraph &graph, std::span<const int64_t> symbols) {
  const auto invalid = [](std::string message) { return Error{MORTISE_INVALID_ARGUMENT, std::move(message)}; };
  if (symbols.size() != graph.symbol_count)
    return invalid("expected a value for each of the graph's " + std::to_string(graph.symbol_count) +
                   " symbols, found " + std::to_string(symbols.size()));
  for (size_t i = 0; i < symbols.size(); ++i) {
    const MortiseSymbol &symbol = *graph.symbols[i];
    const std::string found = ", found " + std::to_string(symbols[i]);
    if (symbols[i] < symbol.min || symbols[i] > symbol.max)
      return invalid(std::string("expected '") + symbol.name + "' to be at least " + std::to_string(symbol.min) +
                     (symbol.max == INT64_MAX ? "" : " and at most " + std::to_string(symbol.max)) + found);
    if (!rangeOf(symbol).contains(symbols[i]))
      return invalid(std::string("expected '") + symbol.name + "' to be a multiple of " +
                     std::to_string(symbol.divisor) + found);
  }
  const std::span<const MortiseGuard *const> guards = guardsOf(graph);
  for (size_t i = 0; i < guards.size(); ++i) {
    const MortiseGuard &guard = *guards[i];
    const std::string name = "guard " + std::to_string(i) + " (" + (guard.reason ? guard.reason : "") + ")";
    const Result<int64_t> value = evaluate(guard.expr, symbols);
    if (!value)
      return invalid(name + ": " + value.error().message);
    if (!holds(guard.relation, *value))
      return invalid(name + " does not hold: expected " +
                     (guard.relation == MORTISE_RELATION_ZERO ? "0" : "0 or more") + ", found " +
                     std::to_string(*value));
  }
  return {};
}

// ---- Typical values

// Representative values, for decisions that need numbers but are correct for all values: costs, orders, a query to a
// library. The values are near 64 where the ranges allow it, multiples of the divisors, satisfy the guards, and make
// every extent of the graph and its bodies at least 1. If the search finds none, they break the fewest guards and,
// among those, have the fewest empty extents; checkSymbols() tells. The same graph gives the same values.
inline std::vector<int64_t> typicalValues(const MortiseGraph &graph);

namespace detail {

class TypicalValues {
public:
  explicit TypicalValues(const MortiseGraph &graph) : ranges(symbolRanges(graph)) {
    addExtents(graph);
    for (const MortiseGuard *guard : guardsOf(graph))
      guards.push_back(guard);
  }

  std::vector<int64_t> run() {
    for (int64_t target : targets) {
      std::vector<int64_t> values;
      for (const SymbolRange &range : ranges)
        values.push_back(range.nearest(target));
      consider(std::move(values));
      if (fewest == Faults{})
        return best;
    }
    // Changes one symbol at a time as long as fewer guards break or fewer extents are empty.
    for (bool better = true; better && fewest != Faults{};) {
      better = false;
      const std::vector<int64_t> from = best;
      for (size_t i = 0; i < from.size(); ++i)
        for (int64_t target : targets) {
          std::vector<int64_t> values = from;
          values[i] = ranges[i].nearest(target);
          better |= consider(std::move(values));
        }
    }
    return best;
  }

private:
  static constexpr int64_t targets[] = {64, 128, 256, 32, 512, 16, 1024, 8, 4, 2, 1, 0, 4096, 65536, 1 << 20};
  struct Faults {
    size_t broken = 0, empty = 0; // broken guards and invalid extents; extents of 0
    auto operator<=>(const Faults &) const = default;
  };

  void addExtents(const MortiseGraph &graph) {
    for (size_t i = 0; i < graph.value_count; ++i)
      if (!isStatic(*graph.values[i]->type))
        for (Dim &dim : dimsOf(*graph.values[i]->type, ranges.size()))
          if (!dim.isNumber() && dim.isValid())
            extents.insert(std::move(dim));
    for (size_t i = 0; i < graph.node_count; ++i)
      for (const MortiseGraph *body : bodiesOf(*graph.nodes[i]))
        addExtents(*body);
  }

  Faults faultsOf(std::span<const int64_t> values) const {
    Faults faults;
    for (const Dim &dim : extents) {
      const Result<int64_t> value = dim.evaluate(values);
      faults.broken += !value || *value < 0;
      faults.empty += value && *value == 0;
    }
    for (const MortiseGuard *guard : guards) {
      const Result<int64_t> value = evaluate(guard->expr, values);
      faults.broken += !value || !holds(guard->relation, *value);
    }
    return faults;
  }

  bool consider(std::vector<int64_t> values) {
    const Faults faults = faultsOf(values);
    if (faults >= fewest)
      return false;
    fewest = faults;
    best = std::move(values);
    return true;
  }

  const std::vector<SymbolRange> ranges;
  std::set<Dim> extents; // those that are not numbers
  std::vector<const MortiseGuard *> guards;
  std::vector<int64_t> best;
  Faults fewest{SIZE_MAX, SIZE_MAX};
};

} // namespace detail

inline std::vector<int64_t> typicalValues(const MortiseGraph &graph) {
  if (graph.symbol_count == 0)
    return {};
  return detail::TypicalValues(graph).run();
}

} // namespace mortise
