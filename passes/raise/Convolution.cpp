// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution with what follows it per channel: act(convolution(x, weight) * scale + bias).
#include "Match.h"

namespace mortise::passes::raise {
namespace {

constexpr const char *fusedName = "mortise.fused_convolution";

struct Fused { // a convolution, fused already or not, that only the caller uses
  Operation *op = nullptr;
  Value scale, bias;
  StringRef activation = "none";
};

std::optional<Fused> fusedFrom(Value value) {
  Fused found;
  found.op = producer(value, "mortise.convolution");
  if (Operation *op = found.op ? nullptr : producer(value, fusedName)) {
    const auto sizes = llvm::dyn_cast_if_present<mlir::DenseI32ArrayAttr>(attribute(op, "operandSegmentSizes"));
    if (!sizes)
      return std::nullopt;
    found.op = op;
    unsigned next = 2;
    if (sizes[2])
      found.scale = op->getOperand(next++);
    if (sizes[3])
      found.bias = op->getOperand(next);
    found.activation = stringOf(op, "activation");
  }
  return found.op && found.op->hasOneUse() ? std::optional(found) : std::nullopt;
}

mlir::LogicalResult replaceByFused(Operation *op, PatternRewriter &rewriter, const Fused &from) {
  Attributes attributes(rewriter);
  for (const char *name : {"strides", "low", "high", "dilations", "groups"})
    attributes.add(name, attribute(from.op, name));
  attributes.string("activation", from.activation).segments({1, 1, from.scale ? 1 : 0, from.bias ? 1 : 0});
  llvm::SmallVector<Value> operands{from.op->getOperand(0), from.op->getOperand(1)};
  for (Value value : {from.scale, from.bias})
    if (value)
      operands.push_back(value);
  return replace(rewriter, op, fusedName, operands, attributes, from.op);
}

// batch_norm(convolution): factor and shift per channel as batch_norm's decomposition computes them. Only when they
// depend on parameters and f32: what is narrower rounds between the convolution and the norm.
mlir::LogicalResult raiseBatchNorm(Operation *op, PatternRewriter &rewriter) {
  std::optional<Fused> found = fusedFrom(op->getOperand(0));
  const auto sizes = llvm::dyn_cast_if_present<mlir::DenseI32ArrayAttr>(attribute(op, "operandSegmentSizes"));
  if (!found || found->scale || found->activation != "none" || !sizes || !elementOf(op->getResult(0)).isF32())
    return mlir::failure();
  unsigned next = 1;
  Value scale = sizes[1] ? op->getOperand(next++) : Value(), bias = sizes[2] ? op->getOperand(next++) : Value();
  Value mean = op->getOperand(next++), variance = op->getOperand(next);
  if (found->bias) // (convolution + b - mean) * factor: another rounding, so left as two ops
    return mlir::failure();
  const mlir::Location place = op->getLoc();
  const double epsilon = llvm::cast<mlir::FloatAttr>(attribute(op, "epsilon")).getValueAsDouble();
  const auto both = [&](const char *name, Value a, Value b) { return make(rewriter, place, name, {a, b}); };
  Value factor =
      make(rewriter, place, "mortise.rsqrt", both("mortise.add", variance, filled(rewriter, place, epsilon, variance)));
  if (scale)
    factor = both("mortise.mul", scale, factor);
  Value shift = both("mortise.mul", mean, factor);
  shift = bias ? both("mortise.sub", bias, shift) : make(rewriter, place, "mortise.neg", shift);
  found->scale = factor;
  found->bias = shift;
  return replaceByFused(op, rewriter, *found);
}

// convolution + bias, or * scale, per channel.
mlir::LogicalResult raiseChannels(Operation *op, PatternRewriter &rewriter) {
  const bool adds = op->getName().getStringRef() == "mortise.add";
  for (unsigned i : {0u, 1u}) {
    std::optional<Fused> found = fusedFrom(op->getOperand(i));
    if (!found || found->activation != "none" || found->bias || (!adds && found->scale) || splat(op->getOperand(1 - i)))
      continue;
    (adds ? found->bias : found->scale) = along(rewriter, op->getOperand(1 - i), 1);
    if (adds ? found->bias : found->scale)
      return replaceByFused(op, rewriter, *found);
  }
  return mlir::failure();
}

mlir::LogicalResult raiseActivation(Operation *op, PatternRewriter &rewriter) {
  std::optional<Fused> found = fusedFrom(op->getOperand(0));
  if (!found || found->activation != "none")
    return mlir::failure();
  const StringRef name = op->getName().getStringRef();
  if (name == "mortise.gelu")
    found->activation = stringOf(op, "approximate") == "tanh" ? "gelu_tanh" : "gelu";
  else
    found->activation = name.drop_front(StringRef("mortise.").size());
  return replaceByFused(op, rewriter, *found);
}

} // namespace

ArrayRef<Row> convolutions() {
  static const Row rows[] = {
      {"mortise.batch_norm", fusedName, raiseBatchNorm}, {"mortise.add", fusedName, raiseChannels},
      {"mortise.mul", fusedName, raiseChannels},         {"mortise.relu", fusedName, raiseActivation},
      {"mortise.silu", fusedName, raiseActivation},      {"mortise.gelu", fusedName, raiseActivation},
  };
  return rows;
}

} // namespace mortise::passes::raise
