// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#include <cmath>

#define GET_OP_CLASSES
#include <mortise/ir/normalisation.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addNormalisationOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/normalisation.cpp.inc>
      >();
}

static Inferred alongAxis(Value operand, int64_t axis, const Report &report) {
  if (failed(checkAxis(axis, rankOf(operand), report)))
    return failure();
  return shapedAs(operand);
}
Inferred SoftmaxOp::infer(Adaptor op, const Report &report) {
  return alongAxis(op.getOperand(), op.getAxis(), report.at("softmax_c1"));
}
Inferred LogSoftmaxOp::infer(Adaptor op, const Report &report) {
  return alongAxis(op.getOperand(), op.getAxis(), report.at("log_softmax_c1"));
}

// Checks the parameters of a normalisation of `x` (null ones are absent) and returns the type of `x`.
static Inferred normalised(Value x, ArrayRef<std::pair<StringRef, Value>> parameters, ArrayRef<Dim> shape,
                           const Report &report) {
  for (auto [name, value] : parameters)
    if (value &&
        (failed(checkShape(name, value, shape, report)) || failed(checkElement(name, value, elementOf(x), report))))
      return failure();
  return shapedAs(x);
}

Inferred LayerNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getX()), report.at("layer_norm_c1"))))
    return failure();
  return normalised(op.getX(), {{"scale", op.getScale()}, {"bias", op.getBias()}},
                    ArrayRef(dimsOf(op.getX())).drop_front(op.getAxis()), report.at("layer_norm_c2"));
}
Inferred RmsNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkAxis(op.getAxis(), rankOf(op.getX()), report.at("rms_norm_c1"))))
    return failure();
  return normalised(op.getX(), {{"scale", op.getScale()}}, ArrayRef(dimsOf(op.getX())).drop_front(op.getAxis()),
                    report.at("rms_norm_c2"));
}

static LogicalResult checkChannels(Value x, const Report &report) {
  if (rankOf(x) >= 2)
    return success();
  return report("x must have a batch and a channel dimension, found " + report.text(dimsOf(x)));
}

Inferred GroupNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkChannels(op.getX(), report.at("group_norm_c1"))))
    return failure();
  Dim channels = dimsOf(op.getX())[1];
  int64_t groups = op.getGroups();
  if (groups < 1 || report.simplified(mod(channels, groups)) != Dim(0))
    return report.at("group_norm_c2")("the channels (" + report.text(channels) + ") must be a multiple of groups (" +
                                      Twine(groups) + ")");
  return normalised(op.getX(), {{"scale", op.getScale()}, {"bias", op.getBias()}}, {channels},
                    report.at("group_norm_c3"));
}
Inferred BatchNormOp::infer(Adaptor op, const Report &report) {
  if (failed(checkChannels(op.getX(), report.at("batch_norm_c1"))))
    return failure();
  return normalised(
      op.getX(),
      {{"scale", op.getScale()}, {"bias", op.getBias()}, {"mean", op.getMean()}, {"variance", op.getVariance()}},
      {dimsOf(op.getX())[1]}, report.at("batch_norm_c2"));
}

Inferred CrossEntropyOp::infer(Adaptor op, const Report &report) {
  Dims shape = dimsOf(op.getLogits());
  if (shape.empty())
    return report.at("cross_entropy_c1")("logits must have rank 1 or more, found rank 0");
  shape.pop_back();
  if (failed(checkShape("targets", op.getTargets(), shape, report.at("cross_entropy_c1"))))
    return failure();
  double smoothing = op.getLabelSmoothing().convertToDouble();
  if (!(smoothing >= 0 && smoothing <= 1))
    return report.at("cross_entropy_c2")("label_smoothing must be from 0 to 1, found " + std::to_string(smoothing));
  if (elementOf(op.getTargets()).isInteger(32) && !llvm::isInt<32>(op.getIgnoreIndex()))
    return report.at("cross_entropy_c3")("ignore_index must fit the i32 of targets, found " +
                                         Twine(static_cast<int64_t>(op.getIgnoreIndex())));
  if (op.getReduction() != "none")
    shape.clear();
  return Shaped{elementOf(op.getLogits()), shape};
}

// ---- Decompositions

Values ReluOp::expand(Writer &write) { return {write.make<MaxOp>(getOperand(), write.fill(0, getOperand()))}; }
Values SiluOp::expand(Writer &write) {
  Value x = write.widened(getOperand());
  return {write.make<MulOp>(x, write.make<LogisticOp>(x))};
}
Values SwigluOp::expand(Writer &write) {
  return {write.make<MulOp>(write.make<SiluOp>(write.widened(getGate())), write.widened(getUp()))};
}
Values GeluOp::expand(Writer &write) {
  Value x = write.widened(getOperand());
  if (getApproximate() == "none") // erfc, because 1 + erf(x) would cancel in the negative tail
    return {write.make<MulOp>(write.times(x, 0.5), write.make<ErfcOp>(write.times(x, -std::sqrt(0.5))))};
  // 0.5 * (1 + tanh(u)) is logistic(2 u), which does not cancel.
  Value cube = write.make<MulOp>(write.make<MulOp>(x, x), x);
  Value inner = write.make<AddOp>(x, write.times(cube, 0.044715));
  return {write.make<MulOp>(x, write.make<LogisticOp>(write.times(inner, 2 * std::sqrt(2 / M_PI))))};
}

// x minus its largest element along `axis`.
static Value centred(Value x, int64_t axis, Writer &write) {
  Value top = write.make<ReduceMaxOp>(x, ArrayRef<int64_t>(axis));
  return write.make<SubOp>(x, write.spread(top, dimsOf(x), allBut(rankOf(x), axis)));
}
Values SoftmaxOp::expand(Writer &write) {
  int64_t axis = getAxis();
  Value powers = write.make<ExpOp>(centred(write.widened(getOperand()), axis, write));
  Value sum = write.make<ReduceSumOp>(powers, ArrayRef<int64_t>(axis));
  return {write.make<DivOp>(powers, write.spread(sum, dimsOf(powers), allBut(rankOf(powers), axis)))};
}
Values LogSoftmaxOp::expand(Writer &write) {
  int64_t axis = getAxis();
  Value x = centred(write.widened(getOperand()), axis, write);
  Value sum = write.make<ReduceSumOp>(write.make<ExpOp>(x), ArrayRef<int64_t>(axis));
  Value log = write.make<LogOp>(sum);
  return {write.make<SubOp>(x, write.spread(log, dimsOf(x), allBut(rankOf(x), axis)))};
}

static Value rootOfVariance(Value squares, ArrayRef<int64_t> axes, double epsilon, Writer &write) {
  Value mean = write.mean(squares, axes);
  return write.make<RsqrtOp>(write.plus(mean, epsilon));
}
// (x - mean) / sqrt(variance + epsilon) over `axes`.
static Value normalise(Value x, ArrayRef<int64_t> axes, double epsilon, Writer &write) {
  Axes rest = allBut(rankOf(x), axes);
  Value mean = write.mean(x, axes);
  Value distance = write.make<SubOp>(x, write.spread(mean, dimsOf(x), rest));
  Value root = rootOfVariance(write.make<MulOp>(distance, distance), axes, epsilon, write);
  return write.make<MulOp>(distance, write.spread(root, dimsOf(x), rest));
}
// x * scale + bias; the dimensions of scale and bias are the dimensions `axes` of x.
static Value scaled(Value x, Value scale, Value bias, ArrayRef<int64_t> axes, Writer &write) {
  if (scale)
    x = write.make<MulOp>(x, write.spread(write.widened(scale), dimsOf(x), axes));
  if (bias)
    x = write.make<AddOp>(x, write.spread(write.widened(bias), dimsOf(x), axes));
  return x;
}
Values LayerNormOp::expand(Writer &write) {
  Value x = write.widened(getX());
  Axes axes = from(getAxis(), rankOf(x));
  Value y = normalise(x, axes, getEpsilon().convertToDouble(), write);
  return {scaled(y, getScale(), getBias(), axes, write)};
}
Values RmsNormOp::expand(Writer &write) {
  Value x = write.widened(getX());
  Axes axes = from(getAxis(), rankOf(x));
  Value root = rootOfVariance(write.make<MulOp>(x, x), axes, getEpsilon().convertToDouble(), write);
  Value y = write.make<MulOp>(x, write.spread(root, dimsOf(x), allBut(rankOf(x), axes)));
  return {scaled(y, getScale(), Value(), axes, write)};
}
Values GroupNormOp::expand(Writer &write) {
  Value x = write.widened(getX());
  Dims shape = dimsOf(x);
  int64_t groups = getGroups();
  Dim members = floorDiv(shape[1], groups) * countOf(ArrayRef(shape).drop_front(2));
  Value grouped = write.reshaped(x, {shape[0], Dim(groups), members});
  Value y = write.reshaped(normalise(grouped, {2}, getEpsilon().convertToDouble(), write), shape);
  return {scaled(y, getScale(), getBias(), {1}, write)};
}
// One factor and one shift per channel. They depend on constants only, so they are computed once.
Values BatchNormOp::expand(Writer &write) {
  Value x = write.widened(getX());
  Value factor = write.make<RsqrtOp>(write.plus(write.widened(getVariance()), getEpsilon().convertToDouble()));
  if (getScale())
    factor = write.make<MulOp>(write.widened(getScale()), factor);
  Value shift = write.make<MulOp>(write.widened(getMean()), factor);
  shift = getBias() ? write.make<SubOp>(write.widened(getBias()), shift) : write.make<NegOp>(shift);
  return {scaled(x, factor, shift, {1}, write)};
}

// The loss of each target, 0 where `ignored` is true.
static Value losses(Value logits, Value targets, Value ignored, double smoothing, Writer &write) {
  Dims shape = dimsOf(logits), rows = dimsOf(targets);
  int64_t last = rankOf(logits) - 1;
  Axes outer = from(0, last);
  Value p = write.make<LogSoftmaxOp>(logits, last);
  Value number = write.iota(shape, elementOf(targets), last);
  Value chosen = write.make<CompareOp>(number, write.spread(targets, shape, outer), "eq");
  // Sums one number and zeros. A select and not a product, so infinities of other classes have no effect.
  Value picked = write.make<NegOp>(write.make<ReduceSumOp>(write.make<SelectOp>(chosen, p, write.fill(0, p)), last));
  if (smoothing != 0) {
    Value rest = write.times(write.mean(p, last), -smoothing);
    picked = write.make<AddOp>(write.times(picked, 1 - smoothing), rest);
  }
  Value valid = write.make<ReduceMaxOp>(chosen, last);
  picked = write.make<SelectOp>(valid, picked, write.fill(std::numeric_limits<double>::quiet_NaN(), picked));
  return write.make<SelectOp>(ignored, write.fill(0, picked), picked);
}
Values CrossEntropyOp::expand(Writer &write) {
  Value targets = getTargets();
  Value ignored = write.make<CompareOp>(targets, write.fill(static_cast<int64_t>(getIgnoreIndex()), targets), "eq");
  Value each = losses(write.widened(getLogits()), targets, ignored, getLabelSmoothing().convertToDouble(), write);
  if (getReduction() == "none")
    return {each};
  Axes axes = from(0, rankOf(each));
  Value sum = write.make<ReduceSumOp>(each, axes);
  if (getReduction() == "sum")
    return {sum};
  Value counted = write.converted(write.make<NotOp>(ignored), write.rewriter.getI64Type());
  Value count = write.make<ReduceSumOp>(counted, axes);
  return {write.make<DivOp>(sum, write.converted(count, elementOf(sum)))};
}

} // namespace mortise::ir
