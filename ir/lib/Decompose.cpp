// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/ir/Decompose.h>

#include "Infer.h"

#include <mortise/ir/Ops.h>

#include <mlir/IR/PatternMatch.h>

#include <cmath>
#include <limits>

using namespace mlir;

namespace mortise::ir {
namespace {

// Writes core ops in front of the op that is decomposed.
struct Writer {
  RewriterBase &rewriter;
  Location location;
  SymbolsAttr symbols; // of the function; NULL when the op is static

  template <typename OpT, typename... Args> Value make(Args &&...args) {
    return OpT::create(rewriter, location, std::forward<Args>(args)...);
  }
  template <typename OpT> Value binary(Value lhs, Value rhs) { return make<OpT>(lhs, rhs); }

  Value scalar(double number, Type element) {
    Attribute attribute = llvm::isa<FloatType>(element)
                              ? Attribute(rewriter.getFloatAttr(element, number))
                              : rewriter.getIntegerAttr(element, static_cast<int64_t>(number));
    return make<ConstantOp>(DenseElementsAttr::get(RankedTensorType::get({}, element), attribute));
  }
  DimsAttr extents(ArrayRef<Dim> dims) { return DimsAttr::get(rewriter.getContext(), dims, symbols); }
  Value broadcast(Value operand, ArrayRef<Dim> shape, ArrayRef<int64_t> axes) {
    return make<BroadcastOp>(operand, extents(shape), rewriter.getDenseI64ArrayAttr(axes));
  }
  // `operand` with extents `shape`, its dimensions at `axes`.
  Value spread(Value operand, ArrayRef<Dim> shape, ArrayRef<int64_t> axes) {
    return llvm::equal(dimsOf(operand), shape) ? operand : broadcast(operand, shape, axes);
  }
  Value fill(double number, Value like) { return spread(scalar(number, elementOf(like)), dimsOf(like), {}); }
  Value times(Value x, double number) { return make<MulOp>(x, fill(number, x)); }
  Value plus(Value x, double number) { return make<AddOp>(x, fill(number, x)); }
  Value reshaped(Value x, ArrayRef<Dim> shape) {
    return llvm::equal(dimsOf(x), shape) ? x : make<ReshapeOp>(x, extents(shape));
  }
  Value converted(Value x, Type element) {
    return elementOf(x) == element ? x : make<ConvertOp>(x, elementName(element));
  }
  // Narrow floats compute in f32.
  Value widened(Value x) {
    Type element = elementOf(x);
    bool narrow = llvm::isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
    return narrow ? converted(x, rewriter.getF32Type()) : x;
  }
  Value mean(Value x, ArrayRef<int64_t> axes) {
    Dim count = 1;
    for (int64_t axis : axes)
      count *= dimsOf(x)[axis];
    Value sum = make<ReduceSumOp>(x, axes);
    if (count.isNumber()) // 0 * inf is NaN for a mean of nothing
      return times(sum, 1 / static_cast<double>(*count.number()));
    Value number = reshaped(make<ExtentsOp>(extents(count)), {});
    return make<DivOp>(sum, spread(converted(number, elementOf(x)), dimsOf(sum), {}));
  }
};

Axes allBut(int64_t rank, ArrayRef<int64_t> axes) {
  Axes rest;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(axes, i))
      rest.push_back(i);
  return rest;
}
Axes from(int64_t first, int64_t rank) { return llvm::to_vector(llvm::seq<int64_t>(first, rank)); }

Value expand(ReluOp op, Writer &write) { return write.make<MaxOp>(op.getOperand(), write.fill(0, op.getOperand())); }
Value expand(SiluOp op, Writer &write) {
  Value x = write.widened(op.getOperand());
  return write.make<MulOp>(x, write.make<LogisticOp>(x));
}
Value expand(GeluOp op, Writer &write) {
  Value x = write.widened(op.getOperand());
  if (op.getApproximate() == "none") // 1 + erf(x) would cancel in the negative tail
    return write.make<MulOp>(write.times(x, 0.5), write.make<ErfcOp>(write.times(x, -std::sqrt(0.5))));
  // 0.5 * (1 + tanh(u)) is logistic(2 u), which does not cancel either.
  Value cube = write.make<MulOp>(write.make<MulOp>(x, x), x);
  Value inner = write.make<AddOp>(x, write.times(cube, 0.044715));
  return write.make<MulOp>(x, write.make<LogisticOp>(write.times(inner, 2 * std::sqrt(2 / M_PI))));
}

// x minus its largest element along `axis`.
Value centred(Value x, int64_t axis, Writer &write) {
  Value top = write.make<ReduceMaxOp>(x, ArrayRef<int64_t>(axis));
  return write.make<SubOp>(x, write.spread(top, dimsOf(x), allBut(rankOf(x), axis)));
}
Value expand(SoftmaxOp op, Writer &write) {
  int64_t axis = op.getAxis();
  Value powers = write.make<ExpOp>(centred(write.widened(op.getOperand()), axis, write));
  Value sum = write.make<ReduceSumOp>(powers, ArrayRef<int64_t>(axis));
  return write.make<DivOp>(powers, write.spread(sum, dimsOf(powers), allBut(rankOf(powers), axis)));
}
Value expand(LogSoftmaxOp op, Writer &write) {
  int64_t axis = op.getAxis();
  Value x = centred(write.widened(op.getOperand()), axis, write);
  Value sum = write.make<ReduceSumOp>(write.make<ExpOp>(x), ArrayRef<int64_t>(axis));
  Value log = write.make<LogOp>(sum);
  return write.make<SubOp>(x, write.spread(log, dimsOf(x), allBut(rankOf(x), axis)));
}

Value rootOfVariance(Value squares, ArrayRef<int64_t> axes, double epsilon, Writer &write) {
  Value mean = write.mean(squares, axes);
  return write.make<RsqrtOp>(write.plus(mean, epsilon));
}
// (x - mean) / sqrt(variance + epsilon) over `axes`.
Value normalise(Value x, ArrayRef<int64_t> axes, double epsilon, Writer &write) {
  Axes rest = allBut(rankOf(x), axes);
  Value mean = write.mean(x, axes);
  Value distance = write.make<SubOp>(x, write.spread(mean, dimsOf(x), rest));
  Value root = rootOfVariance(write.make<MulOp>(distance, distance), axes, epsilon, write);
  return write.make<MulOp>(distance, write.spread(root, dimsOf(x), rest));
}
// x * scale + bias, whose dimensions are those of x at `axes`.
Value scaled(Value x, Value scale, Value bias, ArrayRef<int64_t> axes, Writer &write) {
  if (scale)
    x = write.make<MulOp>(x, write.spread(write.widened(scale), dimsOf(x), axes));
  if (bias)
    x = write.make<AddOp>(x, write.spread(write.widened(bias), dimsOf(x), axes));
  return x;
}
Value expand(LayerNormOp op, Writer &write) {
  Value x = write.widened(op.getX());
  Axes axes = from(op.getAxis(), rankOf(x));
  Value y = normalise(x, axes, op.getEpsilon().convertToDouble(), write);
  return scaled(y, op.getScale(), op.getBias(), axes, write);
}
Value expand(RmsNormOp op, Writer &write) {
  Value x = write.widened(op.getX());
  Axes axes = from(op.getAxis(), rankOf(x));
  Value root = rootOfVariance(write.make<MulOp>(x, x), axes, op.getEpsilon().convertToDouble(), write);
  Value y = write.make<MulOp>(x, write.spread(root, dimsOf(x), allBut(rankOf(x), axes)));
  return scaled(y, op.getScale(), Value(), axes, write);
}
Value expand(GroupNormOp op, Writer &write) {
  Value x = write.widened(op.getX());
  Dims shape = dimsOf(x);
  int64_t groups = op.getGroups();
  Dim members = floorDiv(shape[1], groups) * countOf(ArrayRef(shape).drop_front(2));
  Value grouped = write.reshaped(x, {shape[0], Dim(groups), members});
  Value y = write.reshaped(normalise(grouped, {2}, op.getEpsilon().convertToDouble(), write), shape);
  return scaled(y, op.getScale(), op.getBias(), {1}, write);
}
// One factor and one summand per channel, which depend on constants only and so are computed once.
Value expand(BatchNormOp op, Writer &write) {
  Value x = write.widened(op.getX());
  Value factor = write.make<RsqrtOp>(write.plus(write.widened(op.getVariance()), op.getEpsilon().convertToDouble()));
  if (op.getScale())
    factor = write.make<MulOp>(write.widened(op.getScale()), factor);
  Value shift = write.make<MulOp>(write.widened(op.getMean()), factor);
  shift = op.getBias() ? write.make<SubOp>(write.widened(op.getBias()), shift) : write.make<NegOp>(shift);
  return scaled(x, factor, shift, {1}, write);
}

Value expand(MeanOp op, Writer &write) { return write.mean(write.widened(op.getOperand()), op.getAxes()); }
Value expand(EmbeddingOp op, Writer &write) { return write.make<TakeOp>(op.getTable(), op.getIndices(), int64_t(0)); }
Value expand(LinearOp op, Writer &write) {
  int64_t last = rankOf(op.getX()) - 1;
  Value y = write.make<DotOp>(op.getX(), op.getWeight(), ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                              ArrayRef<int64_t>(last), ArrayRef<int64_t>(op.getWeightTransposed() ? 0 : 1));
  if (!op.getBias())
    return y;
  return write.make<AddOp>(y, write.spread(op.getBias(), dimsOf(y), last));
}

constexpr double infinity = std::numeric_limits<double>::infinity();

// The mask with `causal` worked in: of rank 4, extents 1 or those of the scores. NULL when every key is seen.
Value effectiveMask(AttentionOp op, const Dim &queries, const Dim &keys, Writer &write) {
  Value mask = op.getMask();
  if (!op.getCausal())
    return mask ? write.widened(mask) : mask;
  auto count = [&](int64_t axis) {
    return write.make<IotaOp>(write.extents({queries, keys}), write.rewriter.getStringAttr("i64"),
                              write.rewriter.getI64IntegerAttr(axis));
  };
  Value query = count(0), key = count(1);
  Value seen = write.make<CompareOp>(query, key, "ge");
  Dims shape{1, 1, queries, keys};
  Axes all{0, 1, 2, 3};
  if (mask) {
    shape[0] = dimsOf(mask)[0];
    shape[1] = dimsOf(mask)[1];
  }
  seen = write.spread(seen, shape, {2, 3});
  if (!mask)
    return seen;
  mask = write.spread(write.widened(mask), shape, all);
  if (elementOf(mask).isInteger(1))
    return write.make<AndOp>(mask, seen);
  return write.make<SelectOp>(seen, mask, write.fill(-infinity, mask));
}

// A query that sees no key has softmax NaN; the mask alone, often one row for all queries, tells which.
Value zeroUnseen(Value weights, Value mask, Writer &write) {
  Value seen = write.make<ReduceMaxOp>(mask, ArrayRef<int64_t>(3));
  if (!elementOf(mask).isInteger(1))
    seen = write.make<CompareOp>(seen, write.fill(-infinity, seen), "ne");
  seen = write.broadcast(seen, dimsOf(weights), {0, 1, 2});
  return write.make<SelectOp>(seen, weights, write.fill(0, weights));
}

Value expand(AttentionOp op, Writer &write) {
  Value q = write.widened(op.getQ()), k = write.widened(op.getK()), v = write.widened(op.getV());
  Dims shape = dimsOf(q);
  Dim groups = dimsOf(k)[1], keys = dimsOf(k)[2];
  // The query heads that share a key head become rows of one product, so that k and v are not repeated.
  Dim rows = groups == Dim(0) ? Dim(0) : floorDiv(shape[1], groups) * shape[2];
  Dims full{shape[0], shape[1], shape[2], keys};
  Axes batch{0, 1}, last{3}, inner{2}, all{0, 1, 2, 3};
  Value scores = write.make<DotOp>(write.reshaped(q, {shape[0], groups, rows, shape[3]}), k, batch, batch, last, last);
  scores = write.reshaped(scores, full);
  double scale = op.getScale().convertToDouble();
  if (scale != 1)
    scores = write.times(scores, scale);
  Value mask = effectiveMask(op, shape[2], keys, write);
  if (mask) {
    Value whole = write.spread(mask, full, all);
    scores = elementOf(mask).isInteger(1) ? write.make<SelectOp>(whole, scores, write.fill(-infinity, scores))
                                          : write.make<AddOp>(scores, whole);
  }
  Value weights = write.make<SoftmaxOp>(scores, int64_t(3));
  if (op.getMask()) // under `causal` alone every query sees key 0
    weights = zeroUnseen(weights, mask, write);
  weights = write.reshaped(weights, {shape[0], groups, rows, keys});
  Value result = write.make<DotOp>(weights, v, batch, batch, last, inner);
  return write.reshaped(result, dimsOf(op.getType()));
}

template <typename... Ops> Value expandAny(Operation *op, Writer &write) {
  Value result;
  (void)((llvm::isa<Ops>(op) ? (result = expand(llvm::cast<Ops>(op), write), true) : false) || ...);
  return result;
}

} // namespace

// The one table that the op's types name; NULL when they are static.
static SymbolsAttr symbolsOf(Operation *op) {
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (SymbolsAttr symbols = symbolsOf(type))
        return symbols;
  return {};
}

bool isComposite(Operation *op) {
  auto known = llvm::dyn_cast<MortiseOp>(op);
  return known && known.isComposite();
}

LogicalResult decompose(Operation *op, RewriterBase &rewriter) {
  if (!isComposite(op))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Writer write{rewriter, op->getLoc(), symbolsOf(op)};
  Value result = expandAny<ReluOp, SiluOp, GeluOp, SoftmaxOp, LogSoftmaxOp, LayerNormOp, RmsNormOp, GroupNormOp,
                           BatchNormOp, MeanOp, EmbeddingOp, LinearOp, AttentionOp>(op, write);
  if (!result)
    return failure();
  rewriter.replaceOp(op, write.converted(result, elementOf(op->getResult(0))));
  return success();
}

} // namespace mortise::ir
