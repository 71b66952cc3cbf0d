// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Networks in quantised numbers.
#include "blocks.hpp"

namespace mortise::conformance {
namespace {

// Weights and activations in i8 with scales that are known beforehand, around ops in floats.
void fixedScales(Tape &t) {
  Value zero = t.number(3, MORTISE_I8), scale = t.weight({1, 1, 1, 1}, 0.02, 0.03);
  const auto through = [&](Value x) { // i8 and back
    Value zeros = t.spread(zero, {1, 1, 1, 1});
    return t.dequantize(t.quantize(x, scale, zeros, MORTISE_I8), scale, zeros);
  };
  const auto weight = [&](const Dims &dims) {
    return t.dequantize(t.weight(dims, -127, 127, MORTISE_I8), t.weight({dims[0], 1, 1, 1}, 0.001, 0.003), nullptr);
  };
  Value x = through(t.input({2, 3, 10, 10}));
  x = through(t.map("relu", t.convolution(x, weight({8, 3, 3, 3}), {1, 1})));
  x = through(t.convolution(x, weight({6, 8, 3, 3}), {2, 1}));
  t.output(x);
}

// Products of i8 rows that are quantised as they come, summed in i32.
void scalesByRow(Tape &t) {
  Value x = t.input({5, 48});
  for (const int64_t width : {40, 24}) {
    const auto [q, scale] = t.dynamicQuantize(x, MORTISE_I8);
    Value weight = t.weight({width, Tape::lastOf(x)}, -127, 127, MORTISE_I8);
    Value sum = t.dot(t.convert(q, MORTISE_I32), t.convert(weight, MORTISE_I32), {{}, {}, {1}, {1}});
    const int32_t compute = scale->type->dtype;
    Value scaled = t.mul(t.mul(t.convert(sum, compute), scale), t.weight({width}, 0.002, 0.004, compute));
    x = t.gelu(t.convert(scaled, t.dtype));
  }
  t.output(x);
}

// Weights alone are quantised, in several widths and granularities.
void weightsAlone(Tape &t) {
  constexpr int64_t width = 32;
  Value x = t.input({2, 4, width});
  const auto layer = [&](Value h, int64_t to, int32_t dtype, int64_t groups) {
    const int64_t from = Tape::lastOf(h);
    const double most = dtype == MORTISE_I4 ? 7 : dtype == MORTISE_I8 ? 127 : 4;
    Value weight = t.weight({to, from}, -most, most, dtype);
    const Dims scales = groups ? Dims{to, groups} : Dims{to};
    const double step = 1 / (most * std::sqrt(static_cast<double>(from)));
    Value zero = groups ? t.weight(scales, -2, 2, dtype) : nullptr;
    return t.quantizedLinear(h, weight, t.weight(scales, step, 2 * step), zero, t.weight({to}));
  };
  Value h = t.rmsNorm(x, t.weight({width}, 0.5, 1.5), 2);
  h = t.combine("swiglu", layer(h, 48, MORTISE_I8, 0), layer(h, 48, MORTISE_I4, 4));
  x = t.add(x, layer(h, width, MORTISE_I8, 3));
  t.output(layer(x, 20, MORTISE_F8E4M3FN, 0));
}

} // namespace

std::vector<Network> quantisedNetworks() {
  return {{"fixed-scales", Level::Quantised, fixedScales},
          {"scales-by-row", Level::Quantised, scalesByRow},
          {"weights-alone", Level::Quantised, weightsAlone}};
}

} // namespace mortise::conformance
