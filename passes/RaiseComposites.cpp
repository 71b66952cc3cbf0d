// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops are met by name, so that this file needs none of the generated op classes.
#include <mortise/passes/Passes.h>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>
#include <numeric>
#include <optional>

namespace mortise::passes {
#define GEN_PASS_DEF_RAISECOMPOSITES
#include "Passes.h.inc"

namespace {

using llvm::ArrayRef;
using llvm::StringRef;
using mlir::Operation;
using mlir::PatternRewriter;
using mlir::Value;
using Ints = llvm::SmallVector<int64_t>;

// ---- Reading

// The op that makes `value` when it has this name.
Operation *producer(Value value, StringRef name) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  return op && op->getName().getStringRef() == name ? op : nullptr;
}

mlir::RankedTensorType typeOf(Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }

mlir::Attribute attribute(Operation *op, StringRef name) {
  return op->getInherentAttr(name).value_or(mlir::Attribute());
}

ArrayRef<int64_t> ints(Operation *op, StringRef name) {
  auto array = llvm::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(attribute(op, name));
  return array ? array.asArrayRef() : ArrayRef<int64_t>();
}

Value stripShapes(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    const StringRef name = op->getName().getStringRef();
    if (name != "mortise.broadcast" && name != "mortise.reshape")
      break;
    value = op->getOperand(0);
  }
  return value;
}

// The number that fills the whole of a float tensor.
std::optional<double> splat(Value value) {
  Operation *op = producer(stripShapes(value), "mortise.constant");
  auto elements =
      op ? llvm::dyn_cast_if_present<mlir::DenseElementsAttr>(attribute(op, "value")) : mlir::DenseElementsAttr();
  if (!elements || !elements.isSplat() || !llvm::isa<mlir::FloatType>(elements.getElementType()))
    return std::nullopt;
  llvm::APFloat number = elements.getSplatValue<llvm::APFloat>();
  bool lost = false;
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}
// As written in f32 or narrower: equal to 1 part in 1e-6.
bool isSplat(Value value, double number) {
  const std::optional<double> found = splat(value);
  return found && std::abs(*found - number) <= 1e-6 * std::abs(number);
}

// The other operand of a commutative op when one is filled with `number`; null otherwise.
Value otherThan(Value value, StringRef name, double number) {
  if (Operation *op = producer(value, name))
    for (unsigned i : {0u, 1u})
      if (isSplat(op->getOperand(i), number))
        return op->getOperand(1 - i);
  return {};
}

// `axes` of a shape kept as extent 1.
Ints keepDims(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) {
  Ints kept(shape);
  for (int64_t axis : axes)
    kept[static_cast<size_t>(axis)] = 1;
  return kept;
}

// When `value` repeats along `axes` a tensor that has one element for each index of the other dimensions of `shape`,
// that tensor (of any shape with those elements in row-major order); null otherwise.
Value repeatedAlong(Value value, ArrayRef<int64_t> axes, ArrayRef<int64_t> shape) {
  Operation *broadcast = producer(value, "mortise.broadcast");
  if (!broadcast || typeOf(value).getShape() != shape)
    return {};
  Value operand = broadcast->getOperand(0);
  const ArrayRef<int64_t> to = ints(broadcast, "axes"), extents = typeOf(operand).getShape();
  const Ints kept = keepDims(shape, axes);
  Ints seen(shape.size(), 1);
  for (size_t i = 0; i < to.size(); ++i)
    seen[static_cast<size_t>(to[i])] = extents[i];
  return seen == kept ? operand : Value();
}

Value stripReshapes(Value value) {
  while (Operation *op = producer(value, "mortise.reshape"))
    value = op->getOperand(0);
  return value;
}

// ---- Writing

struct Attributes {
  mlir::MLIRContext *context;
  llvm::SmallVector<mlir::NamedAttribute> list;
  Attributes &add(StringRef name, mlir::Attribute value) {
    list.emplace_back(mlir::StringAttr::get(context, name), value);
    return *this;
  }
};

Operation *make(PatternRewriter &rewriter, mlir::Location location, StringRef name, mlir::Type result,
                mlir::ValueRange operands, ArrayRef<mlir::NamedAttribute> attributes = {}) {
  mlir::OperationState state(location, name, operands, result, attributes);
  return rewriter.create(state);
}

void replace(PatternRewriter &rewriter, Operation *op, StringRef name, mlir::ValueRange operands,
             ArrayRef<mlir::NamedAttribute> attributes = {}) {
  rewriter.replaceOp(op, make(rewriter, op->getLoc(), name, op->getResult(0).getType(), operands, attributes));
}

Value reshapeTo(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  Attributes attributes{rewriter.getContext(), {}};
  attributes.add("shape", rewriter.getDenseI64ArrayAttr(shape));
  return make(rewriter, value.getLoc(), "mortise.reshape", typeOf(value).clone(shape), value, attributes.list)
      ->getResult(0);
}

// When `value` repeats along the leading dimensions a tensor of the shape of the dimensions from `axis` on: that
// tensor, reshaped.
Value trailing(PatternRewriter &rewriter, Value value, int64_t axis) {
  const ArrayRef<int64_t> shape = typeOf(value).getShape();
  Ints leading(static_cast<size_t>(axis));
  std::iota(leading.begin(), leading.end(), 0);
  Value operand = repeatedAlong(value, leading, shape);
  return operand ? reshapeTo(rewriter, operand, shape.drop_front(static_cast<size_t>(axis))) : Value();
}

// ---- Patterns

using Raise = mlir::LogicalResult (*)(Operation *, PatternRewriter &);

class Pattern : public mlir::RewritePattern {
public:
  Pattern(StringRef root, Raise raise, mlir::MLIRContext *context) : RewritePattern(root, 1, context), raise(raise) {}
  mlir::LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    return raise(op, rewriter);
  }

private:
  Raise raise;
};

// max(x, 0)
mlir::LogicalResult raiseRelu(Operation *op, PatternRewriter &rewriter) {
  if (Value x = otherThan(op->getResult(0), "mortise.max", 0)) {
    replace(rewriter, op, "mortise.relu", x);
    return mlir::success();
  }
  return mlir::failure();
}

// x * logistic(x)
mlir::LogicalResult raiseSilu(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u})
    if (Operation *logistic = producer(op->getOperand(i), "mortise.logistic");
        logistic && logistic->getOperand(0) == op->getOperand(1 - i)) {
      replace(rewriter, op, "mortise.silu", op->getOperand(1 - i));
      return mlir::success();
    }
  return mlir::failure();
}

// The x of 1 + erf(x / sqrt(2)), or of 1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)).
Value geluFactor(Value value, StringRef &form) {
  Value inner = otherThan(value, "mortise.add", 1);
  if (!inner)
    return {};
  if (Operation *erf = producer(inner, "mortise.erf")) {
    form = "none";
    if (Value x = otherThan(erf->getOperand(0), "mortise.mul", M_SQRT1_2))
      return x;
    Operation *div = producer(erf->getOperand(0), "mortise.div");
    return div && isSplat(div->getOperand(1), M_SQRT2) ? div->getOperand(0) : Value();
  }
  Operation *tanh = producer(inner, "mortise.tanh");
  Value sum = tanh ? otherThan(tanh->getOperand(0), "mortise.mul", std::sqrt(2 / M_PI)) : Value();
  Operation *add = sum ? producer(sum, "mortise.add") : nullptr;
  if (!add)
    return {};
  form = "tanh";
  for (unsigned i : {0u, 1u}) {
    Value x = add->getOperand(i), cube = otherThan(add->getOperand(1 - i), "mortise.mul", 0.044715);
    if (!cube)
      continue;
    if (Operation *pow = producer(cube, "mortise.pow");
        pow && pow->getOperand(0) == x && isSplat(pow->getOperand(1), 3))
      return x;
    if (Operation *mul = producer(cube, "mortise.mul"))
      for (unsigned k : {0u, 1u})
        if (Operation *square = producer(mul->getOperand(k), "mortise.mul");
            square && mul->getOperand(1 - k) == x && square->getOperand(0) == x && square->getOperand(1) == x)
          return x;
  }
  return {};
}

// 0.5 * x * factor, associated in any of the three ways.
mlir::LogicalResult raiseGelu(Operation *op, PatternRewriter &rewriter) {
  StringRef form;
  Value x;
  for (unsigned i : {0u, 1u}) {
    Value a = op->getOperand(i), b = op->getOperand(1 - i);
    if (Value half = otherThan(a, "mortise.mul", 0.5)) { // (0.5 x) factor, (0.5 factor) x
      if (Value found = geluFactor(b, form); found && found == half)
        x = found;
      else if (Value found = geluFactor(half, form); found && found == b)
        x = found;
    }
    if (Operation *mul = producer(a, "mortise.mul"); !x && mul && isSplat(b, 0.5)) // (x factor) 0.5
      for (unsigned k : {0u, 1u})
        if (Value found = geluFactor(mul->getOperand(k), form); found && found == mul->getOperand(1 - k))
          x = found;
  }
  if (!x)
    return mlir::failure();
  Attributes attributes{rewriter.getContext(), {}};
  attributes.add("approximate", rewriter.getStringAttr(form));
  replace(rewriter, op, "mortise.gelu", x, attributes.list);
  return mlir::success();
}

// x * rsqrt(mean(x^2) + epsilon)
mlir::LogicalResult raiseRmsNorm(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Value x = op->getOperand(i);
    Operation *broadcast = producer(op->getOperand(1 - i), "mortise.broadcast");
    Operation *rsqrt = broadcast ? producer(stripReshapes(broadcast->getOperand(0)), "mortise.rsqrt") : nullptr;
    Operation *add = rsqrt ? producer(stripReshapes(rsqrt->getOperand(0)), "mortise.add") : nullptr;
    if (!add)
      continue;
    for (unsigned k : {0u, 1u}) {
      const std::optional<double> epsilon = splat(add->getOperand(k));
      Operation *mean = producer(stripReshapes(add->getOperand(1 - k)), "mortise.mean");
      if (!epsilon || !mean)
        continue;
      const ArrayRef<int64_t> shape = typeOf(x).getShape(), axes = ints(mean, "axes");
      Operation *pow = producer(mean->getOperand(0), "mortise.pow");
      Operation *mul = producer(mean->getOperand(0), "mortise.mul");
      const bool square = (pow && pow->getOperand(0) == x && isSplat(pow->getOperand(1), 2)) ||
                          (mul && mul->getOperand(0) == x && mul->getOperand(1) == x);
      const int64_t axis = static_cast<int64_t>(shape.size() - axes.size());
      if (!square || axes.empty() || axes.front() != axis || !repeatedAlong(broadcast->getResult(0), axes, shape))
        continue;
      Attributes attributes{rewriter.getContext(), {}};
      attributes.add("axis", rewriter.getI64IntegerAttr(axis)).add("epsilon", rewriter.getF64FloatAttr(*epsilon));
      replace(rewriter, op, "mortise.rms_norm", x, attributes.list);
      return mlir::success();
    }
  }
  return mlir::failure();
}

// rms_norm(x) * scale
mlir::LogicalResult raiseScale(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *norm = producer(op->getOperand(i), "mortise.rms_norm");
    if (!norm || norm->getNumOperands() != 1 || !norm->hasOneUse())
      continue;
    const auto axis = llvm::cast<mlir::IntegerAttr>(attribute(norm, "axis"));
    Value scale = trailing(rewriter, op->getOperand(1 - i), axis.getInt());
    if (!scale)
      continue;
    Attributes attributes{rewriter.getContext(), {}};
    attributes.add("axis", axis).add("epsilon", attribute(norm, "epsilon"));
    replace(rewriter, op, "mortise.rms_norm", {norm->getOperand(0), scale}, attributes.list);
    return mlir::success();
  }
  return mlir::failure();
}

// exp(x - max(x)) / sum(exp(x - max(x)))
mlir::LogicalResult raiseSoftmax(Operation *op, PatternRewriter &rewriter) {
  Operation *exp = producer(op->getOperand(0), "mortise.exp");
  Operation *sub = exp ? producer(exp->getOperand(0), "mortise.sub") : nullptr;
  if (!sub)
    return mlir::failure();
  Value x = sub->getOperand(0);
  const ArrayRef<int64_t> shape = typeOf(x).getShape();
  const auto reduced = [&](Value repeated, StringRef name) -> Operation * {
    Operation *broadcast = producer(repeated, "mortise.broadcast");
    Operation *reduce = broadcast ? producer(stripReshapes(broadcast->getOperand(0)), name) : nullptr;
    return reduce && ints(reduce, "axes").size() == 1 && repeatedAlong(repeated, ints(reduce, "axes"), shape) ? reduce
                                                                                                              : nullptr;
  };
  Operation *max = reduced(sub->getOperand(1), "mortise.reduce_max");
  Operation *sum = reduced(op->getOperand(1), "mortise.reduce_sum");
  if (!max || !sum || max->getOperand(0) != x || sum->getOperand(0) != exp->getResult(0) ||
      ints(max, "axes") != ints(sum, "axes"))
    return mlir::failure();
  Attributes attributes{rewriter.getContext(), {}};
  attributes.add("axis", rewriter.getI64IntegerAttr(ints(max, "axes")[0]));
  replace(rewriter, op, "mortise.softmax", x, attributes.list);
  return mlir::success();
}

void replaceByLinear(PatternRewriter &rewriter, Operation *op, mlir::ValueRange operands, bool transposed) {
  Attributes attributes{rewriter.getContext(), {}};
  attributes.add("weight_transposed", rewriter.getBoolAttr(transposed));
  replace(rewriter, op, "mortise.linear", operands, attributes.list);
}

// dot(x [..., K], weight of rank 2)
mlir::LogicalResult raiseDot(Operation *op, PatternRewriter &rewriter) {
  const auto x = typeOf(op->getOperand(0)), weight = typeOf(op->getOperand(1));
  const ArrayRef<int64_t> left = ints(op, "lhs_contract"), right = ints(op, "rhs_contract");
  if (weight.getRank() != 2 || x.getRank() < 1 || !ints(op, "lhs_batch").empty() || left.size() != 1 ||
      left[0] != x.getRank() - 1 || !llvm::isa<mlir::FloatType>(x.getElementType()))
    return mlir::failure();
  replaceByLinear(rewriter, op, op->getOperands(), right[0] == 0);
  return mlir::success();
}

// linear(x, transpose(weight)): the weight as it is stored, which can be packed once.
mlir::LogicalResult raiseTransposedWeight(Operation *op, PatternRewriter &rewriter) {
  Operation *transpose = producer(op->getOperand(1), "mortise.transpose");
  if (!transpose)
    return mlir::failure();
  llvm::SmallVector<Value> operands(op->getOperands());
  operands[1] = transpose->getOperand(0);
  // Of rank 2 only; the identity folds away earlier.
  if (ints(transpose, "permutation") != ArrayRef<int64_t>({1, 0}))
    return mlir::failure();
  replaceByLinear(rewriter, op, operands, !llvm::cast<mlir::BoolAttr>(attribute(op, "weight_transposed")).getValue());
  return mlir::success();
}

// linear(x [M, K]) reshaped to [..., N]: linear takes any leading dimensions, and x was often flattened for it.
mlir::LogicalResult raiseReshapedLinear(Operation *op, PatternRewriter &rewriter) {
  Operation *linear = producer(op->getOperand(0), "mortise.linear");
  if (!linear || !linear->hasOneUse())
    return mlir::failure();
  const ArrayRef<int64_t> to = typeOf(op->getResult(0)).getShape(), from = typeOf(linear->getResult(0)).getShape();
  if (to.empty() || to.back() != from.back() || to.back() == 0)
    return mlir::failure();
  llvm::SmallVector<Value> operands(linear->getOperands());
  Ints shape(to);
  shape.back() = typeOf(operands[0]).getShape().back();
  operands[0] = reshapeTo(rewriter, operands[0], shape);
  replaceByLinear(rewriter, op, operands,
                  llvm::cast<mlir::BoolAttr>(attribute(linear, "weight_transposed")).getValue());
  return mlir::success();
}

// linear(x, weight) + bias
mlir::LogicalResult raiseBias(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u}) {
    Operation *linear = producer(op->getOperand(i), "mortise.linear");
    if (!linear || linear->getNumOperands() != 2 || !linear->hasOneUse())
      continue;
    const int64_t rank = typeOf(op->getResult(0)).getRank();
    Value other = op->getOperand(1 - i);
    Value bias = rank == 1 ? other : trailing(rewriter, other, rank - 1);
    if (!bias)
      continue;
    replaceByLinear(rewriter, op, {linear->getOperand(0), linear->getOperand(1), bias},
                    llvm::cast<mlir::BoolAttr>(attribute(linear, "weight_transposed")).getValue());
    return mlir::success();
  }
  return mlir::failure();
}

// A mask that is select(seen, 0, -inf) is `seen`, and one that is repeated need not be: attention repeats it itself. A
// key that is not seen no longer turns a query into NaN by holding one.
mlir::LogicalResult raiseMask(Operation *op, PatternRewriter &rewriter) {
  if (op->getNumOperands() != 4)
    return mlir::failure();
  Value mask = op->getOperand(3);
  Value better;
  if (Operation *select = producer(mask, "mortise.select")) {
    const std::optional<double> hidden = splat(select->getOperand(2)), seen = splat(select->getOperand(1));
    if (hidden && seen && *seen == 0 && std::isinf(*hidden) && *hidden < 0)
      better = select->getOperand(0);
  } else if (Operation *broadcast = producer(mask, "mortise.broadcast")) {
    const ArrayRef<int64_t> axes = ints(broadcast, "axes"), extents = typeOf(broadcast->getOperand(0)).getShape();
    Ints shape(4, 1);
    for (size_t i = 0; i < axes.size(); ++i)
      shape[static_cast<size_t>(axes[i])] = extents[i];
    better = reshapeTo(rewriter, broadcast->getOperand(0), shape);
  }
  if (!better)
    return mlir::failure();
  rewriter.modifyOpInPlace(op, [&] { op->setOperand(3, better); });
  return mlir::success();
}

struct RaiseComposites : impl::RaiseCompositesBase<RaiseComposites> {
  mlir::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::RewritePatternSet set(context);
    const std::pair<StringRef, Raise> table[] = {
        {"mortise.max", raiseRelu},
        {"mortise.mul", raiseSilu},
        {"mortise.mul", raiseGelu},
        {"mortise.mul", raiseRmsNorm},
        {"mortise.mul", raiseScale},
        {"mortise.div", raiseSoftmax},
        {"mortise.dot", raiseDot},
        {"mortise.linear", raiseTransposedWeight},
        {"mortise.reshape", raiseReshapedLinear},
        {"mortise.add", raiseBias},
        {"mortise.attention", raiseMask},
    };
    for (const auto &[root, raise] : table)
      set.add(std::make_unique<Pattern>(root, raise, context));
    patterns = mlir::FrozenRewritePatternSet(std::move(set));
    return mlir::success();
  }
  void runOnOperation() override {
    if (mlir::failed(mlir::applyPatternsGreedily(getOperation(), patterns)))
      signalPassFailure();
  }
  mlir::FrozenRewritePatternSet patterns;
};

} // namespace
} // namespace mortise::passes
