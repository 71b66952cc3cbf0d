// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/writer.hpp"

#include <limits>

#define GET_OP_CLASSES
#include <mortise/ir/attention.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addAttentionOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/attention.cpp.inc>
      >();
}

// The shape [B, H, Q, E] of what attention gives.
template <typename Adaptor> static FailureOr<Dims> attendedShape(Adaptor op, const Report &report) {
  Dims q = dimsOf(op.getQ()), k = dimsOf(op.getK()), v = dimsOf(op.getV());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return report.at("attention_c1")("q, k and v must have rank 4, found " + report.text(q) + ", " + report.text(k) +
                                     " and " + report.text(v));
  if (k[0] != q[0] || k[3] != q[3])
    return report.at("attention_c2")("k " + report.text(k) + " must have the first and last extents of q " +
                                     report.text(q));
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    return report.at("attention_c3")("v " + report.text(v) + " must have the first three extents of k " +
                                     report.text(k));
  if (k[1] == Dim(0) ? q[1] != Dim(0) : report.simplified(mod(q[1], k[1])) != Dim(0))
    return report.at("attention_c4")("the heads of q (" + report.text(q[1]) + ") must be a multiple of those of k (" +
                                     report.text(k[1]) + ")");
  Type element = elementOf(op.getQ());
  if (failed(checkElement("k", op.getK(), element, report.at("attention_c5"))) ||
      failed(checkElement("v", op.getV(), element, report)))
    return failure();
  if (Value mask = op.getMask()) {
    Dims shape = dimsOf(mask);
    Dim full[] = {q[0], q[1], q[2], k[2]};
    bool fits = shape.size() == 4;
    for (size_t i = 0; fits && i < 4; ++i)
      fits = shape[i] == Dim(1) || shape[i] == full[i];
    if (!fits)
      return report.at("attention_c6")("mask " + report.text(shape) + " must have rank 4 and broadcast to " +
                                       report.text(full));
    if (!elementOf(mask).isInteger(1) &&
        failed(checkElement("a mask that is not i1", mask, element, report.at("attention_c6"))))
      return failure();
  }
  return Dims{q[0], q[1], q[2], v[3]};
}

// Of log_sums, and of scores inside a decomposition.
static Type accumulatorOf(Type element) { return element.isF64() ? element : Float32Type::get(element.getContext()); }

Inferred AttentionOp::infer(Adaptor op, const Report &report) {
  FailureOr<Dims> shape = attendedShape(op, report);
  if (failed(shape))
    return failure();
  return Shaped{elementOf(op.getQ()), *shape};
}

Inferred AttentionForwardOp::infer(Adaptor op, const Report &report) {
  FailureOr<Dims> shape = attendedShape(op, report);
  if (failed(shape))
    return failure();
  Type element = elementOf(op.getQ());
  return {Shaped{element, *shape}, Shaped{accumulatorOf(element), {(*shape)[0], (*shape)[1], (*shape)[2]}}};
}

Inferred AttentionGradientOp::infer(Adaptor op, const Report &report) {
  FailureOr<Dims> shape = attendedShape(op, report);
  if (failed(shape))
    return failure();
  Type element = elementOf(op.getQ());
  for (auto [name, value] : {std::pair(StringRef("result"), op.getResult()), {"gradient", op.getGradient()}}) {
    if (dimsOf(value) != *shape)
      return report.at("attention_gradient_c1")(name + " " + report.text(dimsOf(value)) + " must have the shape " +
                                                report.text(*shape));
    if (failed(checkElement(name, value, element, report.at("attention_gradient_c1"))))
      return failure();
  }
  if (dimsOf(op.getLogSums()) != Dims((*shape).begin(), (*shape).end() - 1))
    return report.at("attention_gradient_c2")("log_sums " + report.text(dimsOf(op.getLogSums())) +
                                              " must have the first three extents of " + report.text(*shape));
  if (failed(checkElement("log_sums", op.getLogSums(), accumulatorOf(element), report.at("attention_gradient_c2"))))
    return failure();
  auto as = [](Value value) { return Shaped{elementOf(value), dimsOf(value)}; };
  return {as(op.getQ()), as(op.getK()), as(op.getV())};
}

Inferred RaggedAttentionOp::infer(Adaptor op, const Report &report) {
  Dims q = dimsOf(op.getQ()), k = dimsOf(op.getK()), v = dimsOf(op.getV());
  if (q.size() != 3 || k.size() != 3 || v.size() != 3)
    return report.at("ragged_attention_c1")("q, k and v must have rank 3, found " + report.text(q) + ", " +
                                            report.text(k) + " and " + report.text(v));
  if (k[2] != q[2] || v[0] != k[0] || v[1] != k[1])
    return report.at("ragged_attention_c2")("k " + report.text(k) + " must have the last extent of q " +
                                            report.text(q) + ", and v " + report.text(v) + " the first two of k");
  if (k[1] == Dim(0) || report.simplified(mod(q[1], k[1])) != Dim(0))
    return report.at("ragged_attention_c3")("the heads of q (" + report.text(q[1]) +
                                            ") must be a multiple of those of k (" + report.text(k[1]) + ")");
  Type element = elementOf(op.getQ());
  if (failed(checkElement("k", op.getK(), element, report.at("ragged_attention_c4"))) ||
      failed(checkElement("v", op.getV(), element, report)))
    return failure();
  Dims starts = dimsOf(op.getQOffsets()), others = dimsOf(op.getKOffsets());
  if (starts.size() != 1 || starts != others || !report.isAtLeast(starts[0], 1))
    return report.at("ragged_attention_c5")("q_offsets " + report.text(starts) + " and k_offsets " +
                                            report.text(others) + " must have rank 1 and one extent, at least 1");
  return Shaped{element, {q[0], q[1], v[2]}};
}

Inferred RopeOp::infer(Adaptor op, const Report &report) {
  Dims x = dimsOf(op.getX());
  if (x.empty() || report.simplified(floorDiv(x.back(), 2) * 2) != report.simplified(x.back()))
    return report.at("rope_c1")("x must have rank 1 or more and an even last extent, found " + report.text(x));
  for (auto [name, value] : {std::pair(StringRef("cos"), op.getCos()), {"sin", op.getSin()}}) {
    Dims found = dimsOf(value);
    bool fits = found.size() == x.size() && found.back() == x.back();
    for (size_t i = 0; fits && i < x.size(); ++i)
      fits = found[i] == Dim(1) || found[i] == x[i];
    if (!fits)
      return report.at("rope_c2")(name + " " + report.text(found) + " must have the rank of x " + report.text(x) +
                                  ", its last extent, and extents 1 or its elsewhere");
    if (failed(checkElement(name, value, elementOf(op.getX()), report.at("rope_c2"))))
      return failure();
  }
  return shapedAs(op.getX());
}

// ---- Decompositions

constexpr double infinity = std::numeric_limits<double>::infinity();

// The mask combined with `causal`, of rank 4 with extents 1 or those of the scores. NULL when every query sees every
// key.
template <typename Op> static Value effectiveMask(Op op, const Dim &queries, const Dim &keys, Writer &write) {
  Value mask = op.getMask();
  if (!op.getCausal())
    return mask ? write.widened(mask) : mask;
  Type index = write.rewriter.getI64Type();
  Value query = write.iota({queries, keys}, index, 0), key = write.iota({queries, keys}, index, 1);
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

// Sets the weights of queries that see no key to 0; softmax gives NaN for them. Those queries are found from the mask,
// which is often smaller than the scores.
static Value zeroUnseen(Value weights, Value mask, Writer &write) {
  Value seen = write.make<ReduceMaxOp>(mask, ArrayRef<int64_t>(3));
  if (!elementOf(mask).isInteger(1))
    seen = write.make<CompareOp>(seen, write.fill(-infinity, seen), "ne");
  seen = write.broadcast(seen, dimsOf(weights), {0, 1, 2});
  return write.make<SelectOp>(seen, weights, write.fill(0, weights));
}

namespace {
// The products of attention and its gradient. The query heads that share a key head become rows of one product, so
// that k and v are not repeated.
struct Heads {
  Dims whole, grouped; // [B, H, Q, .] and [B, G, H / G * Q, .]; the last extents are those of q
  Dim keys;
  Writer &write;

  Heads(Value q, Value k, Writer &write) : whole(dimsOf(q)), grouped(whole), keys(dimsOf(k)[2]), write(write) {
    Dim groups = dimsOf(k)[1];
    grouped[1] = groups;
    grouped[2] = groups == Dim(0) ? Dim(0) : floorDiv(whole[1], groups) * whole[2];
  }
  Value rows(Value value) const { return shaped(value, grouped); }
  Value heads(Value value) const { return shaped(value, whole); }
  // The sum over these axes, for each batch and key head.
  Value product(Value x, Value y, int64_t xAxis, int64_t yAxis) const {
    return write.make<DotOp>(x, y, Axes{0, 1}, Axes{0, 1}, Axes{xAxis}, Axes{yAxis});
  }

private:
  Value shaped(Value value, Dims dims) const {
    dims[3] = dimsOf(value)[3];
    return write.reshaped(value, dims);
  }
};
} // namespace

// scale * q k^T with the mask, [B, H, Q, K]. `mask` becomes that of effectiveMask.
template <typename Op> static Value scoresOf(Op op, Value q, Value k, const Heads &of, Value &mask, Writer &write) {
  Value scores = of.heads(of.product(of.rows(q), k, 3, 3));
  double scale = op.getScale().convertToDouble();
  if (scale != 1)
    scores = write.times(scores, scale);
  mask = effectiveMask(op, of.whole[2], of.keys, write);
  if (!mask)
    return scores;
  Value whole = write.spread(mask, dimsOf(scores), Axes{0, 1, 2, 3});
  return elementOf(mask).isInteger(1) ? Value(write.make<SelectOp>(whole, scores, write.fill(-infinity, scores)))
                                      : Value(write.make<AddOp>(scores, whole));
}

// The result of attention; `scores` becomes what it was made from.
template <typename Op> static Value attended(Op op, Value &scores, Writer &write) {
  Value q = write.widened(op.getQ()), k = write.widened(op.getK()), v = write.widened(op.getV());
  Heads of(q, k, write);
  Value mask;
  scores = scoresOf(op, q, k, of, mask, write);
  Value weights = write.make<SoftmaxOp>(scores, int64_t(3));
  if (op.getMask()) // with `causal` alone every query sees key 0
    weights = zeroUnseen(weights, mask, write);
  return of.heads(of.product(of.rows(weights), v, 3, 2));
}

Values AttentionOp::expand(Writer &write) {
  Value scores;
  return {attended(*this, scores, write)};
}

Values AttentionForwardOp::expand(Writer &write) {
  Value scores, result = attended(*this, scores, write);
  Value largest = write.make<ReduceMaxOp>(scores, ArrayRef<int64_t>(3));
  Value powers = write.make<ExpOp>(write.make<SubOp>(scores, write.broadcast(largest, dimsOf(scores), {0, 1, 2})));
  Value sums = write.make<LogOp>(write.make<ReduceSumOp>(powers, ArrayRef<int64_t>(3)));
  sums = write.make<AddOp>(largest, sums);
  Value blind = write.make<CompareOp>(largest, write.fill(-infinity, largest), "eq");
  return {result, write.make<SelectOp>(blind, write.fill(0, sums), sums)};
}

Values AttentionGradientOp::expand(Writer &write) {
  Value q = write.widened(getQ()), k = write.widened(getK()), v = write.widened(getV()),
        result = write.widened(getResult()), gradient = write.widened(getGradient());
  Heads of(q, k, write);
  Value mask, scores = scoresOf(*this, q, k, of, mask, write);
  auto perQuery = [&](Value value) { return write.broadcast(value, dimsOf(scores), {0, 1, 2}); };
  Value weights = write.make<ExpOp>(write.make<SubOp>(scores, perQuery(getLogSums())));
  Value shares = write.make<ReduceSumOp>(write.make<MulOp>(gradient, result), ArrayRef<int64_t>(3));
  Value change = write.make<SubOp>(of.heads(of.product(of.rows(gradient), v, 3, 3)), perQuery(shares));
  change = write.times(write.make<MulOp>(weights, change), getScale().convertToDouble());
  weights = of.rows(weights), change = of.rows(change);
  return {of.heads(of.product(change, k, 3, 2)), of.product(change, of.rows(q), 2, 2),
          of.product(weights, of.rows(gradient), 2, 2)};
}

// The slice [first, limit) of x along the last dimension.
static Value part(Value x, const Dim &first, const Dim &limit, Writer &write) {
  Dims starts(rankOf(x), Dim(0)), limits = dimsOf(x);
  Axes strides(rankOf(x), 1);
  starts.back() = first;
  limits.back() = limit;
  return write.make<SliceOp>(x, write.extents(starts), write.extents(limits),
                             write.rewriter.getDenseI64ArrayAttr(strides));
}
Values RopeOp::expand(Writer &write) {
  Value x = write.widened(getX()), rotated;
  Dims shape = dimsOf(x);
  int64_t last = rankOf(x) - 1;
  if (getInterleaved()) {
    Dims pairs = shape;
    pairs.back() = floorDiv(shape.back(), 2);
    pairs.push_back(2);
    Value both = write.reshaped(x, pairs);
    Value other = write.make<NegOp>(part(both, 1, 2, write));
    rotated = write.make<ConcatenateOp>(ValueRange{other, part(both, 0, 1, write)}, last + 1);
    rotated = write.reshaped(rotated, shape);
  } else {
    Dim half = floorDiv(shape.back(), 2);
    Value other = write.make<NegOp>(part(x, half, shape.back(), write));
    rotated = write.make<ConcatenateOp>(ValueRange{other, part(x, 0, half, write)}, last);
  }
  auto times = [&](Value value, Value angle) {
    return write.make<MulOp>(value, write.spread(write.widened(angle), shape, from(0, last + 1)));
  };
  return {write.make<AddOp>(times(x, getCos()), times(rotated, getSin()))};
}

namespace {
struct Owners {   // the sequence that each row belongs to
  Value sequence; // i64: 1 + the index of the sequence
  Value inside;   // i1: the row belongs to a sequence
  Value distance; // i64: row - end of the sequence, negative inside
};
} // namespace

static Owners ownersOf(Value offsets, const Dim &rows, Writer &write) {
  Dims grid{rows, dimsOf(offsets)[0]};
  auto count = [&](ArrayRef<Dim> shape) {
    return write.make<IotaOp>(write.extents(shape), write.rewriter.getStringAttr("i64"),
                              write.rewriter.getI64IntegerAttr(0));
  };
  Value begun = write.make<CompareOp>(write.spread(offsets, grid, {1}), count(grid), "le");
  Value sequence = write.make<ReduceSumOp>(write.converted(begun, write.rewriter.getI64Type()), ArrayRef<int64_t>(1));
  Value row = count(rows), end = write.make<TakeOp>(offsets, sequence, int64_t(0));
  Value inside = write.make<AndOp>(write.make<CompareOp>(sequence, write.fill(1, sequence), "ge"),
                                   write.make<CompareOp>(row, end, "lt"));
  return {sequence, inside, write.make<SubOp>(row, end)};
}

Values RaggedAttentionOp::expand(Writer &write) {
  Dims q = dimsOf(getQ()), k = dimsOf(getK());
  Owners queries = ownersOf(getQOffsets(), q[0], write), keys = ownersOf(getKOffsets(), k[0], write);
  Dims grid{q[0], k[0]};
  auto rows = [&](Value value) { return write.broadcast(value, grid, {0}); };
  auto columns = [&](Value value) { return write.broadcast(value, grid, {1}); };
  Value seen = write.make<CompareOp>(rows(queries.sequence), columns(keys.sequence), "eq");
  seen = write.make<AndOp>(seen, write.make<AndOp>(rows(queries.inside), columns(keys.inside)));
  if (getCausal())
    seen = write.make<AndOp>(seen, write.make<CompareOp>(rows(queries.distance), columns(keys.distance), "ge"));
  auto packed = [&](Value value) { // [rows, heads, size] to [1, heads, rows, size]
    Dims dims = dimsOf(value);
    return write.reshaped(write.make<TransposeOp>(value, Axes{1, 0, 2}), {1, dims[1], dims[0], dims[2]});
  };
  Value result =
      write.make<AttentionOp>(packed(getQ()), packed(getK()), packed(getV()), write.reshaped(seen, {1, 1, q[0], k[0]}),
                              getScaleAttr(), write.rewriter.getBoolAttr(false));
  result = write.reshaped(result, {q[1], q[0], dimsOf(getV())[2]});
  return {write.make<TransposeOp>(result, Axes{1, 0, 2})};
}

} // namespace mortise::ir
