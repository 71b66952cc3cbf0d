// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/infer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/elementwise.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/elementwise.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addElementwiseOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/elementwise.cpp.inc>
      >();
}

Inferred CompareOp::infer(Adaptor op, const Report &report) {
  Inferred type = sameType(op.getOperands(), report);
  if (failed(type))
    return failure();
  return Shaped{IntegerType::get(op.getLhs().getContext(), 1), type->dims};
}
Inferred SelectOp::infer(Adaptor op, const Report &report) {
  Inferred type = sameType({op.getOnTrue(), op.getOnFalse()}, report);
  if (failed(type) || failed(checkShape("predicate", op.getPredicate(), type->dims, report.at("select_c1"))))
    return failure();
  return type;
}
Inferred ConvertOp::infer(Adaptor op, const Report &report) {
  Type element = elementNamed(op.getDtype(), op.getDtypeAttr().getContext());
  if (!element)
    return report.at("convert_c1")("dtype \"" + op.getDtype() + "\" is unknown: expected one of " + elementNames());
  return Shaped{element, dimsOf(op.getOperand())};
}

} // namespace mortise::ir
