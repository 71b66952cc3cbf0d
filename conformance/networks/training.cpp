// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Derivatives of single ops, and steps of training.
#include "blocks.hpp"

namespace mortise::conformance {
namespace {

// An input with a derivative.
Value variable(Tape &t, std::vector<Value> &by, const Dims &dims, double low = -1, double high = 1) {
  return by.emplace_back(t.input(dims, low, high));
}

Value arithmetic(Tape &t, std::vector<Value> &by) {
  Value a = variable(t, by, {5, 7}), b = variable(t, by, {7}, 0.5, 2);
  return t.add(t.div(t.sub(t.mul(a, b), b), b), t.combine("max", a, t.map("neg", b)));
}

Value functions(Tape &t, std::vector<Value> &by) {
  Value a = variable(t, by, {4, 9}), b = variable(t, by, {4, 9}, 0.5, 2);
  Value sum = t.add(t.map("exp", a), t.map("log", b));
  for (const char *op : {"tanh", "logistic", "erf", "sin", "cos", "abs"})
    sum = t.add(sum, t.map(op, a));
  return t.add(sum, t.mul(t.map("sqrt", b), t.map("rsqrt", b)));
}

Value activations(Tape &t, std::vector<Value> &by) {
  Value a = variable(t, by, {6, 11}, -3, 3), b = variable(t, by, {6, 11}, -3, 3);
  Value sum = t.add(t.map("relu", a), t.map("silu", a));
  return t.add(t.add(sum, t.combine("swiglu", a, b)), t.add(t.gelu(a), t.gelu(b, true)));
}

Value movement(Tape &t, std::vector<Value> &by) {
  Value a = variable(t, by, {3, 8}), b = variable(t, by, {1, 8});
  Value both = t.concatenate({t.slice(a, {0, 1}, {3, 8}, {2, 3}), t.slice(t.spread(b, {2, 8}), {0, 0}, {2, 3})}, 1);
  Value wide = t.pad(t.transpose(both, {1, 0}), {1, 0}, {0, 2}, {1, 0});
  return t.reverse(t.reshape(wide, {Tape::dimsOf(wide)[0] * Tape::dimsOf(wide)[1]}), {0});
}

Value sums(Tape &t, std::vector<Value> &by) {
  Value a = variable(t, by, {3, 5, 7});
  return t.add(t.running("cumsum", t.sum(a, {1}), 1), t.mean(a, {1}));
}

Value product(Tape &t, std::vector<Value> &by) {
  Value a = variable(t, by, {4, 3, 5, 2}), b = variable(t, by, {2, 6, 5, 4});
  return t.dot(a, b, {{0}, {3}, {3, 2}, {0, 2}}); // [4, 3, 6]
}

Value linear(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {2, 5, 9}), weight = variable(t, by, {13, 9});
  return t.linear(x, weight, variable(t, by, {13}));
}

Value attention(Tape &t, std::vector<Value> &by) {
  Value q = variable(t, by, {2, 3, 7, 5}), k = variable(t, by, {2, 3, 7, 5}), v = variable(t, by, {2, 3, 7, 4});
  return t.attention(q, k, v, nullptr, 0.4, true);
}

Value maskedAttention(Tape &t, std::vector<Value> &by) {
  Value q = variable(t, by, {2, 3, 5, 4}), k = variable(t, by, {2, 3, 6, 4}), v = variable(t, by, {2, 3, 6, 4});
  return t.attention(q, k, v, t.input({2, 1, 1, 6}), 0.5, false);
}

Value rope(Tape &t, std::vector<Value> &by) {
  return t.rope(variable(t, by, {2, 3, 5, 8}), t.input({1, 1, 5, 8}), t.input({1, 1, 5, 8}));
}

Value convolution(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {2, 3, 8, 7}), weight = variable(t, by, {4, 3, 3, 2});
  return t.convolution(x, weight, {1, 1});
}

Value stridedConvolution(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {2, 3, 12, 11}), weight = variable(t, by, {4, 3, 3, 3});
  return t.convolution(x, weight, {2, 1, 2});
}

Value pools(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {2, 3, 6, 4});
  return t.add(t.pool("max_pool", x, 2, 2), t.pool("sum_pool", x, 2, 2));
}

Value softmax(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {4, 5, 9}, -3, 3);
  return t.add(t.softmax("softmax", x, 2), t.softmax("log_softmax", x, 1));
}

Value layerNorm(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {3, 4, 15}), scale = variable(t, by, {15});
  return t.layerNorm(x, scale, variable(t, by, {15}), 2);
}

Value rmsNorm(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {3, 4, 15});
  return t.rmsNorm(x, variable(t, by, {15}), 2);
}

Value groupNorm(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {2, 6, 5, 3}), scale = variable(t, by, {6});
  return t.groupNorm(x, scale, variable(t, by, {6}), 3);
}

// With the statistics of the batch.
Value batchNorm(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {4, 3, 5, 2}), scale = variable(t, by, {3}), bias = variable(t, by, {3});
  return batchNormed(t, x, scale, bias).result;
}

Value embedding(Tape &t, std::vector<Value> &by) { // some rows several times
  return t.embedding(variable(t, by, {7, 5}), t.integers({3, 6}, 0, 6));
}

Value indexing(Tape &t, std::vector<Value> &by) {
  Value x = variable(t, by, {4, 6, 3}), updates = variable(t, by, {4, 5, 3});
  Value taken = t.take(x, t.integers({5}, 0, 5), 1);
  return t.put(x, t.integers({5}, 0, 5), t.mul(taken, updates), 1, "add");
}

Value crossEntropy(Tape &t, std::vector<Value> &by) {
  return t.crossEntropy(variable(t, by, {7, 12}, -3, 3), t.integers({7}, 0, 11));
}

constexpr Function functionList[] = {{"arithmetic", arithmetic},
                                     {"functions", functions},
                                     {"activations", activations},
                                     {"movement", movement},
                                     {"sums", sums},
                                     {"product", product},
                                     {"linear", linear},
                                     {"attention", attention},
                                     {"masked-attention", maskedAttention},
                                     {"rope", rope},
                                     {"convolution", convolution},
                                     {"strided-convolution", stridedConvolution},
                                     {"pools", pools},
                                     {"softmax", softmax},
                                     {"layer-norm", layerNorm},
                                     {"rms-norm", rmsNorm},
                                     {"group-norm", groupNorm},
                                     {"batch-norm", batchNorm},
                                     {"embedding", embedding},
                                     {"indexing", indexing},
                                     {"cross-entropy", crossEntropy}};

Value total(Tape &t, Value x) {
  Dims axes;
  for (int64_t i = 0; i < x->type->rank; ++i)
    axes.push_back(i);
  return axes.empty() ? x : t.sum(x, axes);
}

// ---- Steps of training. Parameters are those that Tape::weight makes, and states.

enum class Optimiser { Descent, Momentum, AdamW };

// A parameter becomes what the step makes of it, in its place.
void update(Tape &t, Value parameter, Value g, Optimiser optimiser) {
  constexpr double rate = 0.05;
  const Dims dims = Tape::dimsOf(parameter);
  if (optimiser == Optimiser::Descent) {
    t.state(parameter, t.sub(parameter, t.scale(g, rate)));
    return;
  }
  Value first = t.input(dims);
  if (optimiser == Optimiser::Momentum) {
    Value velocity = t.add(t.scale(first, 0.9), g);
    t.state(first, velocity);
    t.state(parameter, t.sub(parameter, t.scale(velocity, rate)));
    return;
  }
  // Loshchilov, Hutter: Decoupled weight decay regularization, 2019; the tenth step.
  constexpr double beta1 = 0.9, beta2 = 0.99, decay = 0.01, steps = 10;
  Value second = t.input(dims, 0.1, 1);
  Value m = t.add(t.scale(first, beta1), t.scale(g, 1 - beta1));
  Value v = t.add(t.scale(second, beta2), t.scale(t.mul(g, g), 1 - beta2));
  Value deviation = t.shift(t.map("sqrt", t.scale(v, 1 / (1 - std::pow(beta2, steps)))), 1e-4);
  Value step = t.div(t.scale(m, rate / (1 - std::pow(beta1, steps))), deviation);
  t.state(first, m);
  t.state(second, v);
  t.state(parameter, t.sub(t.scale(parameter, 1 - rate * decay), step));
}

// The forward and backward graph of a loss, and a step along the derivatives of all weights.
template <typename Forward> void train(Tape &t, Optimiser optimiser, Forward forward) {
  t.bindsWeights = false;
  Value loss = forward();
  std::vector<Value> parameters;
  for (const Leaf &leaf : t.leaves)
    if (leaf.isWeight)
      parameters.push_back(leaf.value);
  t.output(loss);
  const std::vector<Value> by = t.gradients(loss, t.number(1), parameters);
  for (size_t i = 0; i < by.size(); ++i)
    update(t, parameters[i], by[i], optimiser);
}

void trainPerceptron(Tape &t) {
  train(t, Optimiser::Descent, [&] {
    Value x = t.input({6, 13});
    x = t.map("relu", t.linear(x, t.weight({20, 13}), t.weight({20})));
    x = t.map("tanh", t.linear(x, t.weight({16, 20}), t.weight({16})));
    Value error = t.sub(t.linear(x, t.weight({3, 16}), t.weight({3})), t.input({6, 3}));
    return t.mean(t.mul(error, error), {0, 1});
  });
}

void trainConvolutions(Tape &t) {
  train(t, Optimiser::Momentum, [&] {
    Value x = t.input({3, 2, 8, 8});
    for (const int64_t channels : {6, 8}) {
      x = t.convolution(x, t.weight({channels, x->type->dims[1], 3, 3}), {1, 1});
      const Normed normed = batchNormed(t, x, t.weight({channels}, 0.5, 1.5), t.weight({channels}, -0.5, 0.5));
      for (Value statistic : {normed.mean, normed.variance}) { // what inference will use
        Value old = t.input({channels}, 0, 1);
        t.state(old, t.add(t.scale(old, 0.9), t.scale(statistic, 0.1)));
      }
      x = t.pool("max_pool", t.map("relu", normed.result), 2, 2);
    }
    x = t.linear(t.mean(x, {2, 3}), t.weight({5, 8}), t.weight({5}));
    return t.crossEntropy(x, t.integers({3}, 0, 4));
  });
}

void trainEncoder(Tape &t) {
  train(t, Optimiser::AdamW, [&] {
    constexpr int64_t batch = 2, length = 6, width = 16, words = 19;
    Value table = t.weight({words, width}, -1, 1);
    Value x = t.add(t.embedding(table, t.integers({batch, length}, 0, words - 1)), t.weight({length, width}, -1, 1));
    x = t.dropout(x, 0.25, t.integers({}, 0, 1000), t.integers({}, 0, 1000));
    x = t.add(x, selfAttention(t, normalised(t, x), 2, nullptr, true));
    x = t.add(x, feedForward(t, normalised(t, x), 24));
    Value logits = t.linear(t.reshape(normalised(t, x), {batch * length, width}), table); // tied
    return t.crossEntropy(logits, t.integers({batch * length}, 0, words - 1));
  });
}

} // namespace

std::span<const Function> differentiated() { return functionList; }

std::vector<Value> differentiate(Tape &t, const Function &of) {
  std::vector<Value> by;
  Value value = of.make(t, by);
  Value factor = t.input(Tape::dimsOf(value));
  t.output(total(t, t.mul(value, factor)));
  for (Value derivative : t.gradients(value, factor, by))
    t.output(derivative);
  return by;
}

std::vector<Network> trainingNetworks() {
  std::vector<Network> all;
  for (const Function &function : functionList)
    all.push_back({function.name, Level::Training, [&function](Tape &t) { differentiate(t, function); }});
  all.push_back({"train-perceptron", Level::Training, trainPerceptron});
  all.push_back({"train-convolutions", Level::Training, trainConvolutions});
  all.push_back({"train-encoder", Level::Training, trainEncoder});
  return all;
}

} // namespace mortise::conformance
