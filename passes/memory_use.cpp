// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "memory_use.hpp"

#include "node_set.hpp"

#include <mortise/graph.hpp>

#include <algorithm>
#include <vector>

namespace mortise::passes {

uint64_t memoryUse(const MortiseGraph &graph, std::span<const uint32_t> nodes,
                   const std::function<bool(uint32_t input)> &isThere) {
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(graph.value_count);
  uint64_t constants = 0;
  for (size_t step = 0; step < nodes.size(); ++step) {
    const MortiseNode &node = *graph.nodes[nodes[step]];
    const auto use = [&](const MortiseValue *value) {
      if (!value || (value->producer && isLiteral(*value->producer)))
        return;
      Life &life = lives[value->index];
      if (life.first == SIZE_MAX && (value->flags & MORTISE_VALUE_CONSTANT) && isStatic(*value->type))
        constants += byteSize(*value->type);
      life.first = std::min(life.first, step);
      life.last = step;
    };
    std::for_each(node.operands, node.operands + node.operand_count, use);
    std::for_each(node.results, node.results + node.result_count, use);
  }
  std::vector<int64_t> changes(nodes.size() + 1); // of the bytes that are held, at each step
  for (uint32_t v = 0; v < graph.value_count; ++v) {
    const MortiseValue &value = *graph.values[v];
    if (lives[v].first == SIZE_MAX || (value.flags & MORTISE_VALUE_CONSTANT) || !isStatic(*value.type) ||
        (!value.producer && isThere(value.result_index)))
      continue;
    const auto bytes = static_cast<int64_t>(byteSize(*value.type));
    changes[lives[v].first] += bytes;
    changes[lives[v].last + 1] -= bytes;
  }
  int64_t held = 0, most = 0;
  for (const int64_t change : changes)
    most = std::max(most, held += change);
  return constants + static_cast<uint64_t>(most);
}

size_t countThatFits(const MortiseGraph &graph, std::span<const uint32_t> nodes, uint64_t bytes,
                     const std::function<bool(uint32_t input)> &isThere) {
  size_t fits = 0, beyond = nodes.size() + 1; // what fits grows with the beginning
  while (beyond - fits > 1) {
    const size_t middle = fits + (beyond - fits) / 2;
    (memoryUse(graph, nodes.first(middle), isThere) <= bytes ? fits : beyond) = middle;
  }
  return fits;
}

} // namespace mortise::passes
