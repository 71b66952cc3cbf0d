// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/window.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addWindowOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/window.cpp.inc>
      >();
}

FailureOr<Dims> slide(ArrayRef<Dim> spatial, ArrayRef<int64_t> window, ArrayRef<int64_t> strides, ArrayRef<int64_t> low,
                      ArrayRef<int64_t> high, ArrayRef<int64_t> dilations, const Report &report) {
  int64_t rank = spatial.size();
  if (failed(checkSize("window", window, rank, report.at("window_c2"))) ||
      failed(checkSize("strides", strides, rank, report)) || failed(checkSize("low", low, rank, report)) ||
      failed(checkSize("high", high, rank, report)) || failed(checkSize("dilations", dilations, rank, report)) ||
      failed(checkLeast("window", window, 1, report.at("window_c3"))) ||
      failed(checkLeast("strides", strides, 1, report)) || failed(checkLeast("low", low, 0, report)) ||
      failed(checkLeast("high", high, 0, report)) || failed(checkLeast("dilations", dilations, 1, report)))
    return failure();
  Dims result;
  for (int64_t i = 0; i < rank; ++i) {
    Dim padded = spatial[i] + low[i] + high[i], span = Dim(dilations[i]) * (window[i] - 1);
    if (!padded.isValid() || !span.isValid() || !report.isAtLeast(padded, span + 1))
      return report.at("window_c4")("the window " + text(window) + " with dilations " + text(dilations) +
                                    " is larger than the padded spatial extents " + report.text(spatial));
    result.push_back(floorDiv(padded - span - 1, strides[i]) + 1);
  }
  return result;
}

static LogicalResult checkSpatial(Value x, const Report &report) {
  if (rankOf(x) >= 3 && rankOf(x) <= 5)
    return success();
  return report.at("window_c1")("x must have a batch, a channel and one to three spatial dimensions, found " +
                                report.text(dimsOf(x)));
}

Inferred pooled(Value x, ArrayRef<int64_t> window, ArrayRef<int64_t> strides, ArrayRef<int64_t> low,
                ArrayRef<int64_t> high, ArrayRef<int64_t> dilations, const Report &report) {
  if (failed(checkSpatial(x, report)))
    return failure();
  Dims dims = dimsOf(x);
  FailureOr<Dims> spatial = slide(ArrayRef(dims).drop_front(2), window, strides, low, high, dilations, report);
  if (failed(spatial))
    return failure();
  dims.truncate(2);
  llvm::append_range(dims, *spatial);
  return Shaped{elementOf(x), dims};
}

// The type of convolution and fused_convolution.
template <typename Adaptor> static Inferred convolved(Adaptor op, const Report &report) {
  Dims x = dimsOf(op.getX()), weight = dimsOf(op.getWeight());
  int64_t groups = op.getGroups();
  if (failed(checkSpatial(op.getX(), report)) ||
      failed(checkElement("weight", op.getWeight(), elementOf(op.getX()), report.at("convolution_c1"))))
    return failure();
  if (weight.size() != x.size())
    return report.at("convolution_c1")("weight " + report.text(weight) + " must have the rank of x " + report.text(x));
  if (groups < 1 || report.simplified(mod(x[1], groups)) != Dim(0) ||
      report.simplified(mod(weight[0], groups)) != Dim(0))
    return report.at("convolution_c2")("input channels (" + report.text(x[1]) + ") and output channels (" +
                                       report.text(weight[0]) + ") must be multiples of groups (" + Twine(groups) +
                                       ")");
  if (weight[1] != floorDiv(x[1], groups))
    return report.at("convolution_c3")("the second extent of weight " + report.text(weight) +
                                       " must be the channels of x " + report.text(x) +
                                       " divided by groups: " + report.text(floorDiv(x[1], groups)));
  FailureOr<Axes> window =
      numbersOf("the window of weight", ArrayRef(weight).drop_front(2), report.at("convolution_c4"));
  if (failed(window))
    return failure();
  FailureOr<Dims> spatial =
      slide(ArrayRef(x).drop_front(2), *window, op.getStrides(), op.getLow(), op.getHigh(), op.getDilations(), report);
  if (failed(spatial))
    return failure();
  Dims shape{x[0], weight[0]};
  llvm::append_range(shape, *spatial);
  return Shaped{elementOf(op.getX()), shape};
}

Inferred ConvolutionOp::infer(Adaptor op, const Report &report) { return convolved(op, report); }
Inferred FusedConvolutionOp::infer(Adaptor op, const Report &report) {
  Inferred result = convolved(op, report);
  for (auto [name, value] : {std::pair(StringRef("scale"), op.getScale()), {"bias", op.getBias()}})
    if (!failed(result) && value &&
        (failed(checkShape(name, value, {result->dims[1]}, report.at("fused_convolution_c1"))) ||
         failed(checkElement(name, value, elementOf(op.getX()), report))))
      return failure();
  return result;
}

// ---- Decompositions

Values FusedConvolutionOp::expand(Writer &write) {
  Value y = write.make<ConvolutionOp>(write.widened(getX()), write.widened(getWeight()), getStrides(), getLow(),
                                      getHigh(), getDilations(), getGroups());
  auto channel = [&](Value each) { return write.spread(write.widened(each), dimsOf(y), Axes{1}); };
  if (getScale())
    y = write.make<MulOp>(y, channel(getScale()));
  if (getBias())
    y = write.make<AddOp>(y, channel(getBias()));
  if (getActivation() == "relu")
    y = write.make<ReluOp>(y);
  else if (getActivation() == "silu")
    y = write.make<SiluOp>(y);
  else if (getActivation() != "none")
    y = write.make<GeluOp>(y, getActivation() == "gelu" ? "none" : "tanh");
  return {y};
}

} // namespace mortise::ir
