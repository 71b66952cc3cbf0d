// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/contraction.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addContractionOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/contraction.cpp.inc>
      >();
}

// Checks that batch and contracting dimensions of one side are in range and distinct; marks them in `used`.
static LogicalResult checkSide(StringRef side, Value value, ArrayRef<int64_t> batch, ArrayRef<int64_t> contract,
                               SmallVectorImpl<bool> &used, const Report &report) {
  used.assign(rankOf(value), false);
  for (ArrayRef<int64_t> list : {batch, contract})
    for (int64_t axis : list) {
      if (axis < 0 || axis >= rankOf(value) || used[axis])
        return report(side + " batch " + text(batch) + " and contracting dimensions " + text(contract) +
                      " must be different dimensions of " + report.text(dimsOf(value)));
      used[axis] = true;
    }
  return success();
}

Inferred DotOp::infer(Adaptor op, const Report &report) {
  Dims lhs = dimsOf(op.getLhs()), rhs = dimsOf(op.getRhs());
  auto lhsBatch = op.getLhsBatch(), rhsBatch = op.getRhsBatch(), lhsContract = op.getLhsContract(),
       rhsContract = op.getRhsContract();
  SmallVector<bool> lhsUsed, rhsUsed;
  if (failed(checkElement("rhs", op.getRhs(), elementOf(op.getLhs()), report.at("dot_c1"))) ||
      failed(checkSide("lhs", op.getLhs(), lhsBatch, lhsContract, lhsUsed, report.at("dot_c2"))) ||
      failed(checkSide("rhs", op.getRhs(), rhsBatch, rhsContract, rhsUsed, report.at("dot_c3"))))
    return failure();
  if (lhsBatch.size() != rhsBatch.size() || lhsContract.size() != rhsContract.size())
    return report.at("dot_c4")("both sides must name equally many batch and contracting dimensions, found " +
                               text(lhsBatch) + ", " + text(lhsContract) + " and " + text(rhsBatch) + ", " +
                               text(rhsContract));
  auto fits = [&](ArrayRef<int64_t> left, ArrayRef<int64_t> right) {
    return llvm::all_of(llvm::zip(left, right),
                        [&](auto pair) { return lhs[std::get<0>(pair)] == rhs[std::get<1>(pair)]; });
  };
  if (!fits(lhsBatch, rhsBatch) || !fits(lhsContract, rhsContract))
    return report.at("dot_c5")("batch and contracting extents must agree, found lhs " + report.text(lhs) + " and rhs " +
                               report.text(rhs));
  Dims shape;
  for (int64_t axis : lhsBatch)
    shape.push_back(lhs[axis]);
  for (size_t i = 0; i < lhs.size(); ++i)
    if (!lhsUsed[i])
      shape.push_back(lhs[i]);
  for (size_t i = 0; i < rhs.size(); ++i)
    if (!rhsUsed[i])
      shape.push_back(rhs[i]);
  return Shaped{elementOf(op.getLhs()), shape};
}

Inferred LinearOp::infer(Adaptor op, const Report &report) {
  Dims x = dimsOf(op.getX()), weight = dimsOf(op.getWeight());
  Type element = elementOf(op.getX());
  if (x.empty() || weight.size() != 2)
    return report.at("linear_c1")("x must have rank 1 or more and weight rank 2, found " + report.text(x) + " and " +
                                  report.text(weight));
  const Dim &inner = weight[op.getWeightTransposed() ? 0 : 1], &outer = weight[op.getWeightTransposed() ? 1 : 0];
  if (x.back() != inner)
    return report.at("linear_c2")("the last extent of x " + report.text(x) + " must be that of weight " +
                                  report.text(weight) + ": " + report.text(inner));
  if (failed(checkElement("weight", op.getWeight(), element, report.at("linear_c3"))))
    return failure();
  if (Value bias = op.getBias())
    if (failed(checkShape("bias", bias, {outer}, report.at("linear_c4"))) ||
        failed(checkElement("bias", bias, element, report.at("linear_c3"))))
      return failure();
  x.back() = outer;
  return Shaped{element, x};
}

// ---- Decompositions

Values LinearOp::expand(Writer &write) {
  int64_t last = rankOf(getX()) - 1;
  // A dot alone rounds once in any type. With a bias it must not round before the sum, so it computes in f32.
  Value x = getBias() ? write.widened(getX()) : getX(), weight = getBias() ? write.widened(getWeight()) : getWeight();
  Value y = write.make<DotOp>(x, weight, ArrayRef<int64_t>{}, ArrayRef<int64_t>{}, ArrayRef<int64_t>(last),
                              ArrayRef<int64_t>(getWeightTransposed() ? 0 : 1));
  if (!getBias())
    return {y};
  return {write.make<AddOp>(y, write.spread(write.widened(getBias()), dimsOf(y), last))};
}

} // namespace mortise::ir
