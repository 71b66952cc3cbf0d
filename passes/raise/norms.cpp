// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// rms_norm and layer_norm: the core first, then scale and bias. The variance must be written as the mean of squared
// distances. mean(x^2) - mean(x)^2 cancels and may be negative, so a program that computes it has other results and is
// not raised.
#include "match.hpp"

namespace mortise::passes::raise {
namespace {

// x when `value` is x^2.
Value squareOf(Value value) {
  if (auto mul = producer<ir::MulOp>(value))
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  auto pow = producer<ir::PowOp>(value);
  return pow && isSplat(pow.getRhs(), 2) ? pow.getLhs() : Value();
}

struct Spread { // sqrt(mean(of^2) + epsilon)
  Value of;
  ArrayRef<int64_t> axes;
  double epsilon = 0;
};

std::optional<Spread> meanSquare(Value value) {
  auto add = producer<ir::AddOp>(stripReshapes(value));
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
  if (auto sqrt = producer<ir::SqrtOp>(value))
    return meanSquare(sqrt.getOperand());
  auto pow = producer<ir::PowOp>(value);
  return pow && isSplat(pow.getRhs(), 0.5) ? meanSquare(pow.getLhs()) : std::nullopt;
}
std::optional<Spread> reciprocalRootOf(Value value) {
  value = stripReshapes(value);
  if (auto rsqrt = producer<ir::RsqrtOp>(value))
    return meanSquare(rsqrt.getOperand());
  if (auto pow = producer<ir::PowOp>(value))
    return isSplat(pow.getRhs(), -0.5) ? meanSquare(pow.getLhs()) : std::nullopt;
  auto div = producer<ir::DivOp>(value);
  return div && isSplat(div.getLhs(), 1) ? rootOf(div.getRhs()) : std::nullopt;
}

// x divided by its spread along the trailing dimensions, times at most one more factor (`rest`, may be null).
struct Normalised {
  Spread spread;
  Value rest;
};

// Whether `repeated` is `spread` of x along x's trailing dimensions, broadcast to x's shape.
bool spreads(const std::optional<Spread> &spread, Value repeated, Value x) {
  const int64_t rank = rankOf(x);
  return spread && spread->of == x && !spread->axes.empty() &&
         spread->axes == ArrayRef<int64_t>(range(rank - static_cast<int64_t>(spread->axes.size()), rank)) &&
         repeatedAlong(repeated, spread->axes, dimsOf(x));
}

// Matches x * (1 / spread), x / spread, and products of these with one factor, in any order.
std::optional<Normalised> normalised(Operation *op) {
  const bool divides = llvm::isa<ir::DivOp>(op);
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
    auto broadcast = producer<ir::BroadcastOp>(product->factors[i]);
    if (!broadcast)
      continue;
    Value value = broadcast.getOperand();
    const std::optional<Spread> spread = divides ? rootOf(value) : reciprocalRootOf(value);
    for (size_t k = 0; k < count; ++k)
      if (k != i && spreads(spread, product->factors[i], product->factors[k]))
        return Normalised{*spread, count == 3 ? product->factors[3 - i - k] : Value()};
  }
  return std::nullopt;
}

// (y - mean(y)) divided by its own spread is layer_norm(y); any other x divided by its spread is rms_norm(x).
mlir::LogicalResult raiseNorm(Operation *op, PatternRewriter &rewriter) {
  const std::optional<Normalised> found = normalised(op);
  if (!found)
    return mlir::failure();
  const Spread &spread = found->spread;
  const mlir::IntegerAttr axis = rewriter.getI64IntegerAttr(spread.axes.front());
  const mlir::FloatAttr epsilon = rewriter.getF64FloatAttr(spread.epsilon);
  Value x = spread.of, centred; // y, when x is y - mean(y)
  if (auto sub = producer<ir::SubOp>(x)) {
    auto broadcast = producer<ir::BroadcastOp>(sub.getRhs());
    const std::optional<Mean> mean = broadcast ? meanOf(broadcast.getOperand()) : std::nullopt;
    if (mean && mean->operand == sub.getLhs() && mean->axes == spread.axes &&
        repeatedAlong(sub.getRhs(), spread.axes, dimsOf(sub.getLhs())))
      centred = sub.getLhs();
  }
  Value norm = centred ? make<ir::LayerNormOp>(rewriter, op->getLoc(), centred,
                                               {.axis = axis, .epsilon = epsilon, .operandSegmentSizes = {1, 0, 0}})
                       : make<ir::RmsNormOp>(rewriter, op->getLoc(), x, {.axis = axis, .epsilon = epsilon});
  return found->rest ? replace<ir::MulOp>(rewriter, op, {norm, found->rest}) : replaceBy(rewriter, op, norm);
}

// norm(x) * scale
mlir::LogicalResult raiseScale(ir::MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Value value = op->getOperand(i), other = op->getOperand(1 - i);
    auto rms = producer<ir::RmsNormOp>(value);
    auto layer = producer<ir::LayerNormOp>(value);
    if ((!rms && !layer) || value.getDefiningOp()->getNumOperands() != 1 || !value.hasOneUse() || splat(other))
      continue;
    Value scale = trailing(rewriter, other, rms ? axisOf(rms) : axisOf(layer));
    if (!scale)
      continue;
    if (rms)
      return replace<ir::RmsNormOp>(rewriter, op, {rms.getX(), scale}, rms.getProperties(), rms);
    Properties<ir::LayerNormOp> attributes = layer.getProperties();
    attributes.operandSegmentSizes = {1, 1, 0};
    return replace<ir::LayerNormOp>(rewriter, op, {layer.getX(), scale}, attributes, layer);
  }
  return mlir::failure();
}

// layer_norm(x, scale) + bias
mlir::LogicalResult raiseShift(ir::AddOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    auto norm = producer<ir::LayerNormOp>(op->getOperand(i));
    if (!norm || norm.getBias() || !norm->hasOneUse() || splat(op->getOperand(1 - i)))
      continue;
    Value bias = trailing(rewriter, op->getOperand(1 - i), axisOf(norm));
    if (!bias)
      continue;
    llvm::SmallVector<Value> operands(norm->getOperands());
    operands.push_back(bias);
    Properties<ir::LayerNormOp> attributes = norm.getProperties();
    attributes.operandSegmentSizes.back() = 1;
    return replace<ir::LayerNormOp>(rewriter, op, operands, attributes, norm);
  }
  return mlir::failure();
}

} // namespace

ArrayRef<Row> norms() {
  static const Row rows[] = {
      row<ir::MulOp, raiseNorm>(),
      row<ir::DivOp, raiseNorm>(),
      row<ir::MulOp, raiseScale>(),
      row<ir::AddOp, raiseShift>(),
      row<ir::ConvertOp, widened<ir::RmsNormOp>>(),
      row<ir::ConvertOp, widened<ir::LayerNormOp>>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
