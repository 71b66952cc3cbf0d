// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

#include <algorithm>

namespace mortise::conformance {
namespace {

// The variants are granularities, then the type.
constexpr int32_t types[] = {MORTISE_I8, MORTISE_UI8, MORTISE_I4, MORTISE_F8E4M3FN, MORTISE_F8E5M2};
constexpr const char *granularities[] = {"tensor", "row", "row-shifted"};

Dims scaleOf(const Dims &dims, int granularity) {
  Dims scale(dims.size(), 1);
  if (granularity > 0 && !dims.empty())
    scale[0] = dims[0];
  return scale;
}

void quantize(Draft &draft) {
  const int granularity = draft.point.variant % 3;
  const int32_t to = types[draft.point.variant / 3];
  const Dims dims = draft.extents(0, 6), scales = scaleOf(dims, granularity);
  const auto *x = draft.operand(draft.point.dtype, dims);
  const auto *scale = draft.input(draft.point.dtype, scales, {Fill::Positive});
  const auto *zero = granularity == 2 && !isFloat(to)
                         ? draft.input(draft.point.number % 2 ? to : int32_t(MORTISE_I32), scales, between(0, 7))
                         : nullptr;
  draft.node({x, scale, zero}, {{to, dims}}, {string("dtype", dtypeName(to))});
}

void dequantize(Draft &draft) {
  constexpr int32_t floats[] = {MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_F64};
  const int granularity = draft.point.variant % 3;
  const int32_t to = floats[draft.point.variant / 3];
  const Dims dims = draft.extents(0, 6), scales = scaleOf(dims, granularity);
  const auto *q = draft.operand(draft.point.dtype, dims);
  const auto *scale = draft.input(MORTISE_F32, scales, {Fill::Positive});
  const auto *zero =
      granularity == 2 && !isFloat(draft.point.dtype)
          ? draft.input(draft.point.number % 2 ? draft.point.dtype : int32_t(MORTISE_I32), scales, between(0, 7))
          : nullptr;
  draft.node({q, scale, zero}, {{to, dims}}, {string("dtype", dtypeName(to))});
}

void dynamicQuantize(Draft &draft) {
  constexpr int32_t signedTypes[] = {MORTISE_I8, MORTISE_I4, MORTISE_F8E4M3FN, MORTISE_F8E5M2};
  const int32_t to = signedTypes[draft.point.variant];
  const Dims dims = draft.extents(1, 6);
  Dims scale = dims;
  scale.back() = 1;
  const int32_t compute = draft.point.dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  draft.node({draft.operand(draft.point.dtype, dims)}, {{to, dims}, {compute, scale}},
             {string("dtype", dtypeName(to))});
}

// one: a scale for all; rows; groups: two of K for each row, with zero points and a bias; transposed.
void quantizedLinear(Draft &draft) {
  const int32_t dtype = draft.point.dtype;
  const int form = draft.point.variant % 4;
  const int32_t to = types[draft.point.variant / 4];
  Dims x = draft.extents(1, 5, 2, 8000);
  x.back() *= 2;
  const int64_t k = x.back(), n = draft.point.shape == Shape::One ? 1 : draft.pick(1, 33, 128);
  const auto *operand = draft.operand(dtype, x);
  const auto *weight = draft.input(to, form == 3 ? Dims{k, n} : Dims{n, k}, isFloat(to) ? plain : Fill{Fill::Numbers});
  const Dims scales = form == 0 ? Dims{} : form == 2 ? Dims{n, k ? 2 : 1} : Dims{n};
  const auto *scale = draft.input(draft.point.number % 2 ? dtype : int32_t(MORTISE_F32), scales, {Fill::Positive});
  const auto *zero = form == 2 && !isFloat(to) ? draft.input(to, scales, between(0, 7)) : nullptr;
  const auto *bias = form == 2 ? draft.input(dtype, {n}, plain) : nullptr;
  x.back() = n;
  draft.node({operand, weight, scale, zero, bias}, {{dtype, x}}, {flag("weight_transposed", form == 3)});
}

std::vector<std::string> variants(std::initializer_list<const char *> forms, std::span<const int32_t> dtypes) {
  std::vector<std::string> all;
  for (const int32_t dtype : dtypes)
    for (const char *form : forms)
      all.push_back(std::string(form) + (*form ? "-" : "") + dtypeName(dtype));
  return all;
}

} // namespace

std::vector<Row> quantisationRows() {
  constexpr int32_t floats[] = {MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_F64};
  constexpr int32_t signedTypes[] = {MORTISE_I8, MORTISE_I4, MORTISE_F8E4M3FN, MORTISE_F8E5M2};
  return {{Op::Quantize, variants({granularities[0], granularities[1], granularities[2]}, types), quantize},
          {Op::Dequantize, variants({granularities[0], granularities[1], granularities[2]}, floats), dequantize},
          {Op::DynamicQuantize, variants({""}, signedTypes), dynamicQuantize},
          {Op::QuantizedLinear, variants({"one", "rows", "groups", "transposed"}, types), quantizedLinear}};
}

} // namespace mortise::conformance
