// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Kernels.h"

#include <numbers>

namespace mortise::reference {
namespace {

constexpr int32_t number = MORTISE_ATTRIBUTE_I64, real = MORTISE_ATTRIBUTE_F64;

double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double geluTanh(double x) {
  double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * inner)); // 0.5 * (1 + tanh(y)) without cancelling
}
double silu(double x) {
  if (x >= 0)
    return x / (1 + std::exp(-x));
  double e = std::exp(x);
  return x * (e / (1 + e));
}

Refusal sameType(const Shapes &shapes) { return shapes.expect(shapes.dtype(0), shapes.dims(0)); }

template <typename Fn> void map(const Call &call, Fn fn) {
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *from = call.operand(0).as<T>();
    auto *to = call.result.as<T>();
    call.parallel(call.result.count(), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = T::store(fn(T::load(from[i])));
    });
  });
}

void runRelu(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < call.result.count(); ++i)
      call.result.as<T>()[i] = T::store(maximum(T::load(call.operand(0).as<T>()[i]), typename T::Compute(0)));
  });
}
Refusal checkGelu(const Shapes &shapes) {
  std::string_view form = stringAttribute(shapes.node, "approximate");
  if (form != "none" && form != "tanh")
    return shapes.fail("expected approximate none or tanh, found '" + std::string(form) + "'");
  return sameType(shapes);
}
void runGelu(const Call &call) { map(call, stringAttribute(call.node, "approximate") == "tanh" ? geluTanh : gelu); }

Refusal checkSoftmax(const Shapes &shapes) { return firstOf(shapes.axis("axis", shapes.rank(0)), sameType(shapes)); }
template <bool logarithm> void runSoftmax(const Call &call) {
  AxisView view(call.operand(0).dims(), call.integer("axis"));
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    call.parallel(view.outer * view.inner, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t start = row / view.inner * view.extent * view.inner + row % view.inner;
        const auto *from = call.operand(0).as<T>() + start;
        auto *to = call.result.as<T>() + start;
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t k = 0; k < view.extent; ++k)
          largest = maximum(largest, T::load(from[k * view.inner]));
        for (int64_t k = 0; k < view.extent; ++k)
          sum += std::exp(T::load(from[k * view.inner]) - largest);
        for (int64_t k = 0; k < view.extent; ++k) {
          double shifted = T::load(from[k * view.inner]) - largest;
          to[k * view.inner] = T::store(logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
        }
      }
    });
  });
}

// ---- Normalisations

// Normalises rows of `length` elements; element i of row r is scaled by scale[index(r, i)] and shifted by bias[index(r,
// i)].
template <bool centre, typename Index>
void normalise(const Call &call, int64_t rows, int64_t length, const std::vector<double> &scale,
               const std::vector<double> &bias, Index index) {
  double epsilon = findAttribute(call.node, "epsilon")->f64;
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    call.parallel(rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto *from = call.operand(0).as<T>() + r * length;
        double mean = 0, square = 0;
        for (int64_t i = 0; centre && i < length; ++i)
          mean += T::load(from[i]);
        mean = centre ? mean / static_cast<double>(length) : 0;
        for (int64_t i = 0; i < length; ++i) {
          double distance = T::load(from[i]) - mean;
          square += distance * distance;
        }
        double deviation = std::sqrt(square / static_cast<double>(length) + epsilon);
        for (int64_t i = 0; i < length; ++i) {
          auto at = static_cast<size_t>(index(r, i));
          call.result.as<T>()[r * length + i] = T::store((T::load(from[i]) - mean) / deviation * scale[at] + bias[at]);
        }
      }
    });
  });
}

Refusal checkTrailing(const Shapes &shapes, size_t parameters) {
  if (Refusal refusal = shapes.axis("axis", shapes.rank(0)))
    return refusal;
  std::span<const int64_t> trailing = shapes.dims(0).subspan(static_cast<size_t>(shapes.integer("axis")));
  for (size_t i = 1; i <= parameters; ++i)
    if (Refusal refusal = shapes.expectFloatOperand(i, trailing))
      return refusal;
  return sameType(shapes);
}
template <bool centre> void runTrailing(const Call &call) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  int64_t rows = product(call.result.dims().first(axis)), length = product(call.result.dims().subspan(axis));
  std::vector<double> scale = toDoubles(call.operand(1), length, 1);
  std::vector<double> bias = toDoubles(centre ? call.operand(2) : Tensor(), length, -0.0); // x + -0 is x
  normalise<centre>(call, rows, length, scale, bias, [](int64_t, int64_t i) { return i; });
}

Refusal checkChannels(const Shapes &shapes, size_t first, size_t last) {
  if (shapes.rank(0) < 2)
    return shapes.fail("expected x of rank 2 or more, found " + typeString(shapes.type(0)), MORTISE_REASON_RANK);
  for (size_t i = first; i <= last; ++i)
    if (Refusal refusal = shapes.expectFloatOperand(i, shapes.dims(0).subspan(1, 1)))
      return refusal;
  return sameType(shapes);
}
Refusal checkGroupNorm(const Shapes &shapes) {
  if (Refusal refusal = checkChannels(shapes, 1, 2))
    return refusal;
  if (int64_t groups = shapes.integer("groups"); groups < 1 || shapes.dims(0)[1] % groups)
    return shapes.fail("expected a number of groups that divides " + std::to_string(shapes.dims(0)[1]) +
                       " channels, found " + std::to_string(groups));
  return {};
}
void runGroupNorm(const Call &call) {
  int64_t channels = call.result.dims()[1], groups = call.integer("groups"),
          inner = product(call.result.dims().subspan(2));
  std::vector<double> scale = toDoubles(call.operand(1), channels, 1),
                      bias = toDoubles(call.operand(2), channels, -0.0);
  int64_t each = channels / groups;
  if (call.result.count() != 0)
    normalise<true>(call, call.result.dims()[0] * groups, each * inner, scale, bias,
                    [&](int64_t row, int64_t i) { return row % groups * each + i / inner; });
}
void runBatchNorm(const Call &call) {
  int64_t channels = call.result.dims()[1], inner = product(call.result.dims().subspan(2));
  double epsilon = findAttribute(call.node, "epsilon")->f64;
  std::vector<double> scale = toDoubles(call.operand(1), channels, 1),
                      bias = toDoubles(call.operand(2), channels, -0.0);
  std::vector<double> mean = toDoubles(call.operand(3), channels, 0),
                      variance = toDoubles(call.operand(4), channels, 1);
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < call.result.dims()[0] * channels; ++row) {
      auto c = static_cast<size_t>(row % channels);
      double deviation = std::sqrt(variance[c] + epsilon);
      for (int64_t i = row * inner; i < (row + 1) * inner; ++i)
        call.result.as<T>()[i] =
            T::store((T::load(call.operand(0).as<T>()[i]) - mean[c]) / deviation * scale[c] + bias[c]);
    }
  });
}

} // namespace

std::span<const OpSpec> normalisationOps() {
  static const std::vector<OpSpec> ops = {
      {"relu", 1, 1, 0, DTypes::number, {}, sameType, runRelu},
      {"silu", 1, 1, 0, DTypes::floating, {}, sameType, [](const Call &call) { map(call, silu); }},
      {"gelu", 1, 1, 0, DTypes::floating, {{"approximate", MORTISE_ATTRIBUTE_STRING}}, checkGelu, runGelu},
      {"softmax", 1, 1, 0, DTypes::floating, {{"axis", number}}, checkSoftmax, runSoftmax<false>},
      {"log_softmax", 1, 1, 0, DTypes::floating, {{"axis", number}}, checkSoftmax, runSoftmax<true>},
      {"layer_norm",
       1,
       3,
       1 << 1 | 1 << 2,
       DTypes::floating,
       {{"axis", number}, {"epsilon", real}},
       [](const Shapes &shapes) { return checkTrailing(shapes, 2); },
       runTrailing<true>},
      {"rms_norm",
       1,
       2,
       1 << 1,
       DTypes::floating,
       {{"axis", number}, {"epsilon", real}},
       [](const Shapes &shapes) { return checkTrailing(shapes, 1); },
       runTrailing<false>},
      {"group_norm",
       1,
       3,
       1 << 1 | 1 << 2,
       DTypes::floating,
       {{"epsilon", real}, {"groups", number}},
       checkGroupNorm,
       runGroupNorm},
      {"batch_norm",
       5,
       5,
       1 << 1 | 1 << 2,
       DTypes::floating,
       {{"epsilon", real}},
       [](const Shapes &shapes) { return checkChannels(shapes, 1, 4); },
       runBatchNorm},
  };
  return ops;
}

} // namespace mortise::reference
