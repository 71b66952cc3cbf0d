// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// softmax and log_softmax, written with the maximum subtracted. Programs that do not subtract it are not raised: they
// overflow where the composite does not.
#include "match.hpp"

namespace mortise::passes::raise {
namespace {

// The reduction of `of` over one axis whose result, broadcast along that axis, is `repeated`; null otherwise.
template <typename Reduce> Reduce reduction(Value repeated, Value of) {
  auto broadcast = producer<ir::BroadcastOp>(repeated);
  auto reduce = broadcast ? producer<Reduce>(stripReshapes(broadcast.getOperand())) : nullptr;
  if (!reduce || reduce.getOperand() != of || reduce.getAxes().size() != 1 ||
      !repeatedAlong(repeated, reduce.getAxes(), dimsOf(of)))
    return nullptr;
  return reduce;
}

// The axis of x - max(x).
std::optional<int64_t> centredAlong(Value value) {
  auto sub = producer<ir::SubOp>(value);
  auto max = sub ? reduction<ir::ReduceMaxOp>(sub.getRhs(), sub.getLhs()) : nullptr;
  return max ? std::optional(max.getAxes()[0]) : std::nullopt;
}

template <typename Softmax>
mlir::LogicalResult replaceRow(Operation *op, PatternRewriter &rewriter, Value centred, int64_t axis) {
  return replace<Softmax>(rewriter, op, producer<ir::SubOp>(centred).getLhs(),
                          {.axis = rewriter.getI64IntegerAttr(axis)});
}

// exp(x - max(x)) / sum(exp(x - max(x)))
mlir::LogicalResult raiseQuotient(ir::DivOp op, PatternRewriter &rewriter) {
  auto exp = producer<ir::ExpOp>(op.getLhs());
  const std::optional<int64_t> axis = exp ? centredAlong(exp.getOperand()) : std::nullopt;
  auto sum = axis ? reduction<ir::ReduceSumOp>(op.getRhs(), exp.getResult()) : nullptr;
  if (!sum || sum.getAxes()[0] != *axis)
    return mlir::failure();
  return replaceRow<ir::SoftmaxOp>(op, rewriter, exp.getOperand(), *axis);
}

// exp(x - max(x)) * (1 / sum(exp(x - max(x)))). The reciprocal cannot overflow: the sum is at least 1, or NaN.
mlir::LogicalResult raiseProduct(ir::MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    auto exp = producer<ir::ExpOp>(op->getOperand(i));
    const std::optional<int64_t> axis = exp ? centredAlong(exp.getOperand()) : std::nullopt;
    auto broadcast = axis ? producer<ir::BroadcastOp>(op->getOperand(1 - i)) : nullptr;
    auto div = broadcast ? producer<ir::DivOp>(stripReshapes(broadcast.getOperand())) : nullptr;
    auto sum = div && isSplat(div.getLhs(), 1) ? producer<ir::ReduceSumOp>(stripReshapes(div.getRhs())) : nullptr;
    if (!sum || sum.getOperand() != exp.getResult() || sum.getAxes() != ArrayRef<int64_t>(*axis) ||
        !repeatedAlong(op->getOperand(1 - i), *axis, dimsOf(exp.getResult())))
      continue;
    return replaceRow<ir::SoftmaxOp>(op, rewriter, exp.getOperand(), *axis);
  }
  return mlir::failure();
}

// (x - max(x)) - log(sum(exp(x - max(x))))
mlir::LogicalResult raiseLogSoftmax(ir::SubOp op, PatternRewriter &rewriter) {
  Value centred = op.getLhs();
  const std::optional<int64_t> axis = centredAlong(centred);
  auto broadcast = axis ? producer<ir::BroadcastOp>(op.getRhs()) : nullptr;
  auto log = broadcast ? producer<ir::LogOp>(stripReshapes(broadcast.getOperand())) : nullptr;
  auto sum = log ? producer<ir::ReduceSumOp>(stripReshapes(log.getOperand())) : nullptr;
  auto exp = sum ? producer<ir::ExpOp>(sum.getOperand()) : nullptr;
  if (!exp || exp.getOperand() != centred || sum.getAxes() != ArrayRef<int64_t>(*axis) ||
      !repeatedAlong(op.getRhs(), *axis, dimsOf(centred)))
    return mlir::failure();
  return replaceRow<ir::LogSoftmaxOp>(op, rewriter, centred, *axis);
}

} // namespace

ArrayRef<Row> softmaxes() {
  static const Row rows[] = {
      row<ir::DivOp, raiseQuotient>(),
      row<ir::MulOp, raiseProduct>(),
      row<ir::SubOp, raiseLogSoftmax>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
