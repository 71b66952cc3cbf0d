// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparisons, maxima and minima, lane by lane. Those of floats are integer operations where a driver takes subnormal
// numbers for 0 and they decide (VulkanFeatures::flushesSubnormals).
#include "target/spirv/translation.hpp"

#include <mlir/IR/Matchers.h>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

Value Translation::isNan(Value x) {
  if (features.exactFunctions && x.getType().isF32()) // of a driver that is known
    return spirv::IsNanOp::create(b, loc, b.getI1Type(), x);
  Value bits = bitsOf(x);
  const Type type = bits.getType();
  Value size = two<spirv::BitwiseAndOp>(bits, integer(type, ~signBit(type)));
  return compare<spirv::UGreaterThanOp>(size,
                                        integer(type, type.isInteger(64) ? INT64_C(0x7ff) << 52 : INT64_C(0x7f800000)));
}

// NaN wins, and of two zeros the one with the sign. GL.FMax leaves both open.
// With `isRough` subnormal numbers may count as 0, and y is a constant.
Value Translation::extreme(Value x, Value y, bool largest, bool isRough) {
  if (isRough)
    return select(compareFloats(largest ? P::UGT : P::ULT, x, y, true), x, y);
  Value bits = bitsOf(x), other = bitsOf(y);
  Value both = largest ? two<spirv::BitwiseAndOp>(bits, other) : two<spirv::BitwiseOrOp>(bits, other);
  Value equal = select(compareFloats(P::OEQ, x, y), spirv::BitcastOp::create(b, loc, x.getType(), both), y);
  Value better = compareFloats(largest ? P::OGT : P::OLT, x, y);
  return select(two<spirv::LogicalOrOp>(better, isNan(x)), x, equal);
}

// An integer that orders numbers as they are ordered; of both zeros it is 0.
Value Translation::orderOf(Value x) {
  Value bits = bitsOf(x);
  const Type type = bits.getType();
  Value size = two<spirv::BitwiseAndOp>(bits, integer(type, ~signBit(type)));
  Value sign = two<spirv::ShiftRightArithmeticOp>(bits, integer(type, type.getIntOrFloatBitWidth() - 1));
  return two<spirv::ISubOp>(two<spirv::BitwiseXorOp>(size, sign), sign);
}

// For devices whose comparisons take subnormal numbers for 0.
Value Translation::compareAsIntegers(P predicate, Value x, Value y) {
  const bool isUnordered = predicate == P::UEQ || predicate == P::UNE || predicate == P::ULT || predicate == P::ULE ||
                           predicate == P::UGT || predicate == P::UGE;
  const auto order = [&]() -> I {
    switch (predicate) {
    case P::OEQ:
    case P::UEQ:
      return I::eq;
    case P::ONE:
    case P::UNE:
      return I::ne;
    case P::OLT:
    case P::ULT:
      return I::slt;
    case P::OLE:
    case P::ULE:
      return I::sle;
    case P::OGT:
    case P::UGT:
      return I::sgt;
    default:
      return I::sge;
    }
  }();
  Value holds = compareIntegers(order, orderOf(x), orderOf(y));
  if (isUnordered)
    return two<spirv::LogicalOrOp>(holds, compareFloats(P::UNO, x, y));
  return two<spirv::LogicalAndOp>(holds, compareFloats(P::ORD, x, y));
}

// The better of a value and a constant, which is no NaN; subnormal numbers may count as 0.
Value Translation::betterOf(Value x, Value y, P better) { return select(compareFloats(better, x, y, true), x, y); }

static std::optional<llvm::APFloat> constantOf(Value x) {
  llvm::APFloat number(0.0);
  return matchPattern(x, m_ConstantFloat(&number)) ? std::optional(number) : std::nullopt;
}

// Every subnormal number compares with it as 0 does.
bool Translation::isNormalConstant(Value x) {
  const auto number = constantOf(x);
  return number && !number->isZero() && !number->isDenormal() && !number->isNaN();
}

bool Translation::isZero(Value x) {
  const auto number = constantOf(x);
  return number ? number->isZero() : zeros.lookup(x.getType()) == x;
}

// Positive numbers are those whose bits lie between 0 and infinity's, inclusive of the latter; NaNs lie above.
Value Translation::compareWithZero(P predicate, Value x) {
  Value bits = bitsOf(x), one = integer(bits.getType(), 1), infinity = integer(bits.getType(), 0x7f800000);
  const auto isPositive = [&](Value bits) {
    return compare<spirv::ULessThanOp>(two<spirv::ISubOp>(bits, one), infinity);
  };
  const auto above = [&] { return isPositive(bits); };
  const auto below = [&] { return isPositive(bitsOf(negated(x))); };
  const auto equal = [&] {
    return compare<spirv::IEqualOp>(two<spirv::ShiftLeftLogicalOp>(bits, one), integer(bits.getType(), 0));
  };
  const auto either = [&](Value a, Value b) { return two<spirv::LogicalOrOp>(a, b); };
  const auto no = [&](Value a) -> Value { return spirv::LogicalNotOp::create(b, loc, a); };
  switch (predicate) {
  case P::OEQ:
    return equal();
  case P::UNE:
    return no(equal());
  case P::ONE:
    return either(above(), below());
  case P::UEQ:
    return no(either(above(), below()));
  case P::OGT:
    return above();
  case P::ULE:
    return no(above());
  case P::OLT:
    return below();
  case P::UGE:
    return no(below());
  case P::OGE:
    return either(above(), equal());
  case P::ULT:
    return no(either(above(), equal()));
  case P::OLE:
    return either(below(), equal());
  default: // UGT
    return no(either(below(), equal()));
  }
}

// With `isRough` subnormal numbers may count as 0.
Value Translation::compareFloats(P predicate, Value x, Value y, bool isRough) {
  const bool isOrder =
      predicate != P::UNO && predicate != P::ORD && predicate != P::AlwaysTrue && predicate != P::AlwaysFalse;
  if (features.flushesSubnormals && x.getType().isF32() && isOrder && !isRough)
    return isZero(y) ? compareWithZero(predicate, x) : compareAsIntegers(predicate, x, y);
  switch (predicate) {
  case P::OEQ:
    return compare<spirv::FOrdEqualOp>(x, y);
  case P::ONE:
    return compare<spirv::FOrdNotEqualOp>(x, y);
  case P::OLT:
    return compare<spirv::FOrdLessThanOp>(x, y);
  case P::OLE:
    return compare<spirv::FOrdLessThanEqualOp>(x, y);
  case P::OGT:
    return compare<spirv::FOrdGreaterThanOp>(x, y);
  case P::OGE:
    return compare<spirv::FOrdGreaterThanEqualOp>(x, y);
  case P::UEQ:
    return compare<spirv::FUnordEqualOp>(x, y);
  case P::UNE:
    return compare<spirv::FUnordNotEqualOp>(x, y);
  case P::ULT:
    return compare<spirv::FUnordLessThanOp>(x, y);
  case P::ULE:
    return compare<spirv::FUnordLessThanEqualOp>(x, y);
  case P::UGT:
    return compare<spirv::FUnordGreaterThanOp>(x, y);
  case P::UGE:
    return compare<spirv::FUnordGreaterThanEqualOp>(x, y);
  case P::UNO:
    return x == y ? isNan(x) : two<spirv::LogicalOrOp>(isNan(x), isNan(y));
  case P::ORD:
    return spirv::LogicalNotOp::create(b, loc, two<spirv::LogicalOrOp>(isNan(x), isNan(y)));
  default:
    return integer(b.getI1Type(), predicate == P::AlwaysTrue);
  }
}

static bool isSigned(I predicate) {
  return predicate == I::slt || predicate == I::sle || predicate == I::sgt || predicate == I::sge;
}

// A number that was widened from 32 bits, and a constant, as they are before that: cheaper everywhere, and right on
// llvmpipe, which gets such comparisons of 64 bits wrong.
std::optional<Value> Translation::compareBeforeWidening(I predicate, Value x, Value y) {
  auto widened = x.getDefiningOp<spirv::SConvertOp>();
  llvm::APInt constant;
  if (!isSigned(predicate) || !x.getType().isInteger(64) || !widened || !widened.getOperand().getType().isInteger(32) ||
      !matchPattern(y, m_ConstantInt(&constant)))
    return {};
  const int64_t number = constant.getSExtValue();
  if (number == static_cast<int32_t>(number))
    return compareIntegers(predicate, widened.getOperand(), i32(number));
  return integer(b.getI1Type(), (number > 0) == (predicate == I::slt || predicate == I::sle));
}

Value Translation::compareIntegers(I predicate, Value x, Value y) {
  if (const std::optional<Value> narrow = compareBeforeWidening(predicate, x, y))
    return *narrow;
  if (x.getType().isInteger(1)) { // ordered as numbers without sign
    const auto no = [&](Value v) -> Value { return spirv::LogicalNotOp::create(b, loc, v); };
    switch (predicate) {
    case I::eq:
      return two<spirv::LogicalEqualOp>(x, y);
    case I::ne:
      return two<spirv::LogicalNotEqualOp>(x, y);
    case I::ult:
      return two<spirv::LogicalAndOp>(no(x), y);
    case I::ule:
      return two<spirv::LogicalOrOp>(no(x), y);
    case I::ugt:
      return two<spirv::LogicalAndOp>(x, no(y));
    case I::uge:
      return two<spirv::LogicalOrOp>(x, no(y));
    default:
      fail("a signed comparison of booleans");
      return x;
    }
  }
  switch (predicate) {
  case I::eq:
    return compare<spirv::IEqualOp>(x, y);
  case I::ne:
    return compare<spirv::INotEqualOp>(x, y);
  case I::slt:
    return compare<spirv::SLessThanOp>(x, y);
  case I::sle:
    return compare<spirv::SLessThanEqualOp>(x, y);
  case I::sgt:
    return compare<spirv::SGreaterThanOp>(x, y);
  case I::sge:
    return compare<spirv::SGreaterThanEqualOp>(x, y);
  case I::ult:
    return compare<spirv::ULessThanOp>(x, y);
  case I::ule:
    return compare<spirv::ULessThanEqualOp>(x, y);
  case I::ugt:
    return compare<spirv::UGreaterThanOp>(x, y);
  case I::uge:
    return compare<spirv::UGreaterThanEqualOp>(x, y);
  }
  return x;
}

} // namespace mortise::codegen
