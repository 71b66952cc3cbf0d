// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits arithmetic on scalars and on vectors of `lanes` elements. When one operand is a vector and the other a scalar,
// the scalar is splat. Floats are f32 or f64 in registers: f16 and bf16 are widened when loaded and rounded when
// stored.
#pragma once

#include <mortise/graph.hpp>

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinOps.h>

#include <array>

namespace mortise::codegen {

using mlir::Type;
using mlir::Value;

class Code;

// Approximate instructions of a machine, on one f32.
class Approximations {
public:
  virtual ~Approximations() = default;
  // 2^x within 2^-22.7 of it and 2.05 ULP, as measured for all f32 on an H200. `subnormals`: results may not be 0
  // instead.
  virtual Value exp2(Code &c, Value x, bool subnormals) const = 0;
  // 1 / x for x > 0 within 1 ULP, 0 where that is subnormal; for machines without Instructions::fma within 2.5 ULP, for
  // x from 2^-60 to 2^60, and 0 or infinity beyond. By default 1 / sqrt(x^2).
  virtual Value reciprocal(Code &c, Value x) const;
  // 1 / sqrt(x) within 2 ULP, for normal x. For machines without Instructions::fma.
  virtual Value reciprocalRoot(Code &c, Value x) const;
  // x * y + z, rounded once; 0 where that is subnormal. For machines without Instructions::fma.
  virtual Value flushingFma(Code &c, Value x, Value y, Value z) const;
};

// What the target has as instructions. Without `fma` and `half` LLVM would call library functions that are not linked.
struct Instructions {
  bool fma = true;             // x * y + z, rounded once
  bool half = true;            // conversions between f16 and f32
  bool narrowIntegers = false; // integers of 32 bits cost less than those of 64, divisions much less
  bool brain = false;          // conversion of f32 to bf16, subnormals included
  bool wordHalves = false;     // the upper half of a loaded word is masked by one, shifted down and up by two
  bool oneNan = false;         // every NaN that arithmetic of f32 makes is 0x7fffffff
  bool keepNan = true;         // neg and conversions keep the payload of NaN
  bool subnormals = true;      // arithmetic of f32 takes and makes them
  const Approximations *approximations = nullptr;
};

struct Fit; // coefficients.hpp

class Code {
public:
  Code(mlir::OpBuilder &builder, mlir::Location loc, unsigned lanes, const Instructions &instructions)
      : b(builder), loc(loc), lanes(lanes), instructions(instructions) {}

  // Types.
  Type registerType(int32_t dtype);
  Type memoryType(int32_t dtype);
  static bool isVector(Value value) { return llvm::isa<mlir::VectorType>(value.getType()); }
  static Type element(Value value) { return mlir::getElementTypeOrSelf(value.getType()); }
  Type like(Value shape, Type element); // a vector of `element` as wide as `shape`, or the scalar
  Type vectorOf(Type element) { return mlir::VectorType::get({static_cast<int64_t>(lanes)}, element); }

  // Constants; `constant` matches the type, scalar or vector.
  Value constant(Type type, double value);
  Value integer(Type type, int64_t value);
  Value i64(int64_t value) { return integer(b.getI64Type(), value); }
  Value bits(Value likeFloat, uint64_t pattern); // of the integer type as wide as the float
  Value truth(bool value) { return integer(b.getI1Type(), value); }
  Value steps(Type element, int64_t step); // the vector 0, step, 2 * step, ...
  Value splat(Value scalar);

  template <typename OpT> Value two(Value x, Value y) {
    match(x, y);
    return OpT::create(b, loc, x, y);
  }
  template <typename OpT> Value one(Value x) { return OpT::create(b, loc, x); }
  void match(Value &x, Value &y);

  // Floats.
  Value add(Value x, Value y) { return two<mlir::arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return two<mlir::arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return two<mlir::arith::MulFOp>(x, y); }
  Value div(Value x, Value y);
  Value add(Value x, double y) { return add(x, constant(x.getType(), y)); }
  Value mul(Value x, double y) { return mul(x, constant(x.getType(), y)); }
  Value fma(Value x, Value y, Value z); // rounded twice where the target has no such instruction
  Value fma(Value x, Value y, double z) { return fma(x, y, constant(x.getType(), z)); }
  Value normalFma(Value x, Value y, Value z); // the same, but what would be subnormal may be 0
  Value normalFma(Value x, Value y, double z) { return normalFma(x, y, constant(x.getType(), z)); }
  Value abs(Value x) { return one<mlir::math::AbsFOp>(x); }
  Value neg(Value x);
  Value sqrt(Value x);
  // Parts of the next instruction, for numbers whose NaN may change its sign and payload.
  Value roughNeg(Value x) { return mlir::arith::NegFOp::create(b, loc, x, mlir::arith::FastMathFlags::afn); }
  Value roughAbs(Value x) { return mlir::math::AbsFOp::create(b, loc, x, mlir::arith::FastMathFlags::afn); }
  Value copySign(Value size, Value sign) { return two<mlir::math::CopySignOp>(size, sign); }
  Value compare(mlir::arith::CmpFPredicate predicate, Value x, Value y);
  Value compare(mlir::arith::CmpFPredicate predicate, Value x, double y) {
    return compare(predicate, x, constant(x.getType(), y));
  }
  // The same, but subnormal operands may count as 0, and be 0 in what is selected by the result.
  Value roughCompare(mlir::arith::CmpFPredicate predicate, Value x, Value y);
  Value roughMaximum(Value x, Value y); // may drop NaN, and take subnormal numbers for 0
  Value isNan(Value x) { return compare(mlir::arith::CmpFPredicate::UNO, x, x); }
  // Coefficients from the highest power down.
  Value polynomial(Value x, llvm::ArrayRef<double> coefficients);

  // Integers.
  Value addI(Value x, Value y) { return two<mlir::arith::AddIOp>(x, y); }
  Value subI(Value x, Value y) { return two<mlir::arith::SubIOp>(x, y); }
  Value mulI(Value x, Value y) { return two<mlir::arith::MulIOp>(x, y); }
  Value andI(Value x, Value y) { return two<mlir::arith::AndIOp>(x, y); }
  Value orI(Value x, Value y) { return two<mlir::arith::OrIOp>(x, y); }
  Value compareI(mlir::arith::CmpIPredicate predicate, Value x, Value y);
  Value select(Value condition, Value x, Value y);
  Value notI(Value x) { return two<mlir::arith::XOrIOp>(x, integer(x.getType(), -1)); }

  // Between representations.
  Value bitcast(Value x, Type element);
  Value intBits(Value x) { return bitcast(x, b.getIntegerType(element(x).getIntOrFloatBitWidth())); }
  Value fromMemory(Value x, int32_t dtype);
  Value toMemory(Value x, int32_t dtype);
  Value roundTo(Value x, int32_t dtype); // to f16 or bf16 and back
  Value resizeInt(Value x, Type element, bool isSigned);

  // Sums and products of floats whose rounding errors count: `error` is that of the sum, exactly, and productError
  // returns x * y - product, exactly (f64, or f32 where the target has fma).
  Value twoSum(Value x, Value y, Value &error);
  Value productError(Value x, Value y, Value product);
  static bool isDouble(Value x) { return element(x).isF64(); }
  // Keep NaN. Rough: subnormal numbers may become 0.
  enum class Clamp : uint8_t { Exact, Rough };
  Value atMost(Value x, double bound, Clamp clamp = Clamp::Exact);
  Value atLeast(Value x, double bound, Clamp clamp = Clamp::Exact);

  // Elementary functions of f32 and f64, all inline: math.cpp,
  enum class Sign : uint8_t { Any, NonPositive }; // of what is not NaN
  Value exp(Value x, Sign sign = Sign::Any);
  Value exp2(Value x, Value rest = {}); // of x + rest
  Value expm1(Value x);
  Value log(Value x);
  Value log1p(Value x);
  Value log2(Value x, const Fit *series = nullptr);
  Value log10(Value x);
  Value sinh(Value x);
  Value cosh(Value x);
  Value tanh(Value x);
  Value asinh(Value x);
  Value acosh(Value x);
  Value atanh(Value x);
  Value erf(Value x);
  Value erfc(Value x);
  Value logistic(Value x);
  Value gelu(Value x);
  Value rsqrt(Value x);
  // circular.cpp,
  enum class Circular { Sine, Cosine, Tangent };
  Value circular(Value x, Circular function);
  Value asin(Value x);
  Value acos(Value x);
  Value atan(Value x);
  Value atan2(Value y, Value x);
  // and power.cpp.
  Value pow(Value x, Value y);
  Value intPower(Value x, Value y, bool isSigned);
  Value remainder(Value x, Value y); // as C's fmod

  // Parts of them.
  Value polynomial(Value x, const Fit &fit);
  Value expParts(Value x, Value &n);
  Value scaleByPowerOf2(Value x, Value n);
  Value tailProbability(Value a, Value square, Value lost, Value factor, bool isExact = false);
  Value squareError(Value x, Value square);

  Value any(Value condition); // in any lane
  Value ifAny(Value condition, llvm::function_ref<Value()> then, Value otherwise);
  // Replaces the state by `step` of it while `condition` of it holds in any lane.
  llvm::SmallVector<Value> repeat(llvm::ArrayRef<Value> state, llvm::function_ref<Value(mlir::ValueRange)> condition,
                                  llvm::function_ref<llvm::SmallVector<Value>(mlir::ValueRange)> step);

  // The words of Philox's block with this counter (ir/families/random.td), i32 each; key and counter are i64.
  // random.cpp.
  std::array<Value, 4> philox(Value key, Value counter);

  Value shuffle(Value x, int64_t start, int64_t count); // elements start, start + 1, ...
  Value reversed(Value x);
  Value extract(Value x, int64_t position);

  mlir::OpBuilder &b;
  mlir::Location loc;
  unsigned lanes;
  const Instructions instructions;
  bool isNarrow = false; // all that is stored is rounded to f16 or bf16: functions may approximate (approximate.cpp)

private:
  bool hasFlushingFma(Value x) const { return !instructions.fma && instructions.approximations && element(x).isF32(); }
  bool approximates(Value x) const { return isNarrow && instructions.approximations && element(x).isF32(); }
  Value eachLane(llvm::ArrayRef<Value> operands, llvm::function_ref<Value(llvm::ArrayRef<Value>)> function);
  Value approximateExp2(Value x, bool subnormals);
  Value approximateReciprocal(Value x);
  Value refinedReciprocal(Value x);
  Value approximateRsqrt(Value x); // of normal x
  Value approximateExp(Value x);
  Value liftedDecay(Value x);
  Value approximateDecay(Value x);
  Value logisticOf(Value x, Value e, double scale = 1);
  Value approximateLogistic(Value x);
  Value approximateGelu(Value x);
  Value asInMemory(Value x, int32_t dtype);
  Value wideHalves(Value x);
  Value bf16Bits(Value x);
  Value halfToFloat(Value bits);
  Value floatToHalf(Value x);
  Value powerOf2(Value n, Value like);
  Value expReduced(Value x, Value &n);
  Value exp2Parts(Value x, Value rest, const Fit &tail, Value &n);
  Value logReduced(Value x, Value &e);
  Value logRest(Value f, Value square, const Fit *series = nullptr);
  Value logSpecial(Value x, Value result);
  Value log2Parts(Value x, Value &low);
  Value turns(Value x, Value &quadrant);
  Value wideTurns(Value x, Value &low, Value &quadrant);
  Value circularReduced(Value reduced, Value low, Value quadrant, Circular function);
  Value arcSineParts(Value x, Value &rest, Value &far);
  Value arcTangent(Value y, Value x);
};

} // namespace mortise::codegen
