// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/result.hpp>

#include <span>

namespace mortise::portable {

inline constexpr size_t maxExprDepth = 64; // values on the stack of a program

// Whether every run of the program stays on the stack and within `symbolCount`, whatever the symbols' values.
Result<void> checkExpr(std::span<const MortiseExprStep> steps, size_t symbolCount);

} // namespace mortise::portable
