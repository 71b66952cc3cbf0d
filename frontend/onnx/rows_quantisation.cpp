// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantised numbers, and products of them.
#include "rows.hpp"

#include "window.hpp"

#include <algorithm>

namespace mortise::onnx {
namespace {

// Scales stand for a tensor, for the positions of an axis, or for blocks along it: in the language they have the rank
// of the tensor.
Value ranked(Emitter &e, Node &node, const Value &scale, const Value &x, int64_t axis) {
  const auto count = countOf(scale.dims);
  if (scale.rank() == x.rank() && x.rank() > 1)
    return scale;
  if (count == 1)
    return e.reshape(scale, Dims(x.dims.size(), 1));
  return e.along(scale, node.axis(axis, x.rank()), x.rank());
}

bool isQuantised(int32_t dtype) {
  constexpr int32_t list[] = {MORTISE_I8, MORTISE_UI8, MORTISE_I4, MORTISE_F8E4M3FN, MORTISE_F8E5M2};
  return std::ranges::find(list, dtype) != std::end(list);
}

// The language's op has a zero point of integers only; for floats of 8 bits ONNX's is 0.
Value zeroPoint(Emitter &e, const Value &zero) {
  if (!zero || !isFloat(zero.dtype))
    return zero;
  const std::vector<double> numbers = numbersOf(e.known(zero, "zero_point"));
  if (std::ranges::any_of(numbers, [](double number) { return number != 0; }))
    unsupported("element type", e.place + ": a zero point of floats that is not 0");
  return {};
}

// Scales of blocks, repeated for each of their elements.
Value repeated(Emitter &e, Value scale, const Value &x) {
  for (size_t axis = 0; axis < x.dims.size() && scale.dims.size() == x.dims.size(); ++axis) {
    const int64_t blocks = scale.dims[axis];
    if (blocks <= 1 || blocks == x.dims[axis] || x.dims[axis] % blocks != 0)
      continue;
    Dims one = scale.dims, wide = one, shape = one;
    const auto behind = static_cast<ptrdiff_t>(axis) + 1;
    one.insert(one.begin() + behind, 1);
    wide.insert(wide.begin() + behind, x.dims[axis] / blocks);
    shape[axis] = x.dims[axis];
    scale = e.reshape(e.spread(e.reshape(scale, one), wide), shape);
  }
  return scale;
}

// saturate(round(x / scale) + zero)
Value quantized(Emitter &e, const Value &x, const Value &scale, const Value &zero, int32_t to) {
  if (isQuantised(to))
    return e.op("mortise.quantize", {x, scale, zeroPoint(e, zero)}, {{"dtype", dtypeName(to)}});
  const Value wide = e.convert(x, MORTISE_F32);
  Value steps = e.map("mortise.round", e.div(wide, repeated(e, e.convert(scale, MORTISE_F32), x)));
  if (zero)
    steps = e.add(steps, repeated(e, e.convert(zero, MORTISE_F32), x));
  return e.convert(steps, to);
}

Values quantizeLinear(Emitter &e, Node &node) {
  Value x = node[0];
  const int64_t axis = node.integer("axis", 1);
  node.ignore("block_size"); // the shapes say it
  node.ignore("precision");
  if (!node.flag("saturate", true))
    unsupported("attribute", node.place() + ": floats that do not saturate");
  const int32_t wanted = node.integer("output_dtype", 0) != 0 ? node.dtype("output_dtype", 0) : MORTISE_UI8;
  const int32_t to = node.has(2) ? node[2].dtype : wanted;
  if (!isFloat(x.dtype))
    x = e.convert(x, MORTISE_F32);
  const Value zero = node.has(2) ? ranked(e, node, node[2], x, axis) : Value();
  return {quantized(e, x, ranked(e, node, node[1], x, axis), zero, to)};
}

// (q - zero) * scale
Value dequantized(Emitter &e, const Value &q, const Value &scale, const Value &zero, int32_t to) {
  if (isQuantised(q.dtype))
    return e.op("mortise.dequantize", {q, scale, zeroPoint(e, zero)}, {{"dtype", dtypeName(to)}});
  Value x = e.convert(q, MORTISE_F32);
  if (zero)
    x = e.sub(x, repeated(e, e.convert(zero, MORTISE_F32), q));
  return e.convert(e.mul(x, repeated(e, e.convert(scale, MORTISE_F32), q)), to);
}

Values dequantizeLinear(Emitter &e, Node &node) {
  const Value &q = node[0];
  const int64_t axis = node.integer("axis", 1);
  node.ignore("block_size");
  const int32_t to = node.integer("output_dtype", 0) != 0 ? node.dtype("output_dtype", 0) : node[1].dtype;
  const Value zero = node.has(2) ? ranked(e, node, node[2], q, axis) : Value();
  return {dequantized(e, q, ranked(e, node, node[1], q, axis), zero, to)};
}

// To ui8, over a range that holds 0.
Values dynamicQuantizeLinear(Emitter &e, Node &node) {
  const Value &x = node[0];
  const Dims all = upTo(x.rank());
  const Value zero = e.like(x, 0), most = e.maximum(e.reduce("mortise.reduce_max", x, all, false), zero);
  const Value least = e.minimum(e.reduce("mortise.reduce_min", x, all, false), zero);
  const Value scale = e.div(e.sub(most, least), e.like(x, 255));
  const Value point =
      e.map("mortise.round", e.minimum(e.maximum(e.sub(zero, e.div(least, scale)), zero), e.like(x, 255)));
  const Value steps = e.add(e.map("mortise.round", e.div(x, scale)), point);
  return {e.convert(steps, MORTISE_UI8), scale, e.convert(point, MORTISE_UI8)};
}

// Whole numbers without their zero point. One of rank 1 stands for rows (`axis` -2) or columns.
Value centred(Emitter &e, const Value &q, const Value &zero, int64_t axis) {
  Value wide = e.convert(q, MORTISE_I32);
  if (!zero)
    return wide;
  Value point = e.convert(zero, MORTISE_I32);
  if (point.rank() == 1 && countOf(point.dims) > 1 && q.rank() > 1)
    point = e.along(point, q.rank() + axis, q.rank());
  return e.sub(wide, countOf(point.dims) == 1 ? e.reshape(point, {}) : point);
}

Values matmulInteger(Emitter &e, Node &node) {
  return {e.matmul(centred(e, node[0], node.optional(2), -2), centred(e, node[1], node.optional(3), -1))};
}

// A sum of products in steps of scale a times scale b, in those of y.
Value rescaled(Emitter &e, const Value &sum, const Value &a, const Value &b, const Value &y, const Value &zero) {
  const auto wide = [&](const Value &of) { return e.convert(of, MORTISE_F32); };
  const Value steps = e.map("mortise.round", e.mul(wide(sum), e.div(e.mul(wide(a), wide(b)), wide(y))));
  return e.convert(e.add(steps, wide(zero)), zero.dtype);
}

Values qlinearMatmul(Emitter &e, Node &node) {
  const auto scalar = [&](size_t i) { return countOf(node[i].dims) == 1 ? e.reshape(node[i], {}) : node[i]; };
  for (const size_t i : {1, 2, 4, 5, 6, 7})
    if (countOf(node[i].dims) != 1)
      unsupported("attribute", node.place() + ": scales and zero points of rows and columns");
  const Value sum = e.matmul(centred(e, node[0], node[2], -2), centred(e, node[3], node[5], -1));
  return {rescaled(e, sum, scalar(1), scalar(4), scalar(6), scalar(7))};
}

Values convolutionInteger(Emitter &e, Node &node) {
  checkWeight(node, node[0], node[1]);
  const Value x = centred(e, node[0], node.optional(2), 0), &weight = node[1];
  const Dims size(weight.dims.begin() + 2, weight.dims.end());
  const Window window = windowOf(node, size);
  const Value zero = node.has(3) && countOf(node[3].dims) > 1 ? e.along(node[3], 0, weight.rank()) : node.optional(3);
  return {convolvedExactly(e, x, centred(e, weight, zero, 0), window, node.integer("group", 1))};
}

Values qlinearConvolution(Emitter &e, Node &node) {
  checkWeight(node, node[0], node[3]);
  const Value &weight = node[3];
  const Dims size(weight.dims.begin() + 2, weight.dims.end());
  const Window window = windowOf(node, size);
  const auto ofChannels = [&](const Value &of, int64_t axis) {
    return countOf(of.dims) == 1 ? e.reshape(of, {}) : e.along(of, axis, weight.rank());
  };
  Value sum = convolvedExactly(e, centred(e, node[0], node[2], 0), centred(e, weight, ofChannels(node[5], 0), 0),
                               window, node.integer("group", 1));
  if (node.has(8))
    sum = e.add(sum, e.along(node[8], 1, weight.rank()));
  return {
      rescaled(e, sum, ofChannels(node[1], 1), ofChannels(node[4], 1), ofChannels(node[6], 1), ofChannels(node[7], 1))};
}

constexpr Row table[] = {
    {"ConvInteger", convolutionInteger},
    {"DequantizeLinear", dequantizeLinear},
    {"DynamicQuantizeLinear", dynamicQuantizeLinear},
    {"MatMulInteger", matmulInteger},
    {"QLinearConv", qlinearConvolution},
    {"QLinearMatMul", qlinearMatmul},
    {"QuantizeLinear", quantizeLinear},
};

} // namespace

std::span<const Row> quantisationRows() { return table; }

} // namespace mortise::onnx
