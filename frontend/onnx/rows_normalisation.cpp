// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalisations, softmax and dropout.
#include "rows.hpp"

#include <algorithm>

namespace mortise::onnx {
namespace {

Values softmax(Emitter &e, Node &node) {
  return {e.op(node.row->op, {node[0]}, {{"axis", node.axis(node.integer("axis", -1), node[0].rank())}})};
}

// 1 at the first of the largest elements.
Values hardmax(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", -1), x.rank());
  Dims shape = x.dims;
  shape[static_cast<size_t>(axis)] = 1;
  const Value first = e.reshape(e.op("mortise.argmax", {x}, {{"axis", axis}}), shape);
  return {e.convert(e.compare("eq", e.iota(x.dims, axis), first), x.dtype)};
}

Dims from(const Dims &dims, int64_t axis) { return {dims.begin() + axis, dims.end()}; }
Dims axesFrom(const Value &x, int64_t axis) {
  Dims made = upTo(x.rank());
  made.erase(made.begin(), made.begin() + axis);
  return made;
}

// The type in which ONNX has the statistics computed.
int32_t stashOf(Node &node, const Value &x) {
  const int32_t stash = node.dtype("stash_type", MORTISE_F32);
  return dtypeBits(stash) < dtypeBits(x.dtype) ? x.dtype : stash;
}

// The mean and 1 / sqrt(variance + epsilon), over `axes`.
std::pair<Value, Value> statistics(Emitter &e, const Value &x, const Dims &axes, double epsilon) {
  const Value mean = e.mean(x, axes), distance = e.sub(x, mean);
  return {mean, e.map("mortise.rsqrt", e.shift(e.mean(e.mul(distance, distance), axes), epsilon))};
}

Values layerNorm(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", -1), x.rank());
  const double epsilon = node.real("epsilon", static_cast<double>(1e-5F));
  const int32_t stash = stashOf(node, x);
  const Dims shape = from(x.dims, axis);
  const auto weight = [&](size_t i) { return node.has(i) ? e.spread(node[i], shape) : Value(); };
  Values made{e.op("mortise.layer_norm", {x, weight(1), weight(2)}, {{"axis", axis}, {"epsilon", epsilon}})};
  if (!node.wants(1) && !node.wants(2))
    return made;
  const auto [mean, scale] = statistics(e, e.convert(x, stash), axesFrom(x, axis), epsilon);
  made.insert(made.end(), {mean, scale});
  return made;
}

Values rmsNorm(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", -1), x.rank());
  const double epsilon = node.real("epsilon", static_cast<double>(1e-5F));
  (void)stashOf(node, x);
  const Value scale = e.convert(e.spread(node[1], from(x.dims, axis)), x.dtype);
  return {e.op("mortise.rms_norm", {x, scale}, {{"axis", axis}, {"epsilon", epsilon}})};
}

void checkChannels(const Node &node) {
  if (node[0].rank() < 2)
    corrupt(node.place() + ": expected an input [N, C, ...], found " + typeText(node[0]));
}

// Weights belonged to groups before opset 21; since then they belong to channels.
Values groupNorm(Emitter &e, Node &node) {
  const Value &x = node[0];
  checkChannels(node);
  const int64_t groups = node.integer("num_groups"), channels = x.dims[1];
  (void)stashOf(node, x);
  if (groups < 1 || channels % groups != 0)
    corrupt(node.place() + ": expected groups of equally many of " + std::to_string(channels) + " channels, found " +
            std::to_string(groups) + " groups");
  const auto weight = [&](size_t i) {
    const Value &given = node[i];
    if (node.opset >= 21 || given.dims != Dims{groups})
      return given;
    return e.reshape(e.spread(e.reshape(given, {groups, 1}), {groups, channels / groups}), {channels});
  };
  return {e.op("mortise.group_norm", {x, weight(1), weight(2)},
               {{"groups", groups}, {"epsilon", node.real("epsilon", static_cast<double>(1e-5F))}})};
}

Values instanceNorm(Emitter &e, Node &node) {
  checkChannels(node);
  return {e.op("mortise.group_norm", {node[0], node[1], node[2]},
               {{"groups", node[0].dims[1]}, {"epsilon", node.real("epsilon", static_cast<double>(1e-5F))}})};
}

// In training the statistics are those of the batch, and the running ones move towards them.
Values batchNorm(Emitter &e, Node &node) {
  const Value &x = node[0];
  checkChannels(node);
  const double epsilon = node.real("epsilon", static_cast<double>(1e-5F)),
               momentum = node.real("momentum", static_cast<double>(0.9F));
  const bool isTraining = node.flag("training_mode", false);
  Value mean = node[3], variance = node[4];
  if (isTraining) {
    Dims axes = upTo(x.rank());
    axes.erase(axes.begin() + 1);
    const Value kept = e.mean(x, axes), distance = e.sub(x, kept);
    mean = e.mean(x, axes, false);
    variance = e.mean(e.mul(distance, distance), axes, false);
  }
  const auto weight = [&](const Value &of) { return e.convert(of, x.dtype); };
  Values made{e.op("mortise.batch_norm", {x, weight(node[1]), weight(node[2]), weight(mean), weight(variance)},
                   {{"epsilon", epsilon}})};
  const auto moved = [&](const Value &old, const Value &now) {
    return e.add(e.scale(old, momentum), e.scale(e.convert(now, old.dtype), 1 - momentum));
  };
  if (isTraining && node.wants(1))
    made.insert(made.end(), {moved(node[3], mean), moved(node[4], variance)});
  return made;
}

Values lpNormalization(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", -1), x.rank()), p = node.integer("p", 2);
  if (p != 1 && p != 2)
    unsupported("attribute", node.place() + ": expected p as 1 or 2, found " + std::to_string(p));
  const Value size = e.sum(p == 1 ? e.map("mortise.abs", x) : e.mul(x, x), {axis});
  const Value norm = p == 1 ? size : e.map("mortise.sqrt", size);
  return {e.select(e.compare("eq", norm, e.like(norm, 0)), e.like(x, 0), e.div(x, norm))};
}

Values meanVariance(Emitter &e, Node &node) {
  const Value &x = node[0];
  const Dims axes = node.axes(node.list("axes", {0, 2, 3}), x.rank());
  const Value mean = e.mean(x, axes);
  const Value variance = e.sub(e.mean(e.mul(x, x), axes), e.mul(mean, mean));
  return {e.div(e.sub(x, mean), e.shift(e.map("mortise.sqrt", variance), 1e-9))};
}

// Over neighbouring channels, which a window slides over.
Values lrn(Emitter &e, Node &node) {
  const Value &x = node[0];
  checkChannels(node);
  const int64_t size = node.integer("size"), low = (size - 1) / 2;
  const double alpha = node.real("alpha", static_cast<double>(0.0001F)), beta = node.real("beta", 0.75),
               bias = node.real("bias", 1);
  if (size < 1 || size > int64_t{1} << 22)
    corrupt(node.place() + ": expected a size from 1 to 2^22, found " + std::to_string(size));
  const Dims planes{x.dims[0], 1, x.dims[1], countOf(from(x.dims, 2))};
  const Value squares = e.op("mortise.sum_pool", {e.reshape(e.mul(x, x), planes)},
                             {{"window", Dims{size, 1}},
                              {"strides", Dims{1, 1}},
                              {"low", Dims{low, 0}},
                              {"high", Dims{size - 1 - low, 0}},
                              {"dilations", Dims{1, 1}}});
  const Value base = e.shift(e.scale(e.reshape(squares, x.dims), alpha / static_cast<double>(size)), bias);
  return {e.div(x, e.combine("mortise.pow", base, e.like(base, beta)))};
}

// Random numbers are the language's own, so only what needs none is taken.
Values dropout(Emitter &e, Node &node) {
  const Value &x = node[0];
  node.ignore("seed");
  const bool isTraining = node.has(2) && node.integer(2, "training_mode") != 0;
  if (isTraining && (!node.has(1) || node.real(1, "ratio") != 0))
    unsupported("random numbers", node.place() + ": training with a ratio above 0");
  Values made{x};
  if (node.wants(1))
    made.push_back(e.spread(e.number(1, MORTISE_I1), x.dims));
  return made;
}

constexpr Row table[] = {
    {"BatchNormalization", batchNorm, "mortise.batch_norm", 14},
    {"Dropout", dropout},
    {"GroupNormalization", groupNorm, "mortise.group_norm", 18},
    {"Hardmax", hardmax},
    {"InstanceNormalization", instanceNorm},
    {"LRN", lrn},
    {"LayerNormalization", layerNorm},
    {"LogSoftmax", softmax, "mortise.log_softmax"},
    {"LpNormalization", lpNormalization},
    {"MeanVarianceNormalization", meanVariance},
    {"RMSNormalization", rmsNorm},
    {"Softmax", softmax, "mortise.softmax"},
};

} // namespace

std::span<const Row> normalisationRows() { return table; }

} // namespace mortise::onnx
