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
  return tensorType(operand);
}
Inferred SoftmaxOp::infer(Adaptor op, const Report &report) { return alongAxis(op.getOperand(), op.getAxis(), report); }
Inferred LogSoftmaxOp::infer(Adaptor op, const Report &report) {
  return alongAxis(op.getOperand(), op.getAxis(), report);
}

// Checks parameters of a normalisation of `x`, NULL ones left out, and gives the type of `x`.
static Inferred normalised(Value x, ArrayRef<std::pair<StringRef, Value>> parameters, ArrayRef<int64_t> shape,
                           const Report &report) {
  for (auto [name, value] : parameters)
    if (value &&
        (failed(checkShape(name, value, shape, report)) || failed(checkElement(name, value, elementOf(x), report))))
      return failure();
  return tensorType(x);
}

Inferred LayerNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getX()), report)))
    return failure();
  return normalised(op.getX(), {{"scale", op.getScale()}, {"bias", op.getBias()}},
                    shapeOf(op.getX()).drop_front(op.getAxis()), report);
}
Inferred RmsNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getX()), report)))
    return failure();
  return normalised(op.getX(), {{"scale", op.getScale()}}, shapeOf(op.getX()).drop_front(op.getAxis()), report);
}

static LogicalResult checkChannels(Value x, const Report &report) {
  if (rankOf(x) >= 2)
    return success();
  return report("x must have a batch and a channel dimension, found " + text(shapeOf(x)));
}

Inferred GroupNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkChannels(op.getX(), report)))
    return failure();
  int64_t channels = shapeOf(op.getX())[1], groups = op.getGroups();
  if (groups < 1 || channels % groups != 0)
    return report("the channels (" + Twine(channels) + ") must be a multiple of groups (" + Twine(groups) + ")");
  return normalised(op.getX(), {{"scale", op.getScale()}, {"bias", op.getBias()}}, {channels}, report);
}
Inferred BatchNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkChannels(op.getX(), report)))
    return failure();
  return normalised(
      op.getX(),
      {{"scale", op.getScale()}, {"bias", op.getBias()}, {"mean", op.getMean()}, {"variance", op.getVariance()}},
      {shapeOf(op.getX())[1]}, report);
}

} // namespace mortise::ir
