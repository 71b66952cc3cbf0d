// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole networks: small, with the parts that large ones have.
#include "blocks.hpp"

namespace mortise::conformance {
namespace {

void perceptron(Tape &t) {
  Value x = t.input({3, 17});
  x = t.map("relu", t.linear(x, t.weight({40, 17}), t.weight({40})));
  x = t.gelu(t.linear(x, t.weight({33, 40}), t.weight({33})));
  t.output(t.softmax("softmax", t.linear(x, t.weight({10, 33}), t.weight({10})), 1));
}

// A convolution, a normalisation by stored statistics and an activation.
Value convolved(Tape &t, Value x, int64_t channels, const Tape::Window &window, const char *activation,
                int64_t size = 3) {
  const int64_t inner = x->type->dims[1] / window.groups;
  x = t.convolution(x, t.weight({channels, inner, size, size}), window);
  x = t.batchNorm(x, t.weight({channels}, 0.5, 1.5), t.weight({channels}, -0.5, 0.5), t.weight({channels}, -0.5, 0.5),
                  t.weight({channels}, 0.5, 1.5));
  return activation ? t.map(activation, x) : x;
}

void residual(Tape &t) {
  Value x = convolved(t, t.input({2, 3, 16, 16}), 8, {1, 1}, "relu");
  x = t.pool("max_pool", x, 3, 2, 1);
  Value branch = convolved(t, convolved(t, x, 8, {1, 1}, "relu"), 8, {1, 1}, nullptr);
  x = t.map("relu", t.add(branch, x));
  x = t.fusedConvolution(x, t.weight({12, 8, 3, 3}), t.weight({12}), {2, 1}, "silu");
  x = convolved(t, x, 12, {1, 1, 1, 12}, "relu"); // depthwise
  x = convolved(t, x, 16, {}, nullptr, 1);
  x = t.mean(x, {2, 3});
  t.output(t.softmax("log_softmax", t.linear(x, t.weight({7, 16}), t.weight({7})), 1));
}

void encoder(Tape &t) {
  constexpr int64_t batch = 2, length = 9, width = 24;
  Value ids = t.integers({batch, length}, 0, 30);
  Value mask = t.input({batch, 1, 1, length}, 0, 1, MORTISE_I1);
  Value x = t.add(t.embedding(t.weight({31, width}, -1, 1), ids), t.weight({length, width}, -1, 1));
  x = normalised(t, x);
  for (int layer = 0; layer < 2; ++layer) {
    x = normalised(t, t.add(x, selfAttention(t, x, 4, mask)));
    x = normalised(t, t.add(x, feedForward(t, x, 40)));
  }
  t.output(x);
  t.output(t.map("tanh",
                 t.linear(t.reshape(t.part(x, 1, 0, 1), {batch, width}), t.weight({width, width}), t.weight({width}))));
}

// One token of a decoder whose keys and values are kept from call to call.
void decoder(Tape &t) {
  constexpr int64_t heads = 4, groups = 2, depth = 8, length = 12, width = 32;
  Value token = t.integers({1, 1}, 0, 22);
  Value place = t.integers({1}, 0, length - 1);
  Value x = t.embedding(t.weight({23, width}, -1, 1), token);
  Value cosine = t.input({1, 1, 1, depth}), sine = t.input({1, 1, 1, depth});
  // Keys behind the token's place are not there yet.
  Value mask = t.compare("le", t.reshape(t.iota({length}, 0), {1, 1, 1, length}), t.reshape(place, {1, 1, 1, 1}));
  for (int layer = 0; layer < 2; ++layer) {
    Value h = t.rmsNorm(x, t.weight({width}, 0.5, 1.5), 2);
    const auto headsOf = [&](int64_t count) {
      Value made = t.linear(h, t.weight({count * depth, width}));
      return t.transpose(t.reshape(made, {1, 1, count, depth}), {0, 2, 1, 3});
    };
    Value q = t.rope(headsOf(heads), cosine, sine), k = t.rope(headsOf(groups), cosine, sine), v = headsOf(groups);
    Value oldK = t.input({1, groups, length, depth}), oldV = t.input({1, groups, length, depth});
    Value keys = t.put(oldK, place, k, 2, "set"), values = t.put(oldV, place, v, 2, "set");
    t.state(oldK, keys);
    t.state(oldV, values);
    Value seen = t.attention(q, keys, values, mask, 1 / std::sqrt(double(depth)), false);
    seen = t.reshape(t.transpose(seen, {0, 2, 1, 3}), {1, 1, width});
    x = t.add(x, t.linear(seen, t.weight({width, width})));
    h = t.rmsNorm(x, t.weight({width}, 0.5, 1.5), 2);
    h = t.combine("swiglu", t.linear(h, t.weight({48, width})), t.linear(h, t.weight({48, width})));
    x = t.add(x, t.linear(h, t.weight({width, 48})));
  }
  Value logits = t.linear(t.rmsNorm(x, t.weight({width}, 0.5, 1.5), 2), t.weight({23, width}));
  t.output(logits);
  t.output(t.argmax(logits, 2));
}

void patches(Tape &t) {
  constexpr int64_t batch = 2, width = 24;
  Value x = t.convolution(t.input({batch, 3, 12, 12}), t.weight({width, 3, 4, 4}), {4});
  x = t.transpose(t.reshape(x, {batch, width, 9}), {0, 2, 1});
  x = t.concatenate({t.spread(t.weight({1, 1, width}, -1, 1), {batch, 1, width}), x}, 1);
  x = t.add(x, t.weight({10, width}, -1, 1));
  for (int layer = 0; layer < 2; ++layer) {
    x = t.add(x, selfAttention(t, normalised(t, x), 3, nullptr));
    x = t.add(x, feedForward(t, normalised(t, x), 48));
  }
  Value first = t.reshape(t.part(normalised(t, x), 1, 0, 1), {batch, width});
  t.output(t.linear(first, t.weight({11, width}), t.weight({11})));
}

// Down and up again, beside a connection that skips both.
void hourglass(Tape &t) {
  const auto block = [&](Value x, int64_t channels, const Tape::Window &window) {
    const int64_t from = x->type->dims[1];
    x = t.map("silu", t.groupNorm(x, t.weight({from}, 0.5, 1.5), t.weight({from}, -0.5, 0.5), 2));
    return t.convolution(x, t.weight({channels, from, 3, 3}), window);
  };
  Value wide = t.convolution(t.input({1, 4, 12, 12}), t.weight({8, 4, 3, 3}), {1, 1});
  Value narrow = block(block(wide, 12, {2, 1}), 12, {1, 2, 2});
  Value up = t.reshape(t.broadcast(narrow, {1, 12, 6, 2, 6, 2}, {0, 1, 2, 4}), {1, 12, 12, 12});
  t.output(block(t.concatenate({wide, up}, 1), 4, {1, 1}));
}

// Convolutions are added to what they read, which other layers read as well.
void mixer(Tape &t) {
  Value x = t.input({2, 16, 6, 6}), before = x;
  x = t.add(x, t.convolution(x, t.weight({16, 1, 3, 3}), {1, 1, 1, 16})); // depthwise
  x = t.add(t.convolution(x, t.weight({16, 16, 3, 3}), {1, 1}), x);
  t.output(t.map("relu", x));
  t.output(t.convolution(before, t.weight({8, 16, 3, 3}), {2, 1}));
}

// A long short-term memory over five steps.
void recurrent(Tape &t) {
  constexpr int64_t batch = 3, steps = 5, inner = 11, width = 14;
  Value x = t.input({batch, steps, inner}), hidden = t.input({batch, width}), cell = t.input({batch, width});
  Value byInput = t.weight({4 * width, inner}), byHidden = t.weight({4 * width, width}), bias = t.weight({4 * width});
  for (int64_t step = 0; step < steps; ++step) {
    Value now = t.reshape(t.part(x, 1, step, step + 1), {batch, inner});
    Value gates = t.add(t.linear(now, byInput, bias), t.linear(hidden, byHidden));
    const auto gate = [&](int64_t i, const char *op) {
      return t.map(op, t.part(gates, 1, i * width, (i + 1) * width));
    };
    cell = t.add(t.mul(gate(1, "logistic"), cell), t.mul(gate(0, "logistic"), gate(2, "tanh")));
    hidden = t.mul(gate(3, "logistic"), t.map("tanh", cell));
  }
  t.output(hidden);
  t.output(cell);
}

// Two of four experts for each row, chosen by a router.
void experts(Tape &t) {
  constexpr int64_t rows = 6, width = 16, count = 4, inner = 20;
  Value x = t.input({rows, width});
  const auto [shares, chosen] = t.topK(t.softmax("softmax", t.linear(x, t.weight({count, width})), 1), 2, 1);
  Value all = t.broadcast(x, {count, rows, width}, {1, 2});
  Value h = t.gelu(t.matmul(all, t.weight({count, width, inner}, -0.4, 0.4)), true);
  h = t.transpose(t.matmul(h, t.weight({count, inner, width}, -0.4, 0.4)), {1, 0, 2}); // [rows, experts, width]
  Value sum = nullptr;
  for (int64_t i = 0; i < 2; ++i) {
    Value is = t.compare("eq", t.part(chosen, 1, i, i + 1), t.iota({rows, count}, 1));
    Value share = t.select(is, t.part(shares, 1, i, i + 1), t.number(0));
    Value part = t.sum(t.mul(h, t.reshape(share, {rows, count, 1})), {1});
    sum = sum ? t.add(sum, part) : part;
  }
  t.output(t.add(x, sum));
}

} // namespace

std::vector<Network> models() {
  return {{"perceptron", Level::Models, perceptron}, {"residual", Level::Models, residual},
          {"encoder", Level::Models, encoder},       {"decoder", Level::Models, decoder},
          {"patches", Level::Models, patches},       {"hourglass", Level::Models, hourglass},
          {"mixer", Level::Models, mixer},           {"recurrent", Level::Models, recurrent},
          {"experts", Level::Models, experts}};
}

} // namespace mortise::conformance
