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
    return report.at("convert_c1")("dtype \"" + op.getDtype() +
                                   "\" is unknown: expected one of f64, f32, f16, bf16, f8E4M3FN, f8E5M2, "
                                   "i64, i32, i16, i8, i4, ui8, i1");
  return Shaped{element, dimsOf(op.getOperand())};
}

} // namespace mortise::ir
