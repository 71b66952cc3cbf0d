// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a few rows of bf16 with a matrix whose own rows are contiguous, where oneDNN has no bf16 (no AVX-512).
// The matrix is read once, as it lies in memory, and widened in registers. oneDNN would read it as f32, twice the
// bytes, and such products cost what reading costs.
#include "../device.hpp"
#include "bf16.hpp"
#include "product.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <cstring>

namespace mortise::cpu {

static constexpr int64_t mostRows = 4; // so many rows' sums stay in registers

namespace {
struct FewRows {
  Axis m, n, k;
};

constexpr int lanes = 8;
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using Halves = uint16_t __attribute__((vector_size(lanes * sizeof(uint16_t))));
using Bits = uint32_t __attribute__((vector_size(lanes * sizeof(uint32_t))));

template <typename Vector> MORTISE_INLINE void load(Vector &into, const void *from) {
  std::memcpy(&into, from, sizeof into);
}

// `x`: the rows in f32, one after another. A sum has an order that depends on the depth only.
template <int rows>
MORTISE_INLINE void columns(const FewRows &product, const float *x, const uint16_t *matrix, uint16_t *result,
                            int64_t begin, int64_t end) {
  constexpr int parts = rows == 1 ? 8 : rows == 2 ? 4 : 2, step = lanes * parts; // sums enough to hide their latency
  const int64_t depth = product.k.extent, whole = depth / step * step;
  for (int64_t column = begin; column < end; ++column) {
    const uint16_t *row = matrix + column * product.n.b;
    Floats sums[rows][parts] = {};
    for (int64_t k = 0; k < whole; k += step)
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const int64_t at = k + part * lanes;
        Halves halves;
        load(halves, row + at);
        const Bits bits = __builtin_convertvector(halves, Bits) << 16;
        Floats element;
        load(element, &bits);
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          Floats factor;
          load(factor, x + r * depth + at);
          sums[r][part] += factor * element;
        }
      }
    for (int r = 0; r < rows; ++r) {
      float sum = 0;
      for (int part = 1; part < parts; ++part)
        sums[r][0] += sums[r][part];
      for (int lane = 0; lane < lanes; ++lane)
        sum += sums[r][0][lane];
      for (int64_t k = whole; k < depth; ++k)
        sum += x[r * depth + k] * fromBrain(row[k]);
      result[r * product.m.c + column * product.n.c] = toBrain(sum);
    }
  }
}

template <int rows> void run(const FewRows &product, void *const *operands) {
  const auto *a = static_cast<const uint16_t *>(operands[0]), *matrix = static_cast<const uint16_t *>(operands[1]);
  auto *result = static_cast<uint16_t *>(operands[2]);
  auto *x = static_cast<float *>(operands[3]);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < product.k.extent; ++k)
      x[r * product.k.extent + k] = fromBrain(a[r * product.m.a + k * product.k.a]);
  const int64_t grain = std::max<int64_t>(1, 65536 / (product.k.extent * rows));
  forEachOnBest(product.n.extent, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    columns<rows>(product, x, matrix, result, begin, end);
  });
}
} // namespace

static std::optional<FewRows> readFewRows(const Product &product, const FixedProduct &fixed) {
  if (product.dtype != MORTISE_BF16 || hasBrainProducts() || vectors() == Vectors::Baseline || !product.post.empty() ||
      !fixed.batch.empty() || fixed.m.size() > 1 || fixed.n.size() != 1 || fixed.k.size() != 1)
    return std::nullopt;
  const FewRows few{fixed.m.empty() ? Axis() : fixed.m[0], fixed.n[0], fixed.k[0]};
  constexpr int64_t smallest = 1 << 15; // elements of the matrix: a small one stays in the cache, and blocks win there
  if (few.m.extent > mostRows || few.k.b != 1 || few.n.extent * few.k.extent < smallest)
    return std::nullopt;
  return few;
}

bool hasFewRows(const Product &product, const FixedProduct &fixed) { return readFewRows(product, fixed).has_value(); }

void addFewRows(StepBuilder &builder, const Product &product, const FixedProduct &fixed) {
  const FewRows few = *readFewRows(product, fixed);
  Step step = productStep(builder, product, fixed, "cpu.few_rows");
  step.operands.push_back(
      {builder.allocate(static_cast<size_t>(few.m.extent * few.k.extent) * sizeof(float)), 0, true});
  step.action = NativeLoop{[few](void *const *operands) {
                             switch (few.m.extent) {
                             case 1:
                               return run<1>(few, operands);
                             case 2:
                               return run<2>(few, operands);
                             case 3:
                               return run<3>(few, operands);
                             default:
                               return run<mostRows>(few, operands);
                             }
                           },
                           {}};
  builder.addStep(std::move(step));
}

} // namespace mortise::cpu
