// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/quantisation.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addQuantisationOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/quantisation.cpp.inc>
      >();
}

// The largest finite number of a quantised type.
static double largest(Type element) {
  if (auto type = dyn_cast<FloatType>(element))
    return llvm::APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  auto integer = cast<IntegerType>(element);
  return static_cast<double>((int64_t(1) << (integer.getWidth() - (integer.isUnsigned() ? 0 : 1))) - 1);
}
static bool isQuantised(Type element) {
  if (!element)
    return false;
  return element.isInteger(8) || element.isInteger(4) ||
         (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8);
}
// f64 when one of the types is f64, else f32.
static Type computeType(ArrayRef<Type> elements) {
  Builder builder(elements.front().getContext());
  return llvm::any_of(elements, [](Type type) { return type.isF64(); }) ? Type(builder.getF64Type())
                                                                        : Type(builder.getF32Type());
}

// Checks that scale has the rank of `tensor` and that its extents divide those of `tensor`.
static LogicalResult checkGranularity(StringRef name, Value tensor, Value scale, const Report &report) {
  Dims whole = dimsOf(tensor), parts = dimsOf(scale);
  bool fits = whole.size() == parts.size();
  for (size_t i = 0; fits && i < whole.size(); ++i)
    fits = parts[i] == Dim(1) || parts[i] == whole[i] ||
           (parts[i] != Dim(0) &&
            report.simplified(parts[i] * floorDiv(whole[i], parts[i])) == report.simplified(whole[i]));
  if (fits)
    return success();
  return report("scale " + report.text(parts) + " must have the rank of " + name + " " + report.text(whole) +
                ", and each extent must divide its, for all values of symbols");
}
// `element` is the element type of the quantised tensor.
static LogicalResult checkZeroPoint(Value zeroPoint, Value scale, Type element, const Report &report) {
  if (!zeroPoint)
    return success();
  if (!isa<IntegerType>(element))
    return report("a float type has no zero_point, found one for " + text(element));
  if (failed(checkShape("zero_point", zeroPoint, dimsOf(scale), report)))
    return failure();
  Type found = elementOf(zeroPoint);
  if (found == element || found.isInteger(32))
    return success();
  return report("zero_point must have element type " + text(element) + " or i32, found " + text(found));
}

Inferred QuantizeOp::infer(Adaptor op, const Report &report) {
  Type element = elementNamed(op.getDtype(), op.getDtypeAttr().getContext());
  if (!isQuantised(element))
    return report.at("quantize_c1")("dtype must be i8, ui8, i4, f8E4M3FN or f8E5M2, found \"" + op.getDtype() + "\"");
  if (failed(checkGranularity("x", op.getX(), op.getScale(), report.at("quantize_c2"))) ||
      failed(checkZeroPoint(op.getZeroPoint(), op.getScale(), element, report.at("quantize_c3"))))
    return failure();
  return Shaped{element, dimsOf(op.getX())};
}
Inferred DequantizeOp::infer(Adaptor op, const Report &report) {
  Type element = elementNamed(op.getDtype(), op.getDtypeAttr().getContext());
  if (!element || !isa<FloatType>(element))
    return report.at("dequantize_c1")("dtype must be a float type, found \"" + op.getDtype() + "\"");
  if (failed(checkGranularity("q", op.getQ(), op.getScale(), report.at("dequantize_c2"))) ||
      failed(checkZeroPoint(op.getZeroPoint(), op.getScale(), elementOf(op.getQ()), report.at("dequantize_c3"))))
    return failure();
  return Shaped{element, dimsOf(op.getQ())};
}
Inferred DynamicQuantizeOp::infer(Adaptor op, const Report &report) {
  Type element = elementNamed(op.getDtype(), op.getDtypeAttr().getContext());
  if (!isQuantised(element) || element.isUnsignedInteger())
    return report.at("dynamic_quantize_c1")("dtype must be i8, i4, f8E4M3FN or f8E5M2, found \"" + op.getDtype() +
                                            "\"");
  Dims shape = dimsOf(op.getX()), scale = shape;
  if (shape.empty())
    return report.at("dynamic_quantize_c2")("x must have rank 1 or more, found rank 0");
  scale.back() = 1;
  return {Shaped{element, shape}, Shaped{computeType({elementOf(op.getX())}), scale}};
}
Inferred QuantizedLinearOp::infer(Adaptor op, const Report &report) {
  Dims x = dimsOf(op.getX()), weight = dimsOf(op.getWeight()), scale = dimsOf(op.getScale());
  Type element = elementOf(op.getX());
  bool transposed = op.getWeightTransposed();
  if (x.empty() || weight.size() != 2 || x.back() != weight[transposed ? 0 : 1])
    return report.at("quantized_linear_c1")("x must be [..., K] and weight " +
                                            std::string(transposed ? "[K, N]" : "[N, K]") + ", found " +
                                            report.text(x) + " and " + report.text(weight));
  Dim outer = weight[transposed ? 1 : 0];
  bool fits = scale.empty() || (scale.size() == 1 && scale[0] == outer);
  if (scale.size() == 2) {
    const Dim &groups = scale[transposed ? 0 : 1];
    fits =
        scale[transposed ? 1 : 0] == outer &&
        (groups == x.back() || report.simplified(groups * floorDiv(x.back(), groups)) == report.simplified(x.back()));
  }
  if (!fits)
    return report.at("quantized_linear_c2")("scale must be [], [N] or of rank 2 with N and a divisor of K, found " +
                                            report.text(scale) + " for weight " + report.text(weight));
  if (failed(checkZeroPoint(op.getZeroPoint(), op.getScale(), elementOf(op.getWeight()),
                            report.at("quantized_linear_c3"))))
    return failure();
  if (!elementOf(op.getScale()).isF32() &&
      failed(checkElement("a scale that is not f32", op.getScale(), element, report.at("quantized_linear_c4"))))
    return failure();
  if (Value bias = op.getBias())
    if (failed(checkShape("bias", bias, {outer}, report.at("quantized_linear_c4"))) ||
        failed(checkElement("bias", bias, element, report)))
      return failure();
  x.back() = outer;
  return Shaped{element, x};
}

// ---- Decompositions

// Repeats `part`, whose extents divide `shape`, to `shape`: an extent s that becomes s' is broadcast to [s, s' / s] and
// then reshaped.
static Value repeated(Value part, ArrayRef<Dim> shape, Writer &write) {
  Dims split;
  Axes axes;
  for (auto [have, want] : llvm::zip(dimsOf(part), shape)) {
    axes.push_back(split.size());
    if (have == Dim(1) || have == want) {
      split.push_back(want);
      continue;
    }
    split.push_back(have);
    split.push_back(floorDiv(want, have));
  }
  return write.reshaped(write.spread(part, split, axes), shape);
}

Values QuantizeOp::expand(Writer &write) {
  Type element = getType().getElementType(), compute = computeType({elementOf(getX()), elementOf(getScale())});
  Dims shape = dimsOf(getX());
  Value scale = repeated(write.converted(getScale(), compute), shape, write);
  Value y = write.make<DivOp>(write.converted(getX(), compute), scale);
  if (isa<FloatType>(element)) {
    double end = largest(element);
    return {write.make<MinOp>(write.make<MaxOp>(y, write.fill(-end, y)), write.fill(end, y))};
  }
  y = write.make<RoundOp>(y);
  if (getZeroPoint())
    y = write.make<AddOp>(y, repeated(write.converted(getZeroPoint(), compute), shape, write));
  return {y};
}
Values DequantizeOp::expand(Writer &write) {
  Type compute = computeType({getType().getElementType(), elementOf(getScale())});
  Dims shape = dimsOf(getQ());
  Value q = write.converted(getQ(), compute);
  if (getZeroPoint())
    q = write.make<SubOp>(q, repeated(write.converted(getZeroPoint(), compute), shape, write));
  return {write.make<MulOp>(q, repeated(write.converted(getScale(), compute), shape, write))};
}
Values DynamicQuantizeOp::expand(Writer &write) {
  Value x = write.widened(getX());
  Dims rows = dimsOf(getScale());
  Value top = write.make<ReduceMaxOp>(write.make<AbsOp>(x), ArrayRef<int64_t>(rankOf(x) - 1));
  top = write.reshaped(top, rows);
  top = write.make<MaxOp>(top, write.fill(0, top)); // a row of no elements gives 0, not -inf
  Value zero = write.make<CompareOp>(top, write.fill(0, top), "eq");
  Value scale = write.make<DivOp>(top, write.fill(largest(elementOf(getQ())), top));
  scale = write.make<SelectOp>(zero, write.fill(1, scale), scale);
  return {write.make<QuantizeOp>(x, scale, Value(), getDtype()), scale};
}
Values QuantizedLinearOp::expand(Writer &write) {
  Value x = write.widened(getX()), scale = getScale(), zeroPoint = getZeroPoint();
  Dims shape = dimsOf(scale);
  if (shape.size() < 2) {
    Dim outer = shape.empty() ? Dim(1) : shape[0];
    shape = getWeightTransposed() ? Dims{Dim(1), outer} : Dims{outer, Dim(1)};
    scale = write.reshaped(scale, shape);
    zeroPoint = zeroPoint ? write.reshaped(zeroPoint, shape) : zeroPoint;
  }
  Value weight = write.make<DequantizeOp>(getWeight(), scale, zeroPoint, elementName(elementOf(x)));
  return {write.make<LinearOp>(x, weight, getBias() ? write.widened(getBias()) : Value(), getWeightTransposed())};
}

} // namespace mortise::ir
