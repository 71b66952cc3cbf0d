// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over few keys: one pass for each head, with keys and values in the first level cache.
#pragma once

#include <cstdint>

namespace oppack {

constexpr int64_t mostKeys = 128, mostFeatures = 64;

struct Attention {
  int64_t batches, heads, groups, queries, keys, depth, width; // q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E]
  int64_t maskStrides[4];                                      // in elements; 0 where the mask is broadcast
  bool hasMask, half;                                          // f16, else f32
  float scale;
};

struct Tensors {
  const void *q, *k, *v;
  const uint8_t *mask;
  void *out;
};

// Heads [begin, end) of batches * heads, with the instructions that this processor has.
void attention(const Attention &shape, const Tensors &tensors, int64_t begin, int64_t end);

const char *instructions(); // "avx512f", "avx2" or "": what `attention` uses

} // namespace oppack
