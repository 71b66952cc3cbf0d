// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of the cpu plugin: pairs that it promises to run in place, steps that write over their operands, and outputs
// that serve as workspace until they are written.
#include "network.hpp"

#include <mortise/ir/builder.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/call.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>

namespace mortise::test {
namespace {

// The pairs in the plugin's only candidate for the graph.
std::vector<MortiseInPlace> promised(const MortiseGraph &graph) {
  std::vector<MortiseInPlace> pairs;
  MortiseProposeArgs args{};
  args.struct_size = sizeof args;
  args.device = cpuDevice()->info.device;
  args.graph = &graph;
  args.sink = &pairs;
  args.add = [](void *sink, const MortiseCandidate *candidate) {
    static_cast<std::vector<MortiseInPlace> *>(sink)->assign(candidate->in_place,
                                                             candidate->in_place + candidate->in_place_count);
  };
  args.refuse = [](void *, uint32_t node, int32_t, const char *detail) {
    ADD_FAILURE() << "node " << node << " refused: " << detail;
  };
  if (Result<void> done = runtime::call("propose", cpuDevice()->plugin->table->propose, args); !done)
    ADD_FAILURE() << done.error().message;
  return pairs;
}

size_t inputOf(const MortiseGraph &graph, uint32_t value) {
  return static_cast<size_t>(
      std::find_if(graph.inputs, graph.inputs + graph.input_count, [&](auto *input) { return input->index == value; }) -
      graph.inputs);
}

// Runs the region once for each pair, with one pointer for both values, and compares with the interpreter. `graph` has
// numbers for the symbols of the compiled graph.
void checkPairs(const std::shared_ptr<const Graph> &graph, Compiled &compiled,
                const std::vector<MortiseInPlace> &pairs) {
  const MortiseGraph &view = graph->view();
  ASSERT_EQ(view.output_count, 1u);
  for (const MortiseInPlace pair : pairs) {
    const size_t over = inputOf(view, pair.input);
    SCOPED_TRACE("over input " + std::to_string(over));
    std::vector<std::vector<std::byte>> inputs(view.input_count);
    std::vector<const void *> pointers;
    for (size_t i = 0; i < view.input_count; ++i) {
      inputs[i].resize(byteSize(*view.inputs[i]->type));
      randomFill(*view.inputs[i], i, inputs[i]);
      pointers.push_back(inputs[i].data());
    }
    std::vector<std::byte> expected(byteSize(*view.outputs[0]->type));
    void *want[] = {expected.data()}, *out[] = {inputs[over].data()};
    ASSERT_TRUE(reference::interpret(view, pointers, want));
    Result<void> run = compiled.run(pointers, out);
    ASSERT_TRUE(run) << run.error().message;
    const auto *found = reinterpret_cast<const float *>(inputs[over].data());
    const auto *wanted = reinterpret_cast<const float *>(expected.data());
    ASSERT_EQ(view.outputs[0]->type->dtype, MORTISE_F32);
    for (size_t i = 0; i < expected.size() / sizeof(float); ++i)
      ASSERT_NEAR(found[i], wanted[i], 2e-5 * std::max(1.0f, std::abs(wanted[i]))) << "element " << i;
  }
}

void pointwise(Network &net, const std::vector<int64_t> &dims) {
  const ValueId x = net.input(MORTISE_F32, dims), y = net.input(MORTISE_F32, dims);
  const ValueId z = net.op("mul", {net.op("exp", {x}), y});
  net.output(net.op("sub", {net.op("add", {z, x}), net.op("tanh", {net.op("neg", {y})})}));
}

TEST(InPlace, PromisedPairsHold) {
  for (const std::vector<int64_t> &dims : std::vector<std::vector<int64_t>>{
           {5}, {16}, {3, 4}, {64}, {7, 48}, {2, 3, 1040}, {333, 1024}, {1 << 20}, {0, 16}, {}}) {
    Network net;
    pointwise(net, dims);
    const std::shared_ptr<const Graph> graph = net.finish();
    SCOPED_TRACE(typeString(*graph->view().outputs[0]->type));
    const std::vector<MortiseInPlace> pairs = promised(graph->view());
    // Whole vectors of every width are promised; fewer elements only if they are fewer than this machine's vector has.
    const int64_t count = elementCount(*graph->view().outputs[0]->type);
    if (count == 1 || count % 16 == 0)
      EXPECT_EQ(pairs.size(), 2u);
    auto compiled = Compiled::make(graph);
    ASSERT_TRUE(compiled) << compiled.error().message;
    if (!pairs.empty())
      EXPECT_FALSE((*compiled)->hasStep("copy to output")) << (*compiled)->text();
    checkPairs(graph, **compiled, pairs);
  }
}

TEST(InPlace, ForAllValuesOfSymbols) {
  const auto build = [](Network &net, int64_t batch, int64_t tokens) { pointwise(net, {batch, tokens, 3}); };
  auto compiled = compileForShapes(build);
  ASSERT_TRUE(compiled) << compiled.error().message;
  const std::vector<MortiseInPlace> pairs = promised((*compiled)->graph->view());
  EXPECT_EQ(pairs.size(), 2u);
  for (const auto &[batch, tokens] : Shapes{{2, 2}, {2, 5}, {3, 16}, {7, 33}, {5, 512}, {401, 97}}) {
    SCOPED_TRACE(std::to_string(batch) + ", " + std::to_string(tokens));
    Network net;
    build(net, batch, tokens);
    ASSERT_TRUE((*compiled)->prepare({batch, tokens}));
    checkPairs(net.finish(), **compiled, pairs);
  }
}

TEST(InPlace, NoPromiseWhereItWouldNotHold) {
  const auto pairsOf = [](const std::function<void(Network &)> &build) {
    Network net;
    build(net);
    return promised(net.finish()->view()).size();
  };
  const std::vector<int64_t> dims{4, 64};
  EXPECT_EQ(pairsOf([&](Network &net) { pointwise(net, dims); }), 2u);
  EXPECT_EQ(pairsOf([&](Network &net) { pointwise(net, {1001}); }), 0u) << "the last vector overlaps its neighbour";
  EXPECT_EQ(pairsOf([&](Network &net) {
              net.output(net.op("neg", {net.op("reverse", {net.input(MORTISE_F32, dims)}, {ints("axes", {0})})}));
            }),
            0u)
      << "elements come from elsewhere";
  EXPECT_EQ(pairsOf([&](Network &net) {
              net.output(
                  net.op("add", {net.input(MORTISE_F32, dims), net.input(MORTISE_F32, dims, MORTISE_VALUE_CONSTANT)}));
            }),
            1u);
  EXPECT_EQ(pairsOf([&](Network &net) {
              const ValueId state = net.input(MORTISE_F32, dims, MORTISE_VALUE_STATE);
              net.output(net.op("neg", {state}), 0);
            }),
            0u)
      << "aliased already";
  EXPECT_EQ(pairsOf([&](Network &net) {
              const ValueId x = net.input(MORTISE_F32, dims);
              net.output(net.op("neg", {x}));
              net.output(net.op("abs", {x}));
            }),
            0u)
      << "the other output would read it";
}

// A pointwise step writes over an operand that dies.
TEST(Workspace, PointwiseStepsWriteOverWhatDies) {
  for (const bool livesOn : {false, true}) {
    Network net; // the library has no epilogue for sin
    const ValueId x = net.input(MORTISE_F32, {64, 1024}), y = net.linear(x, net.weight({1024, 1024})),
                  z = net.linear(net.op("sin", {y}), net.weight({16, 1024}));
    net.output(livesOn ? net.op("add", {z, net.linear(y, net.weight({16, 1024}))}) : z);
    auto compiled = check(net);
    ASSERT_TRUE(compiled);
    const size_t block = 64 * 1024 * sizeof(float);
    if (livesOn)
      EXPECT_GE(compiled->workspaceBytes(), 2 * block) << compiled->text();
    else
      EXPECT_LT(compiled->workspaceBytes(), block + block / 2) << compiled->text();
  }
}

TEST(Workspace, OutputsAreWorkspaceUntilTheyAreWritten) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {16, 256});
  for (int i = 0; i < 4; ++i) // scaled down, so that errors do not grow
    x = net.op("sin", {net.op("mul", {net.linear(x, net.weight({256, 256})), net.splat(1.0 / 64, {16, 256})})});
  net.output(net.linear(x, net.weight({4096, 256})));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  // The operand of the last product and the workspace of the product itself.
  EXPECT_LT(compiled->workspaceBytes(), 2 * 16 * 256 * sizeof(float)) << compiled->text();
}

TEST(Workspace, NotAnOutputThatOverwritesAState) {
  Network net; // the state is read by the last op
  const ValueId state = net.input(MORTISE_F32, {16, 4096}, MORTISE_VALUE_STATE);
  ValueId x = net.input(MORTISE_F32, {16, 256});
  for (int i = 0; i < 3; ++i)
    x = net.op("sin", {net.linear(x, net.weight({256, 256}))});
  net.output(net.op("add", {net.linear(x, net.weight({4096, 256})), state}), 0);
  net.output(net.op("neg", {state}));
  ASSERT_TRUE(check(net));
}

// What a pass over rows has read it may overwrite.
TEST(Workspace, RowsAreWrittenOverWhatDies) {
  for (const char *norm : {"softmax", "scaled"}) {
    for (const int64_t width : {256, 48, 7}) { // 7: the last vector is partial, or overlaps its neighbour
      Network net;
      const int64_t rows = (32 << 10) / width;
      const ValueId x = net.linear(net.input(MORTISE_F32, {rows, width}), net.weight({width, width}));
      ValueId y = net.op("softmax", {x}, {integer("axis", 1)});
      if (std::string_view(norm) == "scaled") { // by a sum that is an output, too
        const ValueId sum = net.op("reduce_sum", {net.op("mul", {x, x})}, {ints("axes", {1})});
        net.output(sum);
        y = net.op("mul", {x, net.broadcast(net.op("rsqrt", {sum}), {rows, width}, {0})});
      }
      net.output(net.linear(y, net.weight({16, width})));
      auto compiled = check(net);
      ASSERT_TRUE(compiled);
      const size_t block = static_cast<size_t>(rows * width) * sizeof(float);
      if (width % 16 == 0)
        EXPECT_LT(compiled->workspaceBytes(), block + block / 2) << norm << width << "\n" << compiled->text();
    }
  }
}

// A value per channel of images, as batch norm in training computes it.
TEST(Workspace, ChannelsAreWrittenOverWhatDies) {
  Network net;
  const ValueId x = net.op("sin", {net.input(MORTISE_F32, {8, 16, 32, 32})}),
                mean =
                    net.op("mul", {net.op("reduce_sum", {x}, {ints("axes", {0, 2, 3})}), net.splat(1.0 / 8192, {16})}),
                centred = net.op("sub", {x, net.broadcast(mean, {8, 16, 32, 32}, {1})});
  net.output(net.convolution(centred, net.weight({4, 16, 3, 3}), {1, 1}, {1, 1}));
  ASSERT_TRUE(check(net));
}

// Two sums of the same value, of which only one is over its own elements.
TEST(Workspace, NotOverWhatOtherRowsRead) {
  Network net;
  const ValueId x = net.linear(net.input(MORTISE_F32, {256, 256}), net.weight({256, 256})),
                sum = net.op("reduce_sum", {x}, {ints("axes", {1})}),
                turned = net.op("add", {x, net.transpose(x, {1, 0})});
  net.output(net.linear(net.op("mul", {turned, net.broadcast(sum, {256, 256}, {0})}), net.weight({16, 256})));
  ASSERT_TRUE(check(net));
}

// The larger value is made when it is read, and not where it stands in the graph.
TEST(Workspace, WhatWritesMoreThanItReadsRunsLate) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {256, 64}), small = net.op("sin", {x}),
                large = net.op("concatenate", {small, small, small, small}, {integer("axis", 0)});
  ValueId y = net.input(MORTISE_F32, {1024, 64});
  for (int i = 0; i < 4; ++i)
    y = net.op("sin", {net.linear(y, net.weight({64, 64}))});
  net.output(net.op("add", {net.linear(y, net.weight({16, 64})), net.linear(large, net.weight({16, 64}))}));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_LT(compiled->workspaceBytes(), 5 * 1024 * 64 * sizeof(float) / 2) << compiled->text();
}

TEST(Donated, InputsAreWorkspaceOnceNothingReadsThem) {
  size_t bytes[2];
  for (const bool donated : {false, true}) {
    Network net;
    const std::vector<int64_t> dims{512, 128};
    ValueId x = net.input(MORTISE_F32, dims, donated ? MORTISE_VALUE_DONATED : 0);
    for (int i = 0; i < 4; ++i)
      x = net.op("sin", {net.op("mul", {net.linear(x, net.weight({128, 128})), net.splat(1.0 / 16, dims)})});
    net.output(net.linear(x, net.weight({16, 128})));
    auto compiled = check(net);
    ASSERT_TRUE(compiled);
    bytes[donated] = compiled->workspaceBytes();
  }
  EXPECT_LE(bytes[true] + 512 * 128 * sizeof(float), bytes[false]);
}

// The input is read by the last step: nothing may lie in it before.
TEST(Donated, NotWhileTheyAreRead) {
  Network net;
  const std::vector<int64_t> dims{512, 128};
  const ValueId x = net.input(MORTISE_F32, dims, MORTISE_VALUE_DONATED);
  ValueId y = x;
  for (int i = 0; i < 3; ++i)
    y = net.op("sin", {net.op("mul", {net.linear(y, net.weight({128, 128})), net.splat(1.0 / 16, dims)})});
  net.output(net.linear(net.op("mul", {x, y}), net.weight({16, 128})));
  net.output(net.reshape(x, {128, 512}));
  ASSERT_TRUE(check(net));
}

TEST(Donated, ForAllValuesOfSymbols) {
  const auto build = [](Network &net, int64_t batch, int64_t tokens) {
    ValueId x = net.input(MORTISE_F32, {batch, tokens, 32}, MORTISE_VALUE_DONATED);
    for (int i = 0; i < 3; ++i)
      x = net.op("sin", {net.linear(x, net.weight({32, 32}))});
    net.output(net.linear(x, net.weight({300, 32})));
  };
  ASSERT_TRUE(checkShapes(build, {{2, 2}, {3, 400}, {2, 65}, {20, 129}}));
}

// Values of 128 KiB, of which any may die anywhere.
TEST(Donated, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](size_t count) { return random() % count; };
    const std::vector<int64_t> dims{512, 64};
    Network net;
    std::vector<ValueId> values;
    for (size_t i = 2 + below(4); i > 0; --i)
      values.push_back(net.input(MORTISE_F32, dims, below(4) ? uint32_t(MORTISE_VALUE_DONATED) : 0u));
    const auto some = [&] { return values[values.size() - 1 - below(std::min<size_t>(values.size(), 4))]; };
    for (size_t left = 6 + below(8); left > 0; --left) {
      const ValueId x = some();
      switch (below(6)) {
      case 0:
        values.push_back(net.op("sin", {x}));
        break;
      case 1:
        values.push_back(net.op("sub", {x, some()}));
        break;
      case 2:
        values.push_back(net.op("softmax", {x}, {integer("axis", 1)}));
        break;
      case 3:
        values.push_back(net.op("sub", {x, net.broadcast(net.op("reduce_max", {x}, {ints("axes", {0})}), dims, {1})}));
        break;
      case 4:
        values.push_back(net.reshape(net.transpose(x, {1, 0}), dims));
        break;
      default:
        values.push_back(net.op("mul", {net.linear(x, net.weight({64, 64})), net.splat(1.0 / 8, dims)}));
      }
      if (below(6) == 0)
        net.output(values.back());
    }
    net.output(values.back());
    net.output(net.op("reduce_sum", {some()}, {ints("axes", {0})}));
    ASSERT_TRUE(check(net));
  }
}

TEST(Workspace, ForAllValuesOfSymbols) {
  const auto build = [](Network &net, int64_t batch, int64_t tokens) {
    ValueId x = net.input(MORTISE_F32, {batch, tokens, 32});
    for (int i = 0; i < 3; ++i)
      x = net.op("sin", {net.linear(x, net.weight({32, 32}))});
    net.output(net.linear(x, net.weight({300, 32})));
  };
  auto compiled = checkShapes(build, {{2, 2}, {2, 64}, {3, 40}, {2, 65}, {5, 129}});
  ASSERT_TRUE(compiled);
  EXPECT_LT(compiled->workspaceBytes(), 3 * 64 * 64 * 32 * sizeof(float) / 2) << "one value's, for typical extents";
}

// A product with constant weights, bound to `weights`. Its first result is the sum of their first row (or column) and
// the bias.
std::unique_ptr<Compiled> rowSum(const std::vector<float> &weights, bool transposed = false) {
  constexpr int64_t width = 64;
  Network net;
  net.output(net.linear(net.input(MORTISE_F32, {1, width}), net.weight({width, width}), ir::noValue, transposed));
  Result<std::unique_ptr<Compiled>> made = Compiled::make(net.finish(), {{"weight_hash_bits", "0"}});
  if (!made) {
    ADD_FAILURE() << made.error().message;
    return nullptr;
  }
  const void *bound[] = {nullptr, weights.data()};
  const Result<void> result = (*made)->bind(bound);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*made);
}

float firstResult(Compiled &compiled) {
  std::vector<float> x(64, 1), y(64);
  const void *passed[] = {x.data(), nullptr};
  void *out[] = {y.data()};
  const Result<void> result = compiled.run(passed, out);
  EXPECT_TRUE(result) << result.error().message;
  return y[0];
}

uint64_t residentKiB(const char *field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field))
      return std::stoull(line.substr(line.find_first_of("0123456789")));
  return 0;
}

// Three weights are laid side by side before they are packed. Each layer uses the memory of the one before for that.
// Views that are computed as well would be written for nobody.
TEST(Outputs, ViewsOfInputsAreCopiedAndNotComputed) {
  Network net;
  const ValueId x = net.input(MORTISE_F16, {2, 1, 2, 5});
  net.output(net.reshape(x, {20}));
  net.output(net.reshape(net.reshape(x, {4, 5}), {5, 4}));
  auto compiled = check(net);
  ASSERT_TRUE(compiled);
  EXPECT_EQ(compiled->steps().size(), 2u) << compiled->text();
  EXPECT_FALSE(compiled->hasStep("generated")) << compiled->text();
}

TEST(PackedConstants, LayersShareTheMemoryThatOnlyBindingNeeds) {
  constexpr int64_t width = 512, layers = 16, weight = width * width;
  Network net;
  ValueId x = net.input(MORTISE_F32, {64, width});
  for (int64_t i = 0; i < layers; ++i) {
    const ValueId q = net.linear(x, net.weight({width, width})), k = net.linear(x, net.weight({width, width})),
                  v = net.linear(x, net.weight({width, width}));
    x = net.op("max", {q, net.op("min", {k, v})});
  }
  net.output(x);
  const auto compiled = Compiled::make(net.finish());
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_TRUE((*compiled)->hasStep("side by side"));
  std::vector<float> weights(3 * layers * weight);
  std::vector<const void *> bound{nullptr};
  for (size_t i = 0; i < 3 * layers; ++i) {
    std::fill_n(weights.begin() + static_cast<int64_t>(i) * weight, weight, static_cast<float>(i));
    bound.push_back(&weights[i * weight]);
  }
  if (!(std::ofstream("/proc/self/clear_refs") << 5).flush())
    GTEST_SKIP() << "the kernel does not reset the peak of resident memory";
  const uint64_t before = residentKiB("VmRSS");
  const Result<void> result = (*compiled)->bind(bound);
  ASSERT_TRUE(result) << result.error().message;
  const uint64_t peak = residentKiB("VmHWM") - before, packed = (*compiled)->packedBytes / 1024;
  EXPECT_GE(packed, 3 * layers * weight * 4 / 1024);
  EXPECT_LE(peak, packed + packed / 4 + 8192) << "KiB; each layer has memory of its own";
}

// With a hash of no bits all packed constants collide, so that only their comparison decides which are shared.
TEST(PackedConstants, AreComparedWhenTheirHashesCollide) {
  std::vector<float> a(64 * 64, 0.5f), b(64 * 64, 0.5f);
  b[1] = 2; // in the first row but not in the first column
  auto first = rowSum(a), second = rowSum(b);
  ASSERT_TRUE(first && second);
  EXPECT_GT(first->packedBytes, 0u) << "the test shows nothing: the weights are not packed";
  EXPECT_GT(second->packedBytes, 0u) << "other contents were shared";
  EXPECT_EQ(firstResult(*first), 32);
  EXPECT_EQ(firstResult(*second), 33.5f);

  // Other steps read the same tensor. The result tells whether the block was shared, because below AVX-512 the library
  // reads this layout in place and packs nothing.
  auto turned = rowSum(b, true);
  ASSERT_TRUE(turned);
  EXPECT_EQ(firstResult(*turned), 32);

  auto again = rowSum(b); // the same tensor
  ASSERT_TRUE(again);
  EXPECT_EQ(again->packedBytes, 0u);
  EXPECT_EQ(firstResult(*again), 33.5f);

  // Equal contents elsewhere are shared, even if the tensor they were first packed from is gone and its memory reused.
  auto equal = std::make_unique<std::vector<float>>(a);
  auto third = rowSum(*equal);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->packedBytes, 0u) << "equal contents were not shared";
  first.reset();
  a.assign(a.size(), 3);
  auto other = rowSum(a);
  ASSERT_TRUE(other);
  EXPECT_GT(other->packedBytes, 0u) << "other contents at an address that was used before were shared";
  EXPECT_EQ(firstResult(*other), 192);
  const std::vector<float> later(64 * 64, 0.5f);
  auto fourth = rowSum(later);
  ASSERT_TRUE(fourth);
  EXPECT_EQ(fourth->packedBytes, 0u);
  third.reset();
  equal.reset();
  EXPECT_EQ(firstResult(*fourth), 32);
}

} // namespace
} // namespace mortise::test
