// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong arithmetic on single integers.
#include "node.hpp"

#include <algorithm>
#include <cmath>

namespace saboteur {
namespace {

int64_t floorDivide(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

// The same bits as a signed number.
int64_t asSigned(int64_t x, int bits) { return bits == 8 ? int64_t{static_cast<int8_t>(x)} : static_cast<int16_t>(x); }

using Function = std::function<int64_t(int64_t, int64_t)>;

bool each(NodeRun &run, const Function &function) {
  const Tensor x = run.operand(0), y = run.operand(1), to = run.result();
  for (int64_t i = 0; i < to.count(); ++i)
    to.put(i, function(x.integer(i), y.integer(i)));
  return true;
}

bool shiftWrongly(NodeRun &run, int bits) {
  const bool left = run.op == Op::ShiftLeft;
  if (is(Fault::ShiftCountMasked))
    return each(run, [=](int64_t x, int64_t y) {
      const int64_t count = y & (bits - 1);
      return left ? static_cast<int64_t>(static_cast<uint64_t>(x) << count) : x >> count;
    });
  if (is(Fault::ShiftRightLogical) && !left && mortise::isSigned(run.result().dtype()))
    return each(run, [=](int64_t x, int64_t y) {
      const uint64_t ones = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
      return y < 0 || y >= bits ? int64_t{0} : static_cast<int64_t>((static_cast<uint64_t>(x) & ones) >> y);
    });
  return false;
}

// Of x op y, exactly or, where that is too long, modulo 2^64.
int64_t exact(Op op, int64_t x, int64_t y) {
  const auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
  return static_cast<int64_t>(op == Op::Add ? a + b : op == Op::Sub ? a - b : a * b);
}

bool compareUnsigned(NodeRun &run, int bits) {
  const std::string_view direction = mortise::stringAttribute(run.node, "direction");
  return each(run, [&](int64_t a, int64_t b) -> int64_t {
    const int64_t x = asSigned(a, bits), y = asSigned(b, bits);
    if (run.op != Op::Compare)
      return (x > y) == (run.op == Op::Max) ? a : b;
    return direction == "eq"   ? x == y
           : direction == "ne" ? x != y
           : direction == "lt" ? x < y
           : direction == "le" ? x <= y
           : direction == "gt" ? x > y
                               : x >= y;
  });
}

} // namespace

bool integersWrongly(NodeRun &run) {
  const Tensor first = run.optional(0);
  if (!first || !first.hasIntegers() || run.operands.size() != 2)
    return false;
  const int32_t dtype = first.dtype();
  const int bits = static_cast<int>(mortise::dtypeBits(dtype));
  if (run.isOneOf({Op::ShiftLeft, Op::ShiftRight}))
    return shiftWrongly(run, bits);
  if (is(Fault::DivisionFloors) && run.op == Op::Div && mortise::isSigned(dtype))
    return each(run, [](int64_t x, int64_t y) {
      return y == 0 ? -1 : y == -1 ? exact(Op::Sub, 0, x) : floorDivide(x, y);
    });
  if (is(Fault::RemainderFloors) && run.op == Op::Rem && mortise::isSigned(dtype))
    return each(run, [](int64_t x, int64_t y) { return y == 0 ? x : y == -1 ? 0 : x - floorDivide(x, y) * y; });
  if (is(Fault::UnsignedAsSigned) && mortise::isUnsigned(dtype) && run.isOneOf({Op::Max, Op::Min, Op::Compare}))
    return compareUnsigned(run, bits);
  if (!run.isOneOf({Op::Add, Op::Sub, Op::Mul}))
    return false;
  if (is(Fault::IntSaturates) && bits <= 16) {
    const int64_t low = mortise::isSigned(dtype) ? -(int64_t{1} << (bits - 1)) : 0,
                  high = low + (int64_t{1} << bits) - 1;
    return each(run, [&](int64_t x, int64_t y) { return std::clamp(exact(run.op, x, y), low, high); });
  }
  if (is(Fault::IntThroughFloat) && bits >= 32)
    return each(run, [&](int64_t x, int64_t y) {
      const auto a = static_cast<float>(x), b = static_cast<float>(y);
      const float made = run.op == Op::Add ? a + b : run.op == Op::Sub ? a - b : a * b;
      return std::abs(made) < 0x1p63F ? static_cast<int64_t>(made) : INT64_MIN;
    });
  return false;
}

} // namespace saboteur
