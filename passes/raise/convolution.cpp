// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution with what follows it per channel: act(convolution(x, weight) * scale + bias). Factors and shifts of
// several steps become one of each, computed from the parameters alone: (y + b) * c is y * c + b * c, and y / c is
// y * (1 / c). The same but for roundings of the size of those of the steps, unless c is infinite or 1 / c overflows.
#include "match.hpp"

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

// batch_norm(convolution): factor and shift per channel as batch_norm's decomposition computes them, in f32 where the
// parameters are bf16. Not in f16, where mean * factor overflows for a channel that hardly varies.
mlir::LogicalResult raiseBatchNorm(Operation *op, PatternRewriter &rewriter) {
  std::optional<Fused> found = fusedFrom(op->getOperand(0));
  const auto sizes = llvm::dyn_cast_if_present<mlir::DenseI32ArrayAttr>(attribute(op, "operandSegmentSizes"));
  const mlir::Type element = elementOf(op->getResult(0));
  if (!found || found->scale || found->activation != "none" || !sizes || (!element.isF32() && !element.isBF16()))
    return mlir::failure();
  const mlir::Location place = op->getLoc();
  const auto converted = [&](Value value, StringRef type) {
    return value && element.isBF16()
               ? make(rewriter, place, "mortise.convert", value, Attributes(rewriter).string("dtype", type))
               : value;
  };
  const auto both = [&](const char *name, Value a, Value b) { return make(rewriter, place, name, {a, b}); };
  unsigned next = 1;
  const auto parameter = [&](bool present) { return present ? converted(op->getOperand(next++), "f32") : Value(); };
  Value scale = parameter(sizes[1]), bias = parameter(sizes[2]), mean = parameter(true), variance = parameter(true);
  const double epsilon = llvm::cast<mlir::FloatAttr>(attribute(op, "epsilon")).getValueAsDouble();
  Value factor =
      make(rewriter, place, "mortise.rsqrt", both("mortise.add", variance, filled(rewriter, place, epsilon, variance)));
  if (scale)
    factor = both("mortise.mul", scale, factor);
  if (found->bias) // of the convolution: it moves the mean
    mean = both("mortise.sub", mean, converted(found->bias, "f32"));
  Value shift = both("mortise.mul", mean, factor);
  shift = bias ? both("mortise.sub", bias, shift) : make(rewriter, place, "mortise.neg", shift);
  found->scale = converted(factor, "bf16");
  found->bias = converted(shift, "bf16");
  return replaceByFused(op, rewriter, *found);
}

// A convolution plus, minus, times or over a number for each channel.
mlir::LogicalResult raiseChannels(Operation *op, PatternRewriter &rewriter) {
  const StringRef name = op->getName().getStringRef();
  const bool shifts = name == "mortise.add" || name == "mortise.sub",
             inverse = name == "mortise.sub" || name == "mortise.div";
  for (unsigned i : {0u, 1u}) {
    std::optional<Fused> found = i && inverse ? std::nullopt : fusedFrom(op->getOperand(i));
    if (!found || found->activation != "none" || splat(op->getOperand(1 - i)))
      continue;
    Value number = along(rewriter, op->getOperand(1 - i), 1);
    if (!number)
      continue;
    const mlir::Location place = op->getLoc();
    const auto combined = [&](Value before) { // with what an earlier step left
      if (before)
        return make(rewriter, place, name, {before, number});
      if (!inverse)
        return number;
      return shifts ? make(rewriter, place, "mortise.neg", number)
                    : make(rewriter, place, "mortise.div", {filled(rewriter, place, 1, number), number});
    };
    if (!shifts)
      found->scale = combined(found->scale);
    if (shifts || found->bias)
      found->bias = combined(found->bias);
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
      {"mortise.mul", fusedName, raiseChannels},         {"mortise.sub", fusedName, raiseChannels},
      {"mortise.div", fusedName, raiseChannels},         {"mortise.relu", fusedName, raiseActivation},
      {"mortise.silu", fusedName, raiseActivation},      {"mortise.gelu", fusedName, raiseActivation},
  };
  return rows;
}

} // namespace mortise::passes::raise
