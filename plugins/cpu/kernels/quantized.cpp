// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// quantized_linear of a few rows, as a model with quantised weights computes for each token. What it costs is reading
// the weights, which are read as they lie and widened in registers; a scale multiplies the sum of its weights.
#include "../claims.hpp"
#include "../device.hpp"
#include "../step_builder.hpp"
#include "narrow.hpp"
#include "vectors.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>

namespace mortise::cpu {

namespace {
struct QuantizedLoop {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t groups = 1, scaleStride = 0; // scales of a result, and from one result to the next
  int32_t type = 0, scaleType = 0, zeroType = 0;
  bool hasZero = false, hasBias = false;
};

MORTISE_INLINE float numberAt(const void *elements, int32_t dtype, int64_t i) {
  switch (dtype) {
  case MORTISE_F32:
    return static_cast<const float *>(elements)[i];
  case MORTISE_BF16:
    return Brain::load(static_cast<const uint16_t *>(elements)[i]);
  case MORTISE_F16:
    return Half::load(static_cast<const uint16_t *>(elements)[i]);
  case MORTISE_I32:
    return static_cast<float>(static_cast<const int32_t *>(elements)[i]);
  case MORTISE_I8:
    return static_cast<float>(static_cast<const int8_t *>(elements)[i]);
  default:
    return static_cast<float>(static_cast<const uint8_t *>(elements)[i]);
  }
}

MORTISE_INLINE void putAt(void *elements, int32_t dtype, int64_t i, float value) {
  if (dtype == MORTISE_F32)
    static_cast<float *>(elements)[i] = value;
  else
    static_cast<uint16_t *>(elements)[i] = dtype == MORTISE_BF16 ? Brain::store(value) : Half::store(value);
}

template <typename Weight> MORTISE_INLINE Floats widened(const Weight *from) {
  Weight __attribute__((vector_size(lanes * sizeof(Weight)))) weights;
  std::memcpy(&weights, from, sizeof weights);
  return __builtin_convertvector(weights, Floats);
}

// By halves: groups are short, and so would be the chains of additions between them.
MORTISE_INLINE float total(Floats sums) {
  Floats half = sums + __builtin_shufflevector(sums, sums, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  half += __builtin_shufflevector(half, half, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  half += __builtin_shufflevector(half, half, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return half[0] + half[1];
}

// The sums of the products of `count` weights less their zero point with each row of x.
template <int rows, typename Weight>
MORTISE_INLINE void addUp(const QuantizedLoop &loop, const float *x, const Weight *weights, float zero, int64_t count,
                          float (&sums)[rows]) {
  constexpr int parts = rows == 1 ? 4 : 2; // sums in flight
  Floats partial[rows][parts] = {};
  const int64_t whole = count / lanes * lanes;
  const auto step = [&](int64_t at, int part) MORTISE_INLINE_LAMBDA {
    const Floats vector = widened(weights + at) - zero;
#pragma unroll
    for (int r = 0; r < rows; ++r)
      partial[r][part] += load(x + r * loop.depth + at) * vector;
  };
  int64_t at = 0;
  for (; at + parts * lanes <= whole; at += parts * lanes)
#pragma unroll
    for (int part = 0; part < parts; ++part)
      step(at + part * lanes, part);
  for (; at < whole; at += lanes)
    step(at, 0);
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    Floats sum = partial[r][0];
#pragma unroll
    for (int part = 1; part < parts; ++part)
      sum += partial[r][part];
    sums[r] = total(sum);
    for (int64_t i = whole; i < count; ++i)
      sums[r] += x[r * loop.depth + i] * (static_cast<float>(weights[i]) - zero);
  }
}

enum Operands { X, Weights, Scales, Output, Room, Others }; // Others: the zero point and the bias, where there are any

template <int rows, typename Weight> void run(const QuantizedLoop &loop, void *const *operands) {
  const auto *weights = static_cast<const Weight *>(operands[Weights]);
  const void *zeros = loop.hasZero ? operands[Others] : nullptr;
  const void *bias = loop.hasBias ? operands[loop.hasZero ? Others + 1 : Others] : nullptr;
  auto *x = static_cast<float *>(operands[Room]);
  for (int64_t i = 0; i < rows * loop.depth; ++i)
    x[i] = numberAt(operands[X], loop.type, i);
  const int64_t length = loop.depth / loop.groups, grain = std::max<int64_t>(1, 65536 / (loop.depth * rows));
  forEachOnBest(loop.columns, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    for (int64_t column = begin; column < end; ++column) {
      float results[rows] = {};
      for (int64_t group = 0; group < loop.groups; ++group) {
        const int64_t scale = column * loop.scaleStride + group, first = group * length;
        float sums[rows];
        addUp<rows>(loop, x + first, weights + column * loop.depth + first,
                    zeros ? numberAt(zeros, loop.zeroType, scale) : 0, length, sums);
        for (int r = 0; r < rows; ++r)
          results[r] += sums[r] * numberAt(operands[Scales], loop.scaleType, scale);
      }
      for (int r = 0; r < rows; ++r)
        putAt(operands[Output], loop.type, r * loop.columns + column,
              results[r] + (bias ? numberAt(bias, loop.type, column) : 0));
    }
  });
}

using Run = void (*)(const QuantizedLoop &, void *const *);
template <typename Weight> Run runOf(int64_t rows) {
  static_assert(mostQuantizedRows == 4);
  switch (rows) {
  case 1:
    return run<1, Weight>;
  case 2:
    return run<2, Weight>;
  case 3:
    return run<3, Weight>;
  default:
    return run<4, Weight>;
  }
}
} // namespace

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const QuantizedLinear &linear) {
  const auto read = [&](const View &view) { return builder.read(view.base, builder.values(view.offset)); };
  const auto typeOf = [&](const View &view) { return builder.type(view.base).dtype; };
  const std::vector<int64_t> dims = builder.values(linear.weight.dims), scale = builder.values(linear.scale.dims);
  QuantizedLoop loop;
  loop.columns = dims[0], loop.depth = dims[1];
  loop.rows = builder.elements(linear.result) / loop.columns;
  loop.groups = scale.size() == 2 ? scale[1] : 1;
  loop.scaleStride = scale.empty() ? 0 : loop.groups;
  loop.type = typeOf(linear.x), loop.scaleType = typeOf(linear.scale);
  loop.hasZero = linear.zeroPoint.has_value(), loop.hasBias = linear.bias.has_value();
  Step step;
  step.name = "quantized_linear " + std::to_string(loop.rows) + "x" + std::to_string(loop.depth) + "x" +
              std::to_string(loop.columns);
  step.lowering = "cpu.quantized_linear";
  step.nodes = unit.nodes;
  step.bytes = static_cast<double>(loop.columns * loop.depth);
  step.flops = 2.0 * static_cast<double>(loop.rows * loop.columns * loop.depth);
  step.operands = {read(linear.x),
                   read(linear.weight),
                   read(linear.scale),
                   builder.write(linear.result),
                   {builder.allocate(static_cast<size_t>(loop.rows * loop.depth) * sizeof(float)), 0, true}};
  if (linear.zeroPoint) {
    loop.zeroType = typeOf(*linear.zeroPoint);
    step.operands.push_back(read(*linear.zeroPoint));
  }
  if (linear.bias)
    step.operands.push_back(read(*linear.bias));
  const bool isSigned = typeOf(linear.weight) == MORTISE_I8;
  step.action = NativeLoop{[loop, run = isSigned ? runOf<int8_t>(loop.rows) : runOf<uint8_t>(loop.rows)](
                               void *const *operands) { run(loop, operands); },
                           {}};
  builder.addStep(std::move(step));
  return {};
}

Result<void> claimQuantizedLinears(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, Op::QuantizedLinear))
      continue;
    claims.take(node);
    QuantizedLinear linear{claims.denseViewOf(node, 0),
                           claims.denseViewOf(node, 1),
                           claims.denseViewOf(node, 2),
                           std::nullopt,
                           std::nullopt,
                           node.results[0]->index};
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {linear.x.base, linear.weight.base, linear.scale.base};
    for (const auto &[operand, view] : {std::pair{size_t(3), &linear.zeroPoint}, std::pair{size_t(4), &linear.bias}})
      if (node.operand_count > operand && node.operands[operand]) {
        *view = claims.denseViewOf(node, operand);
        unit.reads.push_back((*view)->base);
      }
    unit.writes = {linear.result};
    unit.work = std::move(linear);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
