// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../assign.hpp"
#include "fixture.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

namespace mortise::passes::test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Random nodes of one or two operands, a literal among them, and random prices.
struct Random {
  explicit Random(uint64_t seed, size_t count, size_t targetCount, bool literal = false) : random(seed) {
    std::vector<uint32_t> values{maker.input(), maker.input(MORTISE_VALUE_CONSTANT)};
    for (size_t n = 0; n < count; ++n) {
      const auto pick = [&] { return values[random() % values.size()]; };
      if (literal && n == count / 2)
        values.push_back(maker.literal());
      else
        values.push_back(random() % 2 ? maker.node("mortise.exp", {pick()})
                                      : maker.node("mortise.add", {pick(), pick()}));
    }
    maker.output(values.back());
    maker.output(values[values.size() / 2]);
    for (size_t target = 0; target < targetCount; ++target) {
      ns.emplace_back();
      for (size_t n = 0; n < count; ++n)
        ns.back().push_back(target == 1 && random() % 4 == 0 ? infinite : uniform(1, 100));
    }
  }
  double uniform(double low, double high) { return std::uniform_real_distribution(low, high)(random); }

  std::mt19937_64 random;
  GraphMaker maker;
  std::vector<std::vector<double>> ns;
};

AssignmentProblem problemOf(const MortiseGraph &graph, const Random &made, std::vector<uint32_t> spaces,
                            uint32_t outside) {
  return {graph,
          made.ns,
          std::move(spaces),
          std::vector<uint32_t>(graph.input_count, outside),
          std::vector<uint32_t>(graph.output_count, outside),
          [](const MortiseValue &value, uint32_t from, uint32_t to) {
            return 10.0 + value.index % 7 + (from < to ? 5 : 0);
          }};
}

// The sum that improveAssignment makes small, written anew.
double costOf(const AssignmentProblem &problem, const std::vector<uint32_t> &targets) {
  const MortiseGraph &graph = problem.graph;
  double total = 0;
  std::set<std::pair<const MortiseValue *, uint32_t>> there;
  const auto use = [&](const MortiseValue &value, uint32_t to) {
    const uint32_t from =
        value.producer ? problem.spaces[targets[value.producer->index]] : problem.inputs[value.result_index];
    if (from != to && !(value.flags & MORTISE_VALUE_CONSTANT) && there.emplace(&value, to).second)
      total += problem.move(value, from, to);
  };
  for (uint32_t n = 0; n < graph.node_count; ++n) {
    total += problem.ns[targets[n]][n];
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      use(*graph.nodes[n]->operands[i], problem.spaces[targets[n]]);
  }
  for (size_t i = 0; i < graph.output_count; ++i)
    use(*graph.outputs[i], problem.outputs[i]);
  return total;
}

TEST(Assign, TwoTargetsAreAssignedBest) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    constexpr size_t count = 8;
    Random made(seed, count, 2);
    const MortiseGraph &graph = made.maker.view();
    const AssignmentProblem problem = problemOf(graph, made, {UINT32_MAX, 1}, UINT32_MAX);
    double best = infinite;
    for (uint32_t bits = 0; bits < 1u << count; ++bits) {
      std::vector<uint32_t> targets(count);
      for (size_t n = 0; n < count; ++n)
        targets[n] = bits >> n & 1;
      best = std::min(best, costOf(problem, targets));
    }
    for (const uint32_t start : {0u, 1u}) {
      std::vector<uint32_t> targets(count, start);
      improveAssignment(problem, targets);
      EXPECT_NEAR(costOf(problem, targets), best, 1e-6) << "seed " << seed << " from " << start;
    }
  }
}

TEST(Assign, ThreeTargetsGetBetter) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random made(seed, 30, 3);
    const MortiseGraph &graph = made.maker.view();
    const AssignmentProblem problem = problemOf(graph, made, {UINT32_MAX, 1, 2}, UINT32_MAX);
    for (const uint32_t start : {0u, 2u}) {
      std::vector<uint32_t> targets(30, start);
      const double before = costOf(problem, targets);
      improveAssignment(problem, targets);
      EXPECT_LT(costOf(problem, targets), before) << "seed " << seed << " from " << start;
    }
  }
}

TEST(Assign, RunsAreConvexAndInOrder) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    constexpr size_t count = 40;
    Random made(seed, count, 3, /*literal=*/true);
    const MortiseGraph &graph = made.maker.view();
    std::vector<uint32_t> targets(count);
    for (uint32_t &target : targets)
      target = static_cast<uint32_t>(made.random() % 3);
    std::vector<int> runOf(count, -1);
    const NodeGraph nodes(graph);
    int number = 0;
    for (const passes::Run &run : runsOf(graph, targets)) {
      EXPECT_TRUE(nodes.convex(run.nodes));
      for (const uint32_t node : run.nodes) {
        EXPECT_EQ(runOf[node], -1) << "node " << node << " lies in two runs";
        runOf[node] = number;
        if (!isLiteral(*graph.nodes[node])) {
          EXPECT_EQ(targets[node], run.target);
        }
      }
      ++number;
    }
    for (uint32_t node = 0; node < count; ++node) {
      if (isLiteral(*graph.nodes[node]))
        continue;
      EXPECT_GE(runOf[node], 0) << "node " << node << " lies in no run";
      for (const uint32_t producer : nodes.before(node))
        EXPECT_LE(runOf[producer], runOf[node]);
    }
  }
}

} // namespace
} // namespace mortise::passes::test
