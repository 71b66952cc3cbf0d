// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// softmax and log_softmax, written with the maximum subtracted; without it a program overflows where the composite does
// not, and stays as it is.
#include "match.hpp"

namespace mortise::passes::raise {
namespace {

// The op `name` over one axis of `of`, when `repeated` is its result repeated along that axis.
Operation *reduction(Value repeated, StringRef name, Value of) {
  Operation *broadcast = producer(repeated, "mortise.broadcast");
  Operation *reduce = broadcast ? producer(stripReshapes(broadcast->getOperand(0)), name) : nullptr;
  if (!reduce || reduce->getOperand(0) != of || ints(reduce, "axes").size() != 1 ||
      !repeatedAlong(repeated, ints(reduce, "axes"), dimsOf(of)))
    return nullptr;
  return reduce;
}

// The axis of x - max(x).
std::optional<int64_t> centredAlong(Value value) {
  Operation *sub = producer(value, "mortise.sub");
  Operation *max = sub ? reduction(sub->getOperand(1), "mortise.reduce_max", sub->getOperand(0)) : nullptr;
  return max ? std::optional(ints(max, "axes")[0]) : std::nullopt;
}

mlir::LogicalResult replaceRow(Operation *op, PatternRewriter &rewriter, StringRef name, Value centred, int64_t axis) {
  return replace(rewriter, op, name, centred.getDefiningOp()->getOperand(0),
                 Attributes(rewriter).integer("axis", axis));
}

// exp(x - max(x)) / sum(exp(x - max(x)))
mlir::LogicalResult raiseQuotient(Operation *op, PatternRewriter &rewriter) {
  Operation *exp = producer(op->getOperand(0), "mortise.exp");
  const std::optional<int64_t> axis = exp ? centredAlong(exp->getOperand(0)) : std::nullopt;
  Operation *sum = axis ? reduction(op->getOperand(1), "mortise.reduce_sum", exp->getResult(0)) : nullptr;
  if (!sum || ints(sum, "axes")[0] != *axis)
    return mlir::failure();
  return replaceRow(op, rewriter, "mortise.softmax", exp->getOperand(0), *axis);
}

// exp(x - max(x)) * (1 / sum(exp(x - max(x)))): the sum is at least 1, or NaN in both.
mlir::LogicalResult raiseProduct(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *exp = producer(op->getOperand(i), "mortise.exp");
    const std::optional<int64_t> axis = exp ? centredAlong(exp->getOperand(0)) : std::nullopt;
    Operation *broadcast = axis ? producer(op->getOperand(1 - i), "mortise.broadcast") : nullptr;
    Operation *div = broadcast ? producer(stripReshapes(broadcast->getOperand(0)), "mortise.div") : nullptr;
    Operation *sum = div && isSplat(div->getOperand(0), 1)
                         ? producer(stripReshapes(div->getOperand(1)), "mortise.reduce_sum")
                         : nullptr;
    if (!sum || sum->getOperand(0) != exp->getResult(0) || ints(sum, "axes") != ArrayRef<int64_t>(*axis) ||
        !repeatedAlong(op->getOperand(1 - i), *axis, dimsOf(exp->getResult(0))))
      continue;
    return replaceRow(op, rewriter, "mortise.softmax", exp->getOperand(0), *axis);
  }
  return mlir::failure();
}

// (x - max(x)) - log(sum(exp(x - max(x))))
mlir::LogicalResult raiseLogSoftmax(Operation *op, PatternRewriter &rewriter) {
  Value centred = op->getOperand(0);
  const std::optional<int64_t> axis = centredAlong(centred);
  Operation *broadcast = axis ? producer(op->getOperand(1), "mortise.broadcast") : nullptr;
  Operation *log = broadcast ? producer(stripReshapes(broadcast->getOperand(0)), "mortise.log") : nullptr;
  Operation *sum = log ? producer(stripReshapes(log->getOperand(0)), "mortise.reduce_sum") : nullptr;
  Operation *exp = sum ? producer(sum->getOperand(0), "mortise.exp") : nullptr;
  if (!exp || exp->getOperand(0) != centred || ints(sum, "axes") != ArrayRef<int64_t>(*axis) ||
      !repeatedAlong(op->getOperand(1), *axis, dimsOf(centred)))
    return mlir::failure();
  return replaceRow(op, rewriter, "mortise.log_softmax", centred, *axis);
}

} // namespace

ArrayRef<Row> softmaxes() {
  static const Row rows[] = {
      {"mortise.div", "mortise.softmax", raiseQuotient},
      {"mortise.mul", "mortise.softmax", raiseProduct},
      {"mortise.sub", "mortise.log_softmax", raiseLogSoftmax},
  };
  return rows;
}

} // namespace mortise::passes::raise
