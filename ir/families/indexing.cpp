// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/indexing.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addIndexingOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/indexing.cpp.inc>
      >();
}

// Reads clamp their indices, so the extents must be at least 1 when any element is read.
static LogicalResult checkFilled(ArrayRef<Dim> extents, ArrayRef<Dim> count, const Report &report) {
  if (countOf(count) == Dim(0))
    return success();
  for (const Dim &extent : extents)
    if (!report.isAtLeast(extent, 1))
      return report("cannot take from a dimension of extent " + report.text(extent) +
                    (extent.isNumber() ? "" : ", which may be 0: expected at least 1"));
  return success();
}

Inferred TakeOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, operand.size(), report.at("take_c1"))) ||
      failed(checkFilled({operand[axis]}, indices, report.at("take_c2"))))
    return failure();
  Dims shape(ArrayRef(operand).take_front(axis));
  llvm::append_range(shape, indices);
  llvm::append_range(shape, ArrayRef(operand).drop_front(axis + 1));
  return Shaped{elementOf(op.getOperand()), shape};
}

// Checks `indices` of take_along and scatter_along, whose elements are positions along `axis`.
static LogicalResult checkAlong(ArrayRef<Dim> operand, ArrayRef<Dim> indices, int64_t axis, const Report &report) {
  if (operand.size() != indices.size())
    return report.at("along_c1")("indices " + report.text(indices) + " must have the rank of operand " +
                                 report.text(operand));
  if (failed(checkAxis(axis, operand.size(), report.at("along_c2"))))
    return failure();
  for (size_t i = 0; i < operand.size(); ++i)
    if (static_cast<int64_t>(i) != axis && !report.isAtLeast(operand[i], indices[i]))
      return report.at("along_c3")("off the axis, extents of indices " + report.text(indices) +
                                   " must be at most those of operand " + report.text(operand));
  return success();
}

Inferred TakeAlongOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  if (failed(checkAlong(operand, indices, op.getAxis(), report)) ||
      failed(checkFilled({operand[op.getAxis()]}, indices, report.at("take_along_c1"))))
    return failure();
  return Shaped{elementOf(op.getOperand()), indices};
}

// The number of coordinates in the last dimension of `indices`.
static FailureOr<int64_t> depthOf(ArrayRef<Dim> operand, ArrayRef<Dim> indices, const Report &report) {
  std::optional<int64_t> depth = indices.empty() ? std::nullopt : indices.back().number();
  if (depth && *depth <= static_cast<int64_t>(operand.size()))
    return *depth;
  return report.at("nd_c1")("the last extent of indices " + report.text(indices) +
                            " must be a number, at most the rank of operand " + report.text(operand));
}

Inferred TakeNdOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  FailureOr<int64_t> depth = depthOf(operand, indices, report);
  if (failed(depth))
    return failure();
  Dims shape(ArrayRef(indices).drop_back());
  if (failed(checkFilled(ArrayRef(operand).take_front(*depth), shape, report.at("take_nd_c1"))))
    return failure();
  llvm::append_range(shape, ArrayRef(operand).drop_front(*depth));
  return Shaped{elementOf(op.getOperand()), shape};
}

Inferred PutOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, operand.size(), report.at("put_c1"))))
    return failure();
  if (indices.size() != 1)
    return report.at("put_c2")("indices must have rank 1, found " + report.text(indices));
  Dims shape(operand);
  shape[axis] = indices[0];
  if (failed(checkShape("updates", op.getUpdates(), shape, report.at("put_c3"))) ||
      failed(checkElement("updates", op.getUpdates(), elementOf(op.getOperand()), report)))
    return failure();
  return shapedAs(op.getOperand());
}

Inferred EmbeddingOp::infer(Adaptor op, const Report &report) {
  Dims table = dimsOf(op.getTable()), indices = dimsOf(op.getIndices());
  if (table.empty())
    return report.at("embedding_c1")("table must have rank 1 or more");
  if (failed(checkFilled({table[0]}, indices, report.at("embedding_c2"))))
    return failure();
  Dims shape(indices);
  llvm::append_range(shape, ArrayRef(table).drop_front());
  return Shaped{elementOf(op.getTable()), shape};
}

Inferred ScatterAlongOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  if (failed(checkAlong(operand, indices, op.getAxis(), report)) ||
      failed(checkShape("updates", op.getUpdates(), indices, report.at("scatter_along_c1"))) ||
      failed(checkElement("updates", op.getUpdates(), elementOf(op.getOperand()), report)))
    return failure();
  return shapedAs(op.getOperand());
}

Inferred ScatterNdOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  FailureOr<int64_t> depth = depthOf(operand, indices, report);
  if (failed(depth))
    return failure();
  Dims shape(ArrayRef(indices).drop_back());
  llvm::append_range(shape, ArrayRef(operand).drop_front(*depth));
  if (failed(checkShape("updates", op.getUpdates(), shape, report.at("scatter_nd_c1"))) ||
      failed(checkElement("updates", op.getUpdates(), elementOf(op.getOperand()), report)))
    return failure();
  return shapedAs(op.getOperand());
}

Inferred SearchsortedOp::infer(Adaptor op, const Report &report) {
  Dims sequence = dimsOf(op.getSequence()), values = dimsOf(op.getValues());
  bool fits = sequence.size() == 1 || (!sequence.empty() && sequence.size() == values.size() &&
                                       ArrayRef(sequence).drop_back() == ArrayRef(values).drop_back());
  if (!fits)
    return report.at("searchsorted_c1")("sequence " + report.text(sequence) +
                                        " must have rank 1, or the extents of values " + report.text(values) +
                                        " but for the last");
  if (failed(checkElement("values", op.getValues(), elementOf(op.getSequence()), report.at("searchsorted_c2"))))
    return failure();
  return Shaped{IntegerType::get(op.getValues().getContext(), 64), values};
}

// ---- Decompositions

Values EmbeddingOp::expand(Writer &write) { return {write.make<TakeOp>(getTable(), getIndices(), int64_t(0))}; }

} // namespace mortise::ir
