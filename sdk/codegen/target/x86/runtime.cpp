// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/x86/runtime.hpp"

#include <mortise/dtypes.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mortise::codegen {

template <typename T, T (*function)(T)> static void each(void *x, const void *, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    static_cast<T *>(x)[i] = function(static_cast<T *>(x)[i]);
}
template <typename T, T (*function)(T, T)> static void eachPair(void *x, const void *y, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    static_cast<T *>(x)[i] = function(static_cast<T *>(x)[i], static_cast<const T *>(y)[i]);
}

static double logistic(double x) {
  double e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
static double gelu(double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); }

// Wraps on overflow. A negative exponent gives 0, except for the bases 1 and -1.
template <typename T> static T power(T base, T exponent) {
  if (exponent < 0)
    return base == T(1) ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
  // NOLINTBEGIN(bugprone-signed-char-misuse): an i8 is a number here
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (uint64_t left = static_cast<uint64_t>(exponent); left; left >>= 1, factor *= factor)
    if (left & 1)
      result *= factor;
  // NOLINTEND(bugprone-signed-char-misuse)
  return static_cast<T>(result);
}

template <typename T, int32_t kind> static void addPower(std::vector<RuntimeFunction> &all, const char *name) {
  if constexpr (kind == MORTISE_KIND_SIGNED || kind == MORTISE_KIND_UNSIGNED)
    all.push_back({name, reinterpret_cast<void *>(&eachPair<T, power<T>>)});
}

static std::vector<RuntimeFunction> makeFunctions() {
  std::vector<RuntimeFunction> all = {
      {"mortise_exp_f64", reinterpret_cast<void *>(&each<double, std::exp>)},
      {"mortise_expm1_f64", reinterpret_cast<void *>(&each<double, std::expm1>)},
      {"mortise_log_f64", reinterpret_cast<void *>(&each<double, std::log>)},
      {"mortise_log1p_f64", reinterpret_cast<void *>(&each<double, std::log1p>)},
      {"mortise_tanh_f64", reinterpret_cast<void *>(&each<double, std::tanh>)},
      {"mortise_erf_f64", reinterpret_cast<void *>(&each<double, std::erf>)},
      {"mortise_erfc_f64", reinterpret_cast<void *>(&each<double, std::erfc>)},
      {"mortise_logistic_f64", reinterpret_cast<void *>(&each<double, logistic>)},
      {"mortise_gelu_f64", reinterpret_cast<void *>(&each<double, gelu>)},
      {"mortise_sin_f64", reinterpret_cast<void *>(&each<double, std::sin>)},
      {"mortise_cos_f64", reinterpret_cast<void *>(&each<double, std::cos>)},
      {"mortise_tan_f32", reinterpret_cast<void *>(&each<float, std::tan>)},
      {"mortise_tan_f64", reinterpret_cast<void *>(&each<double, std::tan>)},
      {"mortise_asin_f32", reinterpret_cast<void *>(&each<float, std::asin>)},
      {"mortise_asin_f64", reinterpret_cast<void *>(&each<double, std::asin>)},
      {"mortise_acos_f32", reinterpret_cast<void *>(&each<float, std::acos>)},
      {"mortise_acos_f64", reinterpret_cast<void *>(&each<double, std::acos>)},
      {"mortise_atan_f32", reinterpret_cast<void *>(&each<float, std::atan>)},
      {"mortise_atan_f64", reinterpret_cast<void *>(&each<double, std::atan>)},
      {"mortise_sinh_f32", reinterpret_cast<void *>(&each<float, std::sinh>)},
      {"mortise_sinh_f64", reinterpret_cast<void *>(&each<double, std::sinh>)},
      {"mortise_cosh_f32", reinterpret_cast<void *>(&each<float, std::cosh>)},
      {"mortise_cosh_f64", reinterpret_cast<void *>(&each<double, std::cosh>)},
      {"mortise_asinh_f32", reinterpret_cast<void *>(&each<float, std::asinh>)},
      {"mortise_asinh_f64", reinterpret_cast<void *>(&each<double, std::asinh>)},
      {"mortise_acosh_f32", reinterpret_cast<void *>(&each<float, std::acosh>)},
      {"mortise_acosh_f64", reinterpret_cast<void *>(&each<double, std::acosh>)},
      {"mortise_atanh_f32", reinterpret_cast<void *>(&each<float, std::atanh>)},
      {"mortise_atanh_f64", reinterpret_cast<void *>(&each<double, std::atanh>)},
      {"mortise_log2_f32", reinterpret_cast<void *>(&each<float, std::log2>)},
      {"mortise_log2_f64", reinterpret_cast<void *>(&each<double, std::log2>)},
      {"mortise_log10_f32", reinterpret_cast<void *>(&each<float, std::log10>)},
      {"mortise_log10_f64", reinterpret_cast<void *>(&each<double, std::log10>)},
      {"mortise_exp2_f32", reinterpret_cast<void *>(&each<float, std::exp2>)},
      {"mortise_exp2_f64", reinterpret_cast<void *>(&each<double, std::exp2>)},
      {"mortise_pow_f32", reinterpret_cast<void *>(&eachPair<float, std::pow>)},
      {"mortise_pow_f64", reinterpret_cast<void *>(&eachPair<double, std::pow>)},
      {"mortise_atan2_f32", reinterpret_cast<void *>(&eachPair<float, std::atan2>)},
      {"mortise_atan2_f64", reinterpret_cast<void *>(&eachPair<double, std::atan2>)},
      {"mortise_rem_f32", reinterpret_cast<void *>(&eachPair<float, std::fmod>)},
      {"mortise_rem_f64", reinterpret_cast<void *>(&eachPair<double, std::fmod>)},
      {"memcpy", reinterpret_cast<void *>(&std::memcpy)},
      {"memmove", reinterpret_cast<void *>(&std::memmove)},
      {"memset", reinterpret_cast<void *>(&std::memset)},
  };
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  addPower<storage, MORTISE_KIND_##kind>(all, "mortise_pow_" #name);
  MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  return all;
}

std::span<const RuntimeFunction> runtimeFunctions() {
  static const std::vector<RuntimeFunction> all = makeFunctions();
  return all;
}

} // namespace mortise::codegen
