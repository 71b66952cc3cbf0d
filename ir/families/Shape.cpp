// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#include <mlir/IR/PatternMatch.h>

#define GET_OP_CLASSES
#include <mortise/ir/Shape.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Shape.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addShapeOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/Shape.cpp.inc>
      >();
}

Inferred ConstantOp::infer(Adaptor op, const Report &report) {
  auto type = dyn_cast<RankedTensorType>(op.getValue().getShapedType());
  if (!type || type.getEncoding() || !isa<DenseElementsAttr>(op.getValue()))
    return report("value must be dense elements of a ranked tensor");
  return type;
}
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

// Backends read a literal element by element; a repeated one is cheaper said as such.
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

Inferred IotaOp::infer(Adaptor op, const Report &report) {
  Type element = elementNamed(op.getDtype(), op.getDtypeAttr().getContext());
  if (!element)
    return report("dtype \"" + op.getDtype() + "\" is unknown");
  if (failed(checkLeast("shape", op.getShape(), 0, report)) ||
      failed(checkAxis(op.getAxis(), op.getShape().size(), report)))
    return failure();
  return RankedTensorType::get(op.getShape(), element);
}
// Only a count that never leaves 0: counting is cheaper than a literal.
OpFoldResult IotaOp::fold(FoldAdaptor) {
  if (getShape()[getAxis()] != 1 || getType().getNumElements() == 0)
    return {};
  Builder builder(getContext());
  return DenseElementsAttr::get(getType(), builder.getZeroAttr(getType().getElementType()));
}

Inferred ReshapeOp::infer(Adaptor op, const Report &report) {
  if (failed(checkLeast("shape", op.getShape(), 0, report)))
    return failure();
  if (countOf(op.getShape()) != countOf(shapeOf(op.getOperand())))
    return report("shape " + text(op.getShape()) + " must have as many elements as operand " +
                  text(shapeOf(op.getOperand())));
  return RankedTensorType::get(op.getShape(), elementOf(op.getOperand()));
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
  auto operand = shapeOf(op.getOperand());
  auto permutation = op.getPermutation();
  Dims shape;
  SmallVector<bool> used(operand.size(), false);
  for (int64_t axis : permutation) {
    if (permutation.size() != operand.size() || axis < 0 || axis >= static_cast<int64_t>(operand.size()) || used[axis])
      return report("permutation " + text(permutation) + " must name each of the " + Twine(operand.size()) +
                    " dimensions once");
    used[axis] = true;
    shape.push_back(operand[axis]);
  }
  if (shape.size() != operand.size())
    return report("permutation " + text(permutation) + " must name each of the " + Twine(operand.size()) +
                  " dimensions once");
  return RankedTensorType::get(shape, elementOf(op.getOperand()));
}
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getType().getRank())))
    return getOperand();
  if (DenseElementsAttr literal = literalOf(getOperand()); literal && literal.isSplat())
    return literal.resizeSplat(getType());
  if (auto inner = getOperand().getDefiningOp<TransposeOp>()) {
    Dims both;
    for (int64_t axis : getPermutation())
      both.push_back(inner.getPermutation()[axis]);
    setPermutation(both);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

Inferred BroadcastOp::infer(Adaptor op, const Report &report) {
  auto operand = shapeOf(op.getOperand()), shape = op.getShape(), axes = op.getAxes();
  if (failed(checkLeast("shape", shape, 0, report)) || failed(checkSize("axes", axes, operand.size(), report)) ||
      failed(checkAscending(axes, shape.size(), report)))
    return failure();
  for (size_t i = 0; i < operand.size(); ++i)
    if (operand[i] != 1 && operand[i] != shape[axes[i]])
      return report("extent " + Twine(operand[i]) + " of operand dimension " + Twine(i) + " must be 1 or " +
                    Twine(shape[axes[i]]) + ", the extent of result dimension " + Twine(axes[i]));
  return RankedTensorType::get(shape, elementOf(op.getOperand()));
}
OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<BroadcastOp>()) {
    Dims axes;
    for (int64_t axis : inner.getAxes())
      axes.push_back(getAxes()[axis]);
    setAxes(axes);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  // A literal that is not repeated; a broadcast of a scalar is the canonical splat and stays.
  DenseElementsAttr literal = literalOf(getOperand());
  if (literal && literal.getNumElements() == getType().getNumElements())
    return literal.reshape(getType());
  if (literal && literal.isSplat() && rankOf(getOperand()) != 0 && getType().getNumElements() != 0)
    return literal.resizeSplat(getType());
  return {};
}

Inferred SliceOp::infer(Adaptor op, const Report &report) {
  auto operand = shapeOf(op.getOperand());
  auto starts = op.getStarts(), limits = op.getLimits(), strides = op.getStrides();
  int64_t rank = operand.size();
  if (failed(checkSize("starts", starts, rank, report)) || failed(checkSize("limits", limits, rank, report)) ||
      failed(checkSize("strides", strides, rank, report)) || failed(checkLeast("strides", strides, 1, report)))
    return failure();
  Dims shape;
  for (int64_t i = 0; i < rank; ++i) {
    if (starts[i] < 0 || starts[i] > limits[i] || limits[i] > operand[i])
      return report("dimension " + Twine(i) + ": expected 0 <= start <= limit <= " + Twine(operand[i]) + ", found " +
                    Twine(starts[i]) + " and " + Twine(limits[i]));
    shape.push_back(llvm::divideCeil(limits[i] - starts[i], strides[i]));
  }
  return RankedTensorType::get(shape, elementOf(op.getOperand()));
}
OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  DenseElementsAttr literal = literalOf(getOperand());
  int64_t count = getType().getNumElements();
  if (!literal || count == 0)
    return {};
  if (literal.isSplat())
    return literal.resizeSplat(getType());
  if (count > foldLimit)
    return {};
  auto from = shapeOf(getOperand()), to = getType().getShape();
  return gather(literal, getType(), [&](int64_t i) {
    int64_t index = 0, step = 1;
    for (int64_t d = to.size(); d-- > 0; i /= to[d], step *= from[d])
      index += (getStarts()[d] + i % to[d] * getStrides()[d]) * step;
    return index;
  });
}

Inferred ConcatenateOp::infer(Adaptor op, const Report &report) {
  if (op.getOperands().empty())
    return report("needs at least one operand");
  Value first = op.getOperands().front();
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, rankOf(first), report)))
    return failure();
  Dims shape(shapeOf(first));
  shape[axis] = 0;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    Dims other(shapeOf(operand));
    int64_t extent = rankOf(operand) == rankOf(first) ? other[axis] : 0;
    if (rankOf(operand) == rankOf(first))
      other[axis] = shape[axis];
    if (other != shape || elementOf(operand) != elementOf(first))
      return report("operand " + Twine(i) + ", " + text(operand.getType()) + ", must agree with operand 0, " +
                    text(first.getType()) + ", but for dimension " + Twine(axis));
    if (llvm::AddOverflow(shape[axis], extent, shape[axis]))
      return report("the result is too large");
  }
  return RankedTensorType::get(shape, elementOf(first));
}
OpFoldResult ConcatenateOp::fold(FoldAdaptor) {
  return getNumOperands() == 1 ? OpFoldResult(getOperands().front()) : OpFoldResult();
}

Inferred PadOp::infer(Adaptor op, const Report &report) {
  auto operand = shapeOf(op.getOperand());
  int64_t rank = operand.size();
  if (failed(checkShape("value", op.getValue(), {}, report)) ||
      failed(checkElement("value", op.getValue(), elementOf(op.getOperand()), report)) ||
      failed(checkSize("low", op.getLow(), rank, report)) || failed(checkSize("high", op.getHigh(), rank, report)) ||
      failed(checkSize("interior", op.getInterior(), rank, report)) ||
      failed(checkLeast("interior", op.getInterior(), 0, report)))
    return failure();
  Dims shape;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t between, extent;
    if (llvm::MulOverflow(std::max<int64_t>(operand[i] - 1, 0), op.getInterior()[i], between) ||
        llvm::AddOverflow(operand[i], between, extent) || llvm::AddOverflow(extent, op.getLow()[i], extent) ||
        llvm::AddOverflow(extent, op.getHigh()[i], extent) || extent < 0)
      return report("dimension " + Twine(i) + ": extent " + Twine(operand[i]) + " cannot be padded by " +
                    Twine(op.getLow()[i]) + " and " + Twine(op.getHigh()[i]));
    shape.push_back(extent);
  }
  return RankedTensorType::get(shape, elementOf(op.getOperand()));
}
OpFoldResult PadOp::fold(FoldAdaptor) {
  auto zero = [](ArrayRef<int64_t> amounts) {
    return llvm::all_of(amounts, [](int64_t amount) { return amount == 0; });
  };
  return zero(getLow()) && zero(getHigh()) && zero(getInterior()) ? OpFoldResult(getOperand()) : OpFoldResult();
}

Inferred ReverseOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAscending(op.getAxes(), rankOf(op.getOperand()), report)))
    return failure();
  return tensorType(op.getOperand());
}
OpFoldResult ReverseOp::fold(FoldAdaptor) {
  bool trivial = llvm::all_of(getAxes(), [&](int64_t axis) { return getType().getDimSize(axis) <= 1; });
  return trivial ? OpFoldResult(getOperand()) : OpFoldResult();
}

} // namespace mortise::ir
