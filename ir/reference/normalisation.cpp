// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "activations.hpp"
#include "kernels.hpp"

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

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
        Number largest = -std::numeric_limits<Number>::infinity(), sum = 0;
        for (int64_t k = 0; k < view.extent; ++k)
          largest = maximum(largest, T::load(from[k * view.inner]));
        for (int64_t k = 0; k < view.extent; ++k)
          sum += inRange<T>(exp(inRange<T>(T::load(from[k * view.inner]) - largest)));
        sum = inRange<T>(sum);
        for (int64_t k = 0; k < view.extent; ++k) {
          Number shifted = inRange<T>(T::load(from[k * view.inner]) - largest);
          to[k * view.inner] = T::store(logarithm ? shifted - log(sum) : inRange<T>(exp(shifted)) / sum);
        }
      }
    });
  });
}

// ---- Normalisations

// Normalises rows of `length` elements; element i of row r is scaled by scale[index(r, i)] and shifted by bias[index(r,
// i)].
template <bool centre, typename Index>
void normalise(const Call &call, int64_t rows, int64_t length, const std::vector<Number> &scale,
               const std::vector<Number> &bias, Index index) {
  Number epsilon = findAttribute(call.node, "epsilon")->f64;
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    call.parallel(rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto *from = call.operand(0).as<T>() + r * length;
        Number mean = 0, square = 0;
        for (int64_t i = 0; centre && i < length; ++i)
          mean += T::load(from[i]);
        mean = centre ? inRange<T>(inRange<T>(mean) / static_cast<Number>(length)) : 0;
        auto distance = [&](int64_t i) { return centre ? inRange<T>(T::load(from[i]) - mean) : T::load(from[i]); };
        for (int64_t i = 0; i < length; ++i)
          square += inRange<T>(distance(i) * distance(i));
        Number variance = inRange<T>(inRange<T>(square) / static_cast<Number>(length));
        Number root = inRange<T>(1 / sqrt(inRange<T>(variance + epsilon)));
        for (int64_t i = 0; i < length; ++i) {
          auto at = static_cast<size_t>(index(r, i));
          Number y = inRange<T>(distance(i) * root);
          call.result.as<T>()[r * length + i] = T::store(inRange<T>(y * scale[at]) + bias[at]);
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
  std::vector<Number> scale = toNumbers(call.operand(1), length, 1);
  std::vector<Number> bias = toNumbers(centre ? call.operand(2) : Tensor(), length, -0.0); // x + -0 is x
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
  std::vector<Number> scale = toNumbers(call.operand(1), channels, 1),
                      bias = toNumbers(call.operand(2), channels, -0.0);
  int64_t each = channels / groups;
  if (call.result.count() != 0)
    normalise<true>(call, call.result.dims()[0] * groups, each * inner, scale, bias,
                    [&](int64_t row, int64_t i) { return row % groups * each + i / inner; });
}
void runBatchNorm(const Call &call) {
  int64_t channels = call.result.dims()[1], inner = product(call.result.dims().subspan(2));
  Number epsilon = findAttribute(call.node, "epsilon")->f64;
  std::vector<Number> scale = toNumbers(call.operand(1), channels, 1),
                      bias = toNumbers(call.operand(2), channels, -0.0);
  std::vector<Number> mean = toNumbers(call.operand(3), channels, 0),
                      variance = toNumbers(call.operand(4), channels, 1);
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < call.result.dims()[0] * channels; ++row) {
      auto c = static_cast<size_t>(row % channels);
      Number factor = inRange<T>(scale[c] * inRange<T>(1 / sqrt(inRange<T>(variance[c] + epsilon))));
      Number shift = inRange<T>(bias[c] - inRange<T>(mean[c] * factor));
      for (int64_t i = row * inner; i < (row + 1) * inner; ++i)
        call.result.as<T>()[i] = T::store(inRange<T>(T::load(call.operand(0).as<T>()[i]) * factor) + shift);
    }
  });
}

void runSwiglu(const Call &call) {
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *gate = call.operand(0).as<T>(), *up = call.operand(1).as<T>();
    for (int64_t i = 0; i < call.result.count(); ++i)
      call.result.as<T>()[i] = T::store(inRange<T>(silu(T::load(gate[i]))) * T::load(up[i]));
  });
}

// ---- Losses

Refusal checkCrossEntropy(const Shapes &shapes) {
  if (shapes.rank(0) < 1 || (shapes.dtype(1) != MORTISE_I64 && shapes.dtype(1) != MORTISE_I32))
    return shapes.fail("expected logits of rank 1 or more and i64 or i32 targets, found " + typeString(shapes.type(0)) +
                       " and " + typeString(shapes.type(1)));
  std::string_view reduction = stringAttribute(shapes.node, "reduction");
  if (double smoothing = floatAttribute(shapes.node, "label_smoothing"); !(smoothing >= 0 && smoothing <= 1))
    return shapes.fail("expected a label_smoothing from 0 to 1, found " + std::to_string(smoothing));
  std::span<const int64_t> rows = shapes.dims(0).first(shapes.dims(0).size() - 1);
  return firstOf(shapes.expectOperand(1, shapes.dtype(1), rows),
                 shapes.expect(shapes.dtype(0), reduction == "none" ? rows : std::span<const int64_t>()));
}
// The loss of one row. `target` is a valid class.
template <typename T> Number loss(const typename T::Storage *row, int64_t classes, int64_t target, Number smoothing) {
  Number largest = -std::numeric_limits<Number>::infinity(), sum = 0, all = 0;
  for (int64_t c = 0; c < classes; ++c)
    largest = maximum(largest, T::load(row[c]));
  auto shifted = [&](int64_t c) { return inRange<T>(T::load(row[c]) - largest); };
  for (int64_t c = 0; c < classes; ++c)
    sum += inRange<T>(exp(shifted(c)));
  Number logarithm = inRange<T>(log(inRange<T>(sum))), picked = -inRange<T>(shifted(target) - logarithm);
  if (smoothing == 0)
    return picked;
  for (int64_t c = 0; c < classes; ++c)
    all += inRange<T>(shifted(c) - logarithm);
  Number mean = inRange<T>(inRange<T>(all) / static_cast<Number>(classes));
  return inRange<T>(inRange<T>(picked * (1 - smoothing)) + inRange<T>(mean * -smoothing));
}
void runCrossEntropy(const Call &call) {
  int64_t classes = call.operand(0).dims().back(), ignored = call.integer("ignore_index"), counted = 0;
  Number smoothing = floatAttribute(call.node, "label_smoothing"), total = 0;
  std::string_view reduction = stringAttribute(call.node, "reduction");
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < call.operand(1).count(); ++row) {
      int64_t target = visitInt(call.operand(1).dtype(), [&](auto index) {
        return decltype(index)::load(call.operand(1).as<decltype(index)>()[row]);
      });
      Number value = target == ignored ? 0 : std::numeric_limits<Number>::quiet_NaN();
      if (target != ignored && target >= 0 && target < classes)
        value = loss<T>(call.operand(0).as<T>() + row * classes, classes, target, smoothing);
      total += value;
      counted += target != ignored;
      if (reduction == "none")
        call.result.as<T>()[row] = T::store(value);
    }
    if (reduction == "sum")
      *call.result.as<T>() = T::store(total);
    else if (reduction == "mean")
      *call.result.as<T>() = T::store(inRange<T>(total) / static_cast<Number>(counted));
  });
}

} // namespace

std::span<const OpSpec> normalisationOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Relu, sameType, runRelu},
      {Op::Silu, sameType, [](const Call &call) { map(call, silu); }},
      {Op::Swiglu,
       [](const Shapes &shapes) {
         return firstOf(sameType(shapes), shapes.expectOperand(1, shapes.dtype(0), shapes.dims(0)));
       },
       runSwiglu},
      {Op::CrossEntropy, checkCrossEntropy, runCrossEntropy},
      {Op::Gelu, sameType, runGelu},
      {Op::Softmax, checkSoftmax, runSoftmax<false>},
      {Op::LogSoftmax, checkSoftmax, runSoftmax<true>},
      {Op::LayerNorm, [](const Shapes &shapes) { return checkTrailing(shapes, 2); }, runTrailing<true>},
      {Op::RmsNorm, [](const Shapes &shapes) { return checkTrailing(shapes, 1); }, runTrailing<false>},
      {Op::GroupNorm, checkGroupNorm, runGroupNorm},
      {Op::BatchNorm, [](const Shapes &shapes) { return checkChannels(shapes, 1, 4); }, runBatchNorm},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
