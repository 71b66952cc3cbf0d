// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Philox4x32-10 as described in ir/families/random.td, and the distributions.
#include "kernels.hpp"
#include "philox.hpp"

#include <algorithm>
#include <numeric>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

// The words of a key and an offset: operands `first` and `first` + 1.
class Words {
public:
  Words(const Call &call, size_t first)
      : key(static_cast<uint64_t>(*call.operand(first).as<I64>())),
        offset(static_cast<uint64_t>(*call.operand(first + 1).as<I64>())) {}
  uint64_t word(int64_t w) { // fast for ascending w
    if (uint64_t counter = offset + static_cast<uint64_t>(w) / 4; !filled || counter != at) {
      lanes = philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                         {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
      at = counter;
      filled = true;
    }
    return lanes[static_cast<size_t>(w % 4)];
  }
  uint64_t doubleWord(int64_t i) {
    uint64_t low = word(2 * i);
    return word(2 * i + 1) << 32 | low;
  }
  // Uniform in [0, 1), with the precision of `dtype`.
  double uniform(int32_t dtype, int64_t i) {
    if (dtype == MORTISE_F64)
      return static_cast<double>(doubleWord(i) >> 11) * 0x1p-53;
    int precision = dtype == MORTISE_F16 ? 11 : dtype == MORTISE_BF16 ? 8 : 24;
    return std::ldexp(static_cast<double>(word(i) >> (32 - precision)), -precision);
  }

private:
  uint64_t key, offset, at = 0;
  std::array<uint32_t, 4> lanes{};
  bool filled = false;
};

Refusal checkState(const Shapes &shapes, size_t first) {
  return firstOf(shapes.expectOperand(first, MORTISE_I64, Shape()),
                 shapes.expectOperand(first + 1, MORTISE_I64, Shape()));
}
// Checks that the result has the `shape` and `dtype` of the attributes, and that `dtype` is one of `known`.
Refusal checkDrawn(const Shapes &shapes, std::initializer_list<int32_t> known) {
  std::string_view name = stringAttribute(shapes.node, "dtype");
  const auto *found = std::ranges::find_if(known, [&](int32_t dtype) { return name == dtypeName(dtype); });
  if (found == known.end())
    return shapes.fail("the dtype '" + std::string(name) + "' is none that this op draws");
  return firstOf(checkState(shapes, 0), shapes.expect(*found, shapes.integers("shape")));
}
Refusal checkBits(const Shapes &shapes) {
  return checkDrawn(shapes, {MORTISE_I64, MORTISE_I32, MORTISE_I16, MORTISE_I8, MORTISE_UI8});
}
Refusal checkFloats(const Shapes &shapes) {
  return checkDrawn(shapes, {MORTISE_F64, MORTISE_F32, MORTISE_F16, MORTISE_BF16});
}

void runBits(const Call &call) {
  Words words(call, 0);
  visitInt(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < call.result.count(); ++i)
      call.result.as<T>()[i] =
          T::store(static_cast<int64_t>(T::dtype == MORTISE_I64 ? words.doubleWord(i) : words.word(i)));
  });
}
void runUniform(const Call &call) {
  Words words(call, 0);
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < call.result.count(); ++i)
      call.result.as<T>()[i] = T::store(Number(words.uniform(T::dtype, i)));
  });
}
void runNormal(const Call &call) {
  Words first(call, 0), second(call, 0);
  int64_t count = call.result.count();
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    int32_t drawn = T::dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
    for (int64_t i = 0; i < count; ++i) {
      Number u = Number(first.uniform(drawn, i)), v = Number(second.uniform(drawn, count + i));
      call.result.as<T>()[i] = T::store(sqrt(-2 * log(1 - u)) * cos(2 * circleConstant() * v));
    }
  });
}

Refusal checkBernoulli(const Shapes &shapes) {
  return firstOf(checkState(shapes, 1), shapes.expect(MORTISE_I1, shapes.dims(0)));
}
void runBernoulli(const Call &call) {
  Words words(call, 1);
  visitFloat(call.operand(0).dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < call.result.count(); ++i)
      call.result.as<I1>()[i] = words.uniform(MORTISE_F32, i) < T::load(call.operand(0).as<T>()[i]);
  });
}

Refusal checkDropout(const Shapes &shapes) {
  if (double p = findAttribute(shapes.node, "p")->f64; !(p >= 0 && p <= 1))
    return shapes.fail("expected p from 0 to 1, found " + std::to_string(p));
  return firstOf(checkState(shapes, 1), shapes.expect(shapes.dtype(0), shapes.dims(0)),
                 shapes.expectResult(1, MORTISE_I1, shapes.dims(0)));
}
void runDropout(const Call &call) {
  Words words(call, 1);
  double p = findAttribute(call.node, "p")->f64;
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < call.result.count(); ++i) {
      bool kept = words.uniform(MORTISE_F32, i) >= p;
      call.result.as<T>()[i] = T::store(kept ? T::load(call.operand(0).as<T>()[i]) * Number(1 / (1 - p)) : Number(0));
      call.results[1].as<I1>()[i] = kept;
    }
  });
}

Refusal checkPermutation(const Shapes &shapes) {
  return firstOf(checkState(shapes, 0), shapes.length("shape", 1), shapes.atLeast("shape", 0),
                 shapes.expect(MORTISE_I64, shapes.integers("shape")));
}
void runPermutation(const Call &call) {
  Words words(call, 0);
  auto count = static_cast<size_t>(call.result.count());
  std::vector<int64_t> bits(count);
  for (size_t i = 0; i < count; ++i)
    bits[i] = static_cast<int64_t>(words.doubleWord(static_cast<int64_t>(i)));
  int64_t *order = call.result.as<I64>();
  std::iota(order, order + count, 0);
  std::sort(order, order + count, [&](int64_t x, int64_t y) {
    return std::pair(bits[static_cast<size_t>(x)], x) < std::pair(bits[static_cast<size_t>(y)], y);
  });
}

} // namespace

std::span<const OpSpec> randomOps() {
  static const std::vector<OpSpec> ops = {
      {Op::RandomBits, checkBits, runBits},    {Op::Uniform, checkFloats, runUniform},
      {Op::Normal, checkFloats, runNormal},    {Op::Bernoulli, checkBernoulli, runBernoulli},
      {Op::Dropout, checkDropout, runDropout}, {Op::RandomPermutation, checkPermutation, runPermutation},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
