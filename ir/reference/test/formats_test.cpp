// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every bit pattern of the small float formats, against the definition: sign * significand * 2^exponent.
#include "run_op.hpp"

using namespace mortise::reference;
using mortise::test::inf;
using mortise::test::same;

namespace {

struct Layout {
  int exponentBits, mantissaBits;
  bool infinity;
};
template <typename T> Layout layoutOf();
template <> Layout layoutOf<F16>() { return {5, 10, true}; }
template <> Layout layoutOf<BF16>() { return {8, 7, true}; }
template <> Layout layoutOf<F8E5M2>() { return {5, 2, true}; }
template <> Layout layoutOf<F8E4M3FN>() { return {4, 3, false}; }

// The definition, in exact arithmetic.
double define(Layout layout, unsigned code) {
  int bias = (1 << (layout.exponentBits - 1)) - 1, ones = (1 << layout.exponentBits) - 1;
  int mantissa = static_cast<int>(code & ((1u << layout.mantissaBits) - 1));
  int exponent = static_cast<int>(code >> layout.mantissaBits) & ones;
  double sign = code >> (layout.exponentBits + layout.mantissaBits) ? -1 : 1;
  if (layout.infinity && exponent == ones)
    return mantissa ? std::nan("") : sign * inf;
  if (!layout.infinity && exponent == ones && mantissa == (1 << layout.mantissaBits) - 1)
    return std::nan("");
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - layout.mantissaBits);
  return sign * std::ldexp(mantissa + (1 << layout.mantissaBits), exponent - bias - layout.mantissaBits);
}

template <typename T> class SmallFormat : public testing::Test {};
using Formats = testing::Types<F16, BF16, F8E5M2, F8E4M3FN>;
TYPED_TEST_SUITE(SmallFormat, Formats);

template <typename T> unsigned patterns() { return 1u << (8 * sizeof(typename T::Storage)); }
template <typename T> unsigned largestFinite() { // the bit pattern of the largest finite number
  unsigned code = patterns<T>() / 2 - 1;
  while (!std::isfinite(define(layoutOf<T>(), code)))
    --code;
  return code;
}

} // namespace

TYPED_TEST(SmallFormat, EveryPatternLoadsAndComesBack) {
  for (unsigned code = 0; code < patterns<TypeParam>(); ++code) {
    double value = TypeParam::load(static_cast<typename TypeParam::Storage>(code)),
           expected = define(layoutOf<TypeParam>(), code);
    ASSERT_TRUE(same(value, expected)) << code;
    unsigned back = TypeParam::store(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(define(layoutOf<TypeParam>(), back)));
      ASSERT_EQ(back >= patterns<TypeParam>() / 2, code >= patterns<TypeParam>() / 2) << "NaN keeps its sign";
    } else {
      ASSERT_EQ(back, code);
    }
  }
}

TYPED_TEST(SmallFormat, RoundsToNearestEvenBetweenNeighbours) {
  for (unsigned code = 0; code < largestFinite<TypeParam>(); ++code) {
    double low = define(layoutOf<TypeParam>(), code), high = define(layoutOf<TypeParam>(), code + 1);
    double middle = low + (high - low) / 2;
    unsigned even = code % 2 ? code + 1 : code;
    unsigned sign = patterns<TypeParam>() / 2;
    ASSERT_EQ(TypeParam::store(middle), even) << code;
    ASSERT_EQ(TypeParam::store(-middle), even | sign) << code;
    ASSERT_EQ(TypeParam::store(std::nextafter(middle, 0)), code) << code;
    ASSERT_EQ(TypeParam::store(std::nextafter(middle, inf)), code + 1) << code;
    ASSERT_EQ(TypeParam::store(-std::nextafter(middle, inf)), (code + 1) | sign) << code;
  }
}

TYPED_TEST(SmallFormat, OverflowBeginsHalfAStepAboveTheLargest) {
  Layout layout = layoutOf<TypeParam>();
  unsigned code = largestFinite<TypeParam>();
  double largest = define(layout, code), step = largest - define(layout, code - 1);
  double limit = largest + step / 2; // a tie rounds to even, which overflows for formats whose largest pattern is odd
  EXPECT_EQ(TypeParam::store(std::nextafter(limit, 0)), code);
  double overflow = layout.infinity ? inf : std::nan("");
  double atLimit = TypeParam::load(TypeParam::store(limit));
  EXPECT_TRUE(same(atLimit, code % 2 ? overflow : largest)) << atLimit;
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(std::nextafter(limit, inf))), overflow));
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(inf)), overflow));
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(-inf)), -overflow));
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(1e300)), overflow));
}

TYPED_TEST(SmallFormat, TinyValuesGoToSignedZeroOrTheSmallest) {
  double smallest = define(layoutOf<TypeParam>(), 1);
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(-smallest / 2)), -0.0)) << "tie to even";
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(std::nextafter(smallest / 2, inf))), smallest));
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(5e-324)), 0.0));
  EXPECT_TRUE(same(TypeParam::load(TypeParam::store(-0.0)), -0.0));
}

TEST(Formats, KnownConstants) {
  EXPECT_EQ(F16::load(0x7bff), 65504);
  EXPECT_EQ(F16::store(65520), 0x7c00) << "tie above the largest";
  EXPECT_EQ(F16::store(1.0 / 3), 0x3555);
  EXPECT_EQ(BF16::store(3.14159265), 0x4049);
  EXPECT_EQ(BF16::store(3.4e38), 0x7f80);
  EXPECT_EQ(F8E4M3FN::load(0x7e), 448);
  EXPECT_EQ(F8E4M3FN::store(464), 0x7e) << "a tie with NaN's pattern goes to 448, which is even";
  EXPECT_EQ(F8E4M3FN::store(465), 0x7f);
  EXPECT_EQ(F8E5M2::load(0x7b), 57344);
  EXPECT_EQ(F8E4M3FN::load(1), std::ldexp(1, -9));
}

TEST(Formats, OddRoundingKeepsTheStickyBit) {
  EXPECT_EQ(toDoubleOdd((int64_t(1) << 62) + (int64_t(1) << 54) + 1), 0x1.0100000000001p62);
  EXPECT_EQ(toDoubleOdd((int64_t(1) << 53) - 1), 9007199254740991.0);
  EXPECT_EQ(toDoubleOdd(INT64_MIN), -0x1p63);
  EXPECT_EQ(toDoubleOdd(-(int64_t(1) << 60) - 1), -0x1.0000000000001p60);
}
