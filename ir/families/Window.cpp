// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#define GET_OP_CLASSES
#include <mortise/ir/Window.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Window.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addWindowOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/Window.cpp.inc>
      >();
}

FailureOr<Dims> slide(ArrayRef<int64_t> spatial, ArrayRef<int64_t> window, ArrayRef<int64_t> strides,
                      ArrayRef<int64_t> low, ArrayRef<int64_t> high, ArrayRef<int64_t> dilations,
                      const Report &report) {
  int64_t rank = spatial.size();
  if (failed(checkSize("window", window, rank, report)) || failed(checkSize("strides", strides, rank, report)) ||
      failed(checkSize("low", low, rank, report)) || failed(checkSize("high", high, rank, report)) ||
      failed(checkSize("dilations", dilations, rank, report)) || failed(checkLeast("window", window, 1, report)) ||
      failed(checkLeast("strides", strides, 1, report)) || failed(checkLeast("low", low, 0, report)) ||
      failed(checkLeast("high", high, 0, report)) || failed(checkLeast("dilations", dilations, 1, report)))
    return failure();
  Dims result;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t padded, span;
    if (llvm::AddOverflow(spatial[i], low[i], padded) || llvm::AddOverflow(padded, high[i], padded) ||
        llvm::MulOverflow(dilations[i], window[i] - 1, span) || span >= padded)
      return report("the window " + text(window) + " with dilations " + text(dilations) +
                    " is larger than the padded spatial extents " + text(spatial));
    result.push_back((padded - span - 1) / strides[i] + 1);
  }
  return result;
}

static LogicalResult checkSpatial(Value x, const Report &report) {
  if (rankOf(x) >= 3 && rankOf(x) <= 5)
    return success();
  return report("x must have a batch, a channel and one to three spatial dimensions, found " + text(shapeOf(x)));
}

Inferred pooled(Value x, ArrayRef<int64_t> window, ArrayRef<int64_t> strides, ArrayRef<int64_t> low,
                ArrayRef<int64_t> high, ArrayRef<int64_t> dilations, const Report &report) {
  if (failed(checkSpatial(x, report)))
    return failure();
  FailureOr<Dims> spatial = slide(shapeOf(x).drop_front(2), window, strides, low, high, dilations, report);
  if (failed(spatial))
    return failure();
  Dims shape(shapeOf(x).take_front(2));
  llvm::append_range(shape, *spatial);
  return RankedTensorType::get(shape, elementOf(x));
}

Inferred ConvolutionOp::infer(Adaptor op, const Report &report) {
  auto x = shapeOf(op.getX()), weight = shapeOf(op.getWeight());
  int64_t groups = op.getGroups();
  if (failed(checkSpatial(op.getX(), report)) ||
      failed(checkElement("weight", op.getWeight(), elementOf(op.getX()), report)))
    return failure();
  if (weight.size() != x.size())
    return report("weight " + text(weight) + " must have the rank of x " + text(x));
  if (groups < 1 || x[1] % groups != 0 || weight[0] % groups != 0)
    return report("input channels (" + Twine(x[1]) + ") and output channels (" + Twine(weight[0]) +
                  ") must be multiples of groups (" + Twine(groups) + ")");
  if (weight[1] != x[1] / groups)
    return report("the second extent of weight " + text(weight) + " must be the channels of x " + text(x) +
                  " divided by groups: " + Twine(x[1] / groups));
  FailureOr<Dims> spatial = slide(x.drop_front(2), weight.drop_front(2), op.getStrides(), op.getLow(), op.getHigh(),
                                  op.getDilations(), report);
  if (failed(spatial))
    return failure();
  Dims shape{x[0], weight[0]};
  llvm::append_range(shape, *spatial);
  return RankedTensorType::get(shape, elementOf(op.getX()));
}

} // namespace mortise::ir
