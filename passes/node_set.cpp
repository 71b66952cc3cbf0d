// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "node_set.hpp"

#include <mortise/graph.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace mortise::passes {

NodeSet setOf(std::span<const uint32_t> nodes, size_t size) {
  NodeSet set(size);
  for (uint32_t node : nodes)
    set.insert(node);
  return set;
}

bool inRange(const MortiseGraph &graph, const MortiseAlias &alias) {
  return alias.input < graph.input_count && alias.output < graph.output_count;
}

bool isLiteral(const MortiseNode &node) { return isOp(node, Op::Constant); }

NodeGraph::NodeGraph(const MortiseGraph &graph) {
  starts.push_back(0);
  for (size_t n = 0; n < graph.node_count; ++n) {
    const MortiseNode &node = *graph.nodes[n];
    const size_t first = edges.size();
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i] && node.operands[i]->producer)
        edges.push_back(node.operands[i]->producer->index);
    std::sort(edges.begin() + static_cast<ptrdiff_t>(first), edges.end());
    edges.erase(std::unique(edges.begin() + static_cast<ptrdiff_t>(first), edges.end()), edges.end());
    starts.push_back(static_cast<uint32_t>(edges.size()));
  }
}

bool NodeGraph::convex(std::span<const uint32_t> set) const {
  if (set.size() < 2)
    return true;
  // Edges lead to nodes with higher numbers, so a path that leaves the set and returns stays between its first and last
  // node.
  enum Place : uint8_t { Outside, After, Inside }; // After: outside, but reached from the set
  const uint32_t first = set.front(), last = set.back();
  std::vector<Place> place(last - first + 1, Outside);
  for (uint32_t node : set)
    place[node - first] = Inside;
  for (uint32_t node = first; node <= last; ++node)
    for (uint32_t producer : before(node)) {
      if (producer < first || place[producer - first] == Outside)
        continue;
      if (place[node - first] == Inside) {
        if (place[producer - first] == After)
          return false;
      } else {
        place[node - first] = After;
      }
    }
  return true;
}

std::vector<uint32_t> NodeGraph::order(std::span<const uint32_t> group, uint32_t groupCount) const {
  std::vector<std::pair<uint32_t, uint32_t>> links; // producer's group, user's group
  std::vector<uint32_t> pending(groupCount), smallest(groupCount, UINT32_MAX), firstLink(groupCount + 1);
  for (uint32_t node = 0; node < size(); ++node) {
    smallest[group[node]] = std::min(smallest[group[node]], node);
    for (uint32_t producer : before(node))
      if (group[producer] != group[node]) {
        links.emplace_back(group[producer], group[node]);
        ++pending[group[node]];
        ++firstLink[group[producer] + 1];
      }
  }
  std::partial_sum(firstLink.begin(), firstLink.end(), firstLink.begin());
  std::vector<uint32_t> users(links.size()), next(firstLink.begin(), firstLink.end() - 1);
  for (const auto &[from, to] : links)
    users[next[from]++] = to;
  using Entry = std::pair<uint32_t, uint32_t>; // smallest node, group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t g = 0; g < groupCount; ++g)
    if (pending[g] == 0)
      ready.emplace(smallest[g], g);
  std::vector<uint32_t> result;
  while (!ready.empty()) {
    const uint32_t g = ready.top().second;
    ready.pop();
    result.push_back(g);
    for (uint32_t i = firstLink[g]; i < firstLink[g + 1]; ++i)
      if (--pending[users[i]] == 0)
        ready.emplace(smallest[users[i]], users[i]);
  }
  if (result.size() != groupCount)
    result.clear();
  return result;
}

} // namespace mortise::passes
