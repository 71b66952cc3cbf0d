// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emit/code.hpp"

namespace mortise::codegen {

using namespace mlir;

Type Code::registerType(int32_t dtype) {
  switch (dtype) {
  case MORTISE_F64:
    return b.getF64Type();
  case MORTISE_F32:
  case MORTISE_F16:
  case MORTISE_BF16:
    return b.getF32Type();
  case MORTISE_I1:
    return b.getI1Type();
  default:
    return b.getIntegerType(dtypeBits(dtype));
  }
}

Type Code::memoryType(int32_t dtype) {
  if (dtype == MORTISE_F16 && instructions.half)
    return b.getF16Type();
  if (dtype == MORTISE_F16)
    return b.getI16Type();
  if (dtype == MORTISE_BF16)
    return b.getI16Type();
  return dtype == MORTISE_I1 ? b.getI8Type() : registerType(dtype);
}

Type Code::like(Value shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape.getType()))
    return vector.clone(element);
  return element;
}

static Value makeConstant(OpBuilder &b, Location loc, Type type, TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, cast<Attribute>(element)));
  return arith::ConstantOp::create(b, loc, element);
}

Value Code::constant(Type type, double value) {
  auto floatType = cast<FloatType>(getElementTypeOrSelf(type));
  bool ignored;
  llvm::APFloat number(value);
  number.convert(floatType.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &ignored);
  return makeConstant(b, loc, type, FloatAttr::get(floatType, number));
}

Value Code::integer(Type type, int64_t value) {
  Type element = getElementTypeOrSelf(type);
  unsigned width = element.getIntOrFloatBitWidth();
  return makeConstant(b, loc, type, IntegerAttr::get(element, llvm::APInt(64, value).trunc(width)));
}

Value Code::bits(Value likeFloat, uint64_t pattern) {
  return integer(like(likeFloat, b.getIntegerType(element(likeFloat).getIntOrFloatBitWidth())), pattern);
}

Value Code::steps(Type element, int64_t step) {
  SmallVector<Attribute> all;
  for (unsigned i = 0; i < lanes; ++i)
    all.push_back(IntegerAttr::get(element, llvm::APInt(64, step * i).trunc(element.getIntOrFloatBitWidth())));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(cast<ShapedType>(vectorOf(element)), all));
}

Value Code::splat(Value scalar) {
  if (isVector(scalar) || lanes == 1)
    return scalar;
  Type type = vectorOf(scalar.getType());
  if (auto constant = scalar.getDefiningOp<arith::ConstantOp>())
    return makeConstant(b, loc, type, cast<TypedAttr>(constant.getValue()));
  Value none = LLVM::PoisonOp::create(b, loc, type);
  Value first = LLVM::InsertElementOp::create(b, loc, none, scalar, integer(b.getI32Type(), 0));
  return LLVM::ShuffleVectorOp::create(b, loc, first, none, SmallVector<int32_t>(lanes, 0));
}

void Code::match(Value &x, Value &y) {
  if (isVector(x) && !isVector(y))
    y = splat(y);
  else if (isVector(y) && !isVector(x))
    x = splat(x);
}

Value Code::neg(Value x) {
  if (instructions.keepNan)
    return one<arith::NegFOp>(x);
  for (int32_t dtype : {MORTISE_F16, MORTISE_BF16})
    if (Value bits = asInMemory(x, dtype)) {
      Value flipped = two<arith::XOrIOp>(bits, integer(bits.getType(), INT64_C(0x8000)));
      return fromMemory(flipped, dtype);
    }
  // LLVM knows a change of the sign bit by integers for what it is, and would make the instruction of it again.
  return copySign(x, bitcast(notI(intBits(x)), element(x)));
}

Value Code::fma(Value x, Value y, Value z) {
  match(x, y), match(x, z), match(x, y);
  if (!instructions.fma)
    return add(mul(x, y), z);
  return math::FmaOp::create(b, loc, x, y, z);
}

Value Approximations::flushingFma(Code &c, Value x, Value y, Value z) const {
  return math::FmaOp::create(c.b, c.loc, x, y, z);
}

Value Code::normalFma(Value x, Value y, Value z) {
  if (!hasFlushingFma(x))
    return fma(x, y, z);
  match(x, y), match(x, z), match(x, y);
  return eachLane({x, y, z}, [&](ArrayRef<Value> each) {
    return instructions.approximations->flushingFma(*this, each[0], each[1], each[2]);
  });
}

// The flag afn, which means nothing to a CPU's comparison, is what the translation to SPIR-V knows it by.
Value Code::roughCompare(arith::CmpFPredicate predicate, Value x, Value y) {
  match(x, y);
  return arith::CmpFOp::create(b, loc, predicate, x, y, arith::FastMathFlags::afn);
}

// One instruction of a GPU. A CPU's maximum is a comparison and a choice, which keeps y if one of both is NaN.
Value Code::roughMaximum(Value x, Value y) {
  match(x, y);
  if (instructions.approximations && element(x).isF32())
    return arith::MaxNumFOp::create(b, loc, x, y, arith::FastMathFlags::afn);
  return select(roughCompare(arith::CmpFPredicate::OGT, x, y), x, y);
}

Value Code::compare(arith::CmpFPredicate predicate, Value x, Value y) {
  match(x, y);
  return arith::CmpFOp::create(b, loc, predicate, x, y);
}

Value Code::compareI(arith::CmpIPredicate predicate, Value x, Value y) {
  match(x, y);
  return arith::CmpIOp::create(b, loc, predicate, x, y);
}

Value Code::select(Value condition, Value x, Value y) {
  match(x, y);
  if (isVector(condition))
    x = splat(x), y = splat(y);
  return arith::SelectOp::create(b, loc, condition, x, y);
}

Value Code::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = constant(x.getType(), coefficients[0]);
  for (double coefficient : coefficients.drop_front())
    sum = normalFma(sum, x, coefficient);
  return sum;
}

Value Code::bitcast(Value x, Type element) { return arith::BitcastOp::create(b, loc, like(x, element), x); }

Value Code::resizeInt(Value x, Type target, bool isSigned) {
  unsigned from = element(x).getIntOrFloatBitWidth(), to = target.getIntOrFloatBitWidth();
  if (from == to)
    return x;
  Type type = like(x, target);
  if (from > to)
    return arith::TruncIOp::create(b, loc, type, x);
  return isSigned ? Value(arith::ExtSIOp::create(b, loc, type, x)) : Value(arith::ExtUIOp::create(b, loc, type, x));
}

// A multiplication moves the exponent and normalises subnormals; infinity and NaN get the largest exponent.
static constexpr char widenedHalf[] = "mortise.half";
Value Code::halfToFloat(Value bits) {
  Value wide = resizeInt(bits, b.getI32Type(), false);
  auto lit = [&](int64_t v) { return integer(wide.getType(), v); };
  Value size = andI(wide, lit(0x7fff));
  Value shifted = arith::ShLIOp::create(b, loc, size, lit(13));
  Value finite;
  if (instructions.subnormals) {
    finite = intBits(mul(bitcast(shifted, b.getF32Type()), 0x1p112));
  } else { // a subnormal f16 is a small integer times 2^-24
    Value small = arith::SIToFPOp::create(b, loc, like(wide, b.getF32Type()), size);
    Value isSmall = compareI(arith::CmpIPredicate::ult, size, lit(0x400));
    finite = select(isSmall, intBits(mul(small, 0x1p-24)), addI(shifted, lit(INT64_C(112) << 23)));
  }
  Value isFinite = compareI(arith::CmpIPredicate::ult, size, lit(0x7c00));
  Value sign = arith::ShLIOp::create(b, loc, andI(wide, lit(0x8000)), lit(16));
  Value made = bitcast(orI(select(isFinite, finite, orI(shifted, lit(0x7f800000))), sign), b.getF32Type());
  made.getDefiningOp()->setAttr(widenedHalf, b.getUnitAttr());
  return made;
}

// The bits that halfToFloat has widened.
static Value halfBits(arith::BitcastOp number) {
  if (!number->hasAttr(widenedHalf))
    return {};
  auto sign = number.getIn().getDefiningOp<arith::OrIOp>().getRhs().getDefiningOp<arith::ShLIOp>();
  Value wide = sign.getLhs().getDefiningOp<arith::AndIOp>().getLhs();
  auto bits = wide.getDefiningOp<arith::ExtUIOp>();
  return bits ? bits.getIn() : Value();
}

// Rounds to nearest even. For normal results the bits are rounded and carry into the exponent, up to infinity. For
// subnormal results 0.5 is added, whose unit in the last place is the smallest f16, so that the addition rounds.
Value Code::floatToHalf(Value x) {
  Value bits = intBits(x);
  auto lit = [&](int64_t v) { return integer(bits.getType(), v); };
  auto right = [&](Value value, int64_t by) -> Value { return arith::ShRUIOp::create(b, loc, value, lit(by)); };
  Value size = andI(bits, lit(0x7fffffff));
  Value odd = andI(right(size, 13), lit(1));
  Value normal = right(addI(addI(size, lit(0xfff - (INT64_C(112) << 23))), odd), 13);
  Value small = subI(intBits(add(bitcast(size, b.getF32Type()), 0.5)), lit(0x3f000000));
  Value half = select(compareI(arith::CmpIPredicate::ult, size, lit(0x38800000)), small, normal);
  half = select(compareI(arith::CmpIPredicate::uge, size, lit(0x47800000)), lit(0x7c00), half);
  Value quiet = orI(lit(0x7e00), andI(right(size, 13), lit(0x3ff)));
  half = select(compareI(arith::CmpIPredicate::ugt, size, lit(0x7f800000)), quiet, half);
  return resizeInt(orI(half, right(andI(bits, lit(0x80000000)), 16)), b.getI16Type(), false);
}

// By Knuth.
Value Code::twoSum(Value x, Value y, Value &error) {
  Value sum = add(x, y), added = sub(sum, x);
  error = add(sub(x, sub(sum, added)), sub(y, added));
  return sum;
}

// With one fma, or else from halves of 12 (f64: 26) bits, whose products are exact (Dekker, A floating-point technique
// for extending the available precision, 1971).
Value Code::productError(Value x, Value y, Value product) {
  if (instructions.fma)
    return fma(x, y, neg(product));
  auto halves = [&](Value value, Value &low) {
    Value scaled = mul(value, isDouble(value) ? 0x1p27 + 1 : 4097.0), high = sub(scaled, sub(scaled, value));
    low = sub(value, high);
    return high;
  };
  Value xLow, x1 = halves(x, xLow), yLow, y1 = x == y ? x1 : halves(y, yLow);
  if (x == y)
    yLow = xLow;
  Value cross = add(mul(x1, yLow), mul(xLow, y1));
  return add(add(sub(mul(x1, y1), product), cross), mul(xLow, yLow));
}
Value Code::squareError(Value x, Value square) { return productError(x, x, square); }

// bf16 that were loaded two in a word, as f32; null for others.
Value Code::wideHalves(Value x) {
  auto loaded = x.getDefiningOp<LLVM::LoadOp>();
  if (!instructions.wordHalves || !loaded || !isVector(x) || loaded.getAlignment().value_or(0) % 4 != 0)
    return {};
  const int64_t count = cast<VectorType>(x.getType()).getDimSize(0);
  if (count % 2 != 0)
    return {};
  Type type = VectorType::get({count / 2}, b.getI32Type());
  Value words = LLVM::BitcastOp::create(b, loc, type, x);
  Value even = arith::ShLIOp::create(b, loc, words, integer(type, 16)), odd = andI(words, integer(type, -65536));
  SmallVector<int32_t> order;
  for (int64_t i = 0; i < count; ++i)
    order.push_back(static_cast<int32_t>(i / 2 + i % 2 * (count / 2)));
  return bitcast(LLVM::ShuffleVectorOp::create(b, loc, even, odd, order), b.getF32Type());
}

Value Code::fromMemory(Value x, int32_t dtype) {
  switch (dtype) {
  case MORTISE_F16:
    if (!instructions.half)
      return halfToFloat(x);
    if (element(x).isInteger()) // as asInMemory has it
      x = bitcast(x, b.getF16Type());
    return arith::ExtFOp::create(b, loc, like(x, b.getF32Type()), x);
  case MORTISE_BF16: {
    if (Value halves = wideHalves(x))
      return halves;
    Value wide = resizeInt(x, b.getI32Type(), false);
    return bitcast(arith::ShLIOp::create(b, loc, wide, integer(wide.getType(), 16)), b.getF32Type());
  }
  case MORTISE_I1:
    return compareI(arith::CmpIPredicate::ne, x, integer(x.getType(), 0));
  default:
    return x;
  }
}

// A result of arithmetic that no compiler replaces by an operand, as it may where the other one is a constant.
static bool isComputed(Value x) {
  Operation *op = x.getDefiningOp();
  return isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op) &&
         llvm::none_of(op->getOperands(), [](Value each) { return each.getDefiningOp<arith::ConstantOp>(); });
}

// Rounds to nearest even in integer arithmetic, because the CPU's own instruction flushes subnormals.
Value Code::bf16Bits(Value x) {
  Value bits = intBits(x);
  auto lit = [&](int64_t v) { return integer(bits.getType(), v); };
  // NaN is 0x7fffffff then, and 0x7fff0000 is one that rounding leaves NaN. No other number is between them.
  const bool isNanKnown = instructions.oneNan && isComputed(x);
  if (isNanKnown)
    bits = two<arith::MinSIOp>(bits, lit(0x7fff0000));
  Value odd = andI(arith::ShRUIOp::create(b, loc, bits, lit(16)), lit(1));
  Value rounded = addI(addI(bits, lit(0x7fff)), odd);
  if (!isNanKnown)
    rounded = select(isNan(x), orI(bits, lit(0x400000)), rounded);
  return arith::ShRUIOp::create(b, loc, rounded, lit(16));
}

// Rounds f64 to f32 towards odd, so that the rounding to f16 or bf16 that follows is the only one.
static Value roundToOdd(Code &c, Value x) {
  Value narrow = arith::TruncFOp::create(c.b, c.loc, c.like(x, c.b.getF32Type()), x);
  Value back = arith::ExtFOp::create(c.b, c.loc, x.getType(), narrow);
  Value above = c.compare(arith::CmpFPredicate::OGT, c.abs(back), c.abs(x));
  Value inexact = c.compare(arith::CmpFPredicate::ONE, back, x);
  Value bits = c.intBits(narrow);
  bits = c.subI(bits, c.resizeInt(above, c.b.getI32Type(), false));
  bits = c.orI(bits, c.resizeInt(inexact, c.b.getI32Type(), false));
  return c.bitcast(bits, c.b.getF32Type());
}

// The bits of the f16 or bf16 that a widened value has in memory, as integers; null where it has been computed with.
// Values that are only chosen need no conversion there and back, which would cost time and, on some machines, the
// payload of NaN.
Value Code::asInMemory(Value x, int32_t dtype) {
  if (!element(x).isF32())
    return {};
  Operation *op = x.getDefiningOp();
  const auto isNarrow = [&](Value v) { return v.getType() == like(x, b.getI16Type()); };
  if (auto wide = dyn_cast_or_null<arith::ExtFOp>(op)) {
    if (dtype != MORTISE_F16 || !element(wide.getIn()).isF16())
      return {};
    auto known = wide.getIn().getDefiningOp<arith::BitcastOp>(); // of a changed sign
    return known && isNarrow(known.getIn()) ? known.getIn() : intBits(wide.getIn());
  }
  if (auto number = dyn_cast_or_null<arith::BitcastOp>(op)) { // as fromMemory widens f16 and bf16
    if (dtype == MORTISE_F16)
      return halfBits(number);
    auto shifted = number.getIn().getDefiningOp<arith::ShLIOp>();
    if (auto halves = number.getIn().getDefiningOp<LLVM::ShuffleVectorOp>())
      if (auto even = halves.getV1().getDefiningOp<arith::ShLIOp>())
        if (auto words = even.getLhs().getDefiningOp<LLVM::BitcastOp>(); words && isNarrow(words.getArg()))
          return words.getArg();
    auto wide = shifted ? shifted.getLhs().getDefiningOp<arith::ExtUIOp>() : arith::ExtUIOp();
    return wide && isNarrow(wide.getIn()) ? wide.getIn() : Value();
  }
  if (auto number = dyn_cast_or_null<arith::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(number.getValue());
    auto value = splat ? splat.getSplatValue<FloatAttr>() : dyn_cast<FloatAttr>(number.getValue());
    if (!value)
      return {};
    llvm::APFloat rounded = value.getValue();
    bool lost = false;
    rounded.convert(dtype == MORTISE_F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                    llvm::APFloat::rmNearestTiesToEven, &lost);
    return lost ? Value() : integer(like(x, b.getI16Type()), rounded.bitcastToAPInt().getSExtValue());
  }
  if (auto choice = dyn_cast_or_null<arith::SelectOp>(op)) {
    Value yes = asInMemory(choice.getTrueValue(), dtype);
    Value no = yes ? asInMemory(choice.getFalseValue(), dtype) : Value();
    return no ? Value(arith::SelectOp::create(b, loc, choice.getCondition(), yes, no)) : Value();
  }
  if (auto splat = dyn_cast_or_null<LLVM::ShuffleVectorOp>(op)) {
    auto inserted = splat.getV1().getDefiningOp<LLVM::InsertElementOp>();
    if (!inserted || llvm::any_of(splat.getMask(), [](int32_t lane) { return lane != 0; }))
      return {};
    Value scalar = asInMemory(inserted.getValue(), dtype);
    return scalar ? this->splat(scalar) : Value();
  }
  return {};
}

Value Code::toMemory(Value x, int32_t dtype) {
  if (isNarrowFloat(dtype))
    if (Value same = asInMemory(x, dtype))
      return same;
  if (isNarrowFloat(dtype) && element(x).isF64())
    x = roundToOdd(*this, x);
  switch (dtype) {
  case MORTISE_F16:
    if (!instructions.half)
      return floatToHalf(x);
    return arith::TruncFOp::create(b, loc, like(x, b.getF16Type()), x);
  case MORTISE_BF16:
    if (instructions.brain)
      return bitcast(arith::TruncFOp::create(b, loc, like(x, b.getBF16Type()), x), b.getI16Type());
    return resizeInt(bf16Bits(x), b.getI16Type(), false);
  case MORTISE_I1:
    return resizeInt(x, b.getI8Type(), false);
  default:
    return x;
  }
}

Value Code::roundTo(Value x, int32_t dtype) { return fromMemory(toMemory(x, dtype), dtype); }

Value Code::shuffle(Value x, int64_t start, int64_t count) {
  SmallVector<int32_t> order;
  for (int64_t i = 0; i < count; ++i)
    order.push_back(start + i);
  return LLVM::ShuffleVectorOp::create(b, loc, x, x, order);
}

Value Code::reversed(Value x) {
  SmallVector<int32_t> order;
  for (unsigned i = lanes; i-- > 0;)
    order.push_back(i);
  return LLVM::ShuffleVectorOp::create(b, loc, x, x, order);
}

Value Code::extract(Value x, int64_t position) {
  return LLVM::ExtractElementOp::create(b, loc, x, integer(b.getI32Type(), position));
}

Value Code::any(Value condition) {
  if (!isVector(condition))
    return condition;
  Type asInt = b.getIntegerType(cast<VectorType>(condition.getType()).getDimSize(0));
  Value mask = LLVM::BitcastOp::create(b, loc, asInt, condition);
  return compareI(arith::CmpIPredicate::ne, mask, integer(asInt, 0));
}

Value Code::ifAny(Value condition, llvm::function_ref<Value()> then, Value otherwise) {
  condition = any(condition);
  auto branch = scf::IfOp::create(b, loc, TypeRange(otherwise.getType()), condition, true);
  OpBuilder::InsertionGuard keep(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, loc, then());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, loc, otherwise);
  return branch.getResult(0);
}

SmallVector<Value> Code::repeat(ArrayRef<Value> state, llvm::function_ref<Value(ValueRange)> condition,
                                llvm::function_ref<SmallVector<Value>(ValueRange)> step) {
  SmallVector<Type> types;
  for (Value value : state)
    types.push_back(value.getType());
  OpBuilder::InsertionGuard keep(b); // the bodies leave the builder inside the loop
  auto loop = scf::WhileOp::create(
      b, loc, types, state,
      [&](OpBuilder &, Location, ValueRange current) {
        scf::ConditionOp::create(b, loc, any(condition(current)), current);
      },
      [&](OpBuilder &, Location, ValueRange current) { scf::YieldOp::create(b, loc, step(current)); });
  return SmallVector<Value>(loop.getResults());
}

} // namespace mortise::codegen
