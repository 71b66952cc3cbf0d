// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an adjoint of an op's result gives to the adjoints of its operands.
#include "tape.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>

namespace mortise::conformance {
namespace {

struct Step {
  Tape &tape;
  const MortiseNode &node;
  Value g; // the adjoint of the first result
  const std::function<void(size_t operand, Value)> &give;

  Value operand(size_t i) const { return node.operands[i]; }
  Value result() const { return node.results[0]; }
  Dims dims(size_t i) const { return Tape::dimsOf(node.operands[i]); }
};

Dims from(int64_t begin, int64_t end) {
  Dims axes(static_cast<size_t>(end - begin));
  std::iota(axes.begin(), axes.end(), begin);
  return axes;
}
bool isIn(const Dims &list, int64_t axis) { return std::ranges::find(list, axis) != list.end(); }
int64_t countOf(const Dims &dims) { return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>()); }

// ---- Movement

void broadcastRule(const Step &s) {
  const Dims axes = listOf(s.node, "axes"), to = Tape::dimsOf(s.g);
  Dims repeated;
  for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i) {
    const auto found = std::ranges::find(axes, i);
    if (found == axes.end() || s.dims(0)[static_cast<size_t>(found - axes.begin())] != to[static_cast<size_t>(i)])
      repeated.push_back(i);
  }
  s.give(0, s.tape.reshape(repeated.empty() ? s.g : s.tape.sum(s.g, repeated), s.dims(0)));
}

void transposeRule(const Step &s) {
  const Dims permutation = listOf(s.node, "permutation");
  Dims back(permutation.size());
  for (size_t i = 0; i < back.size(); ++i)
    back[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  s.give(0, s.tape.transpose(s.g, back));
}

void sliceRule(const Step &s) {
  const Dims starts = listOf(s.node, "starts"), strides = listOf(s.node, "strides"), to = Tape::dimsOf(s.g);
  Dims high, interior;
  for (size_t i = 0; i < to.size(); ++i) {
    high.push_back(s.dims(0)[i] - (starts[i] + (to[i] - 1) * strides[i] + 1));
    interior.push_back(strides[i] - 1);
  }
  s.give(0, s.tape.pad(s.g, starts, high, interior));
}

void padRule(const Step &s) {
  const Dims low = listOf(s.node, "low"), interior = listOf(s.node, "interior");
  Dims limits, strides;
  for (size_t i = 0; i < low.size(); ++i) {
    strides.push_back(interior[i] + 1);
    limits.push_back(low[i] + (s.dims(0)[i] - 1) * strides[i] + 1);
  }
  s.give(0, s.tape.slice(s.g, low, limits, strides));
}

void concatenateRule(const Step &s) {
  const int64_t axis = intAttribute(s.node, "axis");
  for (int64_t i = 0, begin = 0; i < static_cast<int64_t>(s.node.operand_count); ++i) {
    const int64_t end = begin + s.dims(static_cast<size_t>(i))[static_cast<size_t>(axis)];
    s.give(static_cast<size_t>(i), s.tape.part(s.g, axis, begin, end));
    begin = end;
  }
}

void takeRule(const Step &s) {
  const int64_t axis = s.node.op == nameOf(Op::Embedding) ? 0 : intAttribute(s.node, "axis");
  const int64_t count = countOf(s.dims(1));
  Dims updates = s.dims(0);
  updates[static_cast<size_t>(axis)] = count;
  s.give(0, s.tape.put(s.tape.zeros(s.dims(0)), s.tape.reshape(s.operand(1), {count}), s.tape.reshape(s.g, updates),
                       axis, "add"));
}

// ---- Sums and products

// The adjoint of a reduction, repeated along what was reduced.
Value repeated(const Step &s) {
  Dims axes;
  for (int64_t i = 0; i < static_cast<int64_t>(s.dims(0).size()); ++i)
    if (!isIn(listOf(s.node, "axes"), i))
      axes.push_back(i);
  return s.tape.broadcast(s.g, s.dims(0), axes);
}

void cumsumRule(const Step &s) {
  const int64_t axis = intAttribute(s.node, "axis");
  s.give(0, s.tape.reverse(s.tape.running("cumsum", s.tape.reverse(s.g, {axis}), axis), {axis}));
}

// Dimensions of a product's operand that are neither batch nor contracted.
Dims freeOf(int64_t rank, const Dims &batch, const Dims &contract) {
  Dims axes;
  for (int64_t i = 0; i < rank; ++i)
    if (!isIn(batch, i) && !isIn(contract, i))
      axes.push_back(i);
  return axes;
}

// The axes of `of` in ascending order, each as the one of `other` at the same place.
Dims paired(const Dims &of, const Dims &other) {
  std::map<int64_t, int64_t> sorted;
  for (size_t i = 0; i < of.size(); ++i)
    sorted[of[i]] = other[i];
  Dims made;
  for (const auto &[axis, partner] : sorted)
    made.push_back(partner);
  return made;
}

// Brings dimensions that are in the order of `axes`, one list behind the other, into ascending order.
Value arranged(Tape &tape, Value x, std::initializer_list<Dims> axes) {
  Dims order;
  for (const Dims &list : axes)
    order.insert(order.end(), list.begin(), list.end());
  Dims permutation(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    permutation[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return std::ranges::is_sorted(order) ? x : tape.transpose(x, permutation);
}

void dotRule(const Step &s) {
  const Dims lb = listOf(s.node, "lhs_batch"), rb = listOf(s.node, "rhs_batch");
  const Dims lc = listOf(s.node, "lhs_contract"), rc = listOf(s.node, "rhs_contract");
  const Dims lf = freeOf(s.operand(0)->type->rank, lb, lc), rf = freeOf(s.operand(1)->type->rank, rb, rc);
  const auto batch = static_cast<int64_t>(lb.size()), left = batch + static_cast<int64_t>(lf.size());
  const Dims ofBatch = from(0, batch), ofLeft = from(batch, left),
             ofRight = from(left, left + static_cast<int64_t>(rf.size()));
  s.give(0, arranged(s.tape, s.tape.dot(s.g, s.operand(1), {ofBatch, rb, ofRight, rf}), {lb, lf, paired(rc, lc)}));
  s.give(1, arranged(s.tape, s.tape.dot(s.operand(0), s.g, {lb, ofBatch, lf, ofLeft}), {rb, paired(lc, rc), rf}));
}

void linearRule(const Step &s) {
  const int64_t last = s.operand(0)->type->rank - 1;
  s.give(0, s.tape.dot(s.g, s.operand(1), {{}, {}, {last}, {0}}));
  s.give(1, s.tape.dot(s.g, s.operand(0), {{}, {}, from(0, last), from(0, last)}));
  s.give(2, s.tape.sum(s.g, from(0, last)));
}

// Dumoulin, Visin: A guide to convolution arithmetic for deep learning, 2016. One group.
void convolutionRule(const Step &s) {
  const Dims x = s.dims(0), w = s.dims(1), y = Tape::dimsOf(s.g);
  const int64_t stride = listOf(s.node, "strides")[0], padding = listOf(s.node, "low")[0];
  const int64_t dilation = listOf(s.node, "dilations")[0];
  Dims low = {0, 0}, high = {0, 0}, interior = {0, 0}, turned = {1, 0}, spatial;
  Dims begin(w.size()), limits = {w[1], w[0]};
  for (size_t i = 2; i < x.size(); ++i) {
    const int64_t reach = dilation * (w[i] - 1);
    low.push_back(reach - padding);
    high.push_back(x[i] + reach - ((y[i] - 1) * stride + 1) - low.back());
    interior.push_back(stride - 1);
    turned.push_back(static_cast<int64_t>(i));
    spatial.push_back(static_cast<int64_t>(i));
    limits.push_back(w[i]);
  }
  Tape &t = s.tape;
  s.give(0, t.convolution(t.pad(s.g, low, high, interior), t.transpose(t.reverse(s.operand(1), spatial), turned),
                          {1, 0, dilation}));
  Value byWeight = t.convolution(t.transpose(s.operand(0), turned), t.transpose(s.g, turned),
                                 {dilation, padding, stride}); // [C, O, k...], and what the stride left over
  s.give(1, t.transpose(t.slice(byWeight, begin, limits), turned));
}

// Windows that do not overlap and fill the operand: [N, C, h * k, ...] as [N, C, h, ..., k * ...].
struct Tiles {
  Dims split, order, back, joined;
  explicit Tiles(const Step &s) : split(s.dims(0)), joined(Tape::dimsOf(s.g)) {
    const Dims window = listOf(s.node, "window");
    Dims inner;
    split.resize(2);
    order = {0, 1};
    for (size_t i = 0; i < window.size(); ++i) {
      split.insert(split.end(), {joined[i + 2], window[i]});
      order.push_back(static_cast<int64_t>(2 + 2 * i));
      inner.push_back(static_cast<int64_t>(3 + 2 * i));
    }
    order.insert(order.end(), inner.begin(), inner.end());
    back.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    joined.push_back(countOf(window));
  }
  Value apart(Tape &t, Value x) const { return t.reshape(t.transpose(t.reshape(x, split), order), joined); }
  Value together(Tape &t, Value x, const Dims &dims) const {
    Dims shape;
    for (const int64_t axis : order)
      shape.push_back(split[static_cast<size_t>(axis)]);
    return t.reshape(t.transpose(t.reshape(x, shape), back), dims);
  }
};

void poolRule(const Step &s) {
  const Tiles tiles(s);
  Tape &t = s.tape;
  const auto last = static_cast<int64_t>(tiles.joined.size()) - 1;
  Value g = t.broadcast(s.g, tiles.joined, from(0, last));
  if (opOf(s.node) == Op::MaxPool) { // the first of equal ones
    Value largest = t.argmax(tiles.apart(t, s.operand(0)), last);
    Value isLargest = t.compare("eq", t.iota(tiles.joined, last), t.broadcast(largest, tiles.joined, from(0, last)));
    g = t.select(isLargest, g, t.number(0));
  }
  s.give(0, tiles.together(t, g, s.dims(0)));
}

// Queries, keys and values of equally many heads.
void attentionRule(const Step &s) {
  Tape &t = s.tape;
  Value q = s.operand(0), k = s.operand(1), v = s.operand(2), mask = s.operand(3);
  const double scale = floatAttribute(s.node, "scale");
  const Dims turned = {0, 1, 3, 2};
  Value scores = t.scale(t.matmul(q, t.transpose(k, turned)), scale);
  const Dims dims = Tape::dimsOf(scores);
  if (intAttribute(s.node, "causal"))
    scores = t.select(t.compare("ge", t.iota(dims, 2), t.iota(dims, 3)), scores, t.number(-INFINITY));
  if (mask)
    scores = mask->type->dtype == MORTISE_I1 ? t.select(mask, scores, t.number(-INFINITY)) : t.add(scores, mask);
  Value p = t.softmax("softmax", scores, 3), byP = t.matmul(s.g, t.transpose(v, turned));
  Value byScores = t.scale(t.mul(p, t.sub(byP, t.sum(t.mul(byP, p), {3}, true))), scale);
  s.give(0, t.matmul(byScores, k));
  s.give(1, t.matmul(t.transpose(byScores, turned), q));
  s.give(2, t.matmul(t.transpose(p, turned), s.g));
}

void ropeRule(const Step &s) {
  Tape &t = s.tape;
  const int64_t axis = s.g->type->rank - 1, half = Tape::lastOf(s.g) / 2;
  Value turned = t.mul(s.g, s.operand(2));
  Value back = t.concatenate({t.part(turned, axis, half, 2 * half), t.map("neg", t.part(turned, axis, 0, half))}, axis);
  s.give(0, t.add(t.mul(s.g, s.operand(1)), back));
}

// ---- Normalisations

// The adjoint of x in y = (x - mean) * r, or x * r, over `axes`; `h`: y without scale, `g`: by y.
Value normed(Tape &t, Value g, Value h, Value r, const Dims &axes, bool isCentred) {
  Value rest = t.sub(g, t.mul(h, t.mean(t.mul(g, h), axes, true)));
  return t.mul(isCentred ? t.sub(rest, t.mean(g, axes, true)) : rest, r);
}

// x without its mean over the axes, and one over its deviation.
std::pair<Value, Value> standardised(Tape &t, Value x, const Dims &axes, double epsilon, bool isCentred) {
  Value centred = isCentred ? t.sub(x, t.mean(x, axes, true)) : x;
  return {centred, t.map("rsqrt", t.shift(t.mean(t.mul(centred, centred), axes, true), epsilon))};
}

void rowNormRule(const Step &s) {
  Tape &t = s.tape;
  const bool isCentred = opOf(s.node) == Op::LayerNorm;
  const int64_t axis = intAttribute(s.node, "axis");
  const Dims inside = from(axis, s.g->type->rank), outside = from(0, axis);
  const auto [centred, r] = standardised(t, s.operand(0), inside, floatAttribute(s.node, "epsilon"), isCentred);
  Value h = t.mul(centred, r), scale = s.operand(1);
  s.give(0, normed(t, scale ? t.mul(s.g, scale) : s.g, h, r, inside, isCentred));
  if (scale)
    s.give(1, t.sum(t.mul(s.g, h), outside));
  if (isCentred && s.operand(2))
    s.give(2, t.sum(s.g, outside));
}

Dims channelDims(const Step &s) { // of a number for each channel, as the operand's rank wants it
  Dims dims(static_cast<size_t>(s.g->type->rank), 1);
  dims[1] = s.dims(0)[1];
  return dims;
}
Dims allButChannels(const Step &s) {
  Dims axes = from(1, s.g->type->rank);
  axes[0] = 0;
  return axes;
}

void groupNormRule(const Step &s) {
  Tape &t = s.tape;
  const int64_t groups = intAttribute(s.node, "groups");
  const Dims dims = s.dims(0),
             grouped = {dims[0], groups, countOf({dims.begin() + 1, dims.end()}) / std::max<int64_t>(groups, 1)};
  const auto [centred, r] =
      standardised(t, t.reshape(s.operand(0), grouped), {2}, floatAttribute(s.node, "epsilon"), true);
  Value h = t.mul(centred, r), g = t.mul(s.g, t.reshape(s.operand(1), channelDims(s)));
  s.give(0, t.reshape(normed(t, t.reshape(g, grouped), h, r, {2}, true), dims));
  s.give(1, t.sum(t.mul(s.g, t.reshape(h, dims)), allButChannels(s)));
  s.give(2, t.sum(s.g, allButChannels(s)));
}

void batchNormRule(const Step &s) {
  Tape &t = s.tape;
  const Dims channel = channelDims(s), rest = allButChannels(s);
  Value r = t.map("rsqrt", t.shift(s.operand(4), floatAttribute(s.node, "epsilon")));
  Value factor = t.mul(s.operand(1), r);
  Value sum = t.sum(s.g, rest);
  Value moment = t.sum(t.mul(s.g, t.sub(s.operand(0), t.reshape(s.operand(3), channel))), rest);
  s.give(0, t.mul(s.g, t.reshape(factor, channel)));
  s.give(1, t.mul(moment, r));
  s.give(2, sum);
  s.give(3, t.map("neg", t.mul(sum, factor)));
  s.give(4, t.scale(t.mul(t.mul(moment, factor), t.mul(r, r)), -0.5));
}

void crossEntropyRule(const Step &s) {
  Tape &t = s.tape;
  const Dims dims = s.dims(0);
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  Value isTarget = t.compare("eq", t.iota(dims, last), t.broadcast(s.operand(1), dims, from(0, last)));
  Value p = t.softmax("softmax", s.operand(0), last);
  Value each = t.scale(s.g, 1 / static_cast<double>(countOf(s.dims(1))));
  s.give(0, t.mul(t.sub(p, t.select(isTarget, t.number(1), t.number(0))), each));
}

// ---- Functions of one number

Value siluSlope(Tape &t, Value x) {
  Value p = t.map("logistic", x);
  return t.mul(p, t.shift(t.mul(x, t.shift(t.map("neg", p), 1)), 1));
}

Value geluSlope(Tape &t, Value x, bool isTanh) {
  if (!isTanh) {
    Value below = t.scale(t.map("erfc", t.scale(x, -std::numbers::sqrt2 / 2)), 0.5);
    Value density = t.scale(t.map("exp", t.scale(t.mul(x, x), -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return t.add(below, t.mul(x, density));
  }
  const double root = std::sqrt(2 / std::numbers::pi), cube = 0.044715;
  Value square = t.mul(x, x);
  Value bent = t.map("tanh", t.scale(t.mul(x, t.shift(t.scale(square, cube), 1)), root));
  Value slope = t.mul(t.shift(t.map("neg", t.mul(bent, bent)), 1), t.shift(t.scale(square, 3 * cube), 1));
  return t.scale(t.add(t.shift(bent, 1), t.scale(t.mul(x, slope), root)), 0.5);
}

// The derivative of an op of one operand; NULL where there is no rule.
Value slopeOf(const Step &s) {
  Tape &t = s.tape;
  Value x = s.operand(0), y = s.result();
  switch (opOf(s.node)) {
  case Op::Exp:
    return y;
  case Op::Log:
    return t.div(t.number(1), x);
  case Op::Sqrt:
    return t.div(t.number(0.5), y);
  case Op::Rsqrt:
    return t.scale(t.mul(t.mul(y, y), y), -0.5);
  case Op::Tanh:
    return t.shift(t.map("neg", t.mul(y, y)), 1);
  case Op::Logistic:
    return t.mul(y, t.shift(t.map("neg", y), 1));
  case Op::Erf:
  case Op::Erfc:
    return t.scale(t.map("exp", t.map("neg", t.mul(x, x))),
                   (opOf(s.node) == Op::Erf ? 2 : -2) * std::numbers::inv_sqrtpi);
  case Op::Sin:
    return t.map("cos", x);
  case Op::Cos:
    return t.map("neg", t.map("sin", x));
  case Op::Abs:
    return t.map("sign", x);
  case Op::Silu:
    return siluSlope(t, x);
  case Op::Gelu:
    return geluSlope(t, x, stringAttribute(s.node, "approximate") == "tanh");
  default:
    return nullptr;
  }
}

// False where the op has no rule.
bool apply(const Step &s) {
  Tape &t = s.tape;
  switch (opOf(s.node)) {
  case Op::Add:
    s.give(0, s.g);
    s.give(1, s.g);
    return true;
  case Op::Sub:
    s.give(0, s.g);
    s.give(1, t.map("neg", s.g));
    return true;
  case Op::Mul:
    s.give(0, t.mul(s.g, s.operand(1)));
    s.give(1, t.mul(s.g, s.operand(0)));
    return true;
  case Op::Div: {
    Value quotient = t.div(s.g, s.operand(1));
    s.give(0, quotient);
    s.give(1, t.map("neg", t.mul(quotient, s.result())));
    return true;
  }
  case Op::Neg:
    s.give(0, t.map("neg", s.g));
    return true;
  case Op::Max: {
    Value first = t.compare("ge", s.operand(0), s.operand(1));
    s.give(0, t.select(first, s.g, t.number(0)));
    s.give(1, t.select(first, t.number(0), s.g));
    return true;
  }
  case Op::Relu:
    s.give(0, t.select(t.compare("gt", s.result(), t.number(0)), s.g, t.number(0)));
    return true;
  case Op::Swiglu: {
    Value gate = s.operand(0);
    s.give(0, t.mul(t.mul(s.g, s.operand(1)), siluSlope(t, gate)));
    s.give(1, t.mul(s.g, t.map("silu", gate)));
    return true;
  }
  case Op::Dropout: // by what was kept
    s.give(0, t.select(s.node.results[1], t.scale(s.g, 1 / (1 - floatAttribute(s.node, "p"))), t.number(0)));
    return true;
  case Op::Select:
    s.give(1, t.select(s.operand(0), s.g, t.number(0)));
    s.give(2, t.select(s.operand(0), t.number(0), s.g));
    return true;
  case Op::Convert:
    s.give(0, t.convert(s.g, s.operand(0)->type->dtype));
    return true;
  case Op::Reshape:
    s.give(0, t.reshape(s.g, s.dims(0)));
    return true;
  case Op::Reverse:
    s.give(0, t.reverse(s.g, listOf(s.node, "axes")));
    return true;
  case Op::ReduceSum:
    s.give(0, repeated(s));
    return true;
  case Op::ReduceMax: { // to each of equal ones
    const Step ofResult{t, s.node, s.result(), s.give};
    s.give(0, t.select(t.compare("eq", s.operand(0), repeated(ofResult)), repeated(s), t.number(0)));
    return true;
  }
  case Op::Mean:
    s.give(0, t.scale(repeated(s),
                      static_cast<double>(countOf(Tape::dimsOf(s.g))) / static_cast<double>(countOf(s.dims(0)))));
    return true;
  case Op::Softmax: {
    const int64_t axis = intAttribute(s.node, "axis");
    s.give(0, t.mul(s.result(), t.sub(s.g, t.sum(t.mul(s.g, s.result()), {axis}, true))));
    return true;
  }
  case Op::LogSoftmax: {
    const int64_t axis = intAttribute(s.node, "axis");
    s.give(0, t.sub(s.g, t.mul(t.map("exp", s.result()), t.sum(s.g, {axis}, true))));
    return true;
  }
  case Op::Put: // whose mode is add
    s.give(0, s.g);
    s.give(2, t.take(s.g, s.operand(1), intAttribute(s.node, "axis")));
    return true;
  default:
    break;
  }
  constexpr std::pair<Op, void (*)(const Step &)> rules[] = {{Op::Broadcast, broadcastRule},
                                                             {Op::Transpose, transposeRule},
                                                             {Op::Slice, sliceRule},
                                                             {Op::Pad, padRule},
                                                             {Op::Concatenate, concatenateRule},
                                                             {Op::Take, takeRule},
                                                             {Op::Embedding, takeRule},
                                                             {Op::Cumsum, cumsumRule},
                                                             {Op::Dot, dotRule},
                                                             {Op::Linear, linearRule},
                                                             {Op::Convolution, convolutionRule},
                                                             {Op::MaxPool, poolRule},
                                                             {Op::SumPool, poolRule},
                                                             {Op::Attention, attentionRule},
                                                             {Op::Rope, ropeRule},
                                                             {Op::LayerNorm, rowNormRule},
                                                             {Op::RmsNorm, rowNormRule},
                                                             {Op::GroupNorm, groupNormRule},
                                                             {Op::BatchNorm, batchNormRule},
                                                             {Op::CrossEntropy, crossEntropyRule}};
  for (const auto &[op, rule] : rules)
    if (op == opOf(s.node)) {
      rule(s);
      return true;
    }
  Value slope = slopeOf(s);
  if (slope)
    s.give(0, t.mul(s.g, slope));
  return slope != nullptr;
}

} // namespace

std::vector<Value> Tape::gradients(Value of, Value adjoint, std::span<const Value> to) {
  const MortiseGraph &view = builder.view();
  const std::vector<const MortiseNode *> nodes(view.nodes, view.nodes + view.node_count); // those of now
  std::vector<bool> depends(view.value_count);                                            // on one of `to`
  for (Value value : to)
    depends[value->index] = true;
  for (const MortiseNode *node : nodes)
    for (size_t i = 0; i < node->operand_count; ++i)
      if (Value operand = node->operands[i]; operand && isFloat(operand->type->dtype) && depends[operand->index])
        for (size_t r = 0; r < node->result_count; ++r)
          depends[node->results[r]->index] = true;
  std::map<uint32_t, Value> adjoints = {{of->index, adjoint}};
  for (size_t n = nodes.size(); n-- > 0;) {
    const MortiseNode &node = *nodes[n];
    const auto found = adjoints.find(node.results[0]->index);
    if (found == adjoints.end())
      continue;
    const std::function<void(size_t, Value)> give = [&](size_t i, Value by) {
      Value operand = i < node.operand_count ? node.operands[i] : nullptr;
      if (!operand || !depends[operand->index] || !isFloat(operand->type->dtype))
        return;
      const auto [old, isNew] = adjoints.try_emplace(operand->index, by);
      if (!isNew)
        old->second = add(old->second, by);
    };
    if (!apply({*this, node, found->second, give})) {
      std::fprintf(stderr, "mortise-conformance: %s has no rule for its gradient\n", node.op);
      std::abort();
    }
  }
  std::vector<Value> made;
  for (Value value : to) {
    const auto found = adjoints.find(value->index);
    made.push_back(found == adjoints.end() ? zeros(dimsOf(value)) : found->second);
  }
  return made;
}

} // namespace mortise::conformance
