// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "limits.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/rewrite.hpp>

#include <algorithm>

namespace mortise {
namespace {

constexpr uint32_t absent = portable::noValue;

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

std::string describe(const MortiseNode &node) { return "node " + std::to_string(node.index) + " (" + node.op + ")"; }

Result<std::vector<bool>> membership(const MortiseGraph &graph, std::span<const uint32_t> nodes) {
  std::vector<bool> inside(graph.node_count);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] >= graph.node_count)
      return invalid("a region names node " + std::to_string(nodes[i]) + " of " + std::to_string(graph.node_count));
    if (i && nodes[i] <= nodes[i - 1])
      return invalid("expected a region's nodes in ascending order, found " + std::to_string(nodes[i]) + " after " +
                     std::to_string(nodes[i - 1]));
    inside[nodes[i]] = true;
  }
  return inside;
}

// Checks that no path leaves the region and returns to it.
Result<void> checkConvex(const MortiseGraph &graph, const std::vector<bool> &inside) {
  std::vector<bool> left(graph.node_count); // nodes outside that depend on the region
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    for (size_t j = 0; j < node.operand_count; ++j) {
      const MortiseNode *producer = node.operands[j] ? node.operands[j]->producer : nullptr;
      if (!producer)
        continue;
      if (inside[i] && left[producer->index])
        return invalid("the region is not convex: " + describe(node) + " in it needs " + describe(*producer) +
                       " outside, which needs the region; add that node or split the region");
      if (!inside[i] && (inside[producer->index] || left[producer->index]))
        left[i] = true;
    }
  }
  return {};
}

class Extractor {
public:
  Extractor(const MortiseGraph &graph, std::span<const uint32_t> nodes, std::vector<bool> inside)
      : whole(graph), members(nodes), inside(std::move(inside)), local(graph.value_count, absent) {}

  Result<Region> extract() {
    findBorder();
    makeValues();
    makeNodes();
    MortiseGraph view = copyStruct(whole);
    view.extension = nullptr;
    setList(view.values, view.value_count, valueList);
    setList(view.nodes, view.node_count, nodeList);
    std::vector<const MortiseValue *> inputList = locals(region.inputs), outputList = locals(region.outputs);
    setList(view.inputs, view.input_count, inputList);
    setList(view.outputs, view.output_count, outputList);
    makeAliases();
    setList(view.aliases, view.alias_count, aliasList);
    Result<std::shared_ptr<const Graph>> copied = Graph::copy(view);
    if (!copied)
      return copied.error();
    region.graph = *copied;
    return region;
  }

private:
  template <typename T> static void setList(const T *const *&list, size_t &count, const std::vector<const T *> &from) {
    list = from.data();
    count = from.size();
  }

  void findBorder() {
    std::vector<bool> needed(whole.value_count), leaves(whole.value_count);
    for (size_t i = 0; i < whole.node_count; ++i) {
      const MortiseNode &node = *whole.nodes[i];
      for (size_t j = 0; j < node.operand_count; ++j) {
        const MortiseValue *operand = node.operands[j];
        if (!operand)
          continue;
        bool made = operand->producer && inside[operand->producer->index];
        if (inside[i] && !made)
          needed[operand->index] = true;
        if (!inside[i] && made)
          leaves[operand->index] = true;
      }
    }
    for (size_t i = 0; i < whole.output_count; ++i)
      if (const MortiseNode *producer = whole.outputs[i]->producer; producer && inside[producer->index])
        leaves[whole.outputs[i]->index] = true;
    for (uint32_t i = 0; i < whole.value_count; ++i) {
      if (needed[i])
        region.inputs.push_back(i);
      if (leaves[i])
        region.outputs.push_back(i);
    }
  }

  void addValue(uint32_t index) {
    MortiseValue value = *whole.values[index];
    value.flags &= ~uint32_t(MORTISE_VALUE_DONATED);
    local[index] = value.index = static_cast<uint32_t>(values.size());
    values.push_back(value);
  }

  void makeValues() {
    values.reserve(whole.value_count);
    for (uint32_t input : region.inputs)
      addValue(input);
    for (uint32_t node : members)
      for (size_t j = 0; j < whole.nodes[node]->result_count; ++j)
        addValue(whole.nodes[node]->results[j]->index);
    for (const MortiseValue &value : values)
      valueList.push_back(&value);
  }

  const MortiseValue *localValue(const MortiseValue *value) { return value ? &values[local[value->index]] : nullptr; }

  std::vector<const MortiseValue *> locals(const std::vector<uint32_t> &indices) {
    std::vector<const MortiseValue *> list;
    for (uint32_t index : indices)
      list.push_back(&values[local[index]]);
    return list;
  }

  void makeNodes() {
    size_t lists = 0;
    for (uint32_t node : members)
      lists += whole.nodes[node]->operand_count + whole.nodes[node]->result_count;
    nodeValues.reserve(lists);
    nodes.reserve(members.size());
    for (uint32_t index : members) {
      MortiseNode node = copyStruct(*whole.nodes[index]);
      node.operands = append(node.operands, node.operand_count);
      node.results = append(node.results, node.result_count);
      nodes.push_back(node);
      nodeList.push_back(&nodes.back());
    }
  }

  const MortiseValue *const *append(const MortiseValue *const *from, size_t count) {
    size_t start = nodeValues.size();
    for (size_t i = 0; i < count; ++i)
      nodeValues.push_back(localValue(from[i]));
    return nodeValues.data() + start;
  }

  static uint32_t position(const std::vector<uint32_t> &list, uint32_t value) {
    auto found = std::lower_bound(list.begin(), list.end(), value);
    return found != list.end() && *found == value ? static_cast<uint32_t>(found - list.begin()) : absent;
  }

  void makeAliases() {
    std::vector<bool> taken(region.outputs.size()); // the whole graph may return a value several times
    aliases.reserve(whole.alias_count);
    for (size_t i = 0; i < whole.alias_count; ++i) {
      uint32_t input = position(region.inputs, whole.inputs[whole.aliases[i]->input]->index);
      uint32_t output = position(region.outputs, whole.outputs[whole.aliases[i]->output]->index);
      if (input == absent || output == absent || taken[output])
        continue;
      taken[output] = true;
      aliases.push_back({sizeof(MortiseAlias), nullptr, input, output});
      aliasList.push_back(&aliases.back());
    }
  }

  const MortiseGraph &whole;
  std::span<const uint32_t> members;
  std::vector<bool> inside;
  std::vector<uint32_t> local; // value index in the whole graph to the index in the region
  std::vector<MortiseValue> values;
  std::vector<MortiseNode> nodes;
  std::vector<MortiseAlias> aliases;
  std::vector<const MortiseValue *> valueList, nodeValues;
  std::vector<const MortiseNode *> nodeList;
  std::vector<const MortiseAlias *> aliasList;
  Region region;
};

} // namespace

Result<Region> extractRegion(const MortiseGraph &graph, std::span<const uint32_t> nodes) {
  Result<std::vector<bool>> inside = membership(graph, nodes);
  if (!inside)
    return inside.error();
  if (Result<void> convex = checkConvex(graph, *inside); !convex)
    return convex.error();
  return Extractor(graph, nodes, std::move(*inside)).extract();
}

} // namespace mortise
