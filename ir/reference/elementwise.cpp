// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

constexpr int64_t grain = 1 << 14;

using FloatUnary = Number (*)(Number);
using IntUnary = int64_t (*)(int64_t);
using FloatBinary = Number (*)(Number, Number);
using IntBinary = int64_t (*)(int64_t, int64_t);

template <typename T, typename Fn> void map(const Call &call, Fn fn) {
  const auto *from = call.operand(0).as<T>();
  auto *to = call.result.as<T>();
  call.parallel(call.result.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = T::store(fn(T::load(from[i])));
  });
}
template <typename T, typename Fn> void map2(const Call &call, Fn fn) {
  const auto *left = call.operand(0).as<T>(), *right = call.operand(1).as<T>();
  auto *to = call.result.as<T>();
  call.parallel(call.result.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = T::store(fn(T::load(left[i]), T::load(right[i])));
  });
}

// ---- Functions

Number sign(Number x) { return isnan(x) || x == 0 ? x : Number(x > 0 ? 1 : -1); }
Number logistic(Number x) {
  if (x >= 0)
    return 1 / (1 + exp(-x));
  Number e = exp(x);
  return e / (1 + e);
}
int64_t negateInt(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }
int64_t absInt(int64_t x) { return x < 0 ? negateInt(x) : x; }
int64_t signInt(int64_t x) { return (x > 0) - (x < 0); }

Number subtract(Number x, Number y) { return x - y; }
Number divide(Number x, Number y) { return x / y; }
int64_t subtractInt(int64_t x, int64_t y) { return plus(x, negateInt(y)); }
int64_t divideInt(int64_t x, int64_t y) { return y == 0 ? -1 : (y == -1 ? negateInt(x) : x / y); }
int64_t remainderInt(int64_t x, int64_t y) { return y == 0 ? x : (y == -1 ? 0 : x % y); }
int64_t powInt(int64_t x, int64_t y) {
  if (y < 0)
    return x == 1 ? 1 : (x == -1 ? (y % 2 ? -1 : 1) : 0);
  int64_t result = 1;
  for (; y > 0; y >>= 1, x = times(x, x))
    if (y & 1)
      result = times(result, x);
  return result;
}

// Flips the sign bit and keeps all others: a NaN passes with its payload.
void runNeg(const Call &call) {
  const int32_t dtype = call.result.dtype();
  if (!isFloat(dtype))
    return visitInt(dtype, [&](auto type) { map<decltype(type)>(call, negateInt); });
  const size_t size = storageBytes(dtype);
  const auto count = static_cast<size_t>(call.result.count());
  std::memcpy(call.result.data, call.operand(0).data, count * size);
  for (size_t i = 1; i <= count; ++i)
    call.result.data[i * size - 1] ^= std::byte{0x80}; // little endian
}

// ---- Tables

Refusal sameTypes(const Shapes &shapes) {
  const MortiseType &first = shapes.type(0);
  return firstOf(shapes.node.operand_count > 1 ? shapes.expectOperand(1, first.dtype, dims(first)) : Refusal(),
                 shapes.expect(first.dtype, dims(first)));
}

OpSpec unary(Op op, FloatUnary floats, IntUnary ints = nullptr) {
  return {op, sameTypes, [floats, ints](const Call &call) {
            if (isFloat(call.result.dtype()))
              visitFloat(call.result.dtype(), [&](auto type) { map<decltype(type)>(call, floats); });
            else
              visitInt(call.result.dtype(), [&](auto type) { map<decltype(type)>(call, ints); });
          }};
}

// i1 is computed as an integer; storing turns every number but 0 into 1.
OpSpec binary(Op op, FloatBinary floats, IntBinary ints) {
  return {op, sameTypes, [floats, ints](const Call &call) {
            if (isFloat(call.result.dtype()))
              visitFloat(call.result.dtype(), [&](auto type) { map2<decltype(type)>(call, floats); });
            else
              visitInt(call.result.dtype(), [&](auto type) { map2<decltype(type)>(call, ints); });
          }};
}

void runNot(const Call &call) {
  visitInt(call.result.dtype(), [&](auto type) {
    map<decltype(type)>(call, [](int64_t x) { return decltype(type)::dtype == MORTISE_I1 ? int64_t(x == 0) : ~x; });
  });
}

// Shifts by 0 to 63. Storing drops the bits beyond the element's width.
int64_t shiftLeft(int64_t x, int64_t y) { return static_cast<int64_t>(static_cast<uint64_t>(x) << y); }
int64_t shiftRight(int64_t x, int64_t y) { return x >> y; }

template <int64_t (*shift)(int64_t, int64_t)> void runShift(const Call &call) {
  visitInt(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int64_t width = T::dtype == MORTISE_I1   ? 1
                              : T::dtype == MORTISE_I4 ? 4
                                                       : 8 * sizeof(*call.result.as<T>());
    constexpr bool left = shift == shiftLeft;
    map2<T>(call, [](int64_t x, int64_t y) {
      if (y < 0 || y >= width)
        return left || x >= 0 ? int64_t(0) : int64_t(-1);
      return shift(x, y);
    });
  });
}

Refusal checkCompare(const Shapes &shapes) {
  return firstOf(shapes.expectOperand(1, shapes.dtype(0), shapes.dims(0)), shapes.expect(MORTISE_I1, shapes.dims(0)));
}
template <typename T, typename Fn> void compareWith(const Call &call, Fn fn) {
  const auto *left = call.operand(0).as<T>(), *right = call.operand(1).as<T>();
  uint8_t *to = call.result.as<I1>();
  call.parallel(call.result.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = fn(T::load(left[i]), T::load(right[i]));
  });
}
void runCompare(const Call &call) {
  std::string_view direction = stringAttribute(call.node, "direction");
  visitElement(call.operand(0).dtype(), [&](auto type) {
    using T = decltype(type);
    if (direction == "eq")
      compareWith<T>(call, std::equal_to<>());
    else if (direction == "ne")
      compareWith<T>(call, std::not_equal_to<>());
    else if (direction == "lt")
      compareWith<T>(call, std::less<>());
    else if (direction == "le")
      compareWith<T>(call, std::less_equal<>());
    else if (direction == "gt")
      compareWith<T>(call, std::greater<>());
    else
      compareWith<T>(call, std::greater_equal<>());
  });
}

Refusal checkSelect(const Shapes &shapes) {
  const MortiseType &result = shapes.result();
  return firstOf(shapes.expectOperand(0, MORTISE_I1, dims(result)), shapes.expectOperand(1, result.dtype, dims(result)),
                 shapes.expectOperand(2, result.dtype, dims(result)));
}
void runSelect(const Call &call) {
  const uint8_t *predicate = call.operand(0).as<I1>();
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *onTrue = call.operand(1).as<T>(), *onFalse = call.operand(2).as<T>();
    auto *to = call.result.as<T>();
    call.parallel(call.result.count(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = predicate[i] ? onTrue[i] : onFalse[i];
    });
  });
}

Refusal checkConvert(const Shapes &shapes) {
  int32_t dtype = dtypeFromName(stringAttribute(shapes.node, "dtype"));
  if (!dtype)
    return shapes.fail("'" + std::string(stringAttribute(shapes.node, "dtype")) + "' is no dtype");
  return shapes.expect(dtype, shapes.dims(0));
}
void runConvert(const Call &call) {
  visitElement(call.operand(0).dtype(), [&](auto fromType) {
    using From = decltype(fromType);
    visitElement(call.result.dtype(), [&](auto toType) {
      using To = decltype(toType);
      const auto *from = call.operand(0).as<From>();
      auto *to = call.result.as<To>();
      call.parallel(call.result.count(), grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          to[i] = convertElement<To, From>(from[i]);
      });
    });
  });
}

} // namespace

std::span<const OpSpec> elementwiseOps() {
  static const std::vector<OpSpec> ops = {
      unary(
          Op::Abs, [](Number x) { return Number(fabs(x)); }, absInt),
      {Op::Neg, sameTypes, runNeg},
      unary(Op::Sign, sign, signInt),
      unary(Op::Exp, [](Number x) { return Number(exp(x)); }),
      unary(Op::Expm1, [](Number x) { return Number(expm1(x)); }),
      unary(Op::Log, [](Number x) { return Number(log(x)); }),
      unary(Op::Log1p, [](Number x) { return Number(log1p(x)); }),
      unary(Op::Sqrt, [](Number x) { return Number(sqrt(x)); }),
      unary(Op::Rsqrt, [](Number x) { return 1 / sqrt(x); }),
      unary(Op::Sin, [](Number x) { return Number(sin(x)); }),
      unary(Op::Cos, [](Number x) { return Number(cos(x)); }),
      unary(Op::Tanh, [](Number x) { return Number(tanh(x)); }),
      unary(Op::Erf, [](Number x) { return Number(erf(x)); }),
      unary(Op::Erfc, [](Number x) { return Number(erfc(x)); }),
      unary(Op::Logistic, logistic),
      unary(Op::Tan, [](Number x) { return Number(tan(x)); }),
      unary(Op::Asin, [](Number x) { return Number(asin(x)); }),
      unary(Op::Acos, [](Number x) { return Number(acos(x)); }),
      unary(Op::Atan, [](Number x) { return Number(atan(x)); }),
      unary(Op::Sinh, [](Number x) { return Number(sinh(x)); }),
      unary(Op::Cosh, [](Number x) { return Number(cosh(x)); }),
      unary(Op::Asinh, [](Number x) { return Number(asinh(x)); }),
      unary(Op::Acosh, [](Number x) { return Number(acosh(x)); }),
      unary(Op::Atanh, [](Number x) { return Number(atanh(x)); }),
      unary(Op::Log2, [](Number x) { return Number(log2(x)); }),
      unary(Op::Log10, [](Number x) { return Number(log10(x)); }),
      unary(Op::Exp2, [](Number x) { return Number(exp2(x)); }),
      unary(Op::Floor, [](Number x) { return Number(floor(x)); }),
      unary(Op::Ceil, [](Number x) { return Number(ceil(x)); }),
      unary(Op::Round, [](Number x) { return Number(nearbyint(x)); }),
      {Op::Not, sameTypes, runNot},
      binary(Op::Add, plus, plus),
      binary(Op::Sub, subtract, subtractInt),
      binary(Op::Mul, times, times),
      binary(Op::Div, divide, divideInt),
      binary(
          Op::Rem, [](Number x, Number y) { return Number(fmod(x, y)); }, remainderInt),
      binary(
          Op::Pow, [](Number x, Number y) { return Number(pow(x, y)); }, powInt),
      binary(Op::Max, maximum, maximum),
      binary(Op::Min, minimum, minimum),
      binary(
          Op::Atan2, [](Number x, Number y) { return Number(atan2(x, y)); }, nullptr),
      binary(
          Op::Copysign, [](Number x, Number y) { return Number(copysign(x, y)); }, nullptr),
      binary(Op::And, nullptr, [](int64_t x, int64_t y) { return x & y; }),
      binary(Op::Or, nullptr, [](int64_t x, int64_t y) { return x | y; }),
      binary(Op::Xor, nullptr, [](int64_t x, int64_t y) { return x ^ y; }),
      {Op::ShiftLeft, sameTypes, runShift<shiftLeft>},
      {Op::ShiftRight, sameTypes, runShift<shiftRight>},
      {Op::Compare, checkCompare, runCompare},
      {Op::Select, checkSelect, runSelect},
      {Op::Convert, checkConvert, runConvert},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
