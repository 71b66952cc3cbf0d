// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// softmax(q k^T * scale + masks) v as matrix products of rank 3 or 4, and the masks of attention. Not raised when the
// scores have another user (need_weights), because they must then be computed anyway.
//
// Differences between the composite and the single ops, and how each is handled:
//  - A query that sees no key gives 0 in the composite. The single ops give NaN when the mask hides by -infinity. For
//    an added mask that may contain such a row, the row is set to NaN (once for all layers that share the mask); for an
//    i1 mask, the result of the query is. When the single ops replace scores by a finite fill value, they give the mean
//    of the values, which a select after the composite restores. Without a mask, and with causal or finite added masks,
//    every query sees a key.
//  - A mask with a finite fill value (the lowest number of the scores' type, or at most -1e9; at most -1e4 when causal)
//    hides a key: its weight is 0. The single ops give it a nonzero weight in f32 when all visible scores are smaller
//    than fill + 104.
//  - In the single ops, an infinite or NaN score that an added mask hides makes the softmax NaN. In a composite with an
//    i1 or causal mask it does not. Several masks become one added mask, where it still does; there, score + lowest is
//    lowest for scores below 1e31.
//  - A scale on q or k is applied to their product, so scores near 1e38 may overflow in one form and not in the other;
//    narrow floats round once, at the end.
#include "match.hpp"

#include <cmath>
#include <limits>

namespace mortise::passes::raise {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- Causal masks

// The dimension d for which value[i...] = i[d], when `value` is an iota behind conversions, broadcasts and reshapes.
std::optional<int64_t> countsAlong(Value value) {
  if (auto iota = producer<ir::IotaOp>(value))
    return axisOf(iota);
  if (auto convert = producer<ir::ConvertOp>(value))
    return countsAlong(convert.getOperand());
  if (auto broadcast = producer<ir::BroadcastOp>(value)) {
    const std::optional<int64_t> from = countsAlong(broadcast.getOperand());
    if (!from)
      return std::nullopt;
    const int64_t to = broadcast.getAxes()[static_cast<size_t>(*from)];
    const bool whole =
        dimsOf(broadcast.getOperand())[static_cast<size_t>(*from)] == dimsOf(value)[static_cast<size_t>(to)];
    return whole ? std::optional(to) : std::nullopt;
  }
  auto reshape = producer<ir::ReshapeOp>(value); // [n] to [.., 1, n, 1, ..]
  const std::optional<int64_t> from = reshape ? countsAlong(reshape.getOperand()) : std::nullopt;
  if (!from)
    return std::nullopt;
  const auto longDims = [](Value of) {
    Ints found;
    for (auto [i, dim] : llvm::enumerate(dimsOf(of)))
      if (dim != Dim(1))
        found.push_back(static_cast<int64_t>(i));
    return found;
  };
  const Ints before = longDims(reshape.getOperand()), after = longDims(value);
  return before == Ints{*from} && after.size() == 1 ? std::optional(after[0]) : std::nullopt;
}

enum class Causal { No, Seen, Hidden }; // Seen: true where query >= key; Hidden: true where query < key

// The kind of a causal mask that is an i1 literal [..., Q, K].
Causal causalLiteral(Value value) {
  auto constant = producer<ir::ConstantOp>(value);
  const auto elements =
      constant ? llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue()) : mlir::DenseElementsAttr();
  const auto shape = typeOf(value).getShape();
  if (!elements || shape.size() < 2 || !elementOf(value).isInteger(1))
    return Causal::No;
  const int64_t queries = shape[shape.size() - 2], keys = shape.back();
  if (queries < 2 || keys < 2)
    return Causal::No;
  bool seen = true, hidden = true;
  for (auto [i, element] : llvm::enumerate(elements.getValues<bool>())) {
    const auto at = static_cast<int64_t>(i);
    const bool before = at / keys % queries >= at % keys;
    seen &= element == before;
    hidden &= element != before;
  }
  return seen ? Causal::Seen : hidden ? Causal::Hidden : Causal::No;
}

Causal opposite(Causal kind) {
  return kind == Causal::Seen ? Causal::Hidden : kind == Causal::Hidden ? Causal::Seen : Causal::No;
}

// The kind of causal mask that an i1 predicate [..., Q, K] is. The dimensions before the last two may only repeat the
// mask.
Causal causality(Value predicate) {
  if (auto inverted = producer<ir::NotOp>(predicate))
    return opposite(causality(inverted.getOperand()));
  if (auto compare = producer<ir::CompareOp>(predicate)) {
    const std::optional<int64_t> left = countsAlong(compare.getLhs()), right = countsAlong(compare.getRhs());
    const int64_t query = rankOf(predicate) - 2, key = query + 1;
    const StringRef direction = compare.getDirection();
    if (left == query && right == key)
      return direction == "ge" ? Causal::Seen : direction == "lt" ? Causal::Hidden : Causal::No;
    if (left == key && right == query)
      return direction == "le" ? Causal::Seen : direction == "gt" ? Causal::Hidden : Causal::No;
    return Causal::No;
  }
  auto broadcast = producer<ir::BroadcastOp>(predicate);
  auto reshape = producer<ir::ReshapeOp>(predicate);
  if (!broadcast && !reshape)
    return causalLiteral(predicate);
  Value from = (broadcast ? broadcast : reshape)->getOperand(0);
  const Dims to = dimsOf(predicate), extents = dimsOf(from);
  if (extents.size() < 2 || to.size() < 2 || ArrayRef<Dim>(extents).take_back(2) != ArrayRef<Dim>(to).take_back(2))
    return Causal::No;
  if (broadcast) {
    const ArrayRef<int64_t> axes = broadcast.getAxes();
    if (axes.take_back(2) != ArrayRef<int64_t>({rankOf(predicate) - 2, rankOf(predicate) - 1}))
      return Causal::No;
  }
  return causality(from);
}

// ---- The whole

struct Side { // an operand of a dot, and the permutation that makes it [batches..., rows, columns]
  Value value;
  Ints order;
};

struct Mask {
  Value value;           // added to the scores, or a predicate that selects between them and `fill`
  double factor = 1;     // scale of an added mask: the program scales after adding
  bool chooses = false;  // `value` is a predicate
  bool inverted = false; // the predicate is true where a key is hidden
  double fill = 0;
  bool isLowest = false; // `fill` is the lowest number of the scores' type
};

struct Match {
  Side q, k, v;
  double scale = 1;
  llvm::SmallVector<Mask, 2> masks; // outermost first
};

bool keepsLastTwo(Operation *reshape) {
  const Dims from = dimsOf(reshape->getOperand(0)), to = dimsOf(reshape->getResult(0));
  return from.size() >= 2 && to.size() >= 2 && ArrayRef<Dim>(from).take_back(2) == ArrayRef<Dim>(to).take_back(2);
}

// Whether the dot has one or two batch dimensions and one row, one column and one contracted dimension.
bool isBatchProduct(ir::DotOp dot) {
  const int64_t rank = dot ? rankOf(dot.getResult()) : 0;
  return (rank == 3 || rank == 4) && rankOf(dot.getLhs()) == rank && rankOf(dot.getRhs()) == rank &&
         static_cast<int64_t>(dot.getLhsBatch().size()) == rank - 2 && dot.getLhsContract().size() == 1 &&
         llvm::isa<mlir::FloatType>(elementOf(dot.getResult()));
}

// An operand of the dot, with its contracted dimension last (`contractLast`) or last but one.
Side sideOf(ir::DotOp dot, unsigned number, bool contractLast) {
  Side side{dot->getOperand(number), Ints(number ? dot.getRhsBatch() : dot.getLhsBatch())};
  const int64_t contract = (number ? dot.getRhsContract() : dot.getLhsContract())[0];
  for (int64_t i = 0; i < rankOf(side.value); ++i)
    if (i != contract && !llvm::is_contained(side.order, i)) {
      side.order.push_back(i);
      break;
    }
  side.order.insert(side.order.end() - (contractLast ? 0 : 1), contract);
  return side;
}

double lowest(mlir::Type element) {
  return -llvm::APFloat::getLargest(llvm::cast<mlir::FloatType>(element).getFloatSemantics()).convertToDouble();
}
Causal causalityOf(const Mask &mask) {
  return !mask.chooses ? Causal::No : mask.inverted ? opposite(causality(mask.value)) : causality(mask.value);
}

// Matches the operand of the softmax from the outside in: masks, the scale, the product.
bool matchLogits(Value value, Match &match) {
  if (!value.hasOneUse() || match.masks.size() > 3)
    return false;
  if (Value inner = stripConverts(value); inner != value)
    return matchLogits(inner, match);
  if (auto reshape = producer<ir::ReshapeOp>(value))
    return keepsLastTwo(reshape) && matchLogits(reshape.getOperand(), match);
  if (auto dot = producer<ir::DotOp>(value)) {
    if (!isBatchProduct(dot))
      return false;
    match.q = sideOf(dot, 0, true);
    match.k = sideOf(dot, 1, true);
    return true;
  }
  if (Value inner = scaledBy(value, match.scale))
    return matchLogits(inner, match);
  const auto without = [&](Operation *op, unsigned scores, Mask mask) {
    Match trial = match;
    trial.masks.push_back(mask);
    if (!matchLogits(op->getOperand(scores), trial))
      return false;
    match = trial;
    return true;
  };
  if (auto add = producer<ir::AddOp>(value))
    return without(add, 0, Mask{add.getRhs(), match.scale}) || without(add, 1, Mask{add.getLhs(), match.scale});
  auto select = producer<ir::SelectOp>(value);
  for (unsigned i : {1u, 2u}) { // the operand that holds the scores
    const std::optional<double> fill = select ? splat(select->getOperand(3 - i)) : std::nullopt;
    const bool hides = fill && (*fill == -infinity ? match.scale > 0 : match.scale == 1 && *fill <= -1e4);
    if (hides &&
        without(select, i, Mask{select.getPredicate(), 1, true, i == 2, *fill, *fill == lowest(elementOf(value))}))
      return true;
  }
  return false;
}

// `mask` before broadcasts and reshapes that keep its last two dimensions.
Value innermost(Value mask) {
  for (;;) {
    Operation *op = mask.getDefiningOp();
    if (!llvm::isa_and_present<ir::BroadcastOp, ir::ReshapeOp>(op) || !keepsLastTwo(op))
      return mask;
    mask = op->getOperand(0);
  }
}

// Whether an added mask is select(query >= key, 0, -infinity) or select(query < key, -infinity, 0).
bool isCausalPenalty(Value mask) {
  mask = innermost(mask);
  auto select = producer<ir::SelectOp>(mask);
  const Causal kind = select && rankOf(mask) >= 2 ? causality(select.getPredicate()) : Causal::No;
  if (kind == Causal::No)
    return false;
  const std::optional<double> seen = splat(select->getOperand(kind == Causal::Seen ? 1 : 2)),
                              hidden = splat(select->getOperand(kind == Causal::Seen ? 2 : 1));
  return seen && hidden && *seen == 0 && *hidden == -infinity;
}

// Whether a row of the mask may hide every key by -infinity.
bool mayHideAll(const Mask &mask) {
  if (mask.chooses)
    return std::isinf(mask.fill);
  auto select = producer<ir::SelectOp>(innermost(mask.value));
  for (unsigned i : {1u, 2u}) {
    const std::optional<double> number = select ? splat(select->getOperand(i)) : std::nullopt;
    if (!number || !std::isfinite(*number))
      return true;
  }
  return false;
}

class Builder {
public:
  Builder(PatternRewriter &rewriter, Operation *op, Match match, Value logits)
      : rewriter(rewriter), op(op), match(std::move(match)), logits(logits) {}

  Value build() {
    findLead();
    Value q = operand(match.q), k = operand(match.k), v = operand(match.v);
    if (!q || !k || !v || elementOf(q) != elementOf(k) || elementOf(q) != elementOf(v))
      return {};
    Value values = v; // before shareHeads: one head for each query head
    shareHeads(k, v);
    llvm::SmallVector<Value> operands{q, k, v};
    const bool causal = match.masks.size() == 1 && isCausal(match.masks[0]);
    Value seen;
    if (!causal && match.masks.size() == 1 && match.masks[0].chooses) {
      if (match.masks[0].fill > -1e9 && !match.masks[0].isLowest)
        return {};
      seen = predicate(match.masks[0]);
      operands.push_back(seen);
    } else if (!causal && !match.masks.empty()) {
      operands.push_back(sum());
    }
    if (llvm::is_contained(operands, Value()))
      return {};
    Value result =
        make<ir::AttentionOp>(rewriter, op->getLoc(), operands,
                              {.causal = rewriter.getBoolAttr(causal), .scale = rewriter.getF64FloatAttr(match.scale)});
    if (result && seen)
      result = whereNothingIsSeen(result, seen, std::isinf(match.masks[0].fill) ? Value() : values);
    return reshapeTo(rewriter, result, dimsOf(op->getResult(0)));
  }

private:
  // Finds the extents of batch and heads in a value of rank 4; without one, the batch is 1.
  void findLead() {
    for (Value value : {Value(op->getResult(0)), logits, match.q.value})
      if (const Dims dims = dimsOf(value); dims.size() == 4 && (value != match.q.value || isIdentity(match.q.order))) {
        lead = {dims[0], dims[1]};
        return;
      }
    const Dims dims = dimsOf(op->getResult(0));
    lead = {Dim(1), dims[0]};
    for (Value value = match.q.value; isIdentity(match.q.order);) {
      if (const Dims found = dimsOf(value); found.size() == 4 && found[0] * found[1] == dims[0]) {
        lead = {found[0], found[1]};
        return;
      }
      auto reshape = producer<ir::ReshapeOp>(value);
      if (!reshape || !keepsLastTwo(reshape))
        return;
      value = reshape.getOperand();
    }
  }

  static bool isIdentity(ArrayRef<int64_t> order) {
    return order == ArrayRef<int64_t>(range(0, static_cast<int64_t>(order.size())));
  }

  // `value` [..., R, C] as [B, H, R, C].
  Value framed(Value value) {
    const Dims dims = dimsOf(value);
    const Dims shape{lead[0], lead[1], dims[dims.size() - 2], dims.back()};
    for (Value inner = value;;) { // a reshape may have taken it from this shape
      if (ArrayRef<Dim>(dimsOf(inner)) == ArrayRef<Dim>(shape))
        return inner;
      auto reshape = producer<ir::ReshapeOp>(inner);
      if (!reshape || !keepsLastTwo(reshape))
        return reshapeTo(rewriter, value, shape);
      inner = reshape.getOperand();
    }
  }

  // The operand as [B, H, rows, columns]. Scales on q and k move into `match.scale`.
  Value operand(const Side &side) {
    const bool scales = &side != &match.v;
    const auto unscaled = [&](Value value) {
      Value inner = scales && value ? scaledBy(value, match.scale) : Value();
      return inner ? inner : value;
    };
    Ints swap = range(0, static_cast<int64_t>(side.order.size()));
    std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
    if (side.order != swap) {
      Value value = unscaled(side.value);
      return unscaled(framed(isIdentity(side.order) ? value : transposed(rewriter, value, side.order)));
    }
    Value value = unscaled(framed(unscaled(side.value)));
    auto transpose = producer<ir::TransposeOp>(value);
    if (transpose && transpose.getPermutation() == ArrayRef<int64_t>({0, 1, 3, 2}))
      return unscaled(transpose.getOperand());
    return transposed(rewriter, value, {0, 1, 3, 2});
  }

  // Replaces key and value heads that were repeated for groups of query heads by the heads before the repetition.
  void shareHeads(Value &k, Value &v) {
    Value shared[2] = {unrepeatedHeads(k), unrepeatedHeads(v)};
    if (shared[0] && shared[1] && dimsOf(shared[0])[1] == dimsOf(shared[1])[1]) {
      k = shared[0];
      v = shared[1];
    }
  }
  Value unrepeatedHeads(Value value) { // [B, G, R, K, D] to [B, G * R, K, D]
    for (ir::ReshapeOp reshape; rankOf(value) != 5; value = reshape.getOperand())
      if (reshape = producer<ir::ReshapeOp>(value); !reshape || !keepsLastTwo(reshape))
        return {};
    Dims dims = dimsOf(value);
    if (dims[0] != lead[0] || dims[1] * dims[2] != lead[1])
      return {};
    Value once = repeatedAlong(value, 2, dims);
    dims.erase(dims.begin() + 2);
    return once ? reshapeTo(rewriter, once, dims) : Value();
  }

  // The mask in rank 4, with extents of 1 where it is broadcast; null when its shape does not fit.
  Value framedMask(Value mask) {
    const Dims whole = dimsOf(mask);
    Value small = unrepeated(rewriter, mask);
    Dims dims = small ? dimsOf(small) : Dims();
    if (dims.size() == 4)
      return whole[0] == lead[0] && whole[1] == lead[1] ? small : Value();
    if (dims.size() != 3)
      return {};
    const bool alone = dims[0] == Dim(1);
    const Dims shape{alone ? Dim(1) : lead[0], alone ? Dim(1) : lead[1], dims[1], dims[2]};
    return reshapeTo(rewriter, small, shape);
  }

  static bool isCausal(const Mask &mask) {
    return mask.chooses ? causalityOf(mask) == Causal::Seen : mask.factor > 0 && isCausalPenalty(mask.value);
  }

  // The mask as an i1 tensor, true where a key is seen.
  Value predicate(const Mask &mask) {
    Value framed = framedMask(mask.value);
    return framed && mask.inverted ? make<ir::NotOp>(rewriter, op->getLoc(), framed) : framed;
  }

  // The mask as numbers to add: for a predicate, 0 where a key is seen and the fill value elsewhere.
  Value penalty(const Mask &mask) {
    if (!mask.chooses) {
      Value framed = framedMask(mask.value);
      if (!framed || mask.factor == 1)
        return framed;
      return make<ir::MulOp>(rewriter, op->getLoc(), {framed, filled(rewriter, op->getLoc(), mask.factor, framed)});
    }
    // Attention computes in f32, where a score plus the lowest number is the lowest number. The score would change any
    // other fill value, f16's lowest number included.
    const mlir::Type element = elementOf(match.q.value);
    if (!std::isinf(mask.fill) && (element.isF16() || mask.fill != lowest(element)))
      return {};
    Value framed = framedMask(mask.value);
    if (!framed)
      return {};
    const auto scalar = mlir::RankedTensorType::get({}, element);
    const auto numbers = [&](double number) {
      const auto literal =
          mlir::DenseElementsAttr::get(scalar, mlir::Attribute(rewriter.getFloatAttr(element, number)));
      Value made = make<ir::ConstantOp>(rewriter, op->getLoc(), {}, {.value = literal});
      return broadcastLike(rewriter, made, framed, {});
    };
    Value none = numbers(0), hidden = numbers(mask.fill);
    return make<ir::SelectOp>(rewriter, op->getLoc(),
                              {framed, mask.inverted ? hidden : none, mask.inverted ? none : hidden});
  }

  // `value` broadcast to the extents of `other` where its own are 1.
  Value joined(Value value, Value other) {
    Dims shape = dimsOf(value);
    for (auto [i, dim] : llvm::enumerate(dimsOf(other)))
      if (shape[i] == Dim(1))
        shape[i] = dim;
    return broadcastTo(rewriter, value, shape, range(0, 4), typeOf(value).getEncoding() ? value : other);
  }

  // The sum of all masks, innermost first.
  Value sum() {
    Value total;
    bool guard = false;
    for (const Mask &mask : llvm::reverse(match.masks)) {
      Value next = penalty(mask);
      if (!next || elementOf(next) != elementOf(match.q.value))
        return {};
      guard |= total || mayHideAll(mask); // the sum of two lowest numbers is -infinity
      if (total) {
        total = joined(total, next);
        next = total ? joined(next, total) : total;
      }
      total = total ? make<ir::AddOp>(rewriter, op->getLoc(), {total, next}) : next;
      if (!total)
        return {};
    }
    return guard ? guarded(total) : total;
  }

  // The mask with NaN in the rows that hide every key.
  Value guarded(Value mask) {
    const mlir::Location place = op->getLoc();
    Value top = make<ir::ReduceMaxOp>(rewriter, place, mask, {.axes = rewriter.getDenseI64ArrayAttr(3)});
    Value low = top ? filled(rewriter, place, -infinity, top) : Value();
    Value none = make<ir::CompareOp>(rewriter, place, {top, low}, {.direction = rewriter.getStringAttr("eq")});
    Value nan = filled(rewriter, place, std::numeric_limits<double>::quiet_NaN(), mask);
    return make<ir::SelectOp>(rewriter, place, {broadcastLike(rewriter, none, mask, {0, 1, 2}), nan, mask});
  }

  // `result` with the rows of queries that see no key set to the mean of `values`, or to NaN when `values` is null.
  Value whereNothingIsSeen(Value result, Value seen, Value values) {
    const mlir::Location place = op->getLoc();
    Value any = make<ir::ReduceMaxOp>(rewriter, place, seen, {.axes = rewriter.getDenseI64ArrayAttr(3)});
    Value other;
    if (values) {
      Value mean = make<ir::MeanOp>(rewriter, place, values, {.axes = rewriter.getDenseI64ArrayAttr(2)});
      other = broadcastLike(rewriter, mean, result, {0, 1, 3});
    } else {
      other = filled(rewriter, place, std::numeric_limits<double>::quiet_NaN(), result);
    }
    return make<ir::SelectOp>(rewriter, place, {broadcastLike(rewriter, any, result, {0, 1, 2}), result, other});
  }

  PatternRewriter &rewriter;
  Operation *op;
  Match match;
  Value logits;
  Dims lead;
};

// dot(softmax(...), v)
mlir::LogicalResult raiseAttention(ir::DotOp op, PatternRewriter &rewriter) {
  if (!isBatchProduct(op))
    return mlir::failure();
  const Side weights = sideOf(op, 0, true);
  if (ArrayRef<int64_t>(weights.order) != ArrayRef<int64_t>(range(0, rankOf(weights.value))))
    return mlir::failure();
  Value value = weights.value;
  for (;;) {
    if (!value.hasOneUse())
      return mlir::failure();
    auto reshape = producer<ir::ReshapeOp>(value);
    Value inner = reshape && keepsLastTwo(reshape) ? reshape.getOperand() : stripConverts(value);
    if (inner == value)
      break;
    value = inner;
  }
  auto softmax = producer<ir::SoftmaxOp>(value);
  const int64_t rank = softmax ? rankOf(value) : 0;
  if ((rank != 3 && rank != 4) || axisOf(softmax) != rank - 1)
    return mlir::failure();
  Match match;
  if (!matchLogits(softmax.getOperand(), match))
    return mlir::failure();
  match.v = sideOf(op, 1, false);
  return replaceBy(rewriter, op, Builder(rewriter, op, match, softmax.getOperand()).build());
}

// ---- Products as torch.einsum writes them

// A transpose of a reshape that inserted extents of 1. Transposes before the reshape, or only reshapes when the
// dimensions other than 1 keep their order.
mlir::LogicalResult raiseUnitTranspose(ir::TransposeOp op, PatternRewriter &rewriter) {
  auto reshape = producer<ir::ReshapeOp>(op.getOperand());
  if (!reshape)
    return mlir::failure();
  Value value = op.getOperand();
  const Dims from = dimsOf(value), before = dimsOf(reshape.getOperand());
  // `number` is each dimension's index in `before`, or -1 for an inserted extent of 1.
  Ints number(from.size(), -1), order;
  Ints longDims;
  size_t next = 0;
  for (auto [i, dim] : llvm::enumerate(from))
    if (next < before.size() && dim == before[next])
      number[i] = static_cast<int64_t>(next++);
    else if (dim != Dim(1))
      next = before.size() + 1;
  for (int64_t axis : op.getPermutation()) {
    const auto at = static_cast<size_t>(axis);
    if (number[at] >= 0)
      order.push_back(number[at]);
    if (from[at] != Dim(1))
      longDims.push_back(axis);
  }
  if (!llvm::is_sorted(longDims)) {
    if (next != before.size() || before.size() == from.size())
      return mlir::failure();
    value = transposed(rewriter, reshape.getOperand(), order);
  }
  const Dims to = dimsOf(op.getResult());
  return replaceBy(rewriter, op, reshapeTo(rewriter, value, to));
}

// ---- Masks of attention that came as a composite

// Replaces a mask select(seen, 0, -inf) by `seen`, and drops the broadcast of a mask, because attention broadcasts it
// itself. With an i1 mask, a NaN in a hidden key no longer makes the query NaN.
mlir::LogicalResult raiseMask(ir::AttentionOp op, PatternRewriter &rewriter) {
  Value mask = op.getMask();
  if (!mask)
    return mlir::failure();
  Value better;
  if (auto select = producer<ir::SelectOp>(mask)) {
    const std::optional<double> hidden = splat(select.getOnFalse()), seen = splat(select.getOnTrue());
    if (hidden && seen && *seen == 0 && *hidden == -infinity)
      better = select.getPredicate();
  } else if (producer<ir::BroadcastOp>(mask)) {
    better = unrepeated(rewriter, mask);
  }
  if (!better || better == mask)
    return mlir::failure();
  rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(better); });
  return mlir::success();
}

} // namespace

ArrayRef<Row> attentions() {
  static const Row rows[] = {
      row<ir::DotOp, raiseAttention>(),
      row<ir::TransposeOp, raiseUnitTranspose>(),
      row<ir::AttentionOp, raiseMask>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
