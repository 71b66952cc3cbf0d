// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types: how each is stored, and conversions to and from the type that the interpreter computes in (Number for
// floats, int64_t for integers and booleans). Conversions round once, to nearest even.
#pragma once

#include <mortise/dtypes.h>
#include <mortise/reference/number.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

// A float of at most 16 bits in an IEEE 754 layout. `hasInfinity` false (f8E4M3FN): the only NaN has all bits but the
// sign set, and overflow gives NaN.
template <typename Bits, int exponentBits, int mantissaBits, bool hasInfinity> struct SmallFloat {
  using Bytes = Bits;
  static constexpr bool isFloat = true;
  static constexpr int bias = (1 << (exponentBits - 1)) - 1;
  static constexpr uint64_t signBit = uint64_t(1) << (exponentBits + mantissaBits);
  static constexpr uint64_t exponentOnes = (signBit - 1) & ~((uint64_t(1) << mantissaBits) - 1);
  static constexpr uint64_t infinity = hasInfinity ? exponentOnes : signBit - 1; // the result of overflow
  static constexpr uint64_t nan = hasInfinity ? exponentOnes | (uint64_t(1) << (mantissaBits - 1)) : signBit - 1;

  static constexpr double powerOfTwo(int exponent) { return std::bit_cast<double>(uint64_t(1023 + exponent) << 52); }

  static double toDouble(Bits stored) {
    uint64_t magnitude = stored & (signBit - 1), sign = (stored & signBit) ? uint64_t(1) << 63 : 0;
    double value;
    if (hasInfinity && magnitude >= exponentOnes) // infinity or NaN, whose payload is kept
      value = std::bit_cast<double>(uint64_t(0x7ff) << 52 | (magnitude & ~exponentOnes) << (52 - mantissaBits));
    else if (!hasInfinity && magnitude == nan)
      value = std::numeric_limits<double>::quiet_NaN();
    else // read as a double, the exponent is too small by the difference of the biases; also exact for subnormals
      value = std::bit_cast<double>(magnitude << (52 - mantissaBits)) * powerOfTwo(1023 - bias);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(value) | sign);
  }

  static Bits fromDouble(double value) {
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

template <typename T> struct NativeFloat {
  using Bytes = T;
  static constexpr bool isFloat = true;
  static double toDouble(T stored) { return static_cast<double>(stored); }
  static T fromDouble(double value) { return static_cast<T>(value); }
};

// A float dtype as the interpreter stores it; `Packed` is how buffers of the ABI do.
template <typename Float, int32_t code> struct StoredFloat : Float {
  using Packed = Float;
  using Storage = std::conditional_t<isUnrounded, double, typename Float::Bytes>;
  using Compute = Number;
  static constexpr int32_t dtype = code;
  static Number load(Storage stored) {
    if constexpr (isUnrounded)
      return Number(stored);
    else
      return static_cast<Number>(Float::toDouble(stored));
  }
  static Storage store(const Number &value) {
    if constexpr (isUnrounded)
      return static_cast<double>(value);
    else
      return Float::fromDouble(static_cast<double>(value));
  }
};

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

// A signed integer of less than a byte. The interpreter stores one per byte; inputs, outputs and literals are packed.
template <typename T, int32_t code, int bits> struct PackedInt : NativeInt<T, code> {
  static constexpr int64_t lowest = -(int64_t(1) << (bits - 1)), highest = -lowest - 1;
  static T store(int64_t value) { return static_cast<T>(((value & (2 * highest + 1)) ^ -lowest) + lowest); }
};

template <typename T, int32_t code> struct Boolean : NativeInt<T, code> {
  static constexpr int64_t lowest = 0, highest = 1;
  static int64_t load(T stored) { return stored != 0; }
  static T store(int64_t value) { return value != 0; }
};

namespace detail {
// Whether a format has infinities. It has none when its largest number uses the exponent that IEEE 754 reserves for
// them.
constexpr bool hasInfinity(double max, int exponentBits, int mantissaBits) {
  double unit = 1;
  for (int i = 0; i < mantissaBits; ++i)
    unit /= 2;
  double largest = 2 - unit;
  for (int i = 0; exponentBits > 0 && i < (1 << (exponentBits - 1)) - 1; ++i)
    largest *= 2;
  return max <= largest;
}

template <typename T, int32_t code, int32_t kind, int bits, int exponentBits, int mantissaBits, bool hasInfinity>
constexpr auto elementOf() {
  if constexpr (kind == MORTISE_KIND_FLOAT && std::is_floating_point_v<T>)
    return std::type_identity<StoredFloat<NativeFloat<T>, code>>();
  else if constexpr (kind == MORTISE_KIND_FLOAT)
    return std::type_identity<StoredFloat<SmallFloat<T, exponentBits, mantissaBits, hasInfinity>, code>>();
  else if constexpr (kind == MORTISE_KIND_BOOL)
    return std::type_identity<Boolean<T, code>>();
  else if constexpr (bits < 8)
    return std::type_identity<PackedInt<T, code, bits>>();
  else
    return std::type_identity<NativeInt<T, code>>();
}
} // namespace detail

// F64, F32, ..., I1: an element type for each row of mortise/dtypes.h.
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  using NAME = decltype(detail::elementOf<storage, MORTISE_##NAME, MORTISE_KIND_##kind, bits, exponent, mantissa,      \
                                          detail::hasInfinity(max, exponent, mantissa)>())::type;
MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW

// Calls `body(T{})` with the element type T of `dtype`, which must be a known dtype.
template <typename Body> decltype(auto) visitFloat(int32_t dtype, Body &&body) {
  switch (dtype) {
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  case MORTISE_##NAME:                                                                                                 \
    if constexpr (NAME::isFloat)                                                                                       \
      return body(NAME{});                                                                                             \
    else                                                                                                               \
      __builtin_unreachable();
    MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  default:
    __builtin_unreachable();
  }
}
template <typename Body> decltype(auto) visitInt(int32_t dtype, Body &&body) { // booleans too
  switch (dtype) {
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  case MORTISE_##NAME:                                                                                                 \
    if constexpr (!NAME::isFloat)                                                                                      \
      return body(NAME{});                                                                                             \
    else                                                                                                               \
      __builtin_unreachable();
    MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  default:
    __builtin_unreachable();
  }
}
template <typename Body> decltype(auto) visitElement(int32_t dtype, Body &&body) {
  switch (dtype) {
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  case MORTISE_##NAME:                                                                                                 \
    return body(NAME{});
    MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  default:
    __builtin_unreachable();
  }
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

namespace detail {
// A stored element as a double or an int64_t, and a double as it is stored; whatever a Number is.
template <typename From> auto exactly(typename From::Storage stored) {
  if constexpr (From::isFloat && isUnrounded)
    return stored;
  else if constexpr (From::isFloat)
    return From::toDouble(stored);
  else
    return From::load(stored);
}
template <typename To> typename To::Storage rounded(double value) {
  if constexpr (isUnrounded)
    return value;
  else
    return To::fromDouble(value);
}
} // namespace detail

// One element from type From to type To by the rules of mortise.convert.
template <typename To, typename From> typename To::Storage convertElement(typename From::Storage stored) {
  const auto value = detail::exactly<From>(stored);
  if constexpr (From::isFloat && To::isFloat) {
    return detail::rounded<To>(value);
  } else if constexpr (!From::isFloat && !To::isFloat) {
    return To::store(value);
  } else if constexpr (To::isFloat) {
    return detail::rounded<To>(To::dtype == MORTISE_F64 ? static_cast<double>(value) : toDoubleOdd(value));
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

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
