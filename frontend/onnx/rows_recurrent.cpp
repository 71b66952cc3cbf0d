// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recurrent layers, step by step: the number of steps is known.
#include "rows.hpp"

#include <functional>

namespace mortise::onnx {
namespace {

using Function = std::function<Value(const Value &)>;

struct State {
  Value hidden, cell; // [batch, H]; a cell in LSTM only
};

// One direction of a layer.
struct Layer {
  int64_t size = 0;          // H
  Value weight, recurrent;   // [gates * H, input] and [gates * H, H]
  Value bias, recurrentBias; // [gates * H], may be missing
  Value peephole;            // [3 * H], LSTM's, may be missing
  std::vector<Function> activations;
};

Value gate(Emitter &e, const Value &of, const Layer &layer, int64_t number) { // rows or elements of one gate
  return of ? e.part(of, 0, number * layer.size, (number + 1) * layer.size) : of;
}
Value plus(Emitter &e, const Value &a, const Value &b) { return b ? e.add(a, b) : a; }
Value product(Emitter &e, const Value &x, const Value &weight) { return e.matmul(x, e.swapLast(weight)); }

// x W + h R + both biases, of one gate.
Value sum(Emitter &e, const Layer &layer, int64_t number, const Value &x, const Value &h) {
  const auto part = [&](const Value &of) { return gate(e, of, layer, number); };
  const Value both = e.add(product(e, x, part(layer.weight)), product(e, h, part(layer.recurrent)));
  return plus(e, plus(e, both, part(layer.bias)), part(layer.recurrentBias));
}

State rnnStep(Emitter &e, Node &, const Layer &layer, const Value &x, const State &old) {
  return {layer.activations[0](sum(e, layer, 0, x, old.hidden)), {}};
}

State gruStep(Emitter &e, Node &node, const Layer &layer, const Value &x, const State &old) {
  const Value update = layer.activations[0](sum(e, layer, 0, x, old.hidden));
  const Value reset = layer.activations[0](sum(e, layer, 1, x, old.hidden));
  const auto part = [&](const Value &of) { return gate(e, of, layer, 2); };
  Value inner;
  if (node.flag("linear_before_reset", false))
    inner = e.mul(reset, plus(e, product(e, old.hidden, part(layer.recurrent)), part(layer.recurrentBias)));
  else
    inner = plus(e, product(e, e.mul(reset, old.hidden), part(layer.recurrent)), part(layer.recurrentBias));
  const Value next = layer.activations[1](e.add(plus(e, product(e, x, part(layer.weight)), part(layer.bias)), inner));
  return {e.add(e.mul(e.sub(e.like(update, 1), update), next), e.mul(update, old.hidden)), {}};
}

// Gates stand in the order input, output, forget, cell; peepholes input, output, forget.
State lstmStep(Emitter &e, Node &node, const Layer &layer, const Value &x, const State &old) {
  const auto opened = [&](int64_t number, const Value &cell) {
    const Value weight = gate(e, layer.peephole, layer, number);
    return layer.activations[0](plus(e, sum(e, layer, number, x, old.hidden), weight ? e.mul(weight, cell) : Value()));
  };
  const Value input = opened(0, old.cell);
  const Value forget = node.flag("input_forget", false) ? e.sub(e.like(input, 1), input) : opened(2, old.cell);
  const Value next = layer.activations[1](sum(e, layer, 3, x, old.hidden));
  const Value cell = e.add(e.mul(forget, old.cell), e.mul(input, next));
  return {e.mul(opened(1, cell), layer.activations[2](cell)), cell};
}

struct Kind {
  int64_t gates;
  std::vector<std::string> activations; // of one direction
  State (*step)(Emitter &, Node &, const Layer &, const Value &, const State &);
  bool hasCell;
};
const Kind &kindOf(const std::string &op) {
  static const Kind rnn{1, {"Tanh"}, rnnStep, false}, gru{3, {"Sigmoid", "Tanh"}, gruStep, false},
      lstm{4, {"Sigmoid", "Tanh", "Tanh"}, lstmStep, true};
  return op == "RNN" ? rnn : op == "GRU" ? gru : lstm;
}

Function functionOf(Emitter &e, Node &node, const std::string &name) {
  if (name == "Sigmoid")
    return [&e](const Value &x) { return e.map("mortise.logistic", x); };
  if (name == "Tanh")
    return [&e](const Value &x) { return e.map("mortise.tanh", x); };
  if (name == "Relu")
    return [&e](const Value &x) { return e.map("mortise.relu", x); };
  unsupported("attribute", node.place() + ": the activation '" + name + "'");
}

Values recurrent(Emitter &e, Node &node) {
  const Kind &kind = kindOf(node.message.op_type());
  const std::string direction = node.text("direction", "forward");
  const bool isBatchFirst = node.flag("layout", false);
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && directions == 1)
    corrupt(node.place() + ": expected the direction forward, reverse or bidirectional, found '" + direction + "'");
  if (node[0].rank() != 3 || node[1].rank() != 3 || node[2].rank() != 3)
    corrupt(node.place() + ": expected operands of rank 3, found " + typeText(node[0]) + ", " + typeText(node[1]) +
            " and " + typeText(node[2]));
  const Value x = isBatchFirst ? e.transpose(node[0], {1, 0, 2}) : node[0];
  const int64_t steps = x.dims[0], batch = x.dims[1], size = node[2].last();
  if (node.integer("hidden_size", size) != size || node[1].dims[0] != directions || node[2].dims[0] != directions ||
      node[1].dims[1] != kind.gates * size || node[2].dims[1] != kind.gates * size)
    corrupt(node.place() + ": expected weights of " + std::to_string(kind.gates) + " gates, found " +
            typeText(node[1]) + " and " + typeText(node[2]));
  if (steps < 1 || steps > 512)
    unsupported("size", node.place() + ": a sequence of " + std::to_string(steps) + " steps; expected 1 to 512");
  if (node.has(4))
    for (const int64_t length : node.integers(4, "sequence_lens"))
      if (length != steps)
        unsupported("attribute", node.place() + ": sequences that are shorter than others");
  std::vector<std::string> names;
  for (int64_t i = 0; i < directions; ++i)
    names.insert(names.end(), kind.activations.begin(), kind.activations.end());
  if (const auto *given = node.take("activations", proto::AttributeProto::STRINGS))
    names.assign(given->strings().begin(), given->strings().end());
  if (names.size() != kind.activations.size() * static_cast<size_t>(directions))
    corrupt(node.place() + ": expected " + std::to_string(kind.activations.size()) +
            " activations for each direction, found " + std::to_string(names.size()));
  const auto of = [&](size_t input, int64_t at, const Dims &shape) { // of one direction
    return node.has(input) ? e.reshape(e.part(node[input], 0, at, at + 1), shape) : Value();
  };
  const auto stateOf = [&](size_t input, int64_t at) {
    if (!node.has(input))
      return e.spread(e.like(x, 0), {batch, size});
    const Value all = isBatchFirst && node[input].rank() == 3 ? e.transpose(node[input], {1, 0, 2}) : node[input];
    return e.reshape(e.part(all, 0, at, at + 1), {batch, size});
  };
  const int64_t rows = kind.gates * size;
  Values sequences, hidden, cells; // by direction
  for (int64_t at = 0; at < directions; ++at) {
    Layer layer{size, of(1, at, {rows, x.last()}), of(2, at, {rows, size}), {}, {}, {}, {}};
    if (node.has(3)) {
      const Value biases = of(3, at, {2 * rows});
      layer.bias = e.part(biases, 0, 0, rows);
      layer.recurrentBias = e.part(biases, 0, rows, 2 * rows);
    }
    if (kind.hasCell)
      layer.peephole = of(7, at, {3 * size});
    for (size_t i = 0; i < kind.activations.size(); ++i)
      layer.activations.push_back(functionOf(e, node, names[static_cast<size_t>(at) * kind.activations.size() + i]));
    State state{stateOf(5, at), kind.hasCell ? stateOf(6, at) : Value()};
    const bool isReverse = direction == "reverse" || at == 1;
    Values made(static_cast<size_t>(steps));
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t step = isReverse ? steps - 1 - i : i;
      state = kind.step(e, node, layer, e.reshape(e.part(x, 0, step, step + 1), {batch, x.last()}), state);
      made[static_cast<size_t>(step)] = e.reshape(state.hidden, {1, 1, batch, size});
    }
    sequences.push_back(e.concatenate(made, 0));
    hidden.push_back(e.reshape(state.hidden, {1, batch, size}));
    if (kind.hasCell)
      cells.push_back(e.reshape(state.cell, {1, batch, size}));
  }
  const auto last = [&](const Values &states) {
    const Value all = e.concatenate(states, 0);
    return isBatchFirst ? e.transpose(all, {1, 0, 2}) : all;
  };
  const Value sequence = e.concatenate(sequences, 1);
  Values made{isBatchFirst ? e.transpose(sequence, {2, 0, 1, 3}) : sequence, last(hidden)};
  if (kind.hasCell)
    made.push_back(last(cells));
  return made;
}

constexpr Row table[] = {
    {"GRU", recurrent, "mortise.add", 14},
    {"LSTM", recurrent, "mortise.add", 14},
    {"RNN", recurrent, "mortise.add", 14},
};

} // namespace

std::span<const Row> recurrentRows() { return table; }

} // namespace mortise::onnx
