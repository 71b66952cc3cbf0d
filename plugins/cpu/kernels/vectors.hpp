// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vectors of f32 in loops of our own. Those of AVX2 and of the baseline hold a part of one, and the compiler takes
// several.
#pragma once

#include "wide.hpp"

#include <cstring>

namespace mortise::cpu {

inline constexpr int lanes = 16; // of AVX-512; two registers of AVX2
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));

MORTISE_INLINE Floats load(const float *from) {
  Floats vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
MORTISE_INLINE void save(float *to, Floats vector) { std::memcpy(to, &vector, sizeof vector); }

} // namespace mortise::cpu
