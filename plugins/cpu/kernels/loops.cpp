// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products in plain loops, for what oneDNN lacks: f64, integers, several summed dimensions that do not merge, empty
// sums.
#include "../schedule.hpp"
#include "narrow.hpp"

#include <mortise/plugin.hpp>

#include <bit>

namespace mortise::cpu {

namespace {
// What an element is stored as, and what sums are kept in.
template <typename T> struct Plain {
  using Stored = T;
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static Sum load(T value) { return static_cast<Sum>(value); }
  static T store(Sum value) { return static_cast<T>(value); }
};
template <typename Float> struct Narrow {
  using Stored = uint16_t;
  using Sum = double;
  static Sum load(uint16_t bits) { return Float::load(bits); }
  static uint16_t store(Sum value) { return Float::store(static_cast<float>(value)); }
};

int64_t count(const std::vector<Axis> &axes) {
  int64_t product = 1;
  for (const Axis &axis : axes)
    product *= axis.extent;
  return product;
}

struct Offsets {
  int64_t a = 0, b = 0, c = 0;
};
Offsets offsets(const std::vector<Axis> &axes, int64_t index) {
  Offsets found;
  for (size_t i = axes.size(); i-- > 0; index /= axes[i].extent) {
    int64_t position = index % axes[i].extent;
    found.a += position * axes[i].a;
    found.b += position * axes[i].b;
    found.c += position * axes[i].c;
  }
  return found;
}

// One row of results: 16 columns at a time, so that the compiler keeps the sums in registers.
template <typename Kind>
MORTISE_INLINE void row(const ProductLoop &loop, const typename Kind::Stored *a, const typename Kind::Stored *b,
                        typename Kind::Stored *c, const std::vector<Offsets> &columns,
                        const std::vector<Offsets> &terms) {
  constexpr size_t width = 16;
  for (size_t first = 0; first < columns.size(); first += width) {
    size_t size = std::min(width, columns.size() - first);
    typename Kind::Sum sums[width] = {};
    for (const Offsets &term : terms) {
      typename Kind::Sum left = Kind::load(a[term.a]);
      const typename Kind::Stored *right = b + term.b;
      for (size_t j = 0; j < size; ++j)
        sums[j] += left * Kind::load(right[columns[first + j].b]);
    }
    for (size_t j = 0; j < size; ++j)
      c[columns[first + j].c] = Kind::store(sums[j]);
  }
}

template <typename Kind>
void run(const ProductLoop &loop, const std::vector<Offsets> &columns, const std::vector<Offsets> &terms,
         void *const *operands) {
  using Stored = typename Kind::Stored;
  int64_t rows = count(loop.m);
  forEachOnBest(count(loop.batch) * rows,
                std::max<int64_t>(1, 4096 / static_cast<int64_t>(columns.size() * terms.size() + 1)),
                [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
                  for (int64_t i = begin; i < end; ++i) {
                    Offsets batch = offsets(loop.batch, i / rows), m = offsets(loop.m, i % rows);
                    // Without terms the factors are empty and may have no memory.
                    auto factor = [&](size_t k, int64_t offset) {
                      return terms.empty() ? nullptr : static_cast<const Stored *>(operands[k]) + offset;
                    };
                    row<Kind>(loop, factor(0, batch.a + m.a), factor(1, batch.b + m.b),
                              static_cast<Stored *>(operands[2]) + batch.c + m.c, columns, terms);
                  }
                });
}
} // namespace

std::function<void(void *const *)> productLoop(ProductLoop loop) {
  std::vector<Offsets> columns, terms;
  for (int64_t i = 0; i < count(loop.n); ++i)
    columns.push_back(offsets(loop.n, i));
  for (int64_t i = 0; i < (loop.empty ? 0 : count(loop.k)); ++i)
    terms.push_back(offsets(loop.k, i));
  auto bind = [&](auto kind) -> std::function<void(void *const *)> {
    return [loop, columns = std::move(columns), terms = std::move(terms)](void *const *operands) {
      run<decltype(kind)>(loop, columns, terms, operands);
    };
  };
  switch (loop.dtype) {
  case MORTISE_F64:
    return bind(Plain<double>{});
  case MORTISE_F32:
    return bind(Plain<float>{});
  case MORTISE_F16:
    return bind(Narrow<Half>{});
  case MORTISE_BF16:
    return bind(Narrow<Brain>{});
  default:
    return visitInteger(
        loop.dtype, std::function<void(void *const *)>(),
        [&](auto number) -> std::function<void(void *const *)> { return bind(Plain<decltype(number)>{}); });
  }
}

} // namespace mortise::cpu
