// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activation functions that several families share.
#pragma once

#include <cmath>
#include <numbers>

namespace mortise::reference {

inline double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
inline double geluTanh(double x) {
  double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * inner)); // x * 0.5 * (1 + tanh(inner)) without cancellation
}
inline double silu(double x) {
  if (x >= 0)
    return x / (1 + std::exp(-x));
  double e = std::exp(x);
  return x * (e / (1 + e));
}

} // namespace mortise::reference
