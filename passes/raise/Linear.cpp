// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// linear and quantized_linear.
#include "Match.h"

namespace mortise::passes::raise {
namespace {

mlir::LogicalResult replaceByLinear(PatternRewriter &rewriter, Operation *op, mlir::ValueRange operands,
                                    bool isTransposed, Operation *heart = nullptr) {
  return replace(rewriter, op, "mortise.linear", operands,
                 Attributes(rewriter).boolean("weight_transposed", isTransposed), heart);
}

// dot(x [..., K], weight of rank 2)
mlir::LogicalResult raiseDot(Operation *op, PatternRewriter &rewriter) {
  const int64_t rank = rankOf(op->getOperand(0));
  const ArrayRef<int64_t> left = ints(op, "lhs_contract"), right = ints(op, "rhs_contract");
  if (rankOf(op->getOperand(1)) != 2 || rank < 1 || !ints(op, "lhs_batch").empty() || left.size() != 1 ||
      left[0] != rank - 1 || !llvm::isa<mlir::FloatType>(elementOf(op->getOperand(0))))
    return mlir::failure();
  return replaceByLinear(rewriter, op, op->getOperands(), right[0] == 0);
}

// linear(x, transpose(weight)): the weight as it is stored, which can be packed once.
mlir::LogicalResult raiseTransposedWeight(Operation *op, PatternRewriter &rewriter) {
  Operation *transpose = producer(op->getOperand(1), "mortise.transpose");
  // Of rank 2 only; the identity folds away earlier.
  if (!transpose || ints(transpose, "permutation") != ArrayRef<int64_t>({1, 0}))
    return mlir::failure();
  llvm::SmallVector<Value> operands(op->getOperands());
  operands[1] = transpose->getOperand(0);
  return replaceByLinear(rewriter, op, operands, !boolOf(op, "weight_transposed"));
}

// linear(x [M, K]) reshaped to [..., N]: linear takes any leading dimensions, and x was often flattened for it.
mlir::LogicalResult raiseReshapedLinear(Operation *op, PatternRewriter &rewriter) {
  Operation *linear = producer(op->getOperand(0), "mortise.linear");
  if (!linear || !linear->hasOneUse())
    return mlir::failure();
  const Dims to = dimsOf(op->getResult(0)), from = dimsOf(linear->getResult(0));
  if (to.empty() || to.back() != from.back() || to.back() == Dim(0))
    return mlir::failure();
  llvm::SmallVector<Value> operands(linear->getOperands());
  Dims shape(to);
  shape.back() = dimsOf(operands[0]).back();
  operands[0] = reshapeTo(rewriter, operands[0], shape);
  return replaceByLinear(rewriter, op, operands, boolOf(linear, "weight_transposed"), linear);
}

// linear(x, weight) + bias
mlir::LogicalResult raiseBias(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *linear = producer(op->getOperand(i), "mortise.linear");
    if (!linear || linear->getNumOperands() != 2 || !linear->hasOneUse())
      continue;
    Value bias = trailing(rewriter, op->getOperand(1 - i), rankOf(op->getResult(0)) - 1);
    if (bias)
      return replaceByLinear(rewriter, op, {linear->getOperand(0), linear->getOperand(1), bias},
                             boolOf(linear, "weight_transposed"), linear);
  }
  return mlir::failure();
}

// ---- Quantised weights

// A weight [N, K] (or [K, N]) as integers, and what makes numbers of them.
struct Quantised {
  Value weight, scale, zero; // zero may be NULL
};

Value integers(Value value) { // before a convert from integers to floats
  Operation *convert = producer(value, "mortise.convert");
  if (!convert || !llvm::isa<mlir::IntegerType>(elementOf(convert->getOperand(0))) ||
      elementOf(convert->getOperand(0)).isInteger(1) || !llvm::isa<mlir::FloatType>(elementOf(value)))
    return {};
  return convert->getOperand(0);
}

// `value`, which varies along `output` of a weight [N, K] only or not at all: [N] or []; seen in groups along K, [N,
// G].
Value perOutput(PatternRewriter &rewriter, Value value, int64_t output, bool grouped) {
  Operation *broadcast = producer(value, "mortise.broadcast");
  if (!broadcast)
    return {};
  Value whole = broadcast->getOperand(0);
  if (rankOf(stripReshapes(whole)) == 0)
    return stripReshapes(whole);
  if (!grouped)
    return along(rewriter, value, output);
  const Dims shape = dimsOf(value); // [N, G, g]
  Value operand = repeatedAlong(value, 2, shape);
  return operand ? reshapeTo(rewriter, operand, {shape[0], shape[1]}) : Value();
}

// Integers in the shape of a scale, converted before or after they are repeated.
Value zeroPoint(PatternRewriter &rewriter, Value value, int64_t output, bool grouped) {
  if (Value exact = integers(value))
    return perOutput(rewriter, exact, output, grouped);
  Value shaped = perOutput(rewriter, value, output, grouped);
  Value exact = shaped ? integers(stripReshapes(shaped)) : Value();
  return exact ? reshapeTo(rewriter, exact, dimsOf(shaped)) : Value();
}

// (convert(weight) - zero) * scale, of rank 2, or of rank 3 in groups reshaped to rank 2.
std::optional<Quantised> dequantised(PatternRewriter &rewriter, Value value, bool isTransposed) {
  const bool grouped = producer(value, "mortise.reshape") != nullptr;
  if (grouped) {
    value = value.getDefiningOp()->getOperand(0);
    if (isTransposed || rankOf(value) != 3)
      return std::nullopt;
  }
  const int64_t output = isTransposed ? 1 : 0;
  Operation *mul = producer(value, "mortise.mul");
  for (unsigned i : {0u, 1u}) {
    if (!mul)
      break;
    Quantised found;
    Value inner = mul->getOperand(i);
    if (Operation *sub = producer(inner, "mortise.sub")) {
      found.zero = zeroPoint(rewriter, sub->getOperand(1), output, grouped);
      inner = sub->getOperand(0);
      if (!found.zero)
        continue;
    }
    found.weight = integers(inner);
    if (!found.weight)
      continue;
    if (grouped) { // the integers as a matrix
      const Dims shape = dimsOf(found.weight);
      found.weight = reshapeTo(rewriter, found.weight, {shape[0], shape[1] * shape[2]});
    }
    found.scale = perOutput(rewriter, mul->getOperand(1 - i), output, grouped);
    if (found.scale)
      return found;
  }
  return std::nullopt;
}

// linear(x, (convert(weight) - zero) * scale, bias): the same sums of the same numbers.
mlir::LogicalResult raiseQuantised(Operation *op, PatternRewriter &rewriter) {
  const bool isTransposed = boolOf(op, "weight_transposed");
  const std::optional<Quantised> found = dequantised(rewriter, op->getOperand(1), isTransposed);
  if (!found)
    return mlir::failure();
  llvm::SmallVector<Value> operands{op->getOperand(0), found->weight, found->scale};
  if (found->zero)
    operands.push_back(found->zero);
  const bool biased = op->getNumOperands() == 3;
  if (biased)
    operands.push_back(op->getOperand(2));
  return replace(rewriter, op, "mortise.quantized_linear", operands,
                 Attributes(rewriter)
                     .boolean("weight_transposed", isTransposed)
                     .segments({1, 1, 1, found->zero ? 1 : 0, biased ? 1 : 0}));
}

} // namespace

ArrayRef<Row> linears() {
  static const Row rows[] = {
      {"mortise.dot", "mortise.linear", raiseDot},
      {"mortise.linear", "mortise.linear", raiseTransposedWeight},
      {"mortise.reshape", "mortise.linear", raiseReshapedLinear},
      {"mortise.add", "mortise.linear", raiseBias},
      {"mortise.linear", "mortise.quantized_linear", raiseQuantised},
  };
  return rows;
}

} // namespace mortise::passes::raise
