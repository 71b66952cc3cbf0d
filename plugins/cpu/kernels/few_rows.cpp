// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of a few rows with a matrix whose own rows are contiguous, of f32, and of bf16 where oneDNN has none (no
// AVX-512). The matrix is read once, as it lies in memory, so that weights need no copy; bf16 is widened in registers,
// where oneDNN would read it as f32, twice the bytes. Such products cost what reading costs. Each result is the sum of
// many short sums, where oneDNN adds term by term: for 2048 terms its error is several times larger, and the last
// product of a network is not averaged over pixels.
#include "../device.hpp"
#include "narrow.hpp"
#include "product.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <cstring>

namespace mortise::cpu {

static constexpr int64_t mostRows = 4; // so many rows' sums stay in registers

namespace {
struct FewRows {
  Axis m, n, k;
  bool hasBias = false; // one for each column
};

constexpr int lanes = 8;
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using Halves = uint16_t __attribute__((vector_size(lanes * sizeof(uint16_t))));
using Bits = uint32_t __attribute__((vector_size(lanes * sizeof(uint32_t))));

template <typename Vector> MORTISE_INLINE void load(Vector &into, const void *from) {
  std::memcpy(&into, from, sizeof into);
}
MORTISE_INLINE Floats wide(const float *from) {
  Floats element;
  load(element, from);
  return element;
}
MORTISE_INLINE Floats wide(const uint16_t *from) {
  Halves halves;
  load(halves, from);
  const Bits bits = __builtin_convertvector(halves, Bits) << 16;
  Floats element;
  load(element, &bits);
  return element;
}

// `x`: the rows in f32, one after another. A sum has an order that depends on the depth only.
template <int rows, typename Element>
MORTISE_INLINE void columns(const FewRows &product, const float *x, const Element *matrix, const Element *bias,
                            Element *result, int64_t begin, int64_t end) {
  constexpr int parts = rows == 1 ? 8 : rows == 2 ? 4 : 2, step = lanes * parts; // sums enough to hide their latency
  const int64_t depth = product.k.extent, whole = depth / step * step;
  for (int64_t column = begin; column < end; ++column) {
    const Element *row = matrix + column * product.n.b;
    Floats sums[rows][parts] = {};
    for (int64_t k = 0; k < whole; k += step)
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const int64_t at = k + part * lanes;
        const Floats element = wide(row + at);
#pragma unroll
        for (int r = 0; r < rows; ++r)
          sums[r][part] += wide(x + r * depth + at) * element;
      }
    for (int r = 0; r < rows; ++r) {
      float sum = 0;
      for (int part = 1; part < parts; ++part)
        sums[r][0] += sums[r][part];
      for (int lane = 0; lane < lanes; ++lane)
        sum += sums[r][0][lane];
      for (int64_t k = whole; k < depth; ++k)
        sum += x[r * depth + k] * number(row[k]);
      if (bias)
        sum += number(bias[column]);
      store(result + r * product.m.c + column * product.n.c, sum);
    }
  }
}

template <int rows, typename Element> void run(const FewRows &product, void *const *operands) {
  const auto *a = static_cast<const Element *>(operands[0]), *matrix = static_cast<const Element *>(operands[1]);
  auto *result = static_cast<Element *>(operands[2]);
  auto *x = static_cast<float *>(operands[3]);
  const auto *bias = product.hasBias ? static_cast<const Element *>(operands[4]) : nullptr;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < product.k.extent; ++k)
      x[r * product.k.extent + k] = number(a[r * product.m.a + k * product.k.a]);
  const int64_t grain = std::max<int64_t>(1, 65536 / (product.k.extent * rows));
  forEachOnBest(product.n.extent, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    columns<rows>(product, x, matrix, bias, result, begin, end);
  });
}

template <typename Element> void runFewRows(const FewRows &product, void *const *operands) {
  switch (product.m.extent) {
  case 1:
    return run<1, Element>(product, operands);
  case 2:
    return run<2, Element>(product, operands);
  case 3:
    return run<3, Element>(product, operands);
  default:
    return run<mostRows, Element>(product, operands);
  }
}

// Whether what follows the product is nothing, or one number for each column that is added.
bool hasBiasAtMost(const Product &product, const FixedProduct &fixed) {
  if (product.post.empty())
    return true;
  const PostOp &post = product.post[0];
  if (product.post.size() > 1 || post.other == none || post.algorithm != dnnl::algorithm::binary_add)
    return false;
  const FixedView &view = fixed.post[0];
  for (size_t i = 0; i + 1 < view.dims.size(); ++i)
    if (view.dims[i] != 1 && view.strides[i] != 0)
      return false;
  return !view.dims.empty() && view.dims.back() == fixed.n[0].extent && view.strides.back() == 1;
}
} // namespace

static std::optional<FewRows> readFewRows(const Product &product, const FixedProduct &fixed) {
  const bool brain = product.dtype == MORTISE_BF16 && !hasBrainProducts();
  if ((!brain && product.dtype != MORTISE_F32) || vectors() == Vectors::Baseline || !fixed.batch.empty() ||
      fixed.m.size() > 1 || fixed.n.size() != 1 || fixed.k.size() != 1 || !hasBiasAtMost(product, fixed))
    return std::nullopt;
  const FewRows few{fixed.m.empty() ? Axis() : fixed.m[0], fixed.n[0], fixed.k[0], !product.post.empty()};
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
  if (few.hasBias)
    step.operands.push_back(builder.read(product.post[0].other, fixed.post[0].offset));
  const auto loop = product.dtype == MORTISE_F32 ? runFewRows<float> : runFewRows<uint16_t>;
  step.action = NativeLoop{[few, loop](void *const *operands) { loop(few, operands); }, {}};
  builder.addStep(std::move(step));
}

} // namespace mortise::cpu
