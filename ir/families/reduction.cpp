// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/reduction.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addReductionOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/reduction.cpp.inc>
      >();
}

Inferred MeanOp::infer(Adaptor op, const Report &report) {
  return reduced(op.getOperand(), op.getAxes(), report.at("mean_c1"));
}

Inferred SortOp::infer(Adaptor op, const Report &report) {
  return runningExtreme(op.getOperand(), op.getAxis(), report);
}

Inferred TopKOp::infer(Adaptor op, const Report &report) {
  int64_t axis = op.getAxis(), k = op.getK();
  if (failed(checkAxis(axis, rankOf(op.getOperand()), report.at("top_k_c1"))))
    return failure();
  Dims shape = dimsOf(op.getOperand());
  if (k < 0 || !report.isAtLeast(shape[axis], k))
    return report.at("top_k_c2")("k is " + Twine(k) + ": expected at least 0 and at most " + report.text(shape[axis]) +
                                 ", the extent along axis " + Twine(axis));
  shape[axis] = k;
  return {Shaped{elementOf(op.getOperand()), shape}, Shaped{IntegerType::get(op.getOperand().getContext(), 64), shape}};
}

// ---- Decompositions

Values MeanOp::expand(Writer &write) { return {write.mean(write.widened(getOperand()), getAxes())}; }

Values TopKOp::expand(Writer &write) {
  auto sort = SortOp::create(write.rewriter, write.location, getOperand(), getAxis(), getLargest(), /*stable=*/true);
  Dims from(dimsOf(getOperand()).size(), 0), to = dimsOf(getValues());
  auto head = [&](Value all) -> Value {
    return write.make<SliceOp>(all, write.extents(from), write.extents(to),
                               write.rewriter.getDenseI64ArrayAttr(Axes(to.size(), 1)));
  };
  return {head(sort.getValues()), head(sort.getIndices())};
}

} // namespace mortise::ir
