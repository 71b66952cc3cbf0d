// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// f16 and bf16 in loops of our own, which compute in f32.
#pragma once

#include "wide.hpp"

#include <bit>

namespace mortise::cpu {

MORTISE_INLINE float fromBrain(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
// To the nearest, ties to even; NaN stays NaN.
MORTISE_INLINE uint16_t toBrain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>(value != value ? (bits >> 16 | 0x40) : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The number of an element of f32 or bf16, and an element of a number.
MORTISE_INLINE float number(float element) { return element; }
MORTISE_INLINE float number(uint16_t element) { return fromBrain(element); }
MORTISE_INLINE void store(float *element, float value) { *element = value; }
MORTISE_INLINE void store(uint16_t *element, float value) { *element = toBrain(value); }

// `yes` where all bits of the mask are set, `no` where none is: vectors where a condition would be a branch.
MORTISE_INLINE uint16_t chosen(uint16_t mask, uint16_t yes, uint16_t no) {
  return static_cast<uint16_t>(no ^ ((no ^ yes) & mask));
}

// How f16 and bf16 are read and written.
struct Half {
  // By integers: conversions are calls where code may not use F16C.
  static float load(uint16_t bits) {
    uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31)
      return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0)
      return (sign ? -1.f : 1.f) * static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  }
  static uint16_t store(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
};
struct Brain {
  static float load(uint16_t bits) { return fromBrain(bits); }
  static uint16_t store(float value) { return toBrain(value); }
};

} // namespace mortise::cpu
