// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Kernels.h"

#include <algorithm>

namespace mortise::reference {
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
      to[i] = T::store(finish(sum, static_cast<double>(parts.reduced.size())));
    }
  });
}
constexpr auto unfinished = [](auto sum, double) { return sum; };

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
        call, 0, [](double x, double y) { return x + y; }, [](double sum, double count) { return sum / count; });
  });
}

Refusal checkArgmax(const Shapes &shapes) {
  if (Refusal refusal = shapes.axis("axis", shapes.rank(0)))
    return refusal;
  auto axis = static_cast<size_t>(shapes.integer("axis"));
  if (shapes.dims(0)[axis] == 0)
    return shapes.fail("there is no largest element along dimension " + std::to_string(axis) + " of " +
                       typeString(shapes.type(0)));
  Shape expected(shapes.dims(0).begin(), shapes.dims(0).end());
  expected.erase(expected.begin() + static_cast<ptrdiff_t>(axis));
  return shapes.expect(MORTISE_I64, expected);
}
void runArgmax(const Call &call) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  int64_t *to = call.result.as<I64>();
  visitElement(call.operand(0).dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) {
        const auto *from = call.operand(0).as<T>() + o * view.extent * view.inner + i;
        int64_t best = 0;
        for (int64_t k = 1; k < view.extent; ++k) {
          auto largest = T::load(from[best * view.inner]), next = T::load(from[k * view.inner]);
          if (next > largest || (next != next && largest == largest)) // a NaN is above all numbers
            best = k;
        }
        to[o * view.inner + i] = best;
      }
  });
}

Refusal checkCumsum(const Shapes &shapes) {
  return firstOf(shapes.axis("axis", shapes.rank(0)), shapes.expect(shapes.dtype(0), shapes.dims(0)));
}
void runCumsum(const Call &call) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t o = 0; o < view.outer; ++o)
      for (int64_t i = 0; i < view.inner; ++i) {
        typename T::Compute sum = 0;
        for (int64_t k = 0; k < view.extent; ++k) {
          int64_t at = (o * view.extent + k) * view.inner + i;
          sum = plus(sum, T::load(call.operand(0).as<T>()[at]));
          call.result.as<T>()[at] = T::store(sum);
        }
      }
  });
}

} // namespace

std::span<const OpSpec> reductionOps() {
  static const std::vector<AttributeSpec> axes = {{"axes", MORTISE_ATTRIBUTE_I64_ARRAY}};
  static const std::vector<AttributeSpec> axis = {{"axis", MORTISE_ATTRIBUTE_I64}};
  static const std::vector<OpSpec> ops = {
      {"reduce_sum", 1, 1, 0, DTypes::number, axes, checkReduce, runSum},
      {"reduce_prod", 1, 1, 0, DTypes::number, axes, checkReduce, runProd},
      {"reduce_max", 1, 1, 0, DTypes::any, axes, checkReduce, runMax},
      {"reduce_min", 1, 1, 0, DTypes::any, axes, checkReduce, runMin},
      {"mean", 1, 1, 0, DTypes::floating, axes, checkReduce, runMean},
      {"argmax", 1, 1, 0, DTypes::number, axis, checkArgmax, runArgmax},
      {"cumsum", 1, 1, 0, DTypes::number, axis, checkCumsum, runCumsum},
  };
  return ops;
}

} // namespace mortise::reference
