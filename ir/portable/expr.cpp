// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "expr.hpp"

#include "limits.hpp"
#include <mortise/dim.hpp>
#include <mortise/portable/graph.hpp>

namespace mortise {
namespace {

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

} // namespace

Result<void> portable::checkExpr(std::span<const MortiseExprStep> steps, size_t symbolCount) {
  if (steps.size() > maxSteps)
    return invalid("expected an expression of at most " + std::to_string(maxSteps) + " steps, found " +
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

Result<int64_t> evaluate(const MortiseExpr &expr, std::span<const int64_t> symbols) {
  std::span<const MortiseExprStep> steps(expr.steps, expr.count);
  if (Result<void> checked = portable::checkExpr(steps, symbols.size()); !checked)
    return checked.error();
  int64_t stack[portable::maxExprDepth] = {};
  size_t depth = 0;
  for (const MortiseExprStep &step : steps) {
    if (step.op == MORTISE_EXPR_CONST) {
      stack[depth++] = step.value;
    } else if (step.op == MORTISE_EXPR_SYMBOL) {
      stack[depth++] = symbols[static_cast<size_t>(step.value)];
    } else {
      int64_t left = stack[depth - 2], right = stack[depth - 1];
      if (!combine(step.op, left, right, stack[depth - 2]))
        return invalid("an expression overflows or divides by 0 (operator " + std::to_string(step.op) + " on " +
                       std::to_string(left) + " and " + std::to_string(right) + ")");
      --depth;
    }
  }
  return stack[0];
}

} // namespace mortise
