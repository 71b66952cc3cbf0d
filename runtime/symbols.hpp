// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The symbols of a plan: checks of their values, and the extents computed from the values.
#pragma once

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/plan_generated.h>

#include <span>
#include <string>
#include <vector>

namespace mortise::runtime {

using Values = std::vector<int64_t>; // one per symbol of a plan

// Ranges, divisors and guards. Errors: MORTISE_INVALID_ARGUMENT, naming the input and dimension that has the value.
Result<void> checkValues(const plan::PlanT &plan, std::span<const int64_t> values);

Result<int64_t> evaluateSteps(std::span<const plan::ExprStep> steps, std::span<const int64_t> values);

// The extents of a sound type. Errors: MORTISE_INVALID_ARGUMENT (overflow, division by 0, negative).
Result<std::vector<int64_t>> extentsOf(const plan::TensorTypeT &type, std::span<const int64_t> values);

// For messages: "b = 2, s = 7"; per extent "2*s", or "" for a number.
std::string valuesText(const plan::PlanT &plan, std::span<const int64_t> values);
std::vector<std::string> formulasOf(const plan::PlanT &plan, const plan::TensorTypeT &type);

std::string inputText(const plan::PlanT &plan, size_t input); // "input 2 'x'"

} // namespace mortise::runtime
