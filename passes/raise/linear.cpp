// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// linear and quantized_linear.
//
// quantized_linear dequantises exactly except for the product with the scale, and rounds once. The single ops differ:
// in narrow floats each of them rounds; an infinite scale after the product multiplies the sum and not each term;
// 1 / s overflows when s is below 1e-38, where w / s need not.
#include "match.hpp"

#include <cmath>

namespace mortise::passes::raise {
namespace {

// dot(x [..., K], weight of rank 2)
mlir::LogicalResult raiseDot(ir::DotOp op, PatternRewriter &rewriter) {
  const int64_t rank = rankOf(op.getLhs());
  if (rankOf(op.getRhs()) != 2 || rank < 1 || !op.getLhsBatch().empty() || op.getLhsContract().size() != 1 ||
      op.getLhsContract()[0] != rank - 1 || !llvm::isa<mlir::FloatType>(elementOf(op.getLhs())))
    return mlir::failure();
  return replace<ir::LinearOp>(rewriter, op, op->getOperands(),
                               {.weight_transposed = rewriter.getBoolAttr(op.getRhsContract()[0] == 0)});
}

// linear(x, transpose(weight)): uses the weight as stored, which can be packed once.
mlir::LogicalResult raiseTransposedWeight(ir::LinearOp op, PatternRewriter &rewriter) {
  auto transpose = producer<ir::TransposeOp>(op.getWeight());
  // Rank 2 only. The canonicalizer has folded the identity permutation.
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>({1, 0}))
    return mlir::failure();
  llvm::SmallVector<Value> operands(op->getOperands());
  operands[1] = transpose.getOperand();
  return replace<ir::LinearOp>(rewriter, op, operands,
                               {.weight_transposed = rewriter.getBoolAttr(!op.getWeightTransposed())});
}

// The linear or quantized_linear that produces `value`, when its result has one user.
template <typename Linear> Linear linearFrom(Value value) {
  auto linear = producer<Linear>(value);
  return linear && linear->hasOneUse() ? linear : Linear();
}

// linear(x [M, K]) reshaped to [..., N]: linear takes any leading dimensions, so the flattening of x that many programs
// contain is not needed.
template <typename Linear> mlir::LogicalResult raiseReshaped(ir::ReshapeOp op, PatternRewriter &rewriter) {
  auto linear = linearFrom<Linear>(op.getOperand());
  if (!linear)
    return mlir::failure();
  const Dims to = dimsOf(op.getResult()), from = dimsOf(linear.getResult());
  if (to.empty() || to.back() != from.back() || to.back() == Dim(0))
    return mlir::failure();
  llvm::SmallVector<Value> operands(linear->getOperands());
  Dims shape(to);
  shape.back() = dimsOf(linear.getX()).back();
  operands[0] = reshapeTo(rewriter, linear.getX(), shape);
  return replace<Linear>(rewriter, op, operands, linear.getProperties(), linear);
}

// linear(x, weight) + bias
template <typename Linear> mlir::LogicalResult raiseBias(ir::AddOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    auto linear = linearFrom<Linear>(op->getOperand(i));
    if (!linear || linear.getBias())
      continue;
    Value bias = trailing(rewriter, op->getOperand(1 - i), rankOf(op.getResult()) - 1);
    if (!bias)
      continue;
    llvm::SmallVector<Value> operands(linear->getOperands());
    operands.push_back(bias);
    Properties<Linear> attributes = linear.getProperties();
    if constexpr (std::is_same_v<Linear, ir::QuantizedLinearOp>)
      attributes.operandSegmentSizes.back() = 1;
    return replace<Linear>(rewriter, op, operands, attributes, linear);
  }
  return mlir::failure();
}

// ---- Quantised weights

// (weight - zero) * scale, for a weight [N, K] (or [K, N]).
struct Quantised {
  Value weight, zero, scale; // zero and scale may be null
};

bool isStorage(mlir::Type element) {
  return element.isInteger(8) || element.isInteger(4) ||
         llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(element);
}
bool holdsStorage(mlir::Type element) { // whether the type holds all 8-bit numbers exactly
  return element.isSignlessInteger() ? element.getIntOrFloatBitWidth() >= 16
                                     : llvm::isa<mlir::FloatType>(element) && element.getIntOrFloatBitWidth() >= 16;
}

// `value` before reshapes and before conversions to types that hold all 8-bit numbers.
Value unconverted(Value value) {
  for (;;) {
    Operation *op = value.getDefiningOp();
    if (!llvm::isa_and_present<ir::ReshapeOp>(op) &&
        (!llvm::isa_and_present<ir::ConvertOp>(op) || !holdsStorage(elementOf(value)) ||
         elementOf(op->getOperand(0)).isInteger(1)))
      return value;
    value = op->getOperand(0);
  }
}

// The parameters behind `value`, which has the weight's elements in order, in any shape: [N] when they vary along the
// outputs only, [] when there is one, [N, G] ([G, N] for a weight stored as [K, N]) when there is one for each group
// along K. Null otherwise.
Value perOutput(PatternRewriter &rewriter, Value value, const Dim &outputs, bool isTransposed) {
  value = stripReshapes(value);
  auto broadcast = producer<ir::BroadcastOp>(value);
  if (!broadcast)
    return {};
  Value once = broadcast.getOperand();
  if (llvm::all_of(dimsOf(once), [](const Dim &dim) { return dim == Dim(1); }))
    return reshapeTo(rewriter, once, {});
  const Dims shape = dimsOf(value); // [N, K], [N, G, g], [K, N], [G, g, N]
  const int64_t rank = rankOf(value), output = isTransposed ? rank - 1 : 0;
  if (rank < 2 || shape[static_cast<size_t>(output)] != outputs)
    return {};
  if (Value found = along(rewriter, value, output))
    return found;
  Value grouped = rank == 3 ? repeatedAlong(value, isTransposed ? 1 : 2, shape) : Value();
  return grouped ? reshapeTo(rewriter, grouped, isTransposed ? Dims{shape[0], outputs} : Dims{outputs, shape[1]})
                 : Value();
}

// The zero point: integers in one of perOutput's shapes, converted before or after their broadcast, or one integral
// number. Null otherwise.
Value zeroPoint(PatternRewriter &rewriter, Value value, const Dim &outputs, bool isTransposed) {
  std::optional<int64_t> number = integerSplat(value);
  const std::optional<double> real = splat(value);
  if (real && std::trunc(*real) == *real && std::abs(*real) <= 0x1p24)
    number = static_cast<int64_t>(*real);
  if (number) {
    if (std::abs(*number) > 1 << 24)
      return {};
    const auto scalar = mlir::RankedTensorType::get({}, rewriter.getI32Type());
    const auto literal = mlir::DenseElementsAttr::get(
        scalar, mlir::Attribute(rewriter.getI32IntegerAttr(static_cast<int32_t>(*number))));
    return make<ir::ConstantOp>(rewriter, value.getLoc(), {}, {.value = literal});
  }
  Value shaped = perOutput(rewriter, unconverted(value), outputs, isTransposed);
  Value exact = shaped ? unconverted(shaped) : Value();
  if (!exact || !llvm::isa<mlir::IntegerType>(elementOf(exact)) || !isStorage(elementOf(exact)))
    return {};
  return reshapeTo(rewriter, exact, dimsOf(shaped));
}

// Matches weight, or weight - zero.
std::optional<Quantised> stored(PatternRewriter &rewriter, Value value, Value linearWeight, bool isTransposed) {
  const Dims shape = dimsOf(linearWeight);
  Quantised found{unconverted(value), {}, {}};
  auto sub = producer<ir::SubOp>(found.weight);
  if (sub && holdsStorage(elementOf(found.weight))) { // a difference in 8 bits would wrap
    found.zero = zeroPoint(rewriter, sub.getRhs(), shape[isTransposed ? 1 : 0], isTransposed);
    found.weight = unconverted(sub.getLhs());
    if (!found.zero)
      return std::nullopt;
  }
  if (!isStorage(elementOf(found.weight)))
    return std::nullopt;
  found.weight = reshapeTo(rewriter, found.weight, shape);
  return found.weight ? std::optional(found) : std::nullopt;
}

// Matches the stored weight times or divided by a scale, with any reshapes and conversions.
std::optional<Quantised> dequantised(PatternRewriter &rewriter, Value linearWeight, bool isTransposed) {
  Value value = linearWeight;
  for (Value inner; (inner = stripConverts(stripReshapes(value))) != value;)
    value = inner;
  auto mul = producer<ir::MulOp>(value);
  auto div = producer<ir::DivOp>(value);
  for (unsigned i : {0u, 1u}) {
    if ((!mul && !div) || (div && i == 1))
      break;
    Operation *op = value.getDefiningOp();
    std::optional<Quantised> found = stored(rewriter, op->getOperand(i), linearWeight, isTransposed);
    if (!found)
      continue;
    found->scale = perOutput(rewriter, op->getOperand(1 - i), dimsOf(linearWeight)[isTransposed ? 1 : 0], isTransposed);
    if (div && found->scale)
      found->scale =
          make<ir::DivOp>(rewriter, op->getLoc(), {filled(rewriter, op->getLoc(), 1, found->scale), found->scale});
    if (found->scale)
      return found;
  }
  return std::nullopt;
}

// Broadcasts the scale or the zero point to the shape of the finer of the two.
void unify(PatternRewriter &rewriter, Quantised &found, bool isTransposed) {
  if (!found.zero)
    return;
  if (!elementOf(found.zero).isInteger(32) && elementOf(found.zero) != elementOf(found.weight))
    found.zero =
        make<ir::ConvertOp>(rewriter, found.zero.getLoc(), found.zero, {.dtype = rewriter.getStringAttr("i32")});
  if (!found.zero || rankOf(found.zero) == rankOf(found.scale))
    return;
  const bool coarseZero = rankOf(found.zero) < rankOf(found.scale);
  Value &coarse = coarseZero ? found.zero : found.scale;
  const Ints axes = rankOf(coarse) == 0 ? Ints{} : Ints{isTransposed ? 1 : 0};
  coarse = broadcastLike(rewriter, coarse, coarseZero ? found.scale : found.zero, axes);
}

mlir::LogicalResult replaceByQuantised(PatternRewriter &rewriter, Operation *op, ir::LinearOp linear, Quantised found) {
  const bool hasZero = static_cast<bool>(found.zero), isBiased = static_cast<bool>(linear.getBias());
  unify(rewriter, found, linear.getWeightTransposed());
  llvm::SmallVector<Value> operands{linear.getX(), found.weight, found.scale};
  if (hasZero)
    operands.push_back(found.zero);
  if (isBiased)
    operands.push_back(linear.getBias());
  return replace<ir::QuantizedLinearOp>(rewriter, op, operands,
                                        {.weight_transposed = linear.getWeightTransposedAttr(),
                                         .operandSegmentSizes = {1, 1, 1, hasZero ? 1 : 0, isBiased ? 1 : 0}},
                                        linear);
}

// linear(x, (convert(weight) - zero) * scale, bias). quantized_linear adds the same terms.
mlir::LogicalResult raiseQuantised(ir::LinearOp op, PatternRewriter &rewriter) {
  const std::optional<Quantised> found = dequantised(rewriter, op.getWeight(), op.getWeightTransposed());
  return found ? replaceByQuantised(rewriter, op, op, *found) : mlir::failure();
}

// linear(x, convert(weight) - zero) * scale
mlir::LogicalResult raiseScaled(ir::MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    auto linear = linearFrom<ir::LinearOp>(op->getOperand(i));
    if (!linear || linear.getBias())
      continue;
    Value weight = linear.getWeight();
    std::optional<Quantised> found = stored(rewriter, weight, weight, linear.getWeightTransposed());
    if (!found)
      continue;
    Value scale = op->getOperand(1 - i);
    // [] or [N]: x W, [..., N], is treated as a weight [K, N].
    found->scale = perOutput(rewriter, scale, dimsOf(scale).back(), true);
    if (found->scale && rankOf(found->scale) < 2)
      return replaceByQuantised(rewriter, op, linear, *found);
  }
  return mlir::failure();
}

} // namespace

ArrayRef<Row> linears() {
  static const Row rows[] = {
      row<ir::DotOp, raiseDot>(),
      row<ir::LinearOp, raiseTransposedWeight>(),
      row<ir::ReshapeOp, raiseReshaped<ir::LinearOp>>(),
      row<ir::ReshapeOp, raiseReshaped<ir::QuantizedLinearOp>>(),
      row<ir::AddOp, raiseBias<ir::LinearOp>>(),
      row<ir::AddOp, raiseBias<ir::QuantizedLinearOp>>(),
      row<ir::LinearOp, raiseQuantised>(),
      row<ir::MulOp, raiseScaled>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
