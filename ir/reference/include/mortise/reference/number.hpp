// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic that the interpreter's floats are computed in. Its sources are compiled once for each variant, in a
// namespace of their own; without a definition of MORTISE_REFERENCE_VARIANT for the oracle that everybody uses.
//
// 0, in_f64: the oracle. 1, in_f64_unrounded: results are stored as f64, whatever their type, so they are not rounded.
// 2, in_f32: what a device that adds in f32 computes at its most careful. 3, in_mpfr_unrounded: MPFR numbers of 128
// bits, for the expected values of f64; results are rounded to f64.
#pragma once

#ifndef MORTISE_REFERENCE_VARIANT
#define MORTISE_REFERENCE_VARIANT 0
#endif

#if MORTISE_REFERENCE_VARIANT == 0
#define MORTISE_ARITHMETIC in_f64
#elif MORTISE_REFERENCE_VARIANT == 1
#define MORTISE_ARITHMETIC in_f64_unrounded
#elif MORTISE_REFERENCE_VARIANT == 2
#define MORTISE_ARITHMETIC in_f32
#else
#define MORTISE_ARITHMETIC in_mpfr_unrounded
#include <boost/multiprecision/mpfr.hpp>
#endif

#include <cmath>
#include <cstdlib>
#include <limits>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

// Whether results keep the precision that they are computed in.
inline constexpr bool isUnrounded = MORTISE_REFERENCE_VARIANT % 2 == 1;

#if MORTISE_REFERENCE_VARIANT == 3
// 38 decimal digits are 128 bits.
using Number =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<38, boost::multiprecision::allocate_stack>,
                                  boost::multiprecision::et_off>;
#elif MORTISE_REFERENCE_VARIANT == 2
using Number = float;
#else
using Number = double;
#endif

// Unqualified calls find these for double and float, and the functions of other numbers by their arguments.
using std::abs, std::copysign, std::fabs, std::isfinite, std::isinf, std::isnan, std::signbit;
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cos, std::cosh, std::sin,
    std::sinh, std::tan, std::tanh;
using std::ceil, std::floor, std::fmod, std::nearbyint;
using std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::log, std::log10, std::log1p, std::log2, std::pow,
    std::sqrt;

#if MORTISE_REFERENCE_VARIANT == 3
// Straight to MPFR, which rounds correctly; Boost computes some of these from others.
#define MORTISE_MPFR_FUNCTION(name)                                                                                    \
  inline Number name(const Number &x) {                                                                                \
    Number made;                                                                                                       \
    mpfr_##name(made.backend().data(), x.backend().data(), MPFR_RNDN);                                                 \
    return made;                                                                                                       \
  }
MORTISE_MPFR_FUNCTION(exp2)
MORTISE_MPFR_FUNCTION(expm1)
MORTISE_MPFR_FUNCTION(log2)
MORTISE_MPFR_FUNCTION(log10)
MORTISE_MPFR_FUNCTION(log1p)
MORTISE_MPFR_FUNCTION(erf)
MORTISE_MPFR_FUNCTION(erfc)
MORTISE_MPFR_FUNCTION(asinh)
MORTISE_MPFR_FUNCTION(acosh)
MORTISE_MPFR_FUNCTION(atanh)
#undef MORTISE_MPFR_FUNCTION
inline Number nearbyint(const Number &x) {
  Number made;
  mpfr_rint(made.backend().data(), x.backend().data(), MPFR_RNDN); // ties to even
  return made;
}
inline Number pow(const Number &x, const Number &y) {
  Number made;
  mpfr_pow(made.backend().data(), x.backend().data(), y.backend().data(), MPFR_RNDN);
  return made;
}
inline Number atan2(const Number &y, const Number &x) {
  Number made;
  mpfr_atan2(made.backend().data(), y.backend().data(), x.backend().data(), MPFR_RNDN);
  return made;
}
inline Number fabs(const Number &x) { return abs(x); }
#endif

inline Number circleConstant() {
#if MORTISE_REFERENCE_VARIANT == 3
  Number made;
  mpfr_const_pi(made.backend().data(), MPFR_RNDN);
  return made;
#else
  return static_cast<Number>(M_PI);
#endif
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
