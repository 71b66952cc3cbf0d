// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#include <llvm/ADT/StringExtras.h>

#include <cmath>

#define GET_OP_CLASSES
#include <mortise/ir/random.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addRandomOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/random.cpp.inc>
      >();
}

static LogicalResult checkState(Value key, Value offset, const Report &report) {
  report.at("random_c1");
  return success(succeeded(checkShape("key", key, {}, report)) && succeeded(checkShape("offset", offset, {}, report)));
}

// The type given by `shape` and `dtype`; `names` are the permitted dtypes.
static Inferred drawn(DimsAttr shape, StringRef dtype, ArrayRef<StringRef> names, const Report &report) {
  if (!llvm::is_contained(names, dtype))
    return report.at("random_c2")("dtype \"" + dtype + "\" must be one of " + llvm::join(names, ", "));
  if (failed(report.unite(shape)))
    return failure();
  Dims dims(shape.getDims());
  for (const Dim &dim : dims)
    if (!report.isAtLeast(dim, 0))
      return report.at("random_c3")("shape " + report.text(dims) + " must be at least 0 in every entry");
  return Shaped{elementNamed(dtype, shape.getContext()), dims};
}

Inferred RandomBitsOp::infer(Adaptor op, const Report &report) {
  if (failed(checkState(op.getKey(), op.getOffset(), report)))
    return failure();
  return drawn(op.getShapeAttr(), op.getDtype(), {"i64", "i32", "i16", "i8", "ui8"}, report);
}
Inferred UniformOp::infer(Adaptor op, const Report &report) {
  if (failed(checkState(op.getKey(), op.getOffset(), report)))
    return failure();
  return drawn(op.getShapeAttr(), op.getDtype(), {"f64", "f32", "f16", "bf16"}, report);
}
Inferred NormalOp::infer(Adaptor op, const Report &report) {
  if (failed(checkState(op.getKey(), op.getOffset(), report)))
    return failure();
  return drawn(op.getShapeAttr(), op.getDtype(), {"f64", "f32", "f16", "bf16"}, report);
}
Inferred BernoulliOp::infer(Adaptor op, const Report &report) {
  if (failed(checkState(op.getKey(), op.getOffset(), report)))
    return failure();
  return Shaped{IntegerType::get(op.getP().getContext(), 1), dimsOf(op.getP())};
}
Inferred DropoutOp::infer(Adaptor op, const Report &report) {
  if (failed(checkState(op.getKey(), op.getOffset(), report)))
    return failure();
  if (double p = op.getP().convertToDouble(); !(p >= 0 && p <= 1))
    return report.at("dropout_c1")("p is " + std::to_string(p) + ": expected 0 to 1");
  return {shapedAs(op.getX()), Shaped{IntegerType::get(op.getX().getContext(), 1), dimsOf(op.getX())}};
}
Inferred RandomPermutationOp::infer(Adaptor op, const Report &report) {
  if (failed(checkState(op.getKey(), op.getOffset(), report)))
    return failure();
  if (op.getShape().size() != 1)
    return report.at("random_permutation_c1")("shape must be [n], found " + text(op.getShape()));
  return drawn(op.getShapeAttr(), "i64", {"i64"}, report);
}

// ---- Decompositions

// Uniform numbers, exact: the top bits of random words, scaled by a power of two.
static Value uniform(Value key, Value offset, ArrayRef<Dim> shape, Type element, Writer &write) {
  bool wide = element.isF64();
  int64_t width = wide ? 64 : 32, precision = llvm::cast<FloatType>(element).getFPMantissaWidth();
  Value bits =
      write.make<RandomBitsOp>(key, offset, write.extents(shape), write.rewriter.getStringAttr(wide ? "i64" : "i32"));
  // The shift is arithmetic; the mask clears the copies of the sign bit.
  Value high = write.make<ShiftRightOp>(bits, write.fill(static_cast<double>(width - precision), bits));
  Value masked = write.make<AndOp>(high, write.fill(std::ldexp(1, static_cast<int>(precision)) - 1, bits));
  return write.times(write.converted(masked, element), std::ldexp(1, static_cast<int>(-precision)));
}

Values UniformOp::expand(Writer &write) {
  return {uniform(getKey(), getOffset(), dimsOf(getResult()), elementOf(getResult()), write)};
}

Values NormalOp::expand(Writer &write) {
  Dims shape = dimsOf(getResult()), both{2}, first(shape.size() + 1, 0), second(first);
  llvm::append_range(both, shape);
  second[0] = 1;
  Type element = elementOf(getResult()).isF64() ? elementOf(getResult()) : write.rewriter.getF32Type();
  Value pair = uniform(getKey(), getOffset(), both, element, write);
  auto half = [&](const Dims &start, int64_t end) {
    Dims limit(both);
    limit[0] = end;
    return write.reshaped(write.make<SliceOp>(pair, write.extents(start), write.extents(limit),
                                              write.rewriter.getDenseI64ArrayAttr(Axes(both.size(), 1))),
                          shape);
  };
  Value u = half(first, 1), v = half(second, 2);
  Value log = write.make<LogOp>(write.make<SubOp>(write.fill(1, u), u));
  Value radius = write.make<SqrtOp>(write.times(log, -2));
  return {write.make<MulOp>(radius, write.make<CosOp>(write.times(v, 2 * M_PI)))};
}

Values BernoulliOp::expand(Writer &write) {
  Value p = write.widened(getP());
  Value u = uniform(getKey(), getOffset(), dimsOf(p), write.rewriter.getF32Type(), write);
  return {write.make<CompareOp>(write.converted(u, elementOf(p)), p, "lt")};
}

Values DropoutOp::expand(Writer &write) {
  Value x = write.widened(getX());
  double p = getP().convertToDouble();
  Value u = uniform(getKey(), getOffset(), dimsOf(x), write.rewriter.getF32Type(), write);
  // u is a multiple of 2^-24, so u >= p exactly when u >= p rounded up to such a multiple, which f32 represents.
  Value kept = write.make<CompareOp>(u, write.fill(std::ceil(std::ldexp(p, 24)) / 0x1p24, u), "ge");
  Value scaled = p == 1 ? x : write.times(x, 1 / (1 - p));
  return {write.make<SelectOp>(kept, scaled, write.fill(0, x)), kept};
}

Values RandomPermutationOp::expand(Writer &write) {
  Value bits = write.make<RandomBitsOp>(getKey(), getOffset(), getShapeAttr(), write.rewriter.getStringAttr("i64"));
  auto sort = SortOp::create(write.rewriter, write.location, bits, 0, /*descending=*/false, /*stable=*/true);
  return {sort.getIndices()};
}

} // namespace mortise::ir
