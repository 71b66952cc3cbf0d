// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sets of nodes, and two checks: whether a set is convex, and whether several sets form an acyclic graph.
#pragma once

#include <mortise/plugin.h>

#include <cstdint>
#include <span>
#include <vector>

namespace mortise::passes {

class NodeSet {
public:
  explicit NodeSet(size_t size) : words((size + 63) / 64) {}
  void insert(uint32_t node) { words[node / 64] |= uint64_t(1) << (node % 64); }
  bool contains(uint32_t node) const { return words[node / 64] >> (node % 64) & 1; }
  void add(const NodeSet &other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] |= other.words[i];
  }
  void remove(const NodeSet &other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] &= ~other.words[i];
  }
  bool intersects(const NodeSet &other) const {
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i] & other.words[i])
        return true;
    return false;
  }

private:
  std::vector<uint64_t> words;
};

NodeSet setOf(std::span<const uint32_t> nodes, size_t size);

// The predecessors of every node, each listed once. Relies on the topological order of a MortiseGraph's nodes.
class NodeGraph {
public:
  explicit NodeGraph(const MortiseGraph &graph);
  size_t size() const { return starts.size() - 1; }
  std::span<const uint32_t> before(uint32_t node) const {
    return {edges.data() + starts[node], edges.data() + starts[node + 1]};
  }

  // Whether no path leaves the set and returns to it. `set` lists the nodes in ascending order.
  bool convex(std::span<const uint32_t> set) const;

  // Sorts groups of nodes so that producers come before users; ties go to the group with the smallest node. `group[n]`
  // is the number of node n's group. Returns an empty list when the groups form a cycle.
  std::vector<uint32_t> order(std::span<const uint32_t> group, uint32_t groupCount) const;

private:
  std::vector<uint32_t> starts, edges;
};

// Whether the alias names an input and an output that there are. The plan writer refuses others, after placement.
bool inRange(const MortiseGraph &graph, const MortiseAlias &alias);

// Whether the node is a literal, whose value the host can pass to a region without running anything.
bool isLiteral(const MortiseNode &node);

} // namespace mortise::passes
