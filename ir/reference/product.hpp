// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The matrix product that dot, linear and convolution use: blocked for the cache; each sum is in the order of k.
#pragma once

#include "kernels.hpp"

#include <algorithm>
#include <atomic>
#include <new>

namespace mortise::reference::inline MORTISE_ARITHMETIC {

inline constexpr int64_t blockM = 64, blockN = 128, blockK = 256, tile = 4;

// Computes one block: packs panels of both operands in tiles of 4 rows or columns, and sums. Partial tiles are padded
// with 0; the padding is not stored.
template <typename Acc, typename Left, typename Right, typename Store>
void productBlock(int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1, int64_t K, Left &left, Right &right,
                  Store &store, Acc *panelA, Acc *panelB, Acc *sums) {
  int64_t tilesM = (m1 - m0 + tile - 1) / tile, tilesN = (n1 - n0 + tile - 1) / tile;
  std::fill_n(sums, tilesM * tilesN * tile * tile, Acc(0));
  for (int64_t k0 = 0; k0 < K; k0 += blockK) {
    int64_t depth = std::min(blockK, K - k0);
    for (int64_t m = 0; m < tilesM * tile; ++m)
      for (int64_t k = 0; k < depth; ++k)
        panelA[(m / tile * depth + k) * tile + m % tile] = m0 + m < m1 ? left(batch, m0 + m, k0 + k) : Acc(0);
    for (int64_t n = 0; n < tilesN * tile; ++n)
      for (int64_t k = 0; k < depth; ++k)
        panelB[(n / tile * depth + k) * tile + n % tile] = n0 + n < n1 ? right(batch, k0 + k, n0 + n) : Acc(0);
    for (int64_t i = 0; i < tilesM; ++i)
      for (int64_t j = 0; j < tilesN; ++j) {
        const Acc *a = panelA + i * depth * tile, *b = panelB + j * depth * tile;
        Acc *out = sums + (i * tilesN + j) * tile * tile;
        Acc sum[tile * tile];
        std::copy_n(out, tile * tile, sum);
        for (int64_t k = 0; k < depth; ++k)
          for (int64_t x = 0; x < tile; ++x)
            for (int64_t y = 0; y < tile; ++y)
              sum[x * tile + y] += a[k * tile + x] * b[k * tile + y];
        std::copy_n(sum, tile * tile, out);
      }
  }
  for (int64_t m = m0; m < m1; ++m)
    for (int64_t n = n0; n < n1; ++n) {
      int64_t i = m - m0, j = n - n0;
      store(batch, m, n, sums[((i / tile * tilesN + j / tile) * tile + i % tile) * tile + j % tile]);
    }
}

// Calls store(b, m, n, sum over k of left(b, m, k) * right(b, k, n)). Acc is Number for floats and uint64_t for
// integers, which wrap.
template <typename Acc, typename Left, typename Right, typename Store>
void product(const Call &call, int64_t batches, int64_t M, int64_t N, int64_t K, Left left, Right right, Store store) {
  int64_t blocksM = (M + blockM - 1) / blockM, blocksN = (N + blockN - 1) / blockN;
  std::atomic<bool> starved = false;
  call.parallel(batches * blocksM * blocksN, 1, [&](int64_t begin, int64_t end) {
    std::unique_ptr<Acc[]> scratch(new (std::nothrow)
                                       Acc[static_cast<size_t>((blockM + blockN) * blockK + blockM * blockN)]);
    if (!scratch) {
      starved = true;
      return;
    }
    Acc *panelA = scratch.get(), *panelB = panelA + blockM * blockK, *sums = panelB + blockN * blockK;
    for (int64_t block = begin; block < end; ++block) {
      int64_t n0 = block % blocksN * blockN, m0 = block / blocksN % blocksM * blockM, batch = block / blocksN / blocksM;
      productBlock(batch, m0, std::min(m0 + blockM, M), n0, std::min(n0 + blockN, N), K, left, right, store, panelA,
                   panelB, sums);
    }
  });
  if (starved)
    throw std::bad_alloc();
}

// x [..., K] times the weight plus the bias, rounded once to the element type T. weight(i) returns element i of the
// weight, which is stored as [N, K], or as [K, N] when `weight_transposed` is true.
template <typename T, typename Weight> void linear(const Call &call, const Tensor &biasOperand, Weight weight) {
  int64_t K = call.operand(0).dims().back(), N = call.result.dims().back();
  int64_t M = product(call.operand(0).dims().first(call.operand(0).dims().size() - 1));
  bool transposed = call.integer("weight_transposed") != 0;
  int64_t strideK = transposed ? N : 1, strideN = transposed ? 1 : K;
  std::vector<Number> bias = toNumbers(biasOperand, N, -0.0); // x + -0 is x
  const auto *x = call.operand(0).as<T>();
  auto *to = call.result.as<T>();
  product<Number>(
      call, 1, M, N, K, [&](int64_t, int64_t m, int64_t k) { return T::load(x[m * K + k]); },
      [&](int64_t, int64_t k, int64_t n) { return weight(k * strideK + n * strideN); },
      [&](int64_t, int64_t m, int64_t n, Number sum) {
        to[m * N + n] = T::store(inRange<T>(sum) + bias[static_cast<size_t>(n)]);
      });
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
