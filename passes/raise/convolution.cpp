// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution and the ops per channel that follow it: act(convolution(x, weight) * scale + bias). Several factors and
// shifts become one scale and one bias, computed from the parameters alone: (y + b) * c is y * c + b * c, and y / c is
// y * (1 / c). Results differ by rounding only, unless c is infinite or 1 / c overflows.
#include "match.hpp"

namespace mortise::passes::raise {
namespace {

struct Fused { // a convolution, plain or fused, whose result has one user
  Operation *op = nullptr;
  Value x, weight;
  Properties<ir::FusedConvolutionOp> attributes;
  Value scale, bias;

  bool isActivated() const { return attributes.activation.getValue() != "none"; }
};

std::optional<Fused> fusedFrom(Value value, PatternRewriter &rewriter) {
  if (!value.hasOneUse())
    return std::nullopt;
  if (auto fused = producer<ir::FusedConvolutionOp>(value))
    return Fused{fused, fused.getX(), fused.getWeight(), fused.getProperties(), fused.getScale(), fused.getBias()};
  auto plain = producer<ir::ConvolutionOp>(value);
  if (!plain)
    return std::nullopt;
  return Fused{plain,
               plain.getX(),
               plain.getWeight(),
               {.activation = rewriter.getStringAttr("none"),
                .dilations = plain.getDilationsAttr(),
                .groups = plain.getGroupsAttr(),
                .high = plain.getHighAttr(),
                .low = plain.getLowAttr(),
                .strides = plain.getStridesAttr()},
               {},
               {}};
}

mlir::LogicalResult replaceByFused(Operation *op, PatternRewriter &rewriter, Fused from) {
  llvm::SmallVector<Value> operands{from.x, from.weight};
  for (Value value : {from.scale, from.bias})
    if (value)
      operands.push_back(value);
  from.attributes.operandSegmentSizes = {1, 1, from.scale ? 1 : 0, from.bias ? 1 : 0};
  return replace<ir::FusedConvolutionOp>(rewriter, op, operands, from.attributes, from.op);
}

// batch_norm(convolution). Factor and shift per channel are computed in f64 and rounded once: their errors are the same
// at every pixel, so that means over pixels keep them. Not raised for f16, where factor and shift of a channel with a
// small variance may overflow.
mlir::LogicalResult raiseBatchNorm(ir::BatchNormOp op, PatternRewriter &rewriter) {
  std::optional<Fused> found = fusedFrom(op.getX(), rewriter);
  const mlir::Type element = elementOf(op.getResult());
  if (!found || found->scale || found->isActivated() || (!element.isF32() && !element.isBF16()))
    return mlir::failure();
  const mlir::Location place = op->getLoc();
  const auto converted = [&](Value value, StringRef dtype) {
    return value ? make<ir::ConvertOp>(rewriter, place, value, {.dtype = rewriter.getStringAttr(dtype)}) : value;
  };
  const StringRef narrow = element.isF32() ? "f32" : "bf16";
  Value scale = converted(op.getScale(), "f64"), bias = converted(op.getBias(), "f64"),
        mean = converted(op.getMean(), "f64"), variance = converted(op.getVariance(), "f64");
  const double epsilon = op.getEpsilonAttr().getValueAsDouble();
  Value factor = make<ir::RsqrtOp>(
      rewriter, place, make<ir::AddOp>(rewriter, place, {variance, filled(rewriter, place, epsilon, variance)}));
  if (scale)
    factor = make<ir::MulOp>(rewriter, place, {scale, factor});
  if (found->bias) // the convolution's bias shifts the mean
    mean = make<ir::SubOp>(rewriter, place, {mean, converted(found->bias, "f64")});
  Value shift = make<ir::MulOp>(rewriter, place, {mean, factor});
  shift = bias ? make<ir::SubOp>(rewriter, place, {bias, shift}) : make<ir::NegOp>(rewriter, place, shift);
  found->scale = converted(factor, narrow);
  found->bias = converted(shift, narrow);
  return replaceByFused(op, rewriter, *found);
}

// A convolution plus, minus, times or divided by one number for each channel.
template <typename Op> mlir::LogicalResult raiseChannels(Op op, PatternRewriter &rewriter) {
  constexpr bool shifts = std::is_same_v<Op, ir::AddOp> || std::is_same_v<Op, ir::SubOp>,
                 inverse = std::is_same_v<Op, ir::SubOp> || std::is_same_v<Op, ir::DivOp>;
  for (unsigned i : {0u, 1u}) {
    std::optional<Fused> found = i && inverse ? std::nullopt : fusedFrom(op->getOperand(i), rewriter);
    if (!found || found->isActivated() || splat(op->getOperand(1 - i)))
      continue;
    Value number = along(rewriter, op->getOperand(1 - i), 1);
    if (!number)
      continue;
    const mlir::Location place = op->getLoc();
    const auto combined = [&](Value before) { // `number` combined with an earlier scale or bias
      if (before)
        return make<Op>(rewriter, place, {before, number});
      if (!inverse)
        return number;
      return shifts ? make<ir::NegOp>(rewriter, place, number)
                    : make<ir::DivOp>(rewriter, place, {filled(rewriter, place, 1, number), number});
    };
    if (!shifts)
      found->scale = combined(found->scale);
    if (shifts || found->bias)
      found->bias = combined(found->bias);
    return replaceByFused(op, rewriter, *found);
  }
  return mlir::failure();
}

mlir::LogicalResult activated(Operation *op, PatternRewriter &rewriter, StringRef activation) {
  std::optional<Fused> found = fusedFrom(op->getOperand(0), rewriter);
  if (!found || found->isActivated())
    return mlir::failure();
  found->attributes.activation = rewriter.getStringAttr(activation);
  return replaceByFused(op, rewriter, *found);
}
mlir::LogicalResult raiseRelu(ir::ReluOp op, PatternRewriter &rewriter) { return activated(op, rewriter, "relu"); }
mlir::LogicalResult raiseSilu(ir::SiluOp op, PatternRewriter &rewriter) { return activated(op, rewriter, "silu"); }
mlir::LogicalResult raiseGelu(ir::GeluOp op, PatternRewriter &rewriter) {
  return activated(op, rewriter, op.getApproximate() == "tanh" ? "gelu_tanh" : "gelu");
}

} // namespace

ArrayRef<Row> convolutions() {
  static const Row rows[] = {
      row<ir::BatchNormOp, raiseBatchNorm>(),
      row<ir::AddOp, raiseChannels<ir::AddOp>>(),
      row<ir::MulOp, raiseChannels<ir::MulOp>>(),
      row<ir::SubOp, raiseChannels<ir::SubOp>>(),
      row<ir::DivOp, raiseChannels<ir::DivOp>>(),
      row<ir::ReluOp, raiseRelu>(),
      row<ir::SiluOp, raiseSilu>(),
      row<ir::GeluOp, raiseGelu>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
