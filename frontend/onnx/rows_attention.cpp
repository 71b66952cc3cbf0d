// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention, and the rotary embedding of its operands.
#include "rows.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::onnx {
namespace {

// [B, S, heads * D] as [B, heads, S, D].
Value headed(Emitter &e, Node &node, const Value &x, int64_t heads) {
  if (x.rank() == 4)
    return x;
  if (x.rank() != 3 || heads < 1 || x.last() % heads != 0)
    corrupt(node.place() + ": expected an operand of rank 4, or of rank 3 and its number of heads, found " +
            typeText(x) + " and " + std::to_string(heads) + " heads");
  return e.transpose(e.reshape(x, {x.dims[0], x.dims[1], heads, x.last() / heads}), {0, 2, 1, 3});
}

// How far the keys in front of a query reach: the position of query 0. Of a cache, or of each sequence's length.
struct Positions {
  Value row, column; // [1 or B, 1, Q, K]
};
Positions positions(Emitter &e, const Value &lengths, int64_t past, int64_t batch, int64_t queries, int64_t keys) {
  const Dims shape{lengths ? batch : 1, 1, queries, keys};
  Value row = e.iota(shape, 2);
  if (lengths)
    row = e.add(row, e.reshape(e.shift(lengths, static_cast<double>(-queries)), {batch, 1, 1, 1}));
  else if (past)
    row = e.shift(row, static_cast<double>(past));
  return {row, e.iota(shape, 3)};
}

Value both(Emitter &e, const Value &a, const Value &b) { return a ? e.combine("mortise.and", a, b) : b; }

struct Mask {
  Value allowed, added; // either may be missing
};

// What a query may see: the mask that is given (a short one leaves later keys out), the lengths of sequences, earlier
// keys only, and a window around the query.
Mask maskOf(Emitter &e, Node &node, const Value &q, const Value &k, int64_t past) {
  const Value given = node.optional(3), lengths = node.optional(6);
  const int64_t batch = q.dims[0], queries = q.dims[2], keys = k.dims[2];
  const bool isCausal = node.flag("is_causal", false);
  const int64_t left = node.integer("left_window_size", -1), right = node.integer("right_window_size", -1);
  Mask mask;
  if (given) {
    if (given.rank() < 1)
      corrupt(node.place() + ": expected a mask of rank 1 or more, found " + typeText(given));
    const int64_t missing = keys - given.last();
    Dims none(given.dims.size(), 0), high = none;
    high.back() = std::max<int64_t>(missing, 0);
    const Value hidden = isBool(given.dtype) ? e.number(0, MORTISE_I1) : e.like(given, -INFINITY);
    (isBool(given.dtype) ? mask.allowed : mask.added) = e.pad(given, none, high, hidden);
  }
  const Positions at = positions(e, lengths, past, batch, queries, keys);
  if (isCausal)
    mask.allowed = both(e, mask.allowed, e.compare("le", at.column, at.row));
  if (left >= 0)
    mask.allowed = both(e, mask.allowed, e.compare("ge", at.column, e.shift(at.row, static_cast<double>(-left))));
  if (right >= 0)
    mask.allowed = both(e, mask.allowed, e.compare("le", at.column, e.shift(at.row, static_cast<double>(right))));
  if (lengths) {
    const Value isThere = e.compare("lt", e.iota({1, 1, 1, keys}, 3), e.reshape(lengths, {batch, 1, 1, 1}));
    mask.allowed = both(e, mask.allowed, isThere);
  }
  if (mask.allowed && mask.added)
    mask = {Value(), e.select(mask.allowed, mask.added, e.like(mask.added, -INFINITY))};
  return mask;
}

Value ofRank4(Emitter &e, const Value &x) {
  Dims shape(4 - std::min<size_t>(4, x.dims.size()), 1);
  shape.insert(shape.end(), x.dims.begin(), x.dims.end());
  return x ? e.reshape(x, shape) : x;
}

// The products, step by step, where somebody wants to see them or limits them.
struct Steps {
  Value weights, shown;
};
Steps steps(Emitter &e, Node &node, const Value &q, Value k, const Mask &mask, double scale) {
  const double cap = node.real("softcap", 0);
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  const int32_t precision = node.dtype("softmax_precision", q.dtype);
  Value scores = e.matmul(e.scale(q, std::sqrt(scale)), e.scale(e.swapLast(k), std::sqrt(scale)));
  Steps made{{}, scores};
  if (cap > 0)
    scores = e.scale(e.map("mortise.tanh", e.scale(scores, 1 / cap)), cap);
  if (mode == 1)
    made.shown = scores;
  Value hidden; // queries that see no key
  if (mask.allowed)
    scores = e.select(mask.allowed, scores, e.like(scores, -INFINITY));
  else if (mask.added)
    scores = e.add(scores, e.convert(mask.added, scores.dtype));
  if (mode == 2)
    made.shown = scores;
  if (mask.allowed)
    hidden = e.map("mortise.not", e.reduce("mortise.reduce_max", e.spread(mask.allowed, scores.dims), {3}, true));
  else if (mask.added)
    hidden = e.compare("eq", e.reduce("mortise.reduce_max", mask.added, {mask.added.rank() - 1}, true),
                       e.like(mask.added, -INFINITY));
  Value weights = e.op("mortise.softmax", {e.convert(scores, precision)}, {{"axis", int64_t{3}}});
  if (hidden)
    weights = e.select(hidden, e.like(weights, 0), weights);
  made.weights = e.convert(weights, q.dtype);
  if (mode == 3)
    made.shown = made.weights;
  return made;
}

Values attention(Emitter &e, Node &node) {
  const bool isFlat = node[0].rank() == 3;
  const int64_t qHeads = node.integer("q_num_heads", 0), kvHeads = node.integer("kv_num_heads", 0);
  const Value q = headed(e, node, node[0], qHeads);
  Value k = headed(e, node, node[1], kvHeads), v = headed(e, node, node[2], kvHeads);
  const int64_t past = node.has(4) ? node[4].rank() == 4 ? node[4].dims[2] : 0 : 0;
  if (node.has(4))
    k = e.concatenate({node[4], k}, 2);
  if (node.has(5))
    v = e.concatenate({node[5], v}, 2);
  if (q.dims[0] != k.dims[0] || k.dims[1] < 1 || q.dims[1] % k.dims[1] != 0)
    corrupt(node.place() + ": expected heads of queries in groups of those of keys, found " + typeText(q) + " and " +
            typeText(k));
  const Value presentKey = k, presentValue = v;
  const double scale = node.real("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.last(), 1))));
  const Mask mask = maskOf(e, node, q, k, past);
  Value result, shown;
  if (node.real("softcap", 0) != 0 || node.wants(3)) {
    if (const int64_t group = q.dims[1] / k.dims[1]; group > 1) { // each head of keys serves several of queries
      const auto repeated = [&](const Value &x) {
        const Dims wide{x.dims[0], x.dims[1], group, x.dims[2], x.dims[3]};
        return e.reshape(e.op("mortise.broadcast", {x}, {{"shape", wide}, {"axes", Dims{0, 1, 3, 4}}}),
                         {x.dims[0], q.dims[1], x.dims[2], x.dims[3]});
      };
      k = repeated(k);
      v = repeated(v);
    }
    const Steps made = steps(e, node, q, k, mask, scale);
    result = e.matmul(made.weights, v);
    shown = made.shown;
  } else {
    for (const char *name : {"softcap", "qk_matmul_output_mode", "softmax_precision"}) // f32 at least
      node.ignore(name);
    const Value given = ofRank4(e, mask.allowed ? mask.allowed : mask.added);
    result = e.op("mortise.attention", {q, k, v, given && !isBool(given.dtype) ? e.convert(given, q.dtype) : given},
                  {{"scale", scale}, {"causal", false}});
  }
  if (isFlat)
    result = e.reshape(e.transpose(result, {0, 2, 1, 3}), {q.dims[0], q.dims[2], q.dims[1] * v.last()});
  return {result, presentKey, presentValue, shown};
}

// The op of the language takes tables of the whole head; ONNX's hold one half, for both elements of a pair.
Values rotaryEmbedding(Emitter &e, Node &node) {
  const bool isFlat = node[0].rank() == 3, interleaved = node.flag("interleaved", false);
  const Value x = headed(e, node, node[0], node.integer("num_heads", 0));
  const int64_t size = x.last(), given = node.integer("rotary_embedding_dim", 0), turned = given == 0 ? size : given;
  if (turned < 2 || turned % 2 != 0 || turned > size)
    corrupt(node.place() + ": expected an even number of turned elements up to " + std::to_string(size) + ", found " +
            std::to_string(turned));
  const auto tableOf = [&](size_t i) {
    Value half = node.has(3) ? e.take(node[i], node[3], 0) : node[i]; // [B, S, D / 2]
    if (half.rank() != 3 || half.last() != turned / 2)
      corrupt(node.place() + ": expected tables [B, S, " + std::to_string(turned / 2) + "], found " + typeText(half));
    const Dims rows{half.dims[0], 1, half.dims[1]};
    Dims one = rows;
    one.insert(one.end(), {turned / 2, 1});
    half = e.reshape(half, one);
    if (interleaved)
      return e.reshape(e.concatenate({half, half}, 4), {rows[0], 1, rows[2], turned});
    const Value flat = e.reshape(half, {rows[0], 1, rows[2], turned / 2});
    return e.concatenate({flat, flat}, 3);
  };
  Value result =
      e.op("mortise.rope", {e.part(x, 3, 0, turned), tableOf(1), tableOf(2)}, {{"interleaved", interleaved}});
  if (turned < size)
    result = e.concatenate({result, e.part(x, 3, turned, size)}, 3);
  return {isFlat ? e.reshape(e.transpose(result, {0, 2, 1, 3}), node[0].dims) : result};
}

constexpr Row table[] = {
    {"Attention", attention, "mortise.attention", 23},
    {"RotaryEmbedding", rotaryEmbedding, "mortise.rope", 23},
};

} // namespace

std::span<const Row> attentionRows() { return table; }

} // namespace mortise::onnx
