// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/conformance/error_bounds.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace mortise::conformance {
namespace {

TEST(Bounds, UlpIsTheDistanceToTheNextNumber) {
  const double smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulp(1, MORTISE_F32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(ulp(0.5, MORTISE_F32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(ulp(smallest, MORTISE_F32), smallest);
  EXPECT_EQ(ulp(1, MORTISE_BF16), 0x1p-7);
  EXPECT_EQ(ulp(1, MORTISE_F16), 0x1p-10);
}

// A result of 1e-38 where 0 is expected is no rounding.
TEST(Bounds, UlpOfZeroIsTheSmallestNumber) {
  for (const double zero : {0.0, -0.0}) {
    EXPECT_EQ(ulp(zero, MORTISE_F32), std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(ulp(zero, MORTISE_F64), std::numeric_limits<double>::denorm_min());
    EXPECT_EQ(ulp(zero, MORTISE_F16), 0x1p-24);
    EXPECT_LT(allowed(0, zero, MORTISE_F32), 1e-38);
  }
}

} // namespace
} // namespace mortise::conformance
