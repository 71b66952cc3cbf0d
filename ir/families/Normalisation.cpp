// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#define GET_OP_CLASSES
#include <mortise/ir/Normalisation.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Normalisation.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addNormalisationOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/Normalisation.cpp.inc>
      >();
}

static Inferred alongAxis(Value operand, int64_t axis, const Report &report) {
  if (failed(checkAxis(axis, rankOf(operand), report)))
    return failure();
  return shapedAs(operand);
}
Inferred SoftmaxOp::infer(Adaptor op, const Report &report) { return alongAxis(op.getOperand(), op.getAxis(), report); }
Inferred LogSoftmaxOp::infer(Adaptor op, const Report &report) {
  return alongAxis(op.getOperand(), op.getAxis(), report);
}

// Checks parameters of a normalisation of `x`, NULL ones left out, and gives the type of `x`.
static Inferred normalised(Value x, ArrayRef<std::pair<StringRef, Value>> parameters, ArrayRef<Dim> shape,
                           const Report &report) {
  for (auto [name, value] : parameters)
    if (value &&
        (failed(checkShape(name, value, shape, report)) || failed(checkElement(name, value, elementOf(x), report))))
      return failure();
  return shapedAs(x);
}

Inferred LayerNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getX()), report)))
    return failure();
  return normalised(op.getX(), {{"scale", op.getScale()}, {"bias", op.getBias()}},
                    ArrayRef(dimsOf(op.getX())).drop_front(op.getAxis()), report);
}
Inferred RmsNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getX()), report)))
    return failure();
  return normalised(op.getX(), {{"scale", op.getScale()}}, ArrayRef(dimsOf(op.getX())).drop_front(op.getAxis()),
                    report);
}

static LogicalResult checkChannels(Value x, const Report &report) {
  if (rankOf(x) >= 2)
    return success();
  return report("x must have a batch and a channel dimension, found " + report.text(dimsOf(x)));
}

Inferred GroupNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkChannels(op.getX(), report)))
    return failure();
  Dim channels = dimsOf(op.getX())[1];
  int64_t groups = op.getGroups();
  if (groups < 1 || mod(channels, groups) != Dim(0))
    return report("the channels (" + report.text(channels) + ") must be a multiple of groups (" + Twine(groups) + ")");
  return normalised(op.getX(), {{"scale", op.getScale()}, {"bias", op.getBias()}}, {channels}, report);
}
Inferred BatchNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkChannels(op.getX(), report)))
    return failure();
  return normalised(
      op.getX(),
      {{"scale", op.getScale()}, {"bias", op.getBias()}, {"mean", op.getMean()}, {"variance", op.getVariance()}},
      {dimsOf(op.getX())[1]}, report);
}

} // namespace mortise::ir
