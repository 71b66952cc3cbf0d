// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activations, element by element.
#include "rows.hpp"

namespace mortise::onnx {
namespace {

Values map(Emitter &e, Node &node) { return {e.map(node.row->op, node[0])}; }

Value isPositive(Emitter &e, const Value &x) { return e.compare("gt", x, e.like(x, 0)); }
// alpha (e^(x / by) - 1)
Value exponential(Emitter &e, const Value &x, double alpha, double by = 1) {
  return e.scale(e.map("mortise.expm1", by == 1 ? x : e.div(x, e.like(x, by))), alpha);
}
// log(1 + e^x), without overflow
Value softplus(Emitter &e, const Value &x) {
  const Value tail = e.map("mortise.log1p", e.map("mortise.exp", e.map("mortise.neg", e.map("mortise.abs", x))));
  return e.add(e.maximum(x, e.like(x, 0)), tail);
}
Value between0And1(Emitter &e, const Value &x) { return e.minimum(e.maximum(x, e.like(x, 0)), e.like(x, 1)); }

Values softplusOf(Emitter &e, Node &node) { return {softplus(e, node[0])}; }
Values softsign(Emitter &e, Node &node) { return {e.div(node[0], e.shift(e.map("mortise.abs", node[0]), 1))}; }
Values mish(Emitter &e, Node &node) { return {e.mul(node[0], e.map("mortise.tanh", softplus(e, node[0])))}; }

Values elu(Emitter &e, Node &node) {
  const Value &x = node[0];
  return {e.select(isPositive(e, x), x, exponential(e, x, node.real("alpha", 1)))};
}
Values celu(Emitter &e, Node &node) {
  const Value &x = node[0];
  const double alpha = node.real("alpha", 1);
  return {e.select(isPositive(e, x), x, exponential(e, x, alpha, alpha))};
}
Values selu(Emitter &e, Node &node) {
  const Value &x = node[0];
  const double alpha = node.real("alpha", 1.67326319217681884765625);
  return {
      e.scale(e.select(isPositive(e, x), x, exponential(e, x, alpha)), node.real("gamma", 1.05070102214813232421875))};
}
Values leakyRelu(Emitter &e, Node &node) {
  const Value &x = node[0];
  return {e.select(e.compare("ge", x, e.like(x, 0)), x, e.scale(x, node.real("alpha", static_cast<double>(0.01F))))};
}
Values prelu(Emitter &e, Node &node) {
  const Value &x = node[0], product = e.mul(x, node[1]);
  if (product.dims != x.dims)
    corrupt(node.place() + ": expected a slope that can be repeated to " + typeText(x) + ", found " +
            typeText(node[1]));
  return {e.select(e.compare("ge", x, e.like(x, 0)), x, product)};
}
Values thresholdedRelu(Emitter &e, Node &node) {
  const Value &x = node[0];
  return {e.select(e.compare("gt", x, e.like(x, node.real("alpha", 1))), x, e.like(x, 0))};
}
Values hardSigmoid(Emitter &e, Node &node) {
  const double alpha = node.real("alpha", static_cast<double>(0.2F)), beta = node.real("beta", 0.5);
  return {between0And1(e, e.shift(e.scale(node[0], alpha), beta))};
}
Values hardSwish(Emitter &e, Node &node) {
  return {e.mul(node[0], between0And1(e, e.shift(e.scale(node[0], 1.0 / 6), 0.5)))};
}
Values shrink(Emitter &e, Node &node) {
  const Value &x = node[0];
  const double lambda = node.real("lambd", 0.5), bias = node.real("bias", 0);
  const Value above = e.select(e.compare("gt", x, e.like(x, lambda)), e.shift(x, -bias), e.like(x, 0));
  return {e.select(e.compare("lt", x, e.like(x, -lambda)), e.shift(x, bias), above)};
}
Values gelu(Emitter &e, Node &node) {
  const std::string kind = node.text("approximate", "none");
  return {e.op("mortise.gelu", {node[0]}, {{"approximate", kind.c_str()}})};
}
Values swish(Emitter &e, Node &node) {
  const double alpha = node.real("alpha", 1);
  if (alpha == 1)
    return {e.map("mortise.silu", node[0])};
  return {e.mul(node[0], e.map("mortise.logistic", e.scale(node[0], alpha)))};
}

Values swiglu(Emitter &e, Node &node) {
  if (node.real("alpha", 1) != 1)
    return {e.mul(swish(e, node)[0], node[1])};
  return {e.op("mortise.swiglu", {node[0], node[1]})};
}

constexpr Row table[] = {
    {"Celu", celu},
    {"Elu", elu},
    {"Gelu", gelu},
    {"HardSigmoid", hardSigmoid},
    {"HardSwish", hardSwish},
    {"LeakyRelu", leakyRelu},
    {"Mish", mish},
    {"PRelu", prelu},
    {"Relu", map, "mortise.relu"},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Softplus", softplusOf},
    {"Softsign", softsign},
    {"SwiGLU", swiglu},
    {"Swish", swish},
    {"ThresholdedRelu", thresholdedRelu},
};

} // namespace

std::span<const Row> activationRows() { return table; }

} // namespace mortise::onnx
