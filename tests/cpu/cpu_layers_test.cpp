// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Equal layers in the cpu plugin are found in the graph, decided once and stamped; nearly equal ones are not confused.
// Every network is compared with the reference interpreter. Each input has different numbers, so that a step that reads
// another layer's input gives a wrong result.
#include "network.hpp"

#include "repeat.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mortise::test {
namespace {

using cpu::findRepetition;
using cpu::Repetition;
using cpu::ShortGraph;

constexpr int64_t width = 32;
constexpr uint32_t kept = 4;

ValueId norm(Network &net, ValueId x, double epsilon = 1e-5) {
  return net.op("layer_norm", {x, net.weight({width}), net.weight({width})},
                {integer("axis", static_cast<int64_t>(net.dims(x).size()) - 1), real("epsilon", epsilon)});
}

// The properties in which layers may differ.
struct Kind {
  double scale = 0.25, epsilon = 1e-5;
  int64_t inner = 48;
  const char *activation = "gelu";
  ValueId sharedWeight = ir::noValue;
};

ValueId attend(Network &net, ValueId x, int64_t batch, int64_t tokens, double scale) {
  auto split = [&] {
    ValueId y = net.linear(x, net.weight({width, width}), net.weight({width}));
    return net.transpose(net.reshape(y, {batch, tokens, 2, width / 2}), {0, 2, 1, 3});
  };
  ValueId q = split(), k = split(), v = split();
  ValueId y = net.attention(q, k, v, scale);
  return net.reshape(net.transpose(y, {0, 2, 1, 3}), {batch, tokens, width});
}

ValueId layer(Network &net, ValueId x, int64_t batch, int64_t tokens, const Kind &kind = {}) {
  ValueId y = attend(net, x, batch, tokens, kind.scale);
  ValueId w = kind.sharedWeight == ir::noValue ? net.weight({width, width}) : kind.sharedWeight;
  x = norm(net, net.op("add", {net.linear(y, w, net.weight({width})), x}), kind.epsilon);
  y = net.linear(x, net.weight({kind.inner, width}), net.weight({kind.inner}));
  y = std::string(kind.activation) == "gelu" ? net.op("gelu", {y}, {text("approximate", "none")})
                                             : net.op(kind.activation, {y});
  return norm(net, net.op("add", {net.linear(y, net.weight({width, kind.inner}), net.weight({width})), x}),
              kind.epsilon);
}

Check stamping(const char *how) {
  Check check;
  check.options = {{"stamp_layers", how}};
  return check;
}

// The network computes the same whether its layers are stamped or not, by the same steps in the same order. `stamped`:
// whether they can be.
void compare(const std::function<void(Network &)> &build, bool stamped) {
  std::string steps[2];
  for (bool whole : {false, true}) {
    Network net;
    build(net);
    auto compiled = check(net, stamping(whole ? "false" : "true"));
    ASSERT_TRUE(compiled);
    steps[whole] = compiled->text();
  }
  EXPECT_EQ(steps[0], steps[1]);
  Network net;
  build(net);
  MortiseOption required{"stamp_layers", "required"};
  auto made = Compiled::make(net.finish(), {required});
  EXPECT_EQ(static_cast<bool>(made), stamped) << (made ? "stamped" : made.error().message);
}

TEST(Layers, AreFound) {
  Network net;
  ValueId x = net.op("tanh", {net.input(MORTISE_F32, {2, 5, width})});
  for (int i = 0; i < 12; ++i)
    x = layer(net, x, 2, 5);
  net.output(net.op("exp", {x}));
  std::shared_ptr<const Graph> graph = net.finish();
  std::optional<Repetition> found = findRepetition(graph->view(), kept);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->period * 12 + 2, graph->view().node_count);
  EXPECT_GE(found->copies, 11u);
  size_t owned = 0;
  for (size_t i = 0; i < graph->view().input_count; ++i) {
    owned += found->copyOf[i] != Repetition::none;
    if (uint32_t next = found->next[i]; next != Repetition::none)
      EXPECT_EQ(found->copyOf[next], found->copyOf[i] + 1);
  }
  EXPECT_EQ(owned, found->copies * ((graph->view().input_count - 1) / 12));
  ShortGraph shorter(graph->view(), *found, kept);
  EXPECT_EQ(shorter.view().node_count, graph->view().node_count - shorter.left() * found->period);
  EXPECT_EQ(shorter.view().input_count, graph->view().input_count);
  EXPECT_TRUE(Graph::copy(shorter.view())) << "the short graph is not well formed";
}

TEST(Layers, FewAreLeftAlone) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {2, 5, width});
  for (int i = 0; i < 4; ++i)
    x = layer(net, x, 2, 5);
  net.output(x);
  EXPECT_FALSE(findRepetition(net.finish()->view(), kept));
}

TEST(Layers, OfAnEncoder) {
  for (int64_t tokens : {1, 7})
    compare(
        [&](Network &net) {
          ValueId x = norm(net, net.input(MORTISE_F32, {2, tokens, width}));
          for (int i = 0; i < 9; ++i)
            x = layer(net, x, 2, tokens);
          net.output(net.linear(x, net.weight({7, width}), net.weight({7})));
        },
        true);
}

TEST(Layers, OfAResidualNetwork) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {1, 16, 6, 6});
        auto convolve = [&](ValueId v) {
          ValueId y = net.convolution(v, net.weight({16, 16, 3, 3}), {1, 1}, {1, 1});
          return net.op("batch_norm",
                        {y, net.weight({16}), net.weight({16}), net.weight({16}), net.op("exp", {net.weight({16})})},
                        {real("epsilon", 1e-5)});
        };
        for (int i = 0; i < 12; ++i) {
          ValueId y = convolve(net.op("relu", {convolve(x)}));
          x = net.op("relu", {net.op("add", {y, x})});
        }
        net.output(net.op("mean", {x}, {ints("axes", {2, 3})}));
      },
      true);
}

// Two stacks of different layers are both found.
TEST(Layers, OfTwoKindsOneAfterTheOther) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width});
        for (int i = 0; i < 8; ++i)
          x = layer(net, x, 2, 5);
        for (int i = 0; i < 8; ++i)
          x = layer(net, x, 2, 5, {.inner = 40, .activation = "relu"});
        net.output(x);
      },
      true);
}

TEST(Layers, OfTwoKindsInTurns) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width});
        for (int i = 0; i < 14; ++i)
          x = layer(net, x, 2, 5, {.scale = i % 2 ? 0.25 : 0.5});
        net.output(x);
      },
      true);
}

// The caches that a layer's attention reads: as updated, as they were before, or not at all.
enum class Reads { Updated, Old, Nothing };

// Caches updated in place: outputs that overwrite inputs, two per layer.
void decoder(Network &net, int layers, Reads reads) {
  ValueId x = net.input(MORTISE_F32, {1, 1, width}), at = net.input(MORTISE_I64, {1});
  int64_t position = 2;
  std::vector<std::pair<ValueId, int64_t>> states;
  for (int i = 0; i < layers; ++i) {
    auto cached = [&] {
      ValueId y = net.reshape(net.linear(x, net.weight({width, width})), {1, 1, width});
      ValueId cache = net.input(MORTISE_F32, {1, 8, width}, MORTISE_VALUE_STATE);
      ValueId updated = net.op("put", {cache, at, y}, {integer("axis", 1), text("mode", "set")});
      states.push_back({updated, position + 1});
      position += 2;
      return reads == Reads::Updated ? updated : reads == Reads::Old ? cache : y;
    };
    ValueId k = cached(), v = cached();
    ValueId scores = net.dot(x, k, {0}, {0}, {2}, {2});
    ValueId y = net.dot(net.op("softmax", {scores}, {integer("axis", 2)}), v, {0}, {0}, {2}, {1});
    x = norm(net, net.op("add", {x, net.linear(y, net.weight({width, width}))}));
    position += 3;
  }
  net.output(x);
  for (auto [state, input] : states)
    net.output(state, input);
}
TEST(Layers, WithCaches) {
  for (Reads reads : {Reads::Updated, Reads::Old, Reads::Nothing})
    compare([&](Network &net) { decoder(net, 10, reads); }, true);
}

// The old contents are read before they are overwritten, so that no update needs a copy of its cache.
TEST(Layers, UpdateTheirCachesInPlace) {
  for (Reads reads : {Reads::Updated, Reads::Old, Reads::Nothing}) {
    Network net;
    decoder(net, 10, reads);
    auto compiled = check(net);
    ASSERT_TRUE(compiled);
    size_t inPlace = 0;
    for (const MortiseStep *step : compiled->steps()) {
      const std::string_view name = step->name;
      inPlace += name.ends_with("in place");
      EXPECT_FALSE(name.starts_with("copy before put")) << compiled->text();
    }
    EXPECT_EQ(inPlace, 20u);
  }
}

TEST(Layers, WithOneThatDiffers) {
  for (Kind odd : {Kind{.scale = 0.5}, Kind{.epsilon = 1e-2}, Kind{.inner = 40}, Kind{.activation = "silu"}})
    for (int place : {0, 4, 8})
      compare(
          [&](Network &net) {
            ValueId x = net.input(MORTISE_F32, {2, 5, width});
            for (int i = 0; i < 9; ++i)
              x = layer(net, x, 2, 5, i == place ? odd : Kind{});
            net.output(x);
          },
          place != 4);
}

TEST(Layers, WithASharedWeight) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width});
        Kind kind{.sharedWeight = net.weight({width, width})};
        for (int i = 0; i < 9; ++i)
          x = layer(net, x, 2, 5, kind);
        net.output(x);
      },
      true);
}

// Layers i and i + 1 share a weight, so neither owns it alone.
TEST(Layers, WithWeightsSharedInPairs) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width}), previous = net.weight({width, width});
        for (int i = 0; i < 10; ++i) {
          ValueId own = net.weight({width, width});
          x = net.op("add", {x, net.linear(layer(net, x, 2, 5, {.sharedWeight = previous}), own)});
          previous = own;
        }
        net.output(x);
      },
      false);
}

// The layers' first input is read again after them, and must not become another layer's input. Or one layer's weight is
// read there, so that the layer does not own it.
TEST(Layers, WithSomethingReadBehindThem) {
  for (bool weight : {false, true})
    compare(
        [&](Network &net) {
          ValueId start = net.op("tanh", {net.input(MORTISE_F32, {2, 5, width})}), x = start, used = ir::noValue;
          for (int i = 0; i < 9; ++i) {
            Kind kind{.sharedWeight = net.weight({width, width})};
            used = i == 6 ? kind.sharedWeight : used;
            x = layer(net, x, 2, 5, kind);
          }
          net.output(weight ? net.linear(x, used) : net.op("mul", {x, start}));
        },
        !weight);
}

TEST(Layers, WithEveryLayersResultAsOutput) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width});
        for (int i = 0; i < 9; ++i)
          net.output(x = layer(net, x, 2, 5));
      },
      true);
}

TEST(Layers, WithOneLayersResultAsOutput) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width}), middle = x;
        for (int i = 0; i < 9; ++i) {
          x = layer(net, x, 2, 5);
          middle = i == 4 ? x : middle;
        }
        net.output(middle);
        net.output(x);
      },
      false);
}

// Each layer reads the results of the two layers before it.
TEST(Layers, ThatReadTwoBack) {
  compare(
      [](Network &net) {
        ValueId before = net.input(MORTISE_F32, {2, 5, width}), x = net.op("tanh", {before});
        for (int i = 0; i < 10; ++i) {
          ValueId y = layer(net, net.op("add", {x, before}), 2, 5);
          before = x;
          x = y;
        }
        net.output(x);
      },
      true);
}

// Which inputs are donated makes no difference to what is decided for one layer.
TEST(Layers, ThatReadDonatedInputs) {
  compare(
      [](Network &net) {
        ValueId x = net.input(MORTISE_F32, {2, 5, width}, MORTISE_VALUE_DONATED);
        for (int i = 0; i < 10; ++i) {
          const uint32_t flags = i % 3 ? 0 : MORTISE_VALUE_DONATED;
          x = layer(net, net.op("add", {x, net.input(MORTISE_F32, {2, 5, width}, flags)}), 2, 5);
        }
        net.output(x);
      },
      true);
}

TEST(Layers, OfSymbolicExtents) {
  auto made = checkShapes(
      [](Network &net, int64_t batch, int64_t tokens) {
        ValueId x = net.input(MORTISE_F32, {batch, tokens, width});
        for (int i = 0; i < 9; ++i)
          x = layer(net, x, batch, tokens);
        net.output(x);
      },
      {{2, 3}, {1, 17}, {4, 64}}, stamping("required"), 1);
  EXPECT_TRUE(made);
}

} // namespace
} // namespace mortise::test
