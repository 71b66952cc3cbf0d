// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/infer.hpp"

#include <mlir/IR/PatternMatch.h>

#define GET_OP_CLASSES
#include <mortise/ir/shape.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/shape.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addShapeOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/shape.cpp.inc>
      >();
}

Inferred ConstantOp::infer(Adaptor op, const Report &report) {
  auto type = dyn_cast<RankedTensorType>(op.getValue().getShapedType());
  if (!type || type.getEncoding() || !isa<DenseElementsAttr>(op.getValue()))
    return report.at("constant_c1")("value must be dense elements of a ranked tensor");
  return Shaped{type.getElementType(), dimsOf(type)};
}
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

// A literal of equal elements becomes a broadcast of a scalar, because backends read literals element by element.
LogicalResult ConstantOp::canonicalize(ConstantOp op, PatternRewriter &rewriter) {
  auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
  auto type = op.getType();
  if (!splat || type.getNumElements() <= 1)
    return failure();
  auto scalar =
      DenseElementsAttr::get(RankedTensorType::get({}, type.getElementType()), splat.getSplatValue<Attribute>());
  Value constant = ConstantOp::create(rewriter, op.getLoc(), scalar);
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, constant, type.getShape(), ArrayRef<int64_t>{});
  return success();
}

// The extents that an attribute gives. Reports an error when they use another symbol table than the operands or may be
// negative.
static FailureOr<Dims> extentsFrom(DimsAttr shape, const Report &report) {
  if (failed(report.unite(shape)))
    return failure();
  Dims dims(shape.getDims());
  for (const Dim &dim : dims)
    if (!report.isAtLeast(dim, 0))
      return LogicalResult(report.at("shape_c1")("shape " + report.text(dims) + " must be at least 0 in every entry"));
  return dims;
}

Inferred IotaOp::infer(Adaptor op, const Report &report) {
  Type element = elementNamed(op.getDtype(), op.getDtypeAttr().getContext());
  if (!element)
    return report.at("iota_c1")("dtype \"" + op.getDtype() + "\" is unknown");
  FailureOr<Dims> dims = extentsFrom(op.getShapeAttr(), report);
  if (failed(dims) || failed(checkAxis(op.getAxis(), dims->size(), report.at("iota_c2"))))
    return failure();
  return Shaped{element, *dims};
}
// Folds only when every element is 0; otherwise an iota is cheaper than a literal.
OpFoldResult IotaOp::fold(FoldAdaptor) {
  if (getShape()[getAxis()] != 1 || !getType().hasStaticShape() || getType().getNumElements() == 0)
    return {};
  Builder builder(getContext());
  return DenseElementsAttr::get(getType(), builder.getZeroAttr(getType().getElementType()));
}

Inferred ExtentsOp::infer(Adaptor op, const Report &report) {
  if (failed(report.unite(op.getShapeAttr())))
    return failure();
  return Shaped{IntegerType::get(op.getShapeAttr().getContext(), 64), {Dim(op.getShapeAttr().size())}};
}
OpFoldResult ExtentsOp::fold(FoldAdaptor) {
  if (!getShapeAttr().isStatic())
    return {};
  return DenseIntElementsAttr::get(getType(), getShape());
}

Inferred ReshapeOp::infer(Adaptor op, const Report &report) {
  FailureOr<Dims> dims = extentsFrom(op.getShapeAttr(), report);
  if (failed(dims))
    return failure();
  Dims from = dimsOf(op.getOperand());
  if (report.simplified(countOf(*dims)) != report.simplified(countOf(from)))
    return report.at("reshape_c1")("shape " + report.text(*dims) + " must have as many elements as operand " +
                                   report.text(from));
  return Shaped{elementOf(op.getOperand()), *dims};
}
OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (DenseElementsAttr literal = literalOf(getOperand()))
    return literal.reshape(getType());
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>()) {
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

Inferred TransposeOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand());
  auto permutation = op.getPermutation();
  Dims shape;
  SmallVector<bool> used(operand.size(), false);
  for (int64_t axis : permutation) {
    if (permutation.size() != operand.size() || axis < 0 || axis >= static_cast<int64_t>(operand.size()) || used[axis])
      return report.at("transpose_c1")("permutation " + text(permutation) + " must name each of the " +
                                       Twine(operand.size()) + " dimensions once");
    used[axis] = true;
    shape.push_back(operand[axis]);
  }
  if (shape.size() != operand.size())
    return report.at("transpose_c1")("permutation " + text(permutation) + " must name each of the " +
                                     Twine(operand.size()) + " dimensions once");
  return Shaped{elementOf(op.getOperand()), shape};
}
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getType().getRank())))
    return getOperand();
  if (DenseElementsAttr literal = literalOf(getOperand()); literal && literal.isSplat())
    return literal.resizeSplat(getType());
  if (auto inner = getOperand().getDefiningOp<TransposeOp>()) {
    Axes both;
    for (int64_t axis : getPermutation())
      both.push_back(inner.getPermutation()[axis]);
    setPermutation(both);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

Inferred BroadcastOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand());
  ArrayRef<int64_t> axes = op.getAxes();
  FailureOr<Dims> shape = extentsFrom(op.getShapeAttr(), report);
  if (failed(shape) || failed(checkSize("axes", axes, operand.size(), report.at("broadcast_c1"))) ||
      failed(checkAscending(axes, shape->size(), report.at("broadcast_c2"))))
    return failure();
  for (size_t i = 0; i < operand.size(); ++i)
    if (operand[i] != Dim(1) && report.simplified(operand[i]) != report.simplified((*shape)[axes[i]]))
      return report.at("broadcast_c3")("extent " + report.text(operand[i]) + " of operand dimension " + Twine(i) +
                                       " must be 1 or " + report.text((*shape)[axes[i]]) +
                                       ", the extent of result dimension " + Twine(axes[i]));
  return Shaped{elementOf(op.getOperand()), *shape};
}
OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<BroadcastOp>()) {
    Axes axes;
    for (int64_t axis : inner.getAxes())
      axes.push_back(getAxes()[axis]);
    setAxes(axes);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  if (!getType().hasStaticShape())
    return {};
  // Folds a literal that is only reshaped, or a splat. A broadcast of a scalar is the canonical form of a splat and
  // stays.
  DenseElementsAttr literal = literalOf(getOperand());
  if (literal && literal.getNumElements() == getType().getNumElements())
    return literal.reshape(getType());
  if (literal && literal.isSplat() && rankOf(getOperand()) != 0 && getType().getNumElements() != 0)
    return literal.resizeSplat(getType());
  return {};
}

Inferred SliceOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand());
  int64_t rank = operand.size();
  ArrayRef<int64_t> strides = op.getStrides();
  if (failed(report.unite(op.getStartsAttr())) || failed(report.unite(op.getLimitsAttr())) ||
      failed(checkSize("starts", op.getStarts(), rank, report.at("slice_c1"))) ||
      failed(checkSize("limits", op.getLimits(), rank, report)) ||
      failed(checkSize("strides", strides, rank, report)) ||
      failed(checkLeast("strides", strides, 1, report.at("slice_c2"))))
    return failure();
  Dims starts(op.getStartsAttr().getDims()), limits(op.getLimitsAttr().getDims()), shape;
  for (int64_t i = 0; i < rank; ++i) {
    if (!report.isAtLeast(starts[i], 0) || !report.isAtLeast(limits[i], starts[i]) ||
        !report.isAtLeast(operand[i], limits[i]))
      return report.at("slice_c3")("dimension " + Twine(i) +
                                   ": expected 0 <= start <= limit <= " + report.text(operand[i]) + ", found " +
                                   report.text(starts[i]) + " and " + report.text(limits[i]));
    shape.push_back(ceilDiv(limits[i] - starts[i], strides[i]));
  }
  return Shaped{elementOf(op.getOperand()), shape};
}
OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (!getType().hasStaticShape())
    return {};
  DenseElementsAttr literal = literalOf(getOperand());
  int64_t count = getType().getNumElements();
  if (!literal || count == 0)
    return {};
  if (literal.isSplat())
    return literal.resizeSplat(getType());
  if (count > foldLimit)
    return {};
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), to = getType().getShape();
  return gather(literal, getType(), [&](int64_t i) {
    int64_t index = 0, step = 1;
    for (int64_t d = to.size(); d-- > 0; i /= to[d], step *= from[d])
      index += (getStarts()[d] + i % to[d] * getStrides()[d]) * step;
    return index;
  });
}

Inferred ConcatenateOp::infer(Adaptor op, const Report &report) {
  if (op.getOperands().empty())
    return report.at("concatenate_c1")("needs at least one operand");
  Value first = op.getOperands().front();
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, rankOf(first), report.at("concatenate_c2"))))
    return failure();
  Dims shape = dimsOf(first);
  shape[axis] = 0;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    Dims other = dimsOf(operand);
    Dim extent;
    if (other.size() == shape.size()) {
      extent = other[axis];
      other[axis] = shape[axis];
    }
    if (other != shape || elementOf(operand) != elementOf(first))
      return report.at("concatenate_c3")("operand " + Twine(i) + ", " + report.text(operand.getType()) +
                                         ", must agree with operand 0, " + report.text(first.getType()) +
                                         ", but for dimension " + Twine(axis));
    shape[axis] += extent;
  }
  return Shaped{elementOf(first), shape};
}
OpFoldResult ConcatenateOp::fold(FoldAdaptor) {
  return getNumOperands() == 1 ? OpFoldResult(getOperands().front()) : OpFoldResult();
}

Inferred PadOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand());
  int64_t rank = operand.size();
  if (failed(report.unite(op.getLowAttr())) || failed(report.unite(op.getHighAttr())) ||
      failed(checkShape("value", op.getValue(), {}, report.at("pad_c1"))) ||
      failed(checkElement("value", op.getValue(), elementOf(op.getOperand()), report)) ||
      failed(checkSize("low", op.getLow(), rank, report.at("pad_c2"))) ||
      failed(checkSize("high", op.getHigh(), rank, report)) ||
      failed(checkSize("interior", op.getInterior(), rank, report)) ||
      failed(checkLeast("interior", op.getInterior(), 0, report.at("pad_c3"))))
    return failure();
  Dims low(op.getLowAttr().getDims()), high(op.getHighAttr().getDims()), shape;
  for (int64_t i = 0; i < rank; ++i) {
    Dim between = op.getInterior()[i] ? max(operand[i] - 1, 0) * op.getInterior()[i] : Dim(0);
    Dim extent = report.simplified(operand[i] + between + low[i] + high[i]);
    if (!extent.isValid() || !report.isAtLeast(extent, 0))
      return report.at("pad_c4")("dimension " + Twine(i) + ": extent " + report.text(operand[i]) +
                                 " cannot be padded by " + report.text(low[i]) + " and " + report.text(high[i]));
    shape.push_back(extent);
  }
  return Shaped{elementOf(op.getOperand()), shape};
}
OpFoldResult PadOp::fold(FoldAdaptor) {
  auto zero = [](ArrayRef<int64_t> amounts) {
    return llvm::all_of(amounts, [](int64_t amount) { return amount == 0; });
  };
  return zero(getLow()) && zero(getHigh()) && zero(getInterior()) ? OpFoldResult(getOperand()) : OpFoldResult();
}

Inferred ReverseOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAscending(op.getAxes(), rankOf(op.getOperand()), report.at("reverse_c1"))))
    return failure();
  return shapedAs(op.getOperand());
}
OpFoldResult ReverseOp::fold(FoldAdaptor) {
  bool trivial = llvm::all_of(
      getAxes(), [&](int64_t axis) { return !getType().isDynamicDim(axis) && getType().getDimSize(axis) <= 1; });
  return trivial ? OpFoldResult(getOperand()) : OpFoldResult();
}

} // namespace mortise::ir
