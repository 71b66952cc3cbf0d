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
  auto operand = shapeOf(op.getOperand()), indices = shapeOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, operand.size(), report)))
    return failure();
  if (operand[axis] == 0 && countOf(indices) != 0)
    return report("cannot take from a dimension of extent 0");
  Dims shape(operand.take_front(axis));
  llvm::append_range(shape, indices);
  llvm::append_range(shape, operand.drop_front(axis + 1));
  return RankedTensorType::get(shape, elementOf(op.getOperand()));
}

Inferred TakeAlongOp::infer(Adaptor op, const Report &report) {
  auto operand = shapeOf(op.getOperand()), indices = shapeOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (operand.size() != indices.size())
    return report("indices " + text(indices) + " must have the rank of operand " + text(operand));
  if (failed(checkAxis(axis, operand.size(), report)))
    return failure();
  for (size_t i = 0; i < operand.size(); ++i)
    if (static_cast<int64_t>(i) != axis && indices[i] > operand[i])
      return report("off the axis, extents of indices " + text(indices) + " must be at most those of operand " +
                    text(operand));
  if (operand[axis] == 0 && countOf(indices) != 0)
    return report("cannot take from a dimension of extent 0");
  return RankedTensorType::get(indices, elementOf(op.getOperand()));
}

Inferred TakeNdOp::infer(Adaptor op, const Report &report) {
  auto operand = shapeOf(op.getOperand()), indices = shapeOf(op.getIndices());
  if (indices.empty() || indices.back() > static_cast<int64_t>(operand.size()))
    return report("the last extent of indices " + text(indices) + " must be at most the rank of operand " +
                  text(operand));
  Dims shape(indices.drop_back());
  if (llvm::is_contained(operand.take_front(indices.back()), 0) && countOf(shape) != 0)
    return report("cannot take from a dimension of extent 0");
  llvm::append_range(shape, operand.drop_front(indices.back()));
  return RankedTensorType::get(shape, elementOf(op.getOperand()));
}

Inferred PutOp::infer(Adaptor op, const Report &report) {
  auto operand = shapeOf(op.getOperand()), indices = shapeOf(op.getIndices());
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, operand.size(), report)))
    return failure();
  if (indices.size() != 1)
    return report("indices must have rank 1, found " + text(indices));
  Dims shape(operand);
  shape[axis] = indices[0];
  if (failed(checkShape("updates", op.getUpdates(), shape, report)) ||
      failed(checkElement("updates", op.getUpdates(), elementOf(op.getOperand()), report)))
    return failure();
  return RankedTensorType::get(operand, elementOf(op.getOperand()));
}

Inferred EmbeddingOp::infer(Adaptor op, const Report &report) {
  auto table = shapeOf(op.getTable()), indices = shapeOf(op.getIndices());
  if (table.empty())
    return report("table must have rank 1 or more");
  if (table[0] == 0 && countOf(indices) != 0)
    return report("cannot take from a table without rows");
  Dims shape(indices);
  llvm::append_range(shape, table.drop_front());
  return RankedTensorType::get(shape, elementOf(op.getTable()));
}

} // namespace mortise::ir
