// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotary embedding: x * cos + rotate(x) * sin, where rotate turns pairs of elements by a quarter turn. The pairs are
// (i, i + D / 2), or (2 i, 2 i + 1) when interleaved. rope computes the same products and sums, so results are equal
// bit by bit.
#include "match.hpp"

namespace mortise::passes::raise {
namespace {

// A part of the last dimension of `whole`.
struct Part {
  Value whole;
  int64_t start = 0, stride = 1, count = 0;
};

// `value` as part of a larger last dimension: a slice, or one column of x reshaped to [..., D / 2, 2].
std::optional<Part> partOf(Value value) {
  Value stripped = stripReshapes(value);
  auto slice = producer<ir::SliceOp>(stripped);
  if (!slice)
    return std::nullopt;
  const ArrayRef<int64_t> starts = numbersOf(slice.getStartsAttr()), limits = numbersOf(slice.getLimitsAttr()),
                          strides = slice.getStrides();
  Value from = slice.getOperand();
  const Dims dims = dimsOf(from), kept = dimsOf(stripped);
  const size_t last = dims.size() - 1;
  if (dims.empty() || starts.empty() || limits.empty()) // starts or limits are symbolic
    return std::nullopt;
  for (size_t i = 0; i < last; ++i)
    if (kept[i] != dims[i])
      return std::nullopt;
  const std::optional<int64_t> extent = dims[last].number(), count = kept[last].number();
  if (!extent || !count)
    return std::nullopt;
  const Dims shape = dimsOf(value);
  if (stripped == value)
    return Part{from, starts[last], strides[last], *count};
  // [..., D / 2, 1] of [..., D / 2, 2], reshaped to [..., D / 2]
  auto pairs = producer<ir::ReshapeOp>(from);
  if (!pairs || *extent != 2 || *count != 1 || ArrayRef<Dim>(dims).drop_back() != ArrayRef<Dim>(shape))
    return std::nullopt;
  Value whole = pairs.getOperand();
  Dims joined(shape);
  joined.back() *= 2;
  if (ArrayRef<Dim>(dimsOf(whole)) != ArrayRef<Dim>(joined) || !shape.back().number())
    return std::nullopt;
  return Part{whole, starts[last], 2, *shape.back().number()};
}

// The halves of a last dimension, or its even and odd elements.
struct Halves {
  Value whole;
  bool interleaved = false;
};
std::optional<Halves> halvesOf(const std::optional<Part> &first, const std::optional<Part> &second) {
  if (!first || !second || first->whole != second->whole || first->count != second->count ||
      first->stride != second->stride)
    return std::nullopt;
  const std::optional<int64_t> extent = dimsOf(first->whole).back().number();
  if (!extent || 2 * first->count != *extent || first->start != 0)
    return std::nullopt;
  if (first->stride == 1 && second->start == first->count)
    return Halves{first->whole, false};
  if (first->stride == 2 && second->start == 1)
    return Halves{first->whole, true};
  return std::nullopt;
}

// The two operands joined along the last dimension: one after the other, or element by element.
struct Joined {
  Value first, second;
  bool interleaved = false;
};
std::optional<Joined> joinedFrom(Value value) {
  if (auto join = producer<ir::ConcatenateOp>(value))
    if (join->getNumOperands() == 2 && axisOf(join) == rankOf(value) - 1)
      return Joined{join->getOperand(0), join->getOperand(1), false};
  auto flat = producer<ir::ReshapeOp>(value);
  auto stack = flat ? producer<ir::ConcatenateOp>(flat.getOperand()) : nullptr;
  if (!stack || stack->getNumOperands() != 2)
    return std::nullopt;
  const Dims shape = dimsOf(value), pairs = dimsOf(stack->getResult(0)); // [..., D] of [..., D / 2, 2]
  if (pairs.size() != shape.size() + 1 || pairs.back() != Dim(2) ||
      axisOf(stack) != static_cast<int64_t>(shape.size()) ||
      ArrayRef<Dim>(pairs).drop_back(2) != ArrayRef<Dim>(shape).drop_back())
    return std::nullopt;
  const auto column = [&](Value side) { // [..., D / 2, 1] from [..., D / 2]
    auto reshape = producer<ir::ReshapeOp>(side);
    return reshape && ArrayRef<Dim>(dimsOf(reshape.getOperand())) == ArrayRef<Dim>(pairs).drop_back()
               ? reshape.getOperand()
               : side;
  };
  return Joined{column(stack->getOperand(0)), column(stack->getOperand(1)), true};
}

// x when `value` is x with its pairs (a, b) turned to (-b, a), or back to (b, -a).
std::optional<Halves> turned(Value value, bool back) {
  const std::optional<Joined> joined = joinedFrom(value);
  auto neg = joined ? producer<ir::NegOp>(stripReshapes(back ? joined->second : joined->first)) : nullptr;
  if (!neg)
    return std::nullopt;
  const std::optional<Part> negated = partOf(neg.getOperand()), other = partOf(back ? joined->first : joined->second);
  const std::optional<Halves> halves = back ? halvesOf(negated, other) : halvesOf(other, negated);
  return halves && halves->interleaved == joined->interleaved ? halves : std::nullopt;
}

// A table in the form that `rope` takes: of x's rank, each extent 1 or that of x, the last one that of x.
Value table(PatternRewriter &rewriter, Value value, const Dims &shape) {
  Value small = unrepeated(rewriter, value);
  return small && dimsOf(small).back() == shape.back() ? small : value;
}

mlir::LogicalResult replaceByRope(Operation *op, PatternRewriter &rewriter, Value x, Value cosines, Value sines,
                                  bool interleaved) {
  return replace<ir::RopeOp>(rewriter, op, {x, cosines, sines}, {.interleaved = rewriter.getBoolAttr(interleaved)});
}

// x * cos + turned(x) * sin, or x * cos - (turned back) * sin
mlir::LogicalResult raiseSum(Operation *op, PatternRewriter &rewriter) {
  const bool back = llvm::isa<ir::SubOp>(op);
  for (unsigned i : {0u, 1u}) {
    if (back && i == 1)
      break;
    auto straight = producer<ir::MulOp>(op->getOperand(i));
    auto across = producer<ir::MulOp>(op->getOperand(1 - i));
    if (!straight || !across)
      return mlir::failure();
    for (unsigned k : {0u, 1u}) {
      const std::optional<Halves> halves = turned(across->getOperand(k), back);
      if (!halves)
        continue;
      for (unsigned j : {0u, 1u})
        if (straight->getOperand(j) == halves->whole) {
          const Dims shape = dimsOf(halves->whole);
          return replaceByRope(op, rewriter, halves->whole, table(rewriter, straight->getOperand(1 - j), shape),
                               table(rewriter, across->getOperand(1 - k), shape), halves->interleaved);
        }
    }
  }
  return mlir::failure();
}

// The other factor of `product`, when one factor is the part `x`; null otherwise.
Value factorBeside(Value product, const std::optional<Part> &x) {
  auto mul = producer<ir::MulOp>(product);
  for (unsigned i : {0u, 1u})
    if (const std::optional<Part> part = mul ? partOf(mul->getOperand(i)) : std::nullopt;
        part && x && part->whole == x->whole && part->start == x->start && part->stride == x->stride)
      return mul->getOperand(1 - i);
  return {};
}
std::optional<Part> partIn(Value product, Value beside) {
  auto mul = producer<ir::MulOp>(product);
  for (unsigned i : {0u, 1u})
    if (mul && mul->getOperand(1 - i) == beside)
      if (std::optional<Part> part = partOf(mul->getOperand(i)))
        return part;
  return std::nullopt;
}

// (a cos - b sin, b cos + a sin) joined along the last dimension, for the halves a and b of x and tables of half the
// extent.
mlir::LogicalResult raisePair(Operation *op, PatternRewriter &rewriter) {
  const std::optional<Joined> joined = joinedFrom(op->getResult(0));
  auto sub = joined ? producer<ir::SubOp>(stripReshapes(joined->first)) : nullptr;
  auto add = joined ? producer<ir::AddOp>(stripReshapes(joined->second)) : nullptr;
  auto cosProduct = sub ? producer<ir::MulOp>(sub.getLhs()) : nullptr;
  if (!cosProduct || !add)
    return mlir::failure();
  for (unsigned i : {0u, 1u}) {
    Value cosines = cosProduct->getOperand(1 - i);
    const std::optional<Part> a = partOf(cosProduct->getOperand(i));
    if (!a || rankOf(cosines) != rankOf(a->whole))
      continue;
    for (unsigned k : {0u, 1u}) { // the sum's first operand is b cos or a sin
      const std::optional<Part> b = partIn(add->getOperand(k), cosines);
      Value sines = factorBeside(add->getOperand(1 - k), a);
      const std::optional<Halves> halves = halvesOf(a, b);
      if (!halves || !sines || factorBeside(sub.getRhs(), b) != sines || halves->interleaved != joined->interleaved)
        continue;
      const auto doubled = [&](Value half) -> Value { // each entry serves both elements of a pair
        Value small = unrepeated(rewriter, half);
        if (!small || dimsOf(small).back() != dimsOf(half).back())
          small = half;
        const int64_t rank = rankOf(small);
        if (!halves->interleaved)
          return make<ir::ConcatenateOp>(rewriter, op->getLoc(), {small, small},
                                         {.axis = rewriter.getI64IntegerAttr(rank - 1)});
        Dims pairs = dimsOf(small), flat = pairs;
        pairs.push_back(2);
        flat.back() *= 2;
        return reshapeTo(rewriter, broadcastTo(rewriter, small, pairs, range(0, rank)), flat);
      };
      return replaceByRope(op, rewriter, halves->whole, doubled(cosines), doubled(sines), halves->interleaved);
    }
  }
  return mlir::failure();
}

} // namespace

ArrayRef<Row> ropes() {
  static const Row rows[] = {
      row<ir::AddOp, raiseSum>(),
      row<ir::SubOp, raiseSum>(),
      row<ir::ConcatenateOp, raisePair>(),
      row<ir::ReshapeOp, raisePair>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
