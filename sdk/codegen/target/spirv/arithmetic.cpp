// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic, lane by lane. Floats follow IEEE 754 as far as the device promises (VulkanFeatures): nothing is
// contracted, signs and NaN are handled as integers, and what Vulkan leaves loose (fma, frexp) is not used.
#include "target/spirv/translation.hpp"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/IR/Matchers.h>

namespace mortise::codegen {

using namespace mlir;
using P = arith::CmpFPredicate;
using I = arith::CmpIPredicate;

Value Translation::integer(Type type, int64_t value) {
  if (type.isInteger(1))
    return spirv::ConstantOp::create(b, loc, type, b.getBoolAttr(value != 0));
  const unsigned width = type.getIntOrFloatBitWidth();
  return spirv::ConstantOp::create(b, loc, type, IntegerAttr::get(type, llvm::APInt(64, value).trunc(width)));
}

Value Translation::real(Type type, double value) {
  return spirv::ConstantOp::create(b, loc, type, b.getFloatAttr(type, value));
}

// Whether a driver can know the value: all that it is made of are constants.
bool Translation::isFoldable(Value x) {
  Operation *op = x.getDefiningOp();
  if (!op)
    return false;
  if (isa<spirv::ConstantOp>(op))
    return true;
  if (op->getNumOperands() == 0 || op->getNumRegions() > 0)
    return false;
  if (const auto known = foldable.find(x); known != foldable.end())
    return known->second;
  const bool all = llvm::all_of(op->getOperands(), [&](Value each) { return isFoldable(each); });
  foldable[x] = all;
  return all;
}

// Mesa's llvmpipe takes x * 0 for 0, x + 0 for x, and divides 0 by anything to 0, whatever decorations say
// (lp_build_mul, lp_build_add and lp_build_div in src/gallium/auxiliary/gallivm/lp_bld_arit.c): a 0 that it does not
// see stays in. The sign bit of an address is 0.
Value Translation::hiddenZero(Type type) {
  Value &known = zeros[type];
  if (!known) {
    OpBuilder::InsertionGuard keep(b);
    b.setInsertionPointAfterValue(firstArgument);
    known = two<spirv::ShiftRightLogicalOp>(firstArgument, integer(b.getI64Type(), 63));
    known = convert<spirv::UConvertOp>(known, b.getIntegerType(type.getIntOrFloatBitWidth()));
    known = convert<spirv::BitcastOp>(known, type);
  }
  return known;
}

// What a driver could find to be 0: a 0 itself wherever it goes (number()), and here what is computed from constants.
Value Translation::hidden(Value x) {
  if (x.getDefiningOp<spirv::ConstantOp>() || !isFoldable(x))
    return x;
  Value bits = bitsOf(x);
  bits = two<spirv::BitwiseOrOp>(bits, hiddenZero(bits.getType()));
  return spirv::BitcastOp::create(b, loc, x.getType(), bits);
}

// Not to be fused or reassociated with its neighbours.
template <typename OpT> Value Translation::real(Value x, Value y) {
  if constexpr (std::is_same_v<OpT, spirv::FSubOp>) // llvmpipe takes x - x for 0, also where it is NaN (lp_build_sub)
    if (x == y)
      return real<spirv::FAddOp>(
          x, copySign(y, spirv::BitcastOp::create(b, loc, y.getType(), spirv::NotOp::create(b, loc, bitsOf(y)))));
  auto op = OpT::create(b, loc, x.getType(), hidden(x), hidden(y));
  op->setAttr("no_contraction", b.getUnitAttr());
  return op;
}

Value Translation::cast(Value x, Type to) { return convert<spirv::UConvertOp>(x, to); }

Value Translation::select(Value condition, Value x, Value y) {
  return x == y ? x : Value(spirv::SelectOp::create(b, loc, x.getType(), condition, x, y));
}

Value Translation::bitsOf(Value x) {
  return spirv::BitcastOp::create(b, loc, b.getIntegerType(x.getType().getIntOrFloatBitWidth()), x);
}

// Where a driver's quotients are loose those of f32 are taken in f64: no quotient or root of numbers with 24 bits lies
// nearer than 2^-50 of itself to the middle of two such numbers, other than on it. f64 has nothing wider: where its own
// are loose it is refused.
bool Translation::isExactThroughF64(Type type) {
  if (features.exactQuotients || (type.isF64() && features.exactFunctions))
    return false;
  if (type.isF64() || !features.doubles)
    refuse("expected a driver whose division and square roots are known to be exact, found none; use f32, on a device "
           "with shaderFloat64");
  return true;
}

Value Translation::quotient(Value x, Value y) {
  const Type type = x.getType();
  if (!isExactThroughF64(type))
    return real<spirv::FDivOp>(x, y);
  const Type wide = scalar(b.getF64Type());
  return resized(real<spirv::FDivOp>(resized(x, wide), resized(y, wide)), type);
}

Value Translation::root(Value x) {
  const Type type = x.getType();
  if (!isExactThroughF64(type))
    return spirv::GLSqrtOp::create(b, loc, type, x);
  const Type wide = scalar(b.getF64Type());
  return resized(spirv::GLSqrtOp::create(b, loc, wide, resized(x, wide)), type);
}

Value Translation::copySign(Value size, Value sign) {
  Value bits = bitsOf(size), other = bitsOf(sign);
  const Type type = bits.getType();
  Value all = two<spirv::BitwiseOrOp>(two<spirv::BitwiseAndOp>(bits, integer(type, ~signBit(type))),
                                      two<spirv::BitwiseAndOp>(other, integer(type, signBit(type))));
  return spirv::BitcastOp::create(b, loc, size.getType(), all);
}

Value Translation::negated(Value x) {
  Value bits = bitsOf(x);
  bits = two<spirv::BitwiseXorOp>(bits, integer(bits.getType(), signBit(bits.getType())));
  return spirv::BitcastOp::create(b, loc, x.getType(), bits);
}

// Between f32 and f64. Where conversions take subnormal numbers for 0, those are whole numbers times 2^-149.
Value Translation::resized(Value x, Type to) {
  const Type from = x.getType();
  Value converted = convert<spirv::FConvertOp>(x, to);
  if (!features.flushesSubnormals || from == to)
    return converted;
  Value small, isSmall;
  if (to.isF64()) {
    const Type i32 = b.getI32Type();
    Value size = two<spirv::BitwiseAndOp>(bitsOf(x), integer(i32, INT32_MAX));
    small = real<spirv::FMulOp>(convert<spirv::ConvertSToFOp>(size, to), real(to, 0x1p-149));
    small = copySign(small, convert<spirv::FConvertOp>(copySign(real(from, 1.0), x), to));
    isSmall = compare<spirv::ULessThanOp>(size, integer(i32, 0x00800000));
  } else {
    Value size = copySign(x, real(from, 0.0)), scaled = real<spirv::FMulOp>(size, real(from, 0x1p149));
    Value isBelow = compare<spirv::FOrdLessThanOp>(size, real(from, 0x1p-126));
    scaled = roundedToEven(select(isBelow, scaled, real(from, 0.0)));
    Value bits = convert<spirv::ConvertFToSOp>(scaled, b.getI32Type());
    small = copySign(convert<spirv::BitcastOp>(bits, to), converted);
    isSmall = isBelow;
  }
  return select(isSmall, small, converted);
}

// MLIR's dialect has no GL.Trunc.
Value Translation::truncated(Value x) {
  Value bits = bitsOf(x);
  Value size = two<spirv::BitwiseAndOp>(bits, integer(bits.getType(), ~signBit(bits.getType())));
  Value down = spirv::GLFloorOp::create(b, loc, x.getType(), spirv::BitcastOp::create(b, loc, x.getType(), size));
  return copySign(down, x);
}

// llvmpipe rounds f64 towards 0, and loses the sign of 0, where the processor has no AVX-512 (lp_build_round).
Value Translation::roundedToEven(Value x) {
  const Type type = x.getType();
  if (!type.isF64())
    return spirv::GLRoundEvenOp::create(b, loc, type, x);
  const double large = 0x1p52; // from here on every number is whole
  Value size = copySign(x, real(type, 0.0)), limit = real(type, large);
  Value whole = real<spirv::FSubOp>(real<spirv::FAddOp>(size, limit), limit);
  return select(compare<spirv::FOrdLessThanOp>(size, limit), copySign(whole, x), x);
}

// The upper half of the product, by halves, whose products fit: drivers differ in what they make of UMulExtended of 64
// bits.
Value Translation::highProduct(Value x, Value y) {
  const Type wide = b.getI64Type();
  if (!x.getType().isInteger(64)) {
    Value product = two<spirv::IMulOp>(cast(x, wide), cast(y, wide));
    Value high = two<spirv::ShiftRightLogicalOp>(product, integer(wide, x.getType().getIntOrFloatBitWidth()));
    return cast(high, x.getType());
  }
  Value half = integer(wide, 32), mask = integer(wide, 0xffffffff);
  const auto low = [&](Value v) { return two<spirv::BitwiseAndOp>(v, mask); };
  const auto high = [&](Value v) { return two<spirv::ShiftRightLogicalOp>(v, half); };
  Value lows = two<spirv::IMulOp>(low(x), low(y));
  Value first = two<spirv::IAddOp>(two<spirv::IMulOp>(high(x), low(y)), high(lows));
  Value second = two<spirv::IAddOp>(two<spirv::IMulOp>(low(x), high(y)), low(first));
  Value highs = two<spirv::IMulOp>(high(x), high(y));
  return two<spirv::IAddOp>(two<spirv::IAddOp>(highs, high(first)), high(second));
}

void Translation::number(arith::ConstantOp op) {
  const Type type = scalar(op.getType());
  const auto one = [&](Attribute value) -> Value {
    if (auto number = dyn_cast<FloatAttr>(value))
      return number.getValue().isPosZero() ? hiddenZero(type) : Value(spirv::ConstantOp::create(b, loc, type, number));
    const llvm::APInt bits = llvm::cast<IntegerAttr>(value).getValue();
    return integer(type, bits.getBitWidth() == 1 ? bits.getZExtValue() : bits.getSExtValue());
  };
  Parts parts;
  if (auto elements = dyn_cast<DenseElementsAttr>(op.getValue()))
    for (Attribute each : elements.getValues<Attribute>())
      parts.push_back(one(each));
  else
    parts.push_back(one(op.getValue()));
  values[op] = std::move(parts);
}

// Each lane of the result from the same lane of the operands.
void Translation::map(Operation &op, llvm::function_ref<Value(ArrayRef<Value>)> make) {
  const size_t lanes = lanesOf(op.getResult(0).getType());
  Parts results;
  for (size_t i = 0; i < lanes; ++i) {
    SmallVector<Value, 3> operands;
    for (Value operand : op.getOperands()) {
      const Parts &parts = values[operand];
      operands.push_back(parts[parts.size() == 1 ? 0 : i]);
    }
    results.push_back(make(operands));
  }
  values[op.getResult(0)] = std::move(results);
}

template <typename OpT> static bool isRough(OpT op) {
  return bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn);
}

// Whether a selection by it is a maximum or minimum, of which NVIDIA's compiler makes one instruction that makes 0 of
// subnormal numbers.
static bool selectsOperands(arith::CmpFOp op) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    auto select = dyn_cast<arith::SelectOp>(user);
    return select && (select.getTrueValue() == op.getLhs() || select.getFalseValue() == op.getLhs());
  });
}

bool Translation::arithmetic(Operation &op) {
  bool known = true;
  const auto map = [&](auto make) { this->map(op, [&](ArrayRef<Value> x) -> Value { return make(x); }); };
  const auto choose = [&](auto compares) {
    map([&](ArrayRef<Value> x) { return select(compares(x[0], x[1]), x[0], x[1]); });
  };
  // Of booleans: addition, subtraction and exclusive or are one thing.
  const auto bits = [&](auto ofBooleans, auto ofIntegers) {
    map([&](ArrayRef<Value> x) {
      return x[0].getType().isInteger(1) ? ofBooleans(x[0], x[1]) : ofIntegers(x[0], x[1]);
    });
  };
  const auto differ = [&](Value x, Value y) { return two<spirv::LogicalNotEqualOp>(x, y); };
  const auto both = [&](Value x, Value y) { return two<spirv::LogicalAndOp>(x, y); };
  const auto any = [&](Value x, Value y) { return two<spirv::LogicalOrOp>(x, y); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](arith::ConstantOp constant) { number(constant); })
      .Case([&](arith::AddFOp) { map([&](auto x) { return real<spirv::FAddOp>(x[0], x[1]); }); })
      .Case([&](arith::SubFOp) { map([&](auto x) { return real<spirv::FSubOp>(x[0], x[1]); }); })
      .Case([&](arith::MulFOp) { map([&](auto x) { return real<spirv::FMulOp>(x[0], x[1]); }); })
      .Case([&](arith::DivFOp) { map([&](auto x) { return quotient(x[0], x[1]); }); })
      .Case(
          [&](arith::MaximumFOp maximum) { map([&](auto x) { return extreme(x[0], x[1], true, isRough(maximum)); }); })
      .Case(
          [&](arith::MinimumFOp minimum) { map([&](auto x) { return extreme(x[0], x[1], false, isRough(minimum)); }); })
      .Case([&](arith::CmpFOp compares) {
        map([&](auto x) {
          const bool isDecided = isNormalConstant(x[1]) && !selectsOperands(compares);
          return compareFloats(compares.getPredicate(), x[0], x[1], isRough(compares) || isDecided);
        });
      })
      .Case([&](arith::CmpIOp compares) {
        map([&](auto x) { return compareIntegers(compares.getPredicate(), x[0], x[1]); });
      })
      .Case([&](arith::SelectOp) { map([&](auto x) { return select(x[0], x[1], x[2]); }); })
      .Case([&](arith::AddIOp) { bits(differ, [&](Value x, Value y) { return two<spirv::IAddOp>(x, y); }); })
      .Case([&](arith::SubIOp) { bits(differ, [&](Value x, Value y) { return two<spirv::ISubOp>(x, y); }); })
      .Case([&](arith::MulIOp) { bits(both, [&](Value x, Value y) { return two<spirv::IMulOp>(x, y); }); })
      .Case([&](arith::AndIOp) { bits(both, [&](Value x, Value y) { return two<spirv::BitwiseAndOp>(x, y); }); })
      .Case([&](arith::OrIOp) { bits(any, [&](Value x, Value y) { return two<spirv::BitwiseOrOp>(x, y); }); })
      .Case([&](arith::XOrIOp) { bits(differ, [&](Value x, Value y) { return two<spirv::BitwiseXorOp>(x, y); }); })
      .Case([&](arith::ShLIOp) {
        map([&](auto x) {
          llvm::APInt amount;
          auto wide = x[0].template getDefiningOp<spirv::UConvertOp>();
          if (wide && wide.getOperand().getType().isInteger(16) && wide.getType().isInteger(32) &&
              matchPattern(x[1], m_ConstantInt(&amount)) && amount == 16)
            return halfOfWord(wide.getOperand(), true);
          return two<spirv::ShiftLeftLogicalOp>(x[0], x[1]);
        });
      })
      .Case([&](arith::ShRUIOp) { map([&](auto x) { return two<spirv::ShiftRightLogicalOp>(x[0], x[1]); }); })
      .Case([&](arith::ShRSIOp) { map([&](auto x) { return two<spirv::ShiftRightArithmeticOp>(x[0], x[1]); }); })
      .Case([&](arith::DivUIOp) { map([&](auto x) { return two<spirv::UDivOp>(x[0], x[1]); }); })
      .Case([&](arith::DivSIOp) { map([&](auto x) { return two<spirv::SDivOp>(x[0], x[1]); }); })
      .Case([&](arith::RemUIOp) { map([&](auto x) { return two<spirv::UModOp>(x[0], x[1]); }); })
      .Case([&](arith::RemSIOp) { // SRem of a negative number is undefined in Vulkan
        map([&](auto x) {
          Value quotient = two<spirv::SDivOp>(x[0], x[1]);
          return two<spirv::ISubOp>(x[0], two<spirv::IMulOp>(quotient, x[1]));
        });
      })
      .Case([&](arith::MaxSIOp) { choose([&](Value x, Value y) { return compareIntegers(I::sgt, x, y); }); })
      .Case([&](arith::MinSIOp) {
        map([&](auto x) {
          return x[0].getType().isInteger(32) ? two<spirv::GLSMinOp>(x[0], x[1])
                                              : select(compareIntegers(I::slt, x[0], x[1]), x[0], x[1]);
        });
      })
      .Case([&](arith::MaxUIOp) { choose([&](Value x, Value y) { return compareIntegers(I::ugt, x, y); }); })
      .Case([&](arith::MinUIOp) { choose([&](Value x, Value y) { return compareIntegers(I::ult, x, y); }); })
      .Case([&](arith::MulUIExtendedOp product) {
        Parts low, high;
        for (auto [x, y] : llvm::zip(Parts(values[product.getLhs()]), Parts(values[product.getRhs()]))) {
          low.push_back(two<spirv::IMulOp>(x, y));
          high.push_back(highProduct(x, y));
        }
        values[product.getLow()] = low, values[product.getHigh()] = high;
      })
      .Case([&](arith::MaxNumFOp op) {
        map([&](auto x) { return isRough(op) ? two<spirv::GLFMaxOp>(x[0], x[1]) : betterOf(x[0], x[1], P::OGT); });
      })
      .Case([&](arith::MinNumFOp op) {
        map([&](auto x) { return isRough(op) ? two<spirv::GLFMinOp>(x[0], x[1]) : betterOf(x[0], x[1], P::OLT); });
      })
      .Case([&](arith::NegFOp negation) {
        const bool rough = isRough(negation);
        map([&](auto x) {
          return rough ? spirv::FNegateOp::create(b, loc, x[0].getType(), x[0]).getResult() : negated(x[0]);
        });
      })
      .Case([&](math::FmaOp) {
        map([&](auto x) {
          return spirv::GLFmaOp::create(b, loc, x[0].getType(), hidden(x[0]), hidden(x[1]), hidden(x[2])).getResult();
        });
      })
      .Case([&](math::AbsFOp size) {
        const bool rough = isRough(size);
        map([&](auto x) {
          return rough ? spirv::GLFAbsOp::create(b, loc, x[0].getType(), x[0]).getResult()
                       : copySign(x[0], real(x[0].getType(), 0.0));
        });
      })
      .Case([&](math::CopySignOp) { map([&](auto x) { return copySign(x[0], x[1]); }); })
      .Case([&](math::SqrtOp) { map([&](auto x) { return root(x[0]); }); })
      .Case([&](math::FloorOp) {
        map([&](auto x) { return spirv::GLFloorOp::create(b, loc, x[0].getType(), x[0]).getResult(); });
      })
      .Case([&](math::CeilOp) {
        map([&](auto x) { return spirv::GLCeilOp::create(b, loc, x[0].getType(), x[0]).getResult(); });
      })
      .Case([&](math::RoundEvenOp) { map([&](auto x) { return roundedToEven(x[0]); }); })
      .Case([&](math::TruncOp) { map([&](auto x) { return truncated(x[0]); }); })
      .Default([&](Operation *) { known = false; });
  return known;
}

bool Translation::conversion(Operation &op) {
  if (op.getNumResults() != 1)
    return false;
  bool known = true;
  const auto pointless = isa<LLVM::LLVMPointerType>(op.getResult(0).getType());
  if (pointless)
    return false;
  const Type to =
      isa<IntegerType, FloatType, VectorType>(op.getResult(0).getType()) ? scalar(op.getResult(0).getType()) : Type();
  if (!to)
    return false;
  const auto map = [&](auto make) { this->map(op, [&](ArrayRef<Value> x) -> Value { return make(x[0]); }); };
  const auto fromBoolean = [&](Value x, auto yes, auto otherwise) {
    return x.getType().isInteger(1) ? select(x, yes(), otherwise(0)) : Value();
  };
  const auto number = [&](int64_t value) { return integer(to, value); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { map([&](Value x) { return resized(x, to); }); })
      .Case([&](arith::ExtUIOp) {
        map([&](Value x) {
          Value chosen = fromBoolean(x, [&] { return number(1); }, number);
          return chosen ? chosen : cast(x, to);
        });
      })
      .Case([&](arith::ExtSIOp) {
        map([&](Value x) {
          Value chosen = fromBoolean(x, [&] { return number(-1); }, number);
          return chosen ? chosen : convert<spirv::SConvertOp>(x, to);
        });
      })
      .Case([&](arith::TruncIOp) {
        map([&](Value x) {
          if (!to.isInteger(1))
            return cast(x, to);
          Value low = two<spirv::BitwiseAndOp>(x, integer(x.getType(), 1));
          return compare<spirv::INotEqualOp>(low, integer(x.getType(), 0));
        });
      })
      .Case([&](arith::FPToSIOp) { map([&](Value x) { return convert<spirv::ConvertFToSOp>(x, to); }); })
      .Case([&](arith::FPToUIOp) { map([&](Value x) { return convert<spirv::ConvertFToUOp>(x, to); }); })
      .Case([&](arith::SIToFPOp) {
        map([&](Value x) {
          Value chosen = fromBoolean(x, [&] { return real(to, -1.0); }, [&](int) { return real(to, 0.0); });
          return chosen ? chosen : convert<spirv::ConvertSToFOp>(x, to);
        });
      })
      .Case([&](arith::UIToFPOp) {
        map([&](Value x) {
          Value chosen = fromBoolean(x, [&] { return real(to, 1.0); }, [&](int) { return real(to, 0.0); });
          return chosen ? chosen : convert<spirv::ConvertUToFOp>(x, to);
        });
      })
      .Case([&](arith::BitcastOp) { map([&](Value x) { return convert<spirv::BitcastOp>(x, to); }); })
      .Case([&](LLVM::BitcastOp mask) {
        // A mask as an integer, which is only compared with 0.
        const Parts lanes = values[mask.getArg()];
        if (!lanes[0].getType().isInteger(1))
          return fail("a cast of a vector");
        Value any = lanes[0];
        for (Value each : llvm::drop_begin(lanes))
          any = two<spirv::LogicalOrOp>(any, each);
        values[mask] = {select(any, number(1), number(0))};
      })
      .Default([&](Operation *) { known = false; });
  return known;
}

// Vectors taken apart and made, which costs nothing here, and comparisons of addresses.
bool Translation::shape(Operation &op) {
  bool known = true;
  const auto numberOf = [&](Value position) -> size_t {
    llvm::APInt number;
    if (matchPattern(position, m_ConstantInt(&number)))
      return number.getZExtValue();
    fail("the number of a lane is not constant");
    return 0;
  };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](LLVM::PoisonOp none) {
        const Type type = scalar(none.getType());
        Value zero = isa<FloatType>(type) ? real(type, 0.0) : integer(type, 0);
        values[none] = Parts(lanesOf(none.getType()), zero);
      })
      .Case([&](LLVM::InsertElementOp insert) {
        Parts parts = values[insert.getVector()];
        parts[numberOf(insert.getPosition())] = values[insert.getValue()][0];
        values[insert] = std::move(parts);
      })
      .Case([&](LLVM::ExtractElementOp extract) {
        values[extract] = {Value(values[extract.getVector()][numberOf(extract.getPosition())])};
      })
      .Case([&](LLVM::ShuffleVectorOp shuffle) {
        Parts all = values[shuffle.getV1()], chosen;
        all.append(values[shuffle.getV2()]);
        for (const int32_t number : shuffle.getMask())
          chosen.push_back(all[number < 0 ? 0 : number]);
        values[shuffle] = std::move(chosen);
      })
      .Case([&](LLVM::ICmpOp compares) {
        const Value x = addresses[compares.getLhs()].places[0], y = addresses[compares.getRhs()].places[0];
        if (compares.getPredicate() != LLVM::ICmpPredicate::ne)
          return fail("an order of addresses");
        values[compares] = {compare<spirv::INotEqualOp>(x, y)};
      })
      .Default([&](Operation *) { known = false; });
  return known;
}

} // namespace mortise::codegen
