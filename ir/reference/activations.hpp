// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activation functions that several families share.
#pragma once

#include <mortise/reference/number.hpp>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

inline Number gelu(Number x) { return x / 2 * erfc(-x / sqrt(Number(2))); }
inline Number geluTanh(Number x) {
  Number inner = sqrt(2 / circleConstant()) * (x + Number(0.044715) * x * x * x);
  return x / (1 + exp(-2 * inner)); // x * 0.5 * (1 + tanh(inner)) without cancellation
}
inline Number silu(Number x) {
  if (x >= 0)
    return x / (1 + exp(-x));
  Number e = exp(x);
  return x * (e / (1 + e));
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
