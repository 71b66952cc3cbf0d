// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "attention.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace oppack {
namespace {

#define INLINE inline __attribute__((always_inline))

constexpr int64_t rows = 4; // queries at a time: their sums stay in registers
constexpr float infinity = std::numeric_limits<float>::infinity();

template <typename V> INLINE void load(V &to, const void *from) { std::memcpy(&to, from, sizeof to); }
template <typename V> INLINE void store(void *to, const V &from) { std::memcpy(to, &from, sizeof from); }

template <typename T, int LANES> struct VectorOf {
  using Type [[gnu::vector_size(LANES * sizeof(T))]] = T;
};
template <typename T, int LANES> using Vector = typename VectorOf<T, LANES>::Type;

struct Scratch {
  alignas(64) float keys[mostFeatures * mostKeys]; // [D][K]: transposed, so that neighbours are keys
  alignas(64) float values[mostKeys * mostFeatures];
  alignas(64) float queries[rows * mostFeatures], scores[rows * mostKeys], results[rows * mostFeatures];
};

// The kernel for registers of LANES floats. Its vectors are as wide as a register, because GCC takes wider ones apart
// into single numbers.
template <int LANES> struct Kernel {
  using Floats = Vector<float, LANES>;
  using Ints = Vector<int32_t, LANES>;
  using Halves = Vector<uint16_t, LANES>;
  using Bytes = Vector<uint8_t, LANES>;
  static constexpr int64_t lanes = LANES;

  static INLINE void widen(Floats &to, const Halves &from) {
    const Ints bits = __builtin_convertvector(from, Ints), rest = bits & 0x7fff;
    const Floats size = (Floats)(rest << 13) * 0x1p112f; // for the difference of the exponents' biases
    const Ints special = (rest << 13) | 0x7f800000;
    to = (Floats)((rest >= 0x7c00 ? special : (Ints)size) | ((bits & 0x8000) << 16));
  }

  static INLINE void narrow(Halves &to, const Floats &from) {
    const Ints bits = (Ints)from, size = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
    const Ints normal = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
    const Ints tiny = (Ints)((Floats)size + 0.5f) - 0x3f000000; // the sum's last place is that of the result
    Ints result = size < 0x38800000 ? tiny : normal;
    result = size >= 0x477ff000 ? Ints{} + 0x7c00 : result;
    result = size > 0x7f800000 ? Ints{} + 0x7e00 : result;
    to = __builtin_convertvector(result | sign, Halves);
  }

  // exp(x) for x <= 0 or NaN: 2^n * e^r with |r| <= ln(2) / 2, and a polynomial of degree 6.
  static INLINE void exponential(Floats &x) {
    const Ints zero = x < -87.0f;
    const Floats limited = zero ? Floats{} : x;
    const Floats shifted = limited * 1.44269504f + 0x1.8p23f, n = shifted - 0x1.8p23f;
    const Floats r = (limited - n * 0.693359375f) + n * 2.12194440e-4f;
    Floats p = r * 1.3888889e-3f + 8.3333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const Floats power = (Floats)((((Ints)shifted - 0x4b400000) + 127) << 23);
    x = zero ? Floats{} : p * power;
  }

  static INLINE void read(float *to, const void *from, int64_t at, int64_t count, bool half) {
    if (!half) {
      std::memcpy(to, static_cast<const float *>(from) + at, static_cast<size_t>(count) * 4);
      return;
    }
    const uint16_t *halves = static_cast<const uint16_t *>(from) + at;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      Halves some;
      Floats wide;
      load(some, halves + i);
      widen(wide, some);
      store(to + i, wide);
    }
    if (i < count) {
      uint16_t rest[lanes] = {};
      std::memcpy(rest, halves + i, static_cast<size_t>(count - i) * 2);
      Halves some;
      Floats wide;
      load(some, rest);
      widen(wide, some);
      std::memcpy(to + i, &wide, static_cast<size_t>(count - i) * 4);
    }
  }

  // sums[row][tile] = the sum over i of left[row][i] * right[i], for LANES * TILES columns of `right` from `first` on.
  template <int TILES>
  static INLINE void product(Floats (&sums)[rows][TILES], const float *left, int64_t leftStride, const float *right,
                             int64_t rightStride, int64_t count) {
    for (auto &row : sums)
      for (Floats &sum : row)
        sum = Floats{};
    for (int64_t i = 0; i < count; ++i) {
      Floats tile[TILES];
      for (int t = 0; t < TILES; ++t)
        load(tile[t], right + i * rightStride + t * lanes);
      for (int64_t row = 0; row < rows; ++row)
        for (int t = 0; t < TILES; ++t)
          sums[row][t] += left[row * leftStride + i] * tile[t];
    }
  }

  // The same for all columns, in pairs of tiles.
  static INLINE void products(float *out, int64_t outStride, const float *left, int64_t leftStride, const float *right,
                              int64_t rightStride, int64_t count, int64_t columns) {
    int64_t first = 0;
    for (; first + 2 * lanes <= columns; first += 2 * lanes) {
      Floats sums[rows][2];
      product<2>(sums, left, leftStride, right + first, rightStride, count);
      for (int64_t row = 0; row < rows; ++row)
        for (int t = 0; t < 2; ++t)
          store(out + row * outStride + first + t * lanes, sums[row][t]);
    }
    if (first < columns) {
      Floats sums[rows][1];
      product<1>(sums, left, leftStride, right + first, rightStride, count);
      for (int64_t row = 0; row < rows; ++row)
        store(out + row * outStride + first, sums[row][0]);
    }
  }

  static INLINE int64_t padded(int64_t count) { return (count + lanes - 1) / lanes * lanes; }

  // Scores of one query to weights, in place. `mask` is NULL or the query's row of it.
  static INLINE void softmax(const Attention &shape, float *scores, const uint8_t *mask) {
    const int64_t keys = shape.keys, wide = padded(keys);
    const int64_t stride = shape.maskStrides[3];
    alignas(64) uint8_t seen[mostKeys] = {};
    bool any = false;
    for (int64_t i = 0; i < keys; ++i) {
      seen[i] = mask ? mask[i * stride] : 1;
      any |= seen[i] != 0;
    }
    Floats most = Floats{} - infinity, sum{};
    for (int64_t i = 0; i < wide; i += lanes) {
      Bytes bytes;
      Floats some;
      load(bytes, seen + i);
      load(some, scores + i);
      some = __builtin_convertvector(bytes, Ints) != 0 ? some : Floats{} - infinity;
      most = some > most ? some : most;
      store(scores + i, some);
    }
    float largest = -infinity;
    for (int64_t i = 0; i < lanes; ++i)
      largest = most[i] > largest ? most[i] : largest;
    for (int64_t i = 0; i < wide; i += lanes) {
      Floats some;
      load(some, scores + i);
      some = some - (any ? largest : 0.0f);
      exponential(some);
      sum += some;
      store(scores + i, some);
    }
    float total = 0;
    for (int64_t i = 0; i < lanes; ++i)
      total += sum[i];
    const float factor = any ? 1 / total : 0.0f;
    for (int64_t i = 0; i < wide; i += lanes) {
      Floats some;
      load(some, scores + i);
      some = some * factor;
      store(scores + i, some);
    }
  }

  static INLINE void head(const Attention &shape, const Tensors &tensors, int64_t number, Scratch &scratch) {
    const int64_t batch = number / shape.heads, h = number % shape.heads;
    const int64_t group = batch * shape.groups + h / (shape.heads / shape.groups);
    const int64_t keys = padded(shape.keys), width = padded(shape.width);
    for (int64_t k = 0; k < shape.keys; ++k) {
      alignas(64) float row[mostFeatures];
      read(row, tensors.k, (group * shape.keys + k) * shape.depth, shape.depth, shape.half);
      for (int64_t d = 0; d < shape.depth; ++d)
        scratch.keys[d * keys + k] = row[d];
      read(scratch.values + k * width, tensors.v, (group * shape.keys + k) * shape.width, shape.width, shape.half);
      for (int64_t e = shape.width; e < width; ++e)
        scratch.values[k * width + e] = 0;
    }
    for (int64_t d = 0; d < shape.depth; ++d)
      for (int64_t k = shape.keys; k < keys; ++k)
        scratch.keys[d * keys + k] = 0;
    for (int64_t first = 0; first < shape.queries; first += rows) {
      const int64_t some = shape.queries - first < rows ? shape.queries - first : rows;
      for (int64_t row = 0; row < rows; ++row) { // the last block repeats its last query
        const int64_t query = first + (row < some ? row : some - 1);
        read(scratch.queries + row * mostFeatures, tensors.q, (number * shape.queries + query) * shape.depth,
             shape.depth, shape.half);
        for (int64_t d = 0; d < shape.depth; ++d)
          scratch.queries[row * mostFeatures + d] *= shape.scale;
      }
      products(scratch.scores, mostKeys, scratch.queries, mostFeatures, scratch.keys, keys, shape.depth, keys);
      for (int64_t row = 0; row < some; ++row)
        softmax(shape, scratch.scores + row * mostKeys,
                shape.hasMask ? tensors.mask + batch * shape.maskStrides[0] + h * shape.maskStrides[1] +
                                    (first + row) * shape.maskStrides[2]
                              : nullptr);
      products(scratch.results, mostFeatures, scratch.scores, mostKeys, scratch.values, width, shape.keys, width);
      for (int64_t row = 0; row < some; ++row) {
        const float *from = scratch.results + row * mostFeatures;
        const int64_t at = (number * shape.queries + first + row) * shape.width;
        if (!shape.half) {
          std::memcpy(static_cast<float *>(tensors.out) + at, from, static_cast<size_t>(shape.width) * 4);
          continue;
        }
        for (int64_t e = 0; e < shape.width; e += lanes) {
          Floats wide;
          Halves halves;
          load(wide, from + e);
          narrow(halves, wide);
          std::memcpy(static_cast<uint16_t *>(tensors.out) + at + e, &halves,
                      static_cast<size_t>(shape.width - e < lanes ? shape.width - e : lanes) * 2);
        }
      }
    }
  }
};

#define HEADS(name, lanes, attributes)                                                                                 \
  attributes void name(const Attention &shape, const Tensors &tensors, int64_t begin, int64_t end) {                   \
    Scratch scratch;                                                                                                   \
    for (int64_t number = begin; number < end; ++number)                                                               \
      Kernel<lanes>::head(shape, tensors, number, scratch);                                                            \
  }
#if defined(__x86_64__)
HEADS(headsAvx512, 16, __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))))
HEADS(headsAvx2, 8, __attribute__((target("avx2,fma"))))
#endif
HEADS(headsPlain, 4, )

using Heads = void (*)(const Attention &, const Tensors &, int64_t, int64_t);
struct Choice {
  Heads heads;
  const char *instructions;
};
const Choice &choice() {
  static const Choice chosen = []() -> Choice {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
      return {headsAvx512, "avx512f"};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return {headsAvx2, "avx2"};
#endif
    return {headsPlain, ""};
  }();
  return chosen;
}

} // namespace

void attention(const Attention &shape, const Tensors &tensors, int64_t begin, int64_t end) {
  choice().heads(shape, tensors, begin, end);
}
const char *instructions() { return choice().instructions; }

} // namespace oppack
