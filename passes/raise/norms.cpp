// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// rms_norm and layer_norm: the core first, then scale and bias. The variance is the mean of squared distances; one
// computed as mean(x^2) - mean(x)^2 cancels and may be negative, so that such a program means something else.
#include "match.hpp"

namespace mortise::passes::raise {
namespace {

// x when `value` is x^2.
Value squareOf(Value value) {
  if (Operation *mul = producer(value, "mortise.mul"))
    return mul->getOperand(0) == mul->getOperand(1) ? mul->getOperand(0) : Value();
  Operation *pow = producer(value, "mortise.pow");
  return pow && isSplat(pow->getOperand(1), 2) ? pow->getOperand(0) : Value();
}

struct Spread { // sqrt(mean(of^2) + epsilon)
  Value of;
  ArrayRef<int64_t> axes;
  double epsilon = 0;
};

std::optional<Spread> meanSquare(Value value) {
  Operation *add = producer(stripReshapes(value), "mortise.add");
  for (unsigned i : {0u, 1u}) {
    const std::optional<double> epsilon = add ? splat(add->getOperand(i)) : std::nullopt;
    const std::optional<Mean> mean = epsilon && *epsilon >= 0 ? meanOf(add->getOperand(1 - i)) : std::nullopt;
    if (Value of = mean ? squareOf(mean->operand) : Value())
      return Spread{of, mean->axes, *epsilon};
  }
  return std::nullopt;
}
std::optional<Spread> rootOf(Value value) {
  value = stripReshapes(value);
  if (Operation *sqrt = producer(value, "mortise.sqrt"))
    return meanSquare(sqrt->getOperand(0));
  Operation *pow = producer(value, "mortise.pow");
  return pow && isSplat(pow->getOperand(1), 0.5) ? meanSquare(pow->getOperand(0)) : std::nullopt;
}
std::optional<Spread> reciprocalRootOf(Value value) {
  value = stripReshapes(value);
  if (Operation *rsqrt = producer(value, "mortise.rsqrt"))
    return meanSquare(rsqrt->getOperand(0));
  if (Operation *pow = producer(value, "mortise.pow"))
    return isSplat(pow->getOperand(1), -0.5) ? meanSquare(pow->getOperand(0)) : std::nullopt;
  Operation *div = producer(value, "mortise.div");
  return div && isSplat(div->getOperand(0), 1) ? rootOf(div->getOperand(1)) : std::nullopt;
}

// x over its spread along the trailing dimensions, times one more factor at most.
struct Normalised {
  Spread spread;
  Value rest;
};

// `spread` when it is repeated to divide (or multiply) x.
bool spreads(const std::optional<Spread> &spread, Value repeated, Value x) {
  const int64_t rank = rankOf(x);
  return spread && spread->of == x && !spread->axes.empty() &&
         spread->axes == ArrayRef<int64_t>(range(rank - static_cast<int64_t>(spread->axes.size()), rank)) &&
         repeatedAlong(repeated, spread->axes, dimsOf(x));
}

// x * (1 / spread), x / spread, and products of these with a factor in any order.
std::optional<Normalised> normalised(Operation *op) {
  const bool divides = op->getName().getStringRef() == "mortise.div";
  Value numerator = divides ? op->getOperand(0) : op->getResult(0);
  std::optional<Product> product = divides && !numerator.hasOneUse() ? Product{1, {numerator}} : productOf(numerator);
  if (!product || product->constant != 1)
    return std::nullopt;
  if (divides)
    product->factors.push_back(op->getOperand(1));
  const size_t count = product->factors.size();
  if (count != 2 && count != 3)
    return std::nullopt;
  for (size_t i = divides ? count - 1 : 0; i < count; ++i) {
    Operation *broadcast = producer(product->factors[i], "mortise.broadcast");
    if (!broadcast)
      continue;
    Value value = broadcast->getOperand(0);
    const std::optional<Spread> spread = divides ? rootOf(value) : reciprocalRootOf(value);
    for (size_t k = 0; k < count; ++k)
      if (k != i && spreads(spread, product->factors[i], product->factors[k]))
        return Normalised{*spread, count == 3 ? product->factors[3 - i - k] : Value()};
  }
  return std::nullopt;
}

// (y - mean(y)) over its own spread is layer_norm(y), any other x over its spread rms_norm(x).
mlir::LogicalResult raiseNorm(Operation *op, PatternRewriter &rewriter) {
  const std::optional<Normalised> found = normalised(op);
  if (!found)
    return mlir::failure();
  const Spread &spread = found->spread;
  Attributes attributes(rewriter);
  attributes.integer("axis", spread.axes.front()).number("epsilon", spread.epsilon);
  StringRef name = "mortise.rms_norm";
  Value x = spread.of;
  if (Operation *sub = producer(x, "mortise.sub")) {
    Value y = sub->getOperand(0);
    Operation *broadcast = producer(sub->getOperand(1), "mortise.broadcast");
    const std::optional<Mean> mean = broadcast ? meanOf(broadcast->getOperand(0)) : std::nullopt;
    if (mean && mean->operand == y && mean->axes == spread.axes &&
        repeatedAlong(sub->getOperand(1), spread.axes, dimsOf(y))) {
      name = "mortise.layer_norm";
      x = y;
      attributes.segments({1, 0, 0});
    }
  }
  if (!found->rest)
    return replace(rewriter, op, name, x, attributes);
  return replace(rewriter, op, "mortise.mul", {make(rewriter, op->getLoc(), name, x, attributes), found->rest});
}

// norm(x) * scale
mlir::LogicalResult raiseScale(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *norm = producer(op->getOperand(i), "mortise.rms_norm");
    const bool centred = !norm;
    if (centred)
      norm = producer(op->getOperand(i), "mortise.layer_norm");
    if (!norm || norm->getNumOperands() != 1 || !norm->hasOneUse() || splat(op->getOperand(1 - i)))
      continue;
    Value scale = trailing(rewriter, op->getOperand(1 - i), intOf(norm, "axis"));
    if (!scale)
      continue;
    Attributes attributes(rewriter);
    attributes.integer("axis", intOf(norm, "axis")).add("epsilon", attribute(norm, "epsilon"));
    if (centred)
      attributes.segments({1, 1, 0});
    return replace(rewriter, op, norm->getName().getStringRef(), {norm->getOperand(0), scale}, attributes, norm);
  }
  return mlir::failure();
}

// layer_norm(x, scale) + bias
mlir::LogicalResult raiseShift(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *norm = producer(op->getOperand(i), "mortise.layer_norm");
    if (!norm || !norm->hasOneUse() || splat(op->getOperand(1 - i)))
      continue;
    const auto sizes = llvm::dyn_cast_if_present<mlir::DenseI32ArrayAttr>(attribute(norm, "operandSegmentSizes"));
    if (!sizes || sizes[2] != 0)
      continue;
    Value bias = trailing(rewriter, op->getOperand(1 - i), intOf(norm, "axis"));
    if (!bias)
      continue;
    llvm::SmallVector<Value> operands(norm->getOperands());
    operands.push_back(bias);
    Attributes attributes(rewriter);
    attributes.integer("axis", intOf(norm, "axis")).add("epsilon", attribute(norm, "epsilon"));
    return replace(rewriter, op, "mortise.layer_norm", operands, attributes.segments({1, sizes[1], 1}), norm);
  }
  return mlir::failure();
}

} // namespace

ArrayRef<Row> norms() {
  static const Row rows[] = {
      {"mortise.mul", "mortise.rms_norm", raiseNorm},
      {"mortise.div", "mortise.rms_norm", raiseNorm},
      {"mortise.mul", "mortise.rms_norm", raiseScale},
      {"mortise.add", "mortise.layer_norm", raiseShift},
  };
  return rows;
}

} // namespace mortise::passes::raise
