// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// linear and quantized_linear.
//
// quantized_linear dequantises exactly (but for the product with the scale) and rounds once. Where the steps differ: in
// narrow floats they round each time; a scale after the product is infinite times a sum, not times each term; w / s
// overflows where w * (1 / s) does, and 1 / s before them when s is below 1e-38.
#include "match.hpp"

#include <cmath>

namespace mortise::passes::raise {
namespace {

constexpr const char *quantised = "mortise.quantized_linear";

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

// linear or quantized_linear, when nobody else uses its result.
Operation *linearFrom(Value value) {
  Operation *op = producer(value, "mortise.linear");
  op = op ? op : producer(value, quantised);
  return op && op->hasOneUse() ? op : nullptr;
}
bool isBiased(Operation *linear) {
  if (linear->getName().getStringRef() != quantised)
    return linear->getNumOperands() == 3;
  const auto sizes = llvm::dyn_cast_if_present<mlir::DenseI32ArrayAttr>(attribute(linear, "operandSegmentSizes"));
  return !sizes || sizes[4] != 0;
}

// linear(x [M, K]) reshaped to [..., N]: linear takes any leading dimensions, and x was often flattened for it.
mlir::LogicalResult raiseReshapedLinear(Operation *op, PatternRewriter &rewriter) {
  Operation *linear = linearFrom(op->getOperand(0));
  if (!linear)
    return mlir::failure();
  const Dims to = dimsOf(op->getResult(0)), from = dimsOf(linear->getResult(0));
  if (to.empty() || to.back() != from.back() || to.back() == Dim(0))
    return mlir::failure();
  llvm::SmallVector<Value> operands(linear->getOperands());
  Dims shape(to);
  shape.back() = dimsOf(operands[0]).back();
  operands[0] = reshapeTo(rewriter, operands[0], shape);
  return replace(rewriter, op, linear->getName().getStringRef(), operands, Attributes(rewriter).all(linear), linear);
}

// linear(x, weight) + bias
mlir::LogicalResult raiseBias(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *linear = linearFrom(op->getOperand(i));
    if (!linear || isBiased(linear))
      continue;
    Value bias = trailing(rewriter, op->getOperand(1 - i), rankOf(op->getResult(0)) - 1);
    if (!bias)
      continue;
    llvm::SmallVector<Value> operands(linear->getOperands());
    operands.push_back(bias);
    Attributes attributes = Attributes(rewriter).all(linear);
    if (linear->getName().getStringRef() == quantised)
      attributes.segments({1, 1, 1, operands.size() == 5 ? 1 : 0, 1});
    return replace(rewriter, op, linear->getName().getStringRef(), operands, attributes, linear);
  }
  return mlir::failure();
}

// ---- Quantised weights

// (weight - zero) * scale, for a weight [N, K] (or [K, N]).
struct Quantised {
  Value weight, zero, scale; // the latter two may be NULL
};

bool isStorage(mlir::Type element) {
  return element.isInteger(8) || element.isInteger(4) ||
         llvm::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(element);
}
bool holdsStorage(mlir::Type element) { // every number of 8 bits; converting to it changes none
  return element.isSignlessInteger() ? element.getIntOrFloatBitWidth() >= 16
                                     : llvm::isa<mlir::FloatType>(element) && element.getIntOrFloatBitWidth() >= 16;
}

// `value` before reshapes, and before conversions to types that hold all numbers of 8 bits.
Value unconverted(Value value) {
  for (;;) {
    Operation *op = value.getDefiningOp();
    const StringRef name = op ? op->getName().getStringRef() : StringRef();
    if (name != "mortise.reshape" &&
        (name != "mortise.convert" || !holdsStorage(elementOf(value)) || elementOf(op->getOperand(0)).isInteger(1)))
      return value;
    value = op->getOperand(0);
  }
}

// What varies along the outputs of a weight only, or not at all, or is the same in groups along K, of any shape with
// the weight's elements in its order: [N], [] or [N, G] ([G, N] when the weight is stored [K, N]).
Value perOutput(PatternRewriter &rewriter, Value value, const Dim &outputs, bool isTransposed) {
  value = stripReshapes(value);
  Operation *broadcast = producer(value, "mortise.broadcast");
  if (!broadcast)
    return {};
  Value once = broadcast->getOperand(0);
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

// A zero point: integers like a scale, converted before or after they are repeated, or an integral number.
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
    return make(rewriter, value.getLoc(), "mortise.constant", {}, Attributes(rewriter).add("value", literal));
  }
  Value shaped = perOutput(rewriter, unconverted(value), outputs, isTransposed);
  Value exact = shaped ? unconverted(shaped) : Value();
  if (!exact || !llvm::isa<mlir::IntegerType>(elementOf(exact)) || !isStorage(elementOf(exact)))
    return {};
  return reshapeTo(rewriter, exact, dimsOf(shaped));
}

// weight, or weight - zero.
std::optional<Quantised> stored(PatternRewriter &rewriter, Value value, Value linearWeight, bool isTransposed) {
  const Dims shape = dimsOf(linearWeight);
  Quantised found{unconverted(value), {}, {}};
  Operation *sub = producer(found.weight, "mortise.sub");
  if (sub && holdsStorage(elementOf(found.weight))) { // no difference of 8 bits, which wraps
    found.zero = zeroPoint(rewriter, sub->getOperand(1), shape[isTransposed ? 1 : 0], isTransposed);
    found.weight = unconverted(sub->getOperand(0));
    if (!found.zero)
      return std::nullopt;
  }
  if (!isStorage(elementOf(found.weight)))
    return std::nullopt;
  found.weight = reshapeTo(rewriter, found.weight, shape);
  return found.weight ? std::optional(found) : std::nullopt;
}

// What is stored, times or over a scale, reshaped and converted at will.
std::optional<Quantised> dequantised(PatternRewriter &rewriter, Value linearWeight, bool isTransposed) {
  Value value = linearWeight;
  for (Value inner; (inner = stripConverts(stripReshapes(value))) != value;)
    value = inner;
  Operation *mul = producer(value, "mortise.mul"), *div = mul ? nullptr : producer(value, "mortise.div");
  for (unsigned i : {0u, 1u}) {
    if ((!mul && !div) || (div && i == 1))
      break;
    Operation *op = mul ? mul : div;
    std::optional<Quantised> found = stored(rewriter, op->getOperand(i), linearWeight, isTransposed);
    if (!found)
      continue;
    found->scale = perOutput(rewriter, op->getOperand(1 - i), dimsOf(linearWeight)[isTransposed ? 1 : 0], isTransposed);
    if (div && found->scale)
      found->scale =
          make(rewriter, op->getLoc(), "mortise.div", {filled(rewriter, op->getLoc(), 1, found->scale), found->scale});
    if (found->scale)
      return found;
  }
  return std::nullopt;
}

// Scale and zero point in the shape of the finer of the two.
void unify(PatternRewriter &rewriter, Quantised &found, bool isTransposed) {
  if (!found.zero)
    return;
  if (!elementOf(found.zero).isInteger(32) && elementOf(found.zero) != elementOf(found.weight))
    found.zero =
        make(rewriter, found.zero.getLoc(), "mortise.convert", found.zero, Attributes(rewriter).string("dtype", "i32"));
  if (!found.zero || rankOf(found.zero) == rankOf(found.scale))
    return;
  const bool coarseZero = rankOf(found.zero) < rankOf(found.scale);
  Value &coarse = coarseZero ? found.zero : found.scale;
  const Ints axes = rankOf(coarse) == 0 ? Ints{} : Ints{isTransposed ? 1 : 0};
  coarse = broadcastLike(rewriter, coarse, coarseZero ? found.scale : found.zero, axes);
}

mlir::LogicalResult replaceByQuantised(PatternRewriter &rewriter, Operation *op, Operation *linear, Quantised found) {
  const bool isTransposed = boolOf(linear, "weight_transposed"), isBiased = linear->getNumOperands() == 3;
  const bool hasZero = static_cast<bool>(found.zero);
  unify(rewriter, found, isTransposed);
  llvm::SmallVector<Value> operands{linear->getOperand(0), found.weight, found.scale};
  if (hasZero)
    operands.push_back(found.zero);
  if (isBiased)
    operands.push_back(linear->getOperand(2));
  return replace(rewriter, op, quantised, operands,
                 Attributes(rewriter)
                     .boolean("weight_transposed", isTransposed)
                     .segments({1, 1, 1, hasZero ? 1 : 0, isBiased ? 1 : 0}),
                 linear);
}

// linear(x, (convert(weight) - zero) * scale, bias): the same sums of the same numbers.
mlir::LogicalResult raiseQuantised(Operation *op, PatternRewriter &rewriter) {
  const std::optional<Quantised> found = dequantised(rewriter, op->getOperand(1), boolOf(op, "weight_transposed"));
  return found ? replaceByQuantised(rewriter, op, op, *found) : mlir::failure();
}

// linear(x, convert(weight) - zero) * scale
mlir::LogicalResult raiseScaled(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *linear = producer(op->getOperand(i), "mortise.linear");
    if (!linear || linear->getNumOperands() != 2 || !linear->hasOneUse())
      continue;
    Value weight = linear->getOperand(1);
    std::optional<Quantised> found = stored(rewriter, weight, weight, boolOf(linear, "weight_transposed"));
    if (!found)
      continue;
    Value scale = op->getOperand(1 - i);
    found->scale = perOutput(rewriter, scale, dimsOf(scale).back(), true); // [] or [N], as if x W were a weight [K, N]
    if (found->scale && rankOf(found->scale) < 2)
      return replaceByQuantised(rewriter, op, linear, *found);
  }
  return mlir::failure();
}

} // namespace

ArrayRef<Row> linears() {
  static const Row rows[] = {
      {"mortise.dot", "mortise.linear", raiseDot},
      {"mortise.linear", "mortise.linear", raiseTransposedWeight},
      {"mortise.reshape", "mortise.linear", raiseReshapedLinear},
      {"mortise.add", "mortise.linear", raiseBias},
      {"mortise.linear", quantised, raiseQuantised},
      {"mortise.mul", quantised, raiseScaled},
  };
  return rows;
}

} // namespace mortise::passes::raise
