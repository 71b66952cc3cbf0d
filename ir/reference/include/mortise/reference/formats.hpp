// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types: how each is stored, and its conversions to and from what the interpreter computes in (double for
// floats, int64_t for integers and booleans). Rounding is to nearest even, once.
#pragma once

#include <mortise/plugin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mortise::reference {

// A float of 16 bits or fewer in IEEE 754's arrangement. `hasInfinity` false: the one pattern of all ones is NaN and
// overflow gives it (f8E4M3FN).
template <typename Bits, int exponentBits, int mantissaBits, bool hasInfinity> struct SmallFloat {
  using Storage = Bits;
  using Compute = double;
  static constexpr bool isFloat = true;
  static constexpr int bias = (1 << (exponentBits - 1)) - 1;
  static constexpr uint64_t signBit = uint64_t(1) << (exponentBits + mantissaBits);
  static constexpr uint64_t exponentOnes = (signBit - 1) & ~((uint64_t(1) << mantissaBits) - 1);
  static constexpr uint64_t infinity = hasInfinity ? exponentOnes : signBit - 1; // what overflow gives
  static constexpr uint64_t nan = hasInfinity ? exponentOnes | (uint64_t(1) << (mantissaBits - 1)) : signBit - 1;

  static constexpr double powerOfTwo(int exponent) { return std::bit_cast<double>(uint64_t(1023 + exponent) << 52); }

  static double load(Bits stored) {
    uint64_t magnitude = stored & (signBit - 1), sign = (stored & signBit) ? uint64_t(1) << 63 : 0;
    double value;
    if (hasInfinity && magnitude >= exponentOnes) // infinity or NaN, whose payload is kept
      value = std::bit_cast<double>(uint64_t(0x7ff) << 52 | (magnitude & ~exponentOnes) << (52 - mantissaBits));
    else if (!hasInfinity && magnitude == nan)
      value = std::numeric_limits<double>::quiet_NaN();
    else // as a double the exponent is too small by the difference of the biases; right for subnormals too
      value = std::bit_cast<double>(magnitude << (52 - mantissaBits)) * powerOfTwo(1023 - bias);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(value) | sign);
  }

  static Bits store(double value) {
    uint64_t bits = std::bit_cast<uint64_t>(value), sign = (bits >> 63) ? signBit : 0;
    bits &= ~(uint64_t(1) << 63);
    double magnitude = std::bit_cast<double>(bits);
    uint64_t code;
    if (std::isnan(value)) {
      code = nan;
    } else if (magnitude < powerOfTwo(1 - bias)) {
      code = static_cast<uint64_t>(std::nearbyint(magnitude * powerOfTwo(mantissaBits + bias - 1)));
    } else {
      constexpr int shift = 52 - mantissaBits;
      bits += (uint64_t(1) << (shift - 1)) - 1 + ((bits >> shift) & 1);
      code = (bits >> shift) - (uint64_t(1023 - bias) << mantissaBits);
      code = code > infinity ? infinity : code;
    }
    return static_cast<Bits>(code | sign);
  }
};

struct F16 : SmallFloat<uint16_t, 5, 10, true> {
  static constexpr int32_t dtype = MORTISE_F16;
};
struct BF16 : SmallFloat<uint16_t, 8, 7, true> {
  static constexpr int32_t dtype = MORTISE_BF16;
};
struct F8E4M3FN : SmallFloat<uint8_t, 4, 3, false> {
  static constexpr int32_t dtype = MORTISE_F8E4M3FN;
};
struct F8E5M2 : SmallFloat<uint8_t, 5, 2, true> {
  static constexpr int32_t dtype = MORTISE_F8E5M2;
};

template <typename T, int32_t code> struct NativeFloat {
  using Storage = T;
  using Compute = double;
  static constexpr bool isFloat = true;
  static constexpr int32_t dtype = code;
  static double load(T stored) { return static_cast<double>(stored); }
  static T store(double value) { return static_cast<T>(value); }
};
using F64 = NativeFloat<double, MORTISE_F64>;
using F32 = NativeFloat<float, MORTISE_F32>;

template <typename T, int32_t code> struct NativeInt {
  using Storage = T;
  using Compute = int64_t;
  static constexpr bool isFloat = false;
  static constexpr int32_t dtype = code;
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): an i8 is a number here
  static constexpr int64_t lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
  static int64_t load(T stored) { return stored; }
  static T store(int64_t value) { return static_cast<T>(value); } // keeps the low bits
};
using I64 = NativeInt<int64_t, MORTISE_I64>;
using I32 = NativeInt<int32_t, MORTISE_I32>;
using I16 = NativeInt<int16_t, MORTISE_I16>;
using I8 = NativeInt<int8_t, MORTISE_I8>;
using UI8 = NativeInt<uint8_t, MORTISE_UI8>;

// Inside the interpreter an i4 has a byte of its own; inputs, outputs and literals are packed two to a byte.
struct I4 : NativeInt<int8_t, MORTISE_I4> {
  static constexpr int64_t lowest = -8, highest = 7;
  static int8_t store(int64_t value) { return static_cast<int8_t>(((value & 15) ^ 8) - 8); }
};
struct I1 : NativeInt<uint8_t, MORTISE_I1> {
  static constexpr int64_t lowest = 0, highest = 1;
  static int64_t load(uint8_t stored) { return stored != 0; }
  static uint8_t store(int64_t value) { return value != 0; }
};

// Calls `body(T{})` with the element type T of `dtype`, which has to be a known one.
template <typename Body> decltype(auto) visitFloat(int32_t dtype, Body &&body) {
  switch (dtype) {
  case MORTISE_F64:
    return body(F64{});
  case MORTISE_F32:
    return body(F32{});
  case MORTISE_F16:
    return body(F16{});
  case MORTISE_BF16:
    return body(BF16{});
  case MORTISE_F8E4M3FN:
    return body(F8E4M3FN{});
  case MORTISE_F8E5M2:
    return body(F8E5M2{});
  default:
    __builtin_unreachable();
  }
}
template <typename Body> decltype(auto) visitInt(int32_t dtype, Body &&body) { // i1 too
  switch (dtype) {
  case MORTISE_I64:
    return body(I64{});
  case MORTISE_I32:
    return body(I32{});
  case MORTISE_I16:
    return body(I16{});
  case MORTISE_I8:
    return body(I8{});
  case MORTISE_I4:
    return body(I4{});
  case MORTISE_UI8:
    return body(UI8{});
  case MORTISE_I1:
    return body(I1{});
  default:
    __builtin_unreachable();
  }
}
template <typename Body> decltype(auto) visitElement(int32_t dtype, Body &&body) {
  return dtype <= MORTISE_F8E5M2 ? visitFloat(dtype, body) : visitInt(dtype, body);
}

// The double nearest to `value` whose last bit is set when bits were lost: rounding it again, to at most 51 bits, gives
// what rounding `value` once would.
inline double toDoubleOdd(int64_t value) {
  uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int excess = std::bit_width(magnitude) - 53;
  if (excess > 0) {
    uint64_t lost = magnitude & ((uint64_t(1) << excess) - 1);
    magnitude = (magnitude >> excess | (lost != 0)) << excess;
  }
  return value < 0 ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
}

// One element from type From to type To by the rules of mortise.convert.
template <typename To, typename From> typename To::Storage convertElement(typename From::Storage stored) {
  auto value = From::load(stored);
  if constexpr (From::isFloat == To::isFloat) {
    return To::store(value);
  } else if constexpr (To::isFloat) {
    return To::store(To::dtype == MORTISE_F64 ? static_cast<double>(value) : toDoubleOdd(value));
  } else if constexpr (To::dtype == MORTISE_I1) {
    return value != 0; // true for NaN
  } else {
    if (std::isnan(value))
      return 0;
    if (value <= static_cast<double>(To::lowest))
      return To::store(To::lowest);
    if (value >= static_cast<double>(To::highest)) // 2^63 for i64
      return To::store(To::highest);
    return To::store(static_cast<int64_t>(value));
  }
}

} // namespace mortise::reference
