// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#define GET_OP_CLASSES
#include <mortise/ir/Reduction.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Reduction.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addReductionOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/Reduction.cpp.inc>
      >();
}

Inferred ArgmaxOp::infer(Adaptor op, const Report &report) {
  int64_t axis = op.getAxis();
  if (failed(checkAxis(axis, rankOf(op.getOperand()), report)))
    return failure();
  if (dimsOf(op.getOperand())[axis] == Dim(0))
    return report("the extent along axis " + Twine(axis) + " is 0, so there is no largest element");
  return Shaped{IntegerType::get(op.getOperand().getContext(), 64), reduced(op.getOperand(), {axis}, report)->dims};
}
Inferred CumsumOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getOperand()), report)))
    return failure();
  return shapedAs(op.getOperand());
}
Inferred MeanOp::infer(Adaptor op, const Report &report) { return reduced(op.getOperand(), op.getAxes(), report); }

} // namespace mortise::ir
