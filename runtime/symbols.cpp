// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "symbols.hpp"

#include <mortise/runtime/program.hpp>
#include <mortise/symbols.hpp>

namespace mortise::runtime {
namespace {

std::vector<MortiseExprStep> stepsOf(std::span<const plan::ExprStep> steps) {
  std::vector<MortiseExprStep> result;
  for (const plan::ExprStep &step : steps)
    result.push_back({step.op(), 0, step.value()});
  return result;
}

std::string text(const plan::PlanT &plan, std::span<const plan::ExprStep> steps) {
  constexpr size_t longest = 64; // characters; normal forms of long products are not readable
  const std::vector<MortiseExprStep> copy = stepsOf(steps);
  const Result<Dim> dim =
      copy.size() > longest ? Result<Dim>(Error{}) : Dim::from(std::span(copy), plan.symbols.size());
  return dim ? dim->text([&](uint32_t symbol) { return plan.symbols[symbol]->name; })
             : "an expression of " + std::to_string(copy.size()) + " steps";
}

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

} // namespace

Result<int64_t> evaluateSteps(std::span<const plan::ExprStep> steps, std::span<const int64_t> values) {
  const std::vector<MortiseExprStep> copy = stepsOf(steps);
  return evaluate({copy.data(), copy.size()}, values);
}

std::string inputText(const plan::PlanT &plan, size_t input) {
  return "input " + std::to_string(input) + " '" + plan.inputs[input]->name + "'";
}

Result<void> checkValues(const plan::PlanT &plan, std::span<const int64_t> values) {
  if (values.size() != plan.symbols.size())
    return invalid("expected values of " + std::to_string(plan.symbols.size()) + " symbols, found " +
                   std::to_string(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const plan::SymbolT &symbol = *plan.symbols[i];
    if (SymbolRange{symbol.min, symbol.max, symbol.divisor}.contains(values[i]))
      continue;
    std::string range = symbol.max == INT64_MAX
                            ? std::to_string(symbol.min) + " or more"
                            : "from " + std::to_string(symbol.min) + " to " + std::to_string(symbol.max);
    if (symbol.divisor != 1)
      range += " and a multiple of " + std::to_string(symbol.divisor);
    return invalid(inputText(plan, symbol.input) + ", dimension " + std::to_string(symbol.dimension) + ": expected " +
                   symbol.name + " to be " + range + ", found " + std::to_string(values[i]) +
                   "; pass another size, or compile again for a wider range");
  }
  for (const auto &guard : plan.guards) {
    const Result<int64_t> value = evaluateSteps(guard->steps, values);
    if (value && holds(guard->relation, *value))
      continue;
    return invalid("expected " + guardText(plan, *guard) + (guard->reason.empty() ? "" : " (" + guard->reason + ")") +
                   ", found " + (value ? std::to_string(*value) : value.error().message) + " for " +
                   valuesText(plan, values) + "; pass other sizes, or compile again for these");
  }
  return {};
}

Result<std::vector<int64_t>> extentsOf(const plan::TensorTypeT &type, std::span<const int64_t> values) {
  if (type.step_counts.empty())
    return type.dims;
  std::vector<int64_t> extents;
  size_t at = 0;
  for (uint32_t count : type.step_counts) {
    const Result<int64_t> extent = evaluateSteps(std::span(type.steps).subspan(at, count), values);
    if (!extent)
      return extent.error();
    if (*extent < 0)
      return invalid("an extent would be " + std::to_string(*extent));
    extents.push_back(*extent);
    at += count;
  }
  return extents;
}

std::string guardText(const plan::PlanT &plan, const plan::GuardT &guard) {
  return text(plan, guard.steps) + (guard.relation == MORTISE_RELATION_ZERO ? " == 0" : " >= 0");
}

std::string valuesText(const plan::PlanT &plan, std::span<const int64_t> values) {
  std::string result;
  for (size_t i = 0; i < values.size() && i < plan.symbols.size(); ++i)
    result += (i ? ", " : "") + plan.symbols[i]->name + " = " + std::to_string(values[i]);
  return result;
}

std::vector<std::string> formulasOf(const plan::PlanT &plan, const plan::TensorTypeT &type) {
  std::vector<std::string> result;
  size_t at = 0;
  for (size_t i = 0; i < type.step_counts.size(); at += type.step_counts[i++])
    result.push_back(
        type.dims[i] == MORTISE_DYNAMIC ? text(plan, std::span(type.steps).subspan(at, type.step_counts[i])) : "");
  return result;
}

std::string typeText(const plan::PlanT &plan, const plan::TensorTypeT &type) {
  const std::vector<std::string> formulas = formulasOf(plan, type);
  std::string result = std::string(dtypeName(type.dtype)) + "[";
  for (size_t i = 0; i < type.dims.size(); ++i)
    result +=
        (i ? ", " : "") + (i < formulas.size() && !formulas[i].empty() ? formulas[i] : std::to_string(type.dims[i]));
  return result + "]";
}

} // namespace mortise::runtime
