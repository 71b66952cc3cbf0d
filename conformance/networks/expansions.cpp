// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "expansions.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace mortise::conformance::expansion {
namespace {

Dims from(int64_t begin, int64_t end) {
  Dims axes(static_cast<size_t>(end - begin));
  std::iota(axes.begin(), axes.end(), begin);
  return axes;
}

Dims channelDims(Value x) { // of a number for each channel, with the rank of x
  Dims dims(static_cast<size_t>(x->type->rank), 1);
  dims[1] = x->type->dims[1];
  return dims;
}

// A scale, with an extent for each of the extents of x, or 1 or a divisor: repeated to x's shape.
Value granular(Tape &t, Value scale, const Dims &dims) {
  Dims split, axes, scales;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t groups = scale->type->dims[i];
    scales.push_back(groups);
    axes.push_back(static_cast<int64_t>(split.size()));
    split.insert(split.end(), {groups, dims[i] / groups});
  }
  return t.reshape(t.broadcast(t.reshape(scale, scales), split, axes), dims);
}

Value activated(Tape &t, Value x, std::string_view activation) {
  if (activation == "none")
    return x;
  if (activation.starts_with("gelu"))
    return t.gelu(x, activation == "gelu_tanh");
  return t.map(activation == "relu" ? "relu" : "silu", x);
}

} // namespace

Value softmax(Tape &t, Value x, int64_t axis, bool isLogarithm) {
  Value shifted = t.sub(x, t.reduce("reduce_max", x, {axis}, true)), e = t.map("exp", shifted);
  Value sum = t.sum(e, {axis}, true);
  return isLogarithm ? t.sub(shifted, t.map("log", sum)) : t.div(e, sum);
}

Value gelu(Tape &t, Value x, bool isTanh) {
  if (!isTanh)
    return t.mul(t.scale(x, 0.5), t.map("erfc", t.scale(x, -std::numbers::sqrt2 / 2)));
  Value inner = t.scale(t.mul(x, t.shift(t.scale(t.mul(x, x), 0.044715), 1)), std::sqrt(2 / std::numbers::pi));
  return t.mul(t.scale(x, 0.5), t.shift(t.map("tanh", inner), 1));
}

Value linear(Tape &t, Value x, Value weight, Value bias) {
  Value product = t.dot(x, weight, {{}, {}, {x->type->rank - 1}, {1}});
  return bias ? t.add(product, bias) : product;
}

Value fusedConvolution(Tape &t, Value x, Value weight, Value bias, const Tape::Window &window,
                       std::string_view activation) {
  Value y = t.convolution(x, weight, window);
  return activated(t, t.add(y, t.reshape(bias, channelDims(y))), activation);
}

Value attention(Tape &t, Value q, Value k, Value v, Value mask, double scale, bool causal) {
  const Dims dims = Tape::dimsOf(q);
  const auto repeated = [&](Value x) { // one head for each of the queries'
    const Dims of = Tape::dimsOf(x);
    if (of[1] == dims[1])
      return x;
    Value made = t.broadcast(x, {of[0], of[1], dims[1] / of[1], of[2], of[3]}, {0, 1, 3, 4});
    return t.reshape(made, {of[0], dims[1], of[2], of[3]});
  };
  Value scores = t.scale(t.matmul(q, t.transpose(repeated(k), {0, 1, 3, 2})), scale);
  const Dims square = Tape::dimsOf(scores);
  Value hidden = t.number(-INFINITY, q->type->dtype);
  if (causal)
    scores = t.select(t.compare("ge", t.iota(square, 2), t.iota(square, 3)), scores, hidden);
  if (mask)
    scores = mask->type->dtype == MORTISE_I1 ? t.select(mask, scores, hidden) : t.add(scores, mask);
  return t.matmul(t.softmax("softmax", scores, 3), repeated(v));
}

Value rope(Tape &t, Value x, Value cosine, Value sine) {
  const int64_t axis = x->type->rank - 1, half = Tape::lastOf(x) / 2;
  Value turned = t.concatenate({t.map("neg", t.part(x, axis, half, 2 * half)), t.part(x, axis, 0, half)}, axis);
  return t.add(t.mul(x, cosine), t.mul(turned, sine));
}

Value norm(Tape &t, Value x, Value scale, Value bias, int64_t axis, bool isCentred, double epsilon) {
  const Dims inside = from(axis, x->type->rank);
  Value centred = isCentred ? t.sub(x, t.mean(x, inside, true)) : x;
  Value y = t.mul(centred, t.map("rsqrt", t.shift(t.mean(t.mul(centred, centred), inside, true), epsilon)));
  y = scale ? t.mul(y, scale) : y;
  return bias ? t.add(y, bias) : y;
}

Value groupNorm(Tape &t, Value x, Value scale, Value bias, int64_t groups, double epsilon) {
  const Dims dims = Tape::dimsOf(x);
  const int64_t rest =
      std::accumulate(dims.begin() + 1, dims.end(), int64_t(1), std::multiplies<>()) / std::max<int64_t>(groups, 1);
  Value y = t.reshape(norm(t, t.reshape(x, {dims[0], groups, rest}), nullptr, nullptr, 2, true, epsilon), dims);
  y = scale ? t.mul(y, t.reshape(scale, channelDims(x))) : y;
  return bias ? t.add(y, t.reshape(bias, channelDims(x))) : y;
}

Value batchNorm(Tape &t, Value x, Value scale, Value bias, Value mean, Value variance, double epsilon) {
  Value factor = t.map("rsqrt", t.shift(variance, epsilon));
  factor = scale ? t.mul(scale, factor) : factor;
  Value rest = t.map("neg", t.mul(mean, factor));
  rest = bias ? t.add(bias, rest) : rest;
  return t.add(t.mul(x, t.reshape(factor, channelDims(x))), t.reshape(rest, channelDims(x)));
}

Value crossEntropy(Tape &t, Value logits, Value targets) {
  const Dims dims = Tape::dimsOf(logits);
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  Value isTarget = t.compare("eq", t.iota(dims, last), t.broadcast(targets, dims, from(0, last)));
  Value all = t.softmax("log_softmax", logits, last);
  Value chosen = t.select(isTarget, all, t.number(0, logits->type->dtype));
  const double count = static_cast<double>(elementCount(*targets->type));
  return t.scale(t.sum(chosen, from(0, last + 1)), -1 / count);
}

std::pair<Value, Value> topK(Tape &t, Value x, int64_t k, int64_t axis) {
  const auto [values, indices] = t.sort(x, axis, true);
  return {t.part(values, axis, 0, k), t.part(indices, axis, 0, k)};
}

// The upper 24 bits.
Value uniform(Tape &t, const Dims &dims, Value key, Value offset) {
  Value bits = t.combine("and", t.combine("shift_right", t.randomBits(dims, key, offset), t.number(8, MORTISE_I32)),
                         t.number((1 << 24) - 1, MORTISE_I32));
  return t.scale(t.convert(bits, MORTISE_F32), std::ldexp(1.0, -24));
}

Value dropout(Tape &t, Value x, double p, Value key, Value offset) {
  Value kept = t.compare("ge", t.uniform(Tape::dimsOf(x), key, offset), t.number(p, MORTISE_F32));
  return t.select(kept, t.scale(x, 1 / (1 - p)), t.number(0));
}

Value quantize(Tape &t, Value x, Value scale, Value zero, int32_t to) {
  const Dims dims = Tape::dimsOf(x);
  const int32_t compute = x->type->dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  Value q = t.div(t.convert(x, compute), granular(t, t.convert(scale, compute), dims));
  if (isFloat(to)) {
    const double most = mortise_dtype_info(to)->max_finite;
    q = t.combine("max", t.combine("min", q, t.number(most, compute)), t.number(-most, compute));
  } else {
    q = t.map("round", q);
  }
  return t.convert(zero ? t.add(q, granular(t, t.convert(zero, compute), dims)) : q, to);
}

Value dequantize(Tape &t, Value x, Value scale, Value zero) {
  const Dims dims = Tape::dimsOf(x);
  const int32_t compute = t.dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  Value y = t.convert(x, compute);
  if (zero)
    y = t.sub(y, granular(t, t.convert(zero, compute), dims));
  return t.convert(t.mul(y, granular(t, t.convert(scale, compute), dims)), t.dtype);
}

// A row of zeros has scale 1.
std::pair<Value, Value> dynamicQuantize(Tape &t, Value x, int32_t to) {
  const int32_t compute = x->type->dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  const double most = to == MORTISE_I8 ? 127 : to == MORTISE_I4 ? 7 : mortise_dtype_info(to)->max_finite;
  Value largest = t.reduce("reduce_max", t.map("abs", t.convert(x, compute)), {x->type->rank - 1}, true);
  Value scale = t.div(largest, t.number(most, compute));
  scale = t.select(t.compare("eq", largest, t.number(0, compute)), t.number(1, compute), scale);
  return {t.quantize(t.convert(x, compute), scale, nullptr, to), scale};
}

Value quantizedLinear(Tape &t, Value x, Value weight, Value scale, Value zero, Value bias) {
  const int64_t rows = weight->type->dims[0];
  const auto byRow = [&](Value value) { return value && value->type->rank == 1 ? t.reshape(value, {rows, 1}) : value; };
  return t.linear(x, t.dequantize(weight, byRow(scale), byRow(zero)), bias);
}

} // namespace mortise::conformance::expansion
