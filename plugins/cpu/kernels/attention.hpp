// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the loops of attention and of its gradient share: a thread takes blocks of queries of a head and blocks of keys,
// whose scores stay in the cache. The products are the library's, of f32; bf16 is widened block by block. Rows that the
// library does not read as they lie are copied, too.
#pragma once

#include "../step_builder.hpp"
#include "narrow.hpp"
#include "vectors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mortise::cpu {

inline constexpr int64_t blockQueries = 64, blockKeys = 512;
inline constexpr float noScore = -std::numeric_limits<float>::infinity();

struct HeadStrides {
  int64_t batch = 0, head = 0, row = 0, element = 0;
  HeadStrides() = default;
  explicit HeadStrides(const FixedView &view)
      : batch(view.strides[0]), head(view.strides[1]), row(view.strides[2]),
        element(view.dims[3] == 1 ? 1 : view.strides[3]) {}
  int64_t at(int64_t inBatch, int64_t ofHead, int64_t first) const {
    return inBatch * batch + ofHead * head + first * row;
  }
  // Whether the library reads rows of so many elements as they lie.
  bool suit(int64_t length) const { return element == 1 && row >= length; }
};

enum class Mask { None, Hides, Adds };

// What is known of the scores.
struct Scores {
  int64_t batch, heads, headsPerKey, queries, keys, depth, width;
  HeadStrides q, k, v;
  Mask mask = Mask::None;
  std::vector<int64_t> maskStrides = {0, 0, 0, 0};
  bool causal = false;
  float scale = 1;

  Scores(const FixedView &q, const FixedView &k, const FixedView &v)
      : batch(q.dims[0]), heads(q.dims[1]), headsPerKey(q.dims[1] / std::max<int64_t>(k.dims[1], 1)),
        queries(q.dims[2]), keys(k.dims[2]), depth(q.dims[3]), width(v.dims[3]), q(q), k(k), v(v) {}
  void setMask(const FixedView &view, int32_t dtype) {
    mask = dtype == MORTISE_I1 ? Mask::Hides : Mask::Adds;
    for (size_t i = 0; i < 4; ++i)
      maskStrides[i] = view.dims[i] == 1 ? 0 : view.strides[i]; // repeated
  }
  bool leavesOut() const { return causal && mask != Mask::Adds; } // a NaN score stays NaN with -inf added
  int64_t blocks() const { return (queries + blockQueries - 1) / blockQueries; }
  // Of keys from `first` on, at most `count`, those that a block of queries up to `end` may see.
  int64_t seen(int64_t first, int64_t count, int64_t end) const {
    return leavesOut() ? std::clamp<int64_t>(end - first, 0, count) : count;
  }
  // Pairs of a query and a key that it sees, of a causal mask about half.
  double pairs() const { return static_cast<double>(batch * heads * queries * keys) / (leavesOut() ? 2 : 1); }
  int64_t maskRow(int64_t inBatch, int64_t head, int64_t query) const {
    return inBatch * maskStrides[0] + head * maskStrides[1] + query * maskStrides[2];
  }
};

using Integers = int32_t __attribute__((vector_size(lanes * sizeof(int32_t))));

// 2^-shift e^x, within 2 units in the last place; NaN for NaN. By Cody and Waite's reduction, and Taylor's
// polynomial for what is left, at most log(2) / 2.
MORTISE_INLINE Floats exponential(Floats x, int32_t shift) {
  constexpr float least = -120, most = 130, high = 0.693359375F, low = -2.12194440e-4F, rounder = 0x1.8p23F;
  x = x < least ? Floats{} + least : x;
  x = x > most ? Floats{} + most : x;
  const Floats whole = (x * 1.44269504F + rounder) - rounder;
  const Floats rest = (x - whole * high) - whole * low;
  Floats sum = rest * (1.0F / 5040) + 1.0F / 720;
  for (const float term : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F})
    sum = sum * rest + term;
  // In two steps, since the number may be subnormal, 0 or an infinity, as it is for `least` and for `most`.
  const Integers exponent = __builtin_convertvector(whole, Integers) - shift, half = exponent / 2;
  const auto power = [](Integers by) MORTISE_INLINE_LAMBDA {
    const Integers bits = (by + 127) << 23;
    Floats made;
    std::memcpy(&made, &bits, sizeof made);
    return made;
  };
  return sum * power(half) * power(exponent - half);
}

// Rows as the library reads them: as they lie, or copied into `memory`.
struct Rows {
  const float *first;
  int64_t stride;
};
template <typename Element>
MORTISE_INLINE Rows rowsOf(const Element *first, const HeadStrides &strides, int64_t count, int64_t length,
                           float *memory) {
  if constexpr (std::is_same_v<Element, float>)
    if (!memory)
      return {first, strides.row};
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < length; ++j)
      memory[i * length + j] = number(first[i * strides.row + j * strides.element]);
  return {memory, length};
}

// Hides or adds to the scores of a query, for keys from `first` on. Whether it sees one.
template <typename Element>
MORTISE_INLINE bool applyMask(const Scores &of, const void *mask, int64_t row, float *scores, int64_t query,
                              int64_t first, int64_t count) {
  const int64_t visible = of.causal ? std::clamp<int64_t>(query + 1 - first, 0, count) : count;
  const int64_t stride = of.maskStrides[3];
  bool sees = of.mask == Mask::None && visible > 0;
  if (of.mask == Mask::Hides) {
    const auto *is = static_cast<const uint8_t *>(mask) + row + first * stride;
    for (int64_t j = 0; j < visible; ++j) {
      sees |= is[j * stride] != 0;
      scores[j] = is[j * stride] ? scores[j] : noScore;
    }
  } else if (of.mask == Mask::Adds) {
    const auto *added = static_cast<const Element *>(mask) + row + first * stride;
    for (int64_t j = 0; j < visible; ++j) {
      const float term = number(added[j * stride]);
      sees |= term != noScore;
      scores[j] += term;
    }
    for (int64_t j = visible; j < count; ++j)
      scores[j] += noScore;
    return sees;
  }
  std::fill(scores + visible, scores + count, noScore);
  return sees;
}

// to = alpha a b + beta to, where either may be transposed. Slowly where the library has no memory for its own copies.
void headProduct(bool transposedA, bool transposedB, int64_t m, int64_t n, int64_t k, float alpha, const Rows &a,
                 const Rows &b, float beta, float *to, int64_t stride);

} // namespace mortise::cpu
