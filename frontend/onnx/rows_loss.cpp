// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses over classes: x [N, C, ...], targets [N, ...], a weight for each class.
#include "rows.hpp"

namespace mortise::onnx {
namespace {

// Minus the chosen number of each row, weighted; rows whose target is the one to ignore count for nothing.
Value loss(Emitter &e, Node &node, const Value &x) {
  const Value &targets = node[1];
  const std::string reduction = node.text("reduction", "mean");
  const bool ignores = node.has("ignore_index");
  const int64_t ignored = node.integer("ignore_index", 0);
  Dims shape = x.dims;
  if (x.rank() < 2 || targets.dims != without(x.dims, {1}))
    corrupt(node.place() + ": expected targets in the shape of " + typeText(x) + " without its classes, found " +
            typeText(targets));
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    corrupt(node.place() + ": expected the reduction none, sum or mean, found '" + reduction + "'");
  shape[1] = 1;
  const Value isCounted = e.compare("ne", targets, e.like(targets, static_cast<double>(ignored)));
  const Value index = ignores ? e.select(isCounted, targets, e.like(targets, 0)) : targets;
  const Value chosen = e.op("mortise.take_along", {x, e.reshape(index, shape)}, {{"axis", int64_t{1}}});
  Value weight = node.has(2) ? e.take(node[2], index, 0) : e.spread(e.like(x, 1), targets.dims);
  if (ignores)
    weight = e.select(isCounted, weight, e.like(weight, 0));
  Value losses = e.mul(e.map("mortise.neg", e.reshape(chosen, targets.dims)), weight);
  const Dims all = upTo(targets.rank());
  if (reduction == "none")
    return losses;
  const Value sum = e.sum(losses, all, false);
  return reduction == "sum" ? sum : e.div(sum, e.sum(weight, all, false));
}

Values negativeLogLikelihood(Emitter &e, Node &node) { return {loss(e, node, node[0])}; }

Values crossEntropy(Emitter &e, Node &node) {
  if (node[0].rank() < 2)
    corrupt(node.place() + ": expected scores [N, C, ...], found " + typeText(node[0]));
  const Value logs = e.op("mortise.log_softmax", {node[0]}, {{"axis", int64_t{1}}});
  return {loss(e, node, logs), logs};
}

constexpr Row table[] = {
    {"NegativeLogLikelihoodLoss", negativeLogLikelihood},
    {"SoftmaxCrossEntropyLoss", crossEntropy},
};

} // namespace

std::span<const Row> lossRows() { return table; }

} // namespace mortise::onnx
