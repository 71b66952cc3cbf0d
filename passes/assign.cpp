// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "assign.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include <algorithm>
#include <set>

namespace mortise::passes {
namespace {

// Stands for what must not be: more than any placement costs, and little enough for sums to stay exact to a nanosecond.
constexpr double forbidden = 1e15;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Vertex {
  boost::default_color_type color = boost::white_color;
  long distance = 0;
  Traits::edge_descriptor predecessor;
};
struct Edge {
  double capacity = 0, residual = 0;
  Traits::edge_descriptor reverse;
};

// A network whose minimum cut divides the vertices into the side of the source and that of the sink.
class Cut {
public:
  explicit Cut(size_t vertices) : source(vertices), sink(vertices + 1), graph(vertices + 2) {}

  const size_t source, sink;

  // Costs `capacity` where `from` is on the source's side and `to` on the sink's.
  void edge(size_t from, size_t to, double capacity) {
    if (capacity <= 0)
      return;
    const auto there = boost::add_edge(from, to, graph).first, back = boost::add_edge(to, from, graph).first;
    graph[there].capacity = capacity;
    graph[there].reverse = back;
    graph[back].reverse = there;
  }
  void ifOnSource(size_t vertex, double cost) { edge(vertex, sink, cost); }
  void ifOnSink(size_t vertex, double cost) { edge(source, vertex, cost); }
  // Costs `capacity` once, where `from` is on the source's side and any of `others` on the sink's.
  void edgeToAny(size_t from, const std::vector<size_t> &others, double capacity) {
    if (capacity <= 0 || others.empty())
      return;
    const size_t any = boost::add_vertex(graph);
    edge(from, any, capacity);
    for (const size_t other : others)
      edge(any, other, forbidden);
  }
  // Costs `capacity` once, where any of `others` is on the source's side and `to` on the sink's.
  void edgeFromAny(const std::vector<size_t> &others, size_t to, double capacity) {
    if (capacity <= 0 || others.empty())
      return;
    const size_t any = boost::add_vertex(graph);
    edge(any, to, capacity);
    for (const size_t other : others)
      edge(other, any, forbidden);
  }
  void solve() {
    boost::boykov_kolmogorov_max_flow(graph, boost::get(&Edge::capacity, graph), boost::get(&Edge::residual, graph),
                                      boost::get(&Edge::reverse, graph), boost::get(&Vertex::predecessor, graph),
                                      boost::get(&Vertex::color, graph), boost::get(&Vertex::distance, graph),
                                      boost::get(boost::vertex_index, graph), source, sink);
  }
  bool onSource(size_t vertex) const { return graph[vertex].color == boost::black_color; }

private:
  boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Vertex, Edge> graph;
};

class Exchange {
public:
  explicit Exchange(const AssignmentProblem &problem) : problem(problem), graph(problem.graph) {
    uses.resize(graph.value_count);
    outputs.resize(graph.value_count);
    for (size_t i = 0; i < graph.output_count; ++i)
      outputs[graph.outputs[i]->index].insert(problem.outputs[i]);
    for (uint32_t n = 0; n < graph.node_count; ++n)
      for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
        if (const MortiseValue *value = graph.nodes[n]->operands[i])
          if (auto &list = uses[value->index]; list.empty() || list.back() != n)
            list.push_back(n);
  }

  // The sum of nodes and moves.
  double cost(const std::vector<uint32_t> &targets) const {
    double total = 0;
    for (uint32_t n = 0; n < graph.node_count; ++n)
      if (!isLiteral(*graph.nodes[n]))
        total += std::min(problem.ns[targets[n]][n], forbidden);
    for (size_t v = 0; v < graph.value_count; ++v) {
      const MortiseValue &value = *graph.values[v];
      if (!moves(value))
        continue;
      const uint32_t from = spaceOf(value, targets);
      std::set<uint32_t> to = outputs[v];
      for (const uint32_t user : uses[v])
        to.insert(problem.spaces[targets[user]]);
      for (const uint32_t space : to)
        total += move(value, from, space);
    }
    return total;
  }

  // The best exchange of nodes between targets a and b.
  void exchange(std::vector<uint32_t> &targets, uint32_t a, uint32_t b) const {
    constexpr size_t fixed = SIZE_MAX;
    std::vector<size_t> vertex(graph.node_count, fixed);
    size_t count = 0;
    for (uint32_t n = 0; n < graph.node_count; ++n)
      if ((targets[n] == a || targets[n] == b) && !isLiteral(*graph.nodes[n]))
        vertex[n] = count++;
    if (count == 0)
      return;
    Cut cut(count);
    for (uint32_t n = 0; n < graph.node_count; ++n)
      if (vertex[n] != fixed) {
        cut.ifOnSource(vertex[n], std::min(problem.ns[a][n], forbidden));
        cut.ifOnSink(vertex[n], std::min(problem.ns[b][n], forbidden));
      }
    const uint32_t spaceA = problem.spaces[a], spaceB = problem.spaces[b];
    for (size_t v = 0; v < graph.value_count; ++v) {
      const MortiseValue &value = *graph.values[v];
      if (!moves(value))
        continue;
      std::vector<size_t> users;
      std::set<uint32_t> elsewhere = outputs[v];
      for (const uint32_t user : uses[v])
        if (vertex[user] != fixed)
          users.push_back(vertex[user]);
        else
          elsewhere.insert(problem.spaces[targets[user]]);
      const bool free = value.producer && vertex[value.producer->index] != fixed;
      const size_t producer = free ? vertex[value.producer->index] : fixed;
      const uint32_t fromA = free ? spaceA : spaceOf(value, targets), fromB = free ? spaceB : fromA;
      if (free)
        for (const uint32_t space : elsewhere) {
          cut.ifOnSource(producer, move(value, spaceA, space));
          cut.ifOnSink(producer, move(value, spaceB, space));
        }
      if (!elsewhere.contains(spaceB))
        cut.edgeToAny(free ? producer : cut.source, users, move(value, fromA, spaceB));
      if (!elsewhere.contains(spaceA))
        cut.edgeFromAny(users, free ? producer : cut.sink, move(value, fromB, spaceA));
    }
    cut.solve();
    for (uint32_t n = 0; n < graph.node_count; ++n)
      if (vertex[n] != fixed)
        targets[n] = cut.onSource(vertex[n]) ? a : b;
  }

private:
  static bool moves(const MortiseValue &value) {
    return !(value.flags & MORTISE_VALUE_CONSTANT) && !(value.producer && isLiteral(*value.producer));
  }
  double move(const MortiseValue &value, uint32_t from, uint32_t to) const {
    return from == to ? 0 : problem.move(value, from, to);
  }
  uint32_t spaceOf(const MortiseValue &value, const std::vector<uint32_t> &targets) const {
    return value.producer ? problem.spaces[targets[value.producer->index]] : problem.inputs[value.result_index];
  }

  const AssignmentProblem &problem;
  const MortiseGraph &graph;
  std::vector<std::vector<uint32_t>> uses; // per value: the nodes that read it
  std::vector<std::set<uint32_t>> outputs; // per value: the memories in which the caller wants it
};

} // namespace

void improveAssignment(const AssignmentProblem &problem, std::vector<uint32_t> &targets) {
  const Exchange exchange(problem);
  const auto count = static_cast<uint32_t>(problem.ns.size());
  double best = exchange.cost(targets);
  constexpr int most = 8; // rounds
  for (int round = 0; round < most; ++round) {
    bool better = false;
    for (uint32_t a = 0; a < count; ++a)
      for (uint32_t b = a + 1; b < count; ++b) {
        std::vector<uint32_t> trial = targets;
        exchange.exchange(trial, a, b);
        if (const double cost = exchange.cost(trial); cost < best * (1 - 1e-9)) {
          best = cost;
          targets = std::move(trial);
          better = true;
        }
      }
    if (!better)
      return;
  }
}

std::vector<Run> runsOf(const MortiseGraph &graph, const std::vector<uint32_t> &targets) {
  constexpr uint32_t none = UINT32_MAX;
  const NodeGraph nodes(graph);
  std::vector<std::vector<uint32_t>> users(graph.node_count);
  std::vector<uint32_t> waiting(graph.node_count);
  const uint32_t targetCount = graph.node_count ? *std::ranges::max_element(targets) + 1 : 0;
  std::vector<std::vector<uint32_t>> ready(targetCount); // per target: nodes that wait for nothing
  for (uint32_t n = 0; n < graph.node_count; ++n) {
    if (isLiteral(*graph.nodes[n]))
      continue;
    for (const uint32_t producer : nodes.before(n))
      if (!isLiteral(*graph.nodes[producer])) {
        users[producer].push_back(n);
        ++waiting[n];
      }
    if (waiting[n] == 0)
      ready[targets[n]].push_back(n);
  }
  // What a target can run now without the others. `freed` receives the nodes of others that then wait for nothing.
  const auto closure = [&](uint32_t target, std::vector<uint32_t> &left, std::vector<uint32_t> &freed) {
    std::vector<uint32_t> found = ready[target];
    for (size_t i = 0; i < found.size(); ++i)
      for (const uint32_t user : users[found[i]])
        if (--left[user] == 0)
          (targets[user] == target ? found : freed).push_back(user);
    return found;
  };
  std::vector<Run> runs;
  while (std::ranges::any_of(ready, [](const auto &list) { return !list.empty(); })) {
    Run best;
    std::vector<uint32_t> freed;
    for (uint32_t target = 0; target < targetCount; ++target) {
      std::vector<uint32_t> left = waiting, ignored;
      if (std::vector<uint32_t> found = closure(target, left, ignored); found.size() > best.nodes.size())
        best = {target, std::move(found)};
    }
    closure(best.target, waiting, freed);
    ready[best.target].clear();
    for (const uint32_t node : freed)
      ready[targets[node]].push_back(node);
    std::ranges::sort(best.nodes);
    runs.push_back(std::move(best));
  }
  // A literal that one run alone reads lies in it. The host supplies others.
  std::vector<uint32_t> only(graph.node_count, none);
  constexpr uint32_t several = none - 1;
  for (uint32_t run = 0; run < runs.size(); ++run)
    for (const uint32_t node : runs[run].nodes)
      for (const uint32_t producer : nodes.before(node))
        if (isLiteral(*graph.nodes[producer]))
          only[producer] = only[producer] == none || only[producer] == run ? run : several;
  for (size_t i = 0; i < graph.output_count; ++i)
    if (const MortiseNode *producer = graph.outputs[i]->producer)
      only[producer->index] = isLiteral(*producer) ? several : none;
  for (uint32_t n = 0; n < graph.node_count; ++n)
    if (isLiteral(*graph.nodes[n]) && only[n] < runs.size()) {
      auto &into = runs[only[n]].nodes;
      into.insert(std::ranges::lower_bound(into, n), n);
    }
  return runs;
}

} // namespace mortise::passes
