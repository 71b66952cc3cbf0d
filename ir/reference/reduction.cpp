// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

#include <algorithm>
#include <numeric>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

// Splits an operand's dimensions into those kept and those reduced.
struct Parts {
  std::vector<int64_t> kept, reduced; // offsets
  explicit Parts(const Call &call) {
    std::span<const int64_t> dims = call.operand(0).dims(), axes = call.integers("axes");
    Shape strides = denseStrides(dims), keptDims, keptAt, reducedDims, reducedAt;
    for (size_t i = 0; i < dims.size(); ++i) {
      bool gone = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
      (gone ? reducedDims : keptDims).push_back(dims[i]);
      (gone ? reducedAt : keptAt).push_back(strides[i]);
    }
    kept = offsets(keptDims, keptAt);
    reduced = offsets(reducedDims, reducedAt);
  }
};

Refusal checkReduce(const Shapes &shapes) {
  if (Refusal refusal = shapes.ascendingAxes("axes", shapes.rank(0)))
    return refusal;
  std::span<const int64_t> axes = shapes.integers("axes");
  Shape expected;
  for (size_t i = 0; i < shapes.dims(0).size(); ++i)
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end())
      expected.push_back(shapes.dims(0)[i]);
  return shapes.expect(shapes.dtype(0), expected);
}

template <typename T, typename Combine, typename Finish>
void reduce(const Call &call, typename T::Compute start, Combine combine, Finish finish) {
  Parts parts(call);
  const auto *from = call.operand(0).as<T>();
  auto *to = call.result.as<T>();
  call.parallel(static_cast<int64_t>(parts.kept.size()), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto sum = start;
      for (int64_t offset : parts.reduced)
        sum = combine(sum, T::load(from[parts.kept[static_cast<size_t>(i)] + offset]));
      to[i] = T::store(finish(sum, static_cast<Number>(static_cast<double>(parts.reduced.size()))));
    }
  });
}
constexpr auto unfinished = [](auto sum, Number) { return sum; };

void runSum(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    reduce<decltype(type)>(call, 0, [](auto x, auto y) { return plus(x, y); }, unfinished);
  });
}
void runProd(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    reduce<decltype(type)>(call, 1, [](auto x, auto y) { return times(x, y); }, unfinished);
  });
}
void runMax(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    reduce<T>(call, lowestOf<T>(), [](auto x, auto y) { return maximum(x, y); }, unfinished);
  });
}
void runMin(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    reduce<T>(call, highestOf<T>(), [](auto x, auto y) { return minimum(x, y); }, unfinished);
  });
}
void runMean(const Call &call) {
  visitFloat(call.result.dtype(), [&](auto type) {
    reduce<decltype(type)>(
        call, 0, [](Number x, Number y) { return x + y; },
        [](Number sum, Number count) { return inRange<decltype(type)>(sum) / count; });
  });
}

Refusal checkArg(const Shapes &shapes) {
  if (Refusal refusal = shapes.axis("axis", shapes.rank(0)))
    return refusal;
  auto axis = static_cast<size_t>(shapes.integer("axis"));
  if (shapes.dims(0)[axis] == 0 && elementCount(shapes.result()) != 0)
    return shapes.fail("there is no largest or smallest element along dimension " + std::to_string(axis) + " of " +
                       typeString(shapes.type(0)));
  Shape expected(shapes.dims(0).begin(), shapes.dims(0).end());
  expected.erase(expected.begin() + static_cast<ptrdiff_t>(axis));
  return shapes.expect(MORTISE_I64, expected);
}
bool isNaN(Number x) { return isnan(x); }
bool isNaN(int64_t) { return false; }
// Whether x is strictly larger (sign 1) or smaller (-1) than y. A NaN is above, and below, all numbers.
template <int sign, typename T> bool wins(T x, T y) { return isNaN(x) ? !isNaN(y) : sign > 0 ? x > y : x < y; }

// sign 1: argmax, the first of the largest; -1: argmin.
template <int sign> void runArg(const Call &call) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  int64_t *to = call.result.as<I64>();
  visitElement(call.operand(0).dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto *from = call.operand(0).as<T>() + o * view.extent * view.inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < view.extent; ++k) {
          if (wins<sign, typename T::Compute>(T::load(from[k * view.inner]), T::load(from[best * view.inner])))
            best = k;
        }
        to[o * view.inner + i] = best;
      }
  });
}

Refusal checkRunning(const Shapes &shapes) {
  return firstOf(shapes.axis("axis", shapes.rank(0)), shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
// result[k] = step(state, element k), called for k = 0, 1, ...; each line along the axis starts with a copy of `start`.
template <typename T, typename State, typename Step> void running(const Call &call, State start, Step step) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      State state = start;
      for (int64_t k = 0; k < view.extent; ++k) {
        int64_t at = (o * view.extent + k) * view.inner + i;
        call.result.as<T>()[at] = T::store(step(state, T::load(call.operand(0).as<T>()[at])));
      }
    }
}
void runCumsum(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    running<T>(call, typename T::Compute(0), [](auto &sum, auto x) { return sum = plus(sum, x); });
  });
}
void runCumprod(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    running<T>(call, typename T::Compute(1), [](auto &product, auto x) { return product = times(product, x); });
  });
}
struct LogSum { // log(sum(exp)) is top + log(sum), with every term of the sum at most 1
  Number top = -std::numeric_limits<Number>::infinity(), sum = 0;
};
void runCumlogsumexp(const Call &call) {
  visitFloat(call.result.dtype(), [&](auto type) {
    running<decltype(type)>(call, LogSum(), [](LogSum &state, Number x) {
      if (isnan(x) || isnan(state.sum)) {
        state.sum = std::numeric_limits<Number>::quiet_NaN();
      } else if (x > state.top) {
        state.sum = state.sum * exp(state.top - x) + 1;
        state.top = x;
      } else if (isfinite(x)) { // -inf and a further +inf change nothing
        state.sum += exp(x - state.top);
      }
      return state.top + log(state.sum);
    });
  });
}

Refusal checkValuesAndIndices(const Shapes &shapes) {
  return firstOf(shapes.axis("axis", shapes.rank(0)), shapes.expect(shapes.dtype(0), shapes.dims(0)),
                 shapes.expectResult(1, MORTISE_I64, shapes.dims(0)));
}
// sign 1: cummax, the last of the largest so far; -1: cummin.
template <int sign> void runExtreme(const Call &call) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) {
        int64_t base = o * view.extent * view.inner + i, best = 0;
        const auto *from = call.operand(0).as<T>() + base;
        for (int64_t k = 0; k < view.extent; ++k) {
          if (!wins<sign, typename T::Compute>(T::load(from[best * view.inner]), T::load(from[k * view.inner])))
            best = k;
          call.result.as<T>()[base + k * view.inner] = from[best * view.inner];
          call.results[1].as<I64>()[base + k * view.inner] = best;
        }
      }
  });
}

// Sorts each line along the axis and stores its first `count` elements.
void sortLines(const Call &call, int64_t count, bool descending) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    std::vector<int64_t> order(static_cast<size_t>(view.extent));
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto *from = call.operand(0).as<T>() + o * view.extent * view.inner + i;
        std::iota(order.begin(), order.end(), 0);
        // Stable: among equal elements the lower index is first.
        std::ranges::sort(order, [&](int64_t left, int64_t right) {
          auto x = T::load(from[left * view.inner]), y = T::load(from[right * view.inner]);
          bool below = isBelow(x, y), above = isBelow(y, x);
          return below == above ? left < right : (descending ? above : below);
        });
        for (int64_t k = 0; k < count; ++k) {
          int64_t to = (o * count + k) * view.inner + i;
          call.result.as<T>()[to] = from[order[static_cast<size_t>(k)] * view.inner];
          call.results[1].as<I64>()[to] = order[static_cast<size_t>(k)];
        }
      }
  });
}
void runSort(const Call &call) {
  sortLines(call, call.result.dims()[static_cast<size_t>(call.integer("axis"))], call.integer("descending") != 0);
}
Refusal checkTopK(const Shapes &shapes) {
  if (Refusal refusal = shapes.axis("axis", shapes.rank(0)))
    return refusal;
  Shape expected(shapes.dims(0).begin(), shapes.dims(0).end());
  int64_t &extent = expected[static_cast<size_t>(shapes.integer("axis"))], k = shapes.integer("k");
  if (k < 0 || k > extent)
    return shapes.fail("expected k from 0 to " + std::to_string(extent) + ", found " + std::to_string(k));
  extent = k;
  return firstOf(shapes.expect(shapes.dtype(0), expected), shapes.expectResult(1, MORTISE_I64, expected));
}
void runTopK(const Call &call) { sortLines(call, call.integer("k"), call.integer("largest") != 0); }

} // namespace

std::span<const OpSpec> reductionOps() {
  static const std::vector<OpSpec> ops = {
      {Op::ReduceSum, checkReduce, runSum},
      {Op::ReduceProd, checkReduce, runProd},
      {Op::ReduceMax, checkReduce, runMax},
      {Op::ReduceMin, checkReduce, runMin},
      {Op::Mean, checkReduce, runMean},
      {Op::Argmax, checkArg, runArg<1>},
      {Op::Argmin, checkArg, runArg<-1>},
      {Op::Cumsum, checkRunning, runCumsum},
      {Op::Cumprod, checkRunning, runCumprod},
      {Op::Cumlogsumexp, checkRunning, runCumlogsumexp},
      {Op::Cummax, checkValuesAndIndices, runExtreme<1>},
      {Op::Cummin, checkValuesAndIndices, runExtreme<-1>},
      {Op::Sort, checkValuesAndIndices, runSort},
      {Op::TopK, checkTopK, runTopK},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
