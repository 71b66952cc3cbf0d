// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#define GET_OP_CLASSES
#include <mortise/ir/Indexing.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Indexing.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addIndexingOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/Indexing.cpp.inc>
      >();
}

Inferred TakeOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, operand.size(), report)))
    return failure();
  if (operand[axis] == Dim(0) && countOf(indices) != Dim(0))
    return report("cannot take from a dimension of extent 0");
  Dims shape(ArrayRef(operand).take_front(axis));
  llvm::append_range(shape, indices);
  llvm::append_range(shape, ArrayRef(operand).drop_front(axis + 1));
  return Shaped{elementOf(op.getOperand()), shape};
}

Inferred TakeAlongOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (operand.size() != indices.size())
    return report("indices " + report.text(indices) + " must have the rank of operand " + report.text(operand));
  if (failed(checkAxis(axis, operand.size(), report)))
    return failure();
  for (size_t i = 0; i < operand.size(); ++i)
    if (static_cast<int64_t>(i) != axis && !report.isAtLeast(operand[i], indices[i]))
      return report("off the axis, extents of indices " + report.text(indices) + " must be at most those of operand " +
                    report.text(operand));
  if (operand[axis] == Dim(0) && countOf(indices) != Dim(0))
    return report("cannot take from a dimension of extent 0");
  return Shaped{elementOf(op.getOperand()), indices};
}

Inferred TakeNdOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  std::optional<int64_t> depth = indices.empty() ? std::nullopt : indices.back().number();
  if (!depth || *depth > static_cast<int64_t>(operand.size()))
    return report("the last extent of indices " + report.text(indices) + " must be at most the rank of operand " +
                  report.text(operand));
  Dims shape(ArrayRef(indices).drop_back());
  if (llvm::is_contained(ArrayRef(operand).take_front(*depth), Dim(0)) && countOf(shape) != Dim(0))
    return report("cannot take from a dimension of extent 0");
  llvm::append_range(shape, ArrayRef(operand).drop_front(*depth));
  return Shaped{elementOf(op.getOperand()), shape};
}

Inferred PutOp::infer(Adaptor op, const Report &report) {
  Dims operand = dimsOf(op.getOperand()), indices = dimsOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, operand.size(), report)))
    return failure();
  if (indices.size() != 1)
    return report("indices must have rank 1, found " + report.text(indices));
  Dims shape(operand);
  shape[axis] = indices[0];
  if (failed(checkShape("updates", op.getUpdates(), shape, report)) ||
      failed(checkElement("updates", op.getUpdates(), elementOf(op.getOperand()), report)))
    return failure();
  return Shaped{elementOf(op.getOperand()), operand};
}

Inferred EmbeddingOp::infer(Adaptor op, const Report &report) {
  Dims table = dimsOf(op.getTable()), indices = dimsOf(op.getIndices());
  if (table.empty())
    return report("table must have rank 1 or more");
  if (table[0] == Dim(0) && countOf(indices) != Dim(0))
    return report("cannot take from a table without rows");
  Dims shape(indices);
  llvm::append_range(shape, ArrayRef(table).drop_front());
  return Shaped{elementOf(op.getTable()), shape};
}

} // namespace mortise::ir
