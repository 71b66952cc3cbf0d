// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts that several networks have.
#pragma once

#include "networks.hpp"

#include <cmath>

namespace mortise::conformance {

inline Value normalised(Tape &t, Value x) { // over the last dimension
  const int64_t width = Tape::lastOf(x);
  return t.layerNorm(x, t.weight({width}, 0.5, 1.5), t.weight({width}, -0.5, 0.5), x->type->rank - 1);
}

// x [batch, length, width]. `mask`: NULL, or as attention takes it.
inline Value selfAttention(Tape &t, Value x, int64_t heads, Value mask, bool causal = false) {
  const Dims dims = Tape::dimsOf(x);
  const int64_t depth = dims[2] / heads;
  Value all = t.linear(x, t.weight({3 * dims[2], dims[2]}), t.weight({3 * dims[2]}));
  all = t.transpose(t.reshape(all, {dims[0], dims[1], 3, heads, depth}), {2, 0, 3, 1, 4});
  const auto one = [&](int64_t i) { return t.reshape(t.part(all, 0, i, i + 1), {dims[0], heads, dims[1], depth}); };
  Value seen = t.attention(one(0), one(1), one(2), mask, 1 / std::sqrt(static_cast<double>(depth)), causal);
  seen = t.reshape(t.transpose(seen, {0, 2, 1, 3}), dims);
  return t.linear(seen, t.weight({dims[2], dims[2]}), t.weight({dims[2]}));
}

inline Value feedForward(Tape &t, Value x, int64_t inner) {
  const int64_t width = Tape::lastOf(x);
  Value h = t.gelu(t.linear(x, t.weight({inner, width}), t.weight({inner})));
  return t.linear(h, t.weight({width, inner}), t.weight({width}));
}

struct Normed {
  Value result, mean, variance; // the statistics of each channel
};
// With the statistics of the batch, x [batch, channels, ...].
inline Normed batchNormed(Tape &t, Value x, Value scale, Value bias) {
  Dims axes = {0}, channel(static_cast<size_t>(x->type->rank), 1);
  channel[1] = x->type->dims[1];
  for (int64_t i = 2; i < x->type->rank; ++i)
    axes.push_back(i);
  Value mean = t.mean(x, axes), centred = t.sub(x, t.reshape(mean, channel));
  Value variance = t.mean(t.mul(centred, centred), axes);
  return {t.batchNorm(x, scale, bias, mean, variance), mean, variance};
}

} // namespace mortise::conformance
