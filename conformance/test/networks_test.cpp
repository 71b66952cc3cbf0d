// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <kit/network.hpp>
#include <networks/networks.hpp>

#include <gmock/gmock.h>

#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace mortise::conformance {
namespace {

using testing::HasSubstr;

// What the interpreter computes of a graph.
Tensors resultsOf(const MortiseGraph &view, const Tensors &inputs) {
  std::vector<const void *> sources;
  Tensors outputs;
  std::vector<void *> targets;
  for (const std::vector<std::byte> &input : inputs)
    sources.push_back(input.data());
  for (size_t i = 0; i < view.output_count; ++i)
    targets.push_back(outputs.emplace_back(byteSize(*view.outputs[i]->type)).data());
  const auto done = reference::interpret(view, sources, targets);
  EXPECT_TRUE(done) << view.name << ": " << done.error().message;
  return outputs;
}

MortiseGraph viewOf(Tape &tape) {
  MortiseGraph view = tape.builder.view();
  view.opset = MORTISE_OPSET;
  return view;
}

Tensors inputsOf(const Tape &tape) {
  std::mt19937_64 random(5);
  Tensors inputs;
  for (const Leaf &leaf : tape.leaves)
    inputs.push_back(filled(leaf, random));
  return inputs;
}

std::span<const double> numbers(const std::vector<std::byte> &bytes) {
  return {reinterpret_cast<const double *>(bytes.data()), bytes.size() / sizeof(double)};
}

// A function with its derivatives, in f64, for any inputs.
class Differentiated {
public:
  explicit Differentiated(const Function &of)
      : tape(MORTISE_F64), by(differentiate(tape, of)), view(viewOf(tape)), inputs(inputsOf(tape)) {}

  // The outputs where what is differentiated is moved by `step` times a direction.
  Tensors at(double step) {
    Tensors moved = inputs;
    for (size_t v = 0; v < by.size(); ++v) {
      auto *x = reinterpret_cast<double *>(moved[by[v]->result_index].data());
      for (size_t i = 0; i < static_cast<size_t>(elementCount(*by[v]->type)); ++i)
        x[i] += step * direction(v, i);
    }
    return resultsOf(view, moved);
  }
  double sumAt(double step) { return numbers(at(step)[0])[0]; }

  // The derivative along the direction, by the graph, and the sum of its terms' magnitudes.
  std::pair<double, double> slope() {
    const auto outputs = at(0);
    double sum = 0, size = 0;
    for (size_t v = 0; v < by.size(); ++v)
      for (size_t i = 0; i < numbers(outputs[v + 1]).size(); ++i) {
        const double term = numbers(outputs[v + 1])[i] * direction(v, i);
        sum += term;
        size += std::abs(term);
      }
    return {sum, size};
  }

  size_t count() const { return by.size(); }

private:
  static double direction(size_t v, size_t i) { return std::sin(1.7 * static_cast<double>(i + 1) + double(v)); }

  Tape tape;
  std::vector<Value> by;
  MortiseGraph view;
  Tensors inputs;
};

TEST(ConformanceNetworks, GradientsAreDerivatives) {
  for (const Function &function : differentiated()) {
    Differentiated made(function);
    constexpr double h = 1e-5;
    const double above = made.sumAt(h), below = made.sumAt(-h);
    const auto [slope, size] = made.slope();
    // The error of a central difference is a third derivative times h^2, and rounding over h.
    EXPECT_NEAR((above - below) / (2 * h), slope, 1e-7 * size + 1e-9) << function.name;
    EXPECT_GT(size, 0.01) << function.name;
    EXPECT_GE(made.count(), 1u) << function.name;
  }
}

TEST(ConformanceNetworks, AreWhatTheirOpsAllowInEveryType) {
  for (const Network &network : networks())
    for (const int32_t dtype : networkTypes) {
      const auto made = makeNetwork(network, dtype, 3);
      ASSERT_TRUE(made) << network.name << ": " << made.error().message;
      const MortiseGraph &view = made->graph->view();
      ASSERT_EQ(made->inputs[0].size(), view.input_count) << network.name;
      resultsOf(view, made->inputs[0]);
      for (size_t i = 0; i < view.input_count; ++i) {
        const bool isConstant = view.inputs[i]->flags & MORTISE_VALUE_CONSTANT;
        if (isConstant || made->inputs[0][i].size() > 16) // what is small may be equal by chance
          EXPECT_EQ(made->inputs[0][i] == made->inputs[1][i], isConstant) << network.name << ", input " << i;
      }
    }
}

// What a composite means is what the interpreter makes of it: in f64 only roundings lie between.
TEST(ConformanceNetworks, ExpansionsMeanWhatTheirCompositesDo) {
  std::set<Op> composites;
  for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op)
    if (has(static_cast<Op>(op), Trait::Composite))
      composites.insert(static_cast<Op>(op));
  std::set<Op> met;
  for (const Network &network : networks()) {
    Tape whole(MORTISE_F64), apart(MORTISE_F64, composites);
    network.make(whole);
    network.make(apart);
    const MortiseGraph view = viewOf(whole), expanded = viewOf(apart);
    for (const MortiseNode *node : std::span(view.nodes, view.node_count))
      if (has(*node, Trait::Composite))
        met.insert(opOf(*node));
    for (const MortiseNode *node : std::span(expanded.nodes, expanded.node_count))
      EXPECT_FALSE(has(*node, Trait::Composite)) << network.name << ": " << node->op;
    const Tensors one = resultsOf(view, inputsOf(whole)), other = resultsOf(expanded, inputsOf(apart));
    ASSERT_EQ(one.size(), other.size()) << network.name;
    for (size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(one[i].size(), other[i].size()) << network.name << ", output " << i;
      if (view.outputs[i]->type->dtype != MORTISE_F64)
        EXPECT_EQ(one[i], other[i]) << network.name << ", output " << i;
      else
        for (size_t e = 0; e < numbers(one[i]).size(); ++e)
          ASSERT_NEAR(numbers(one[i])[e], numbers(other[i])[e], 1e-9) << network.name << ", " << i << ", " << e;
    }
  }
  EXPECT_GE(met.size(), 20u);
}

TEST(ConformanceNetworks, NamesAreRead) {
  for (const Level level : {Level::Training, Level::Quantised, Level::Models})
    for (const Point &point : networkPoints(level, Extent::Full)) {
      const auto read = pointOf(idOf(point));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(*read, point);
    }
  for (const char *wrong :
       {"models/encoder/f32", "models/encoder/i8/#1", "models/nobody/f32/#1", "training/encoder/f32/#1"})
    EXPECT_FALSE(pointOf(wrong)) << wrong;
}

TEST(ConformanceNetworks, RegionsAreSavedAndRead) {
  const auto made = makeNetwork(networks().back(), MORTISE_F32, 1);
  ASSERT_TRUE(made);
  const RegionCase region{made->graph, made->inputs[0]};
  const std::string path = testing::TempDir() + "a.region";
  ASSERT_TRUE(saveRegion(region, "element 3: \"wrong\"", path));
  const auto read = readRegion(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->inputs, region.inputs);
  EXPECT_TRUE(std::ranges::equal(read->graph->bytes(), region.graph->bytes()));
  const auto size = std::filesystem::file_size(path);
  for (const auto kept : {size - 1, size / 2, uintmax_t(20), uintmax_t(0)}) {
    std::filesystem::resize_file(path, kept);
    const auto cut = readRegion(path);
    ASSERT_FALSE(cut) << kept;
    EXPECT_THAT(cut.error().message, HasSubstr(path));
  }
  std::ofstream(path) << R"({"format": "mortise-region-1", "graph": 18446744073709551615, "inputs": [1]})" << "\nabc";
  EXPECT_FALSE(readRegion(path));
}

// What a network computes does not change when its graph is read from a file, whole or with its composites apart.
TEST(ConformanceNetworks, GraphsOfFilesAreRecorded) {
  std::set<Op> composites;
  for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op)
    if (has(static_cast<Op>(op), Trait::Composite))
      composites.insert(static_cast<Op>(op));
  const std::string path = testing::TempDir() + "a.mrtg";
  size_t apart = 0;
  for (const Network &network : models()) {
    Tape tape(MORTISE_F64);
    network.make(tape);
    const auto graph = Graph::copy(viewOf(tape));
    ASSERT_TRUE(graph) << network.name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>((*graph)->bytes().data()), std::ssize((*graph)->bytes()));
    const auto whole = loadNetwork(path, 3), expanded = loadNetwork(path, 3, composites);
    ASSERT_TRUE(whole) << whole.error().message;
    ASSERT_TRUE(expanded) << expanded.error().message;
    const MortiseGraph &view = whole->graph->view();
    EXPECT_EQ(view.node_count, (*graph)->view().node_count) << network.name;
    EXPECT_EQ(view.alias_count, (*graph)->view().alias_count) << network.name;
    const Tensors one = resultsOf(view, whole->inputs[0]),
                  other = resultsOf(expanded->graph->view(), expanded->inputs[0]);
    ASSERT_EQ(one.size(), other.size()) << network.name;
    for (size_t i = 0; i < one.size(); ++i)
      if (view.outputs[i]->type->dtype == MORTISE_F64)
        for (size_t e = 0; e < numbers(one[i]).size(); ++e)
          ASSERT_NEAR(numbers(one[i])[e], numbers(other[i])[e], 1e-8) << network.name << ", " << i << ", " << e;
    apart += expanded->graph->view().node_count;
    EXPECT_GT(expanded->graph->view().node_count, view.node_count) << network.name;
  }
  EXPECT_GT(apart, 300u);
  std::ofstream(path) << "no graph";
  EXPECT_THAT(loadNetwork(path, 1).error().message, HasSubstr(path));
  EXPECT_THAT(loadNetwork(path + "s", 1).error().message, HasSubstr("found no file"));
}

} // namespace
} // namespace mortise::conformance
