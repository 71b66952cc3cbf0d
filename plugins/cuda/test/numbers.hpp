// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers in memory, for the stand-ins that compute.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mortise::cuda::stand_in {

enum class Number { F64, F32, F16, BF16 };

inline size_t sizeOf(Number type) { return type == Number::F64 ? 8 : type == Number::F32 ? 4 : 2; }

inline double load(Number type, const void *memory, int64_t at) {
  const char *from = static_cast<const char *>(memory) + at * static_cast<int64_t>(sizeOf(type));
  if (type == Number::F64) {
    double value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (type == Number::F32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return static_cast<double>(value);
  }
  if (type == Number::F16) {
    _Float16 value;
    std::memcpy(&value, from, sizeof value);
    return static_cast<double>(value);
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

inline void store(Number type, void *memory, int64_t at, double value) {
  char *to = static_cast<char *>(memory) + at * static_cast<int64_t>(sizeOf(type));
  if (type == Number::F64) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const auto narrow = static_cast<float>(value);
  if (type == Number::F32) {
    std::memcpy(to, &narrow, sizeof narrow);
  } else if (type == Number::F16) {
    const auto half = static_cast<_Float16>(narrow);
    std::memcpy(to, &half, sizeof half);
  } else {
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof bits);
    const uint16_t rounded =
        std::isnan(narrow) ? 0x7fc0 : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    std::memcpy(to, &rounded, sizeof rounded);
  }
}

} // namespace mortise::cuda::stand_in
