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

// The nodes of a region. Takes room for what lies between its first and its last node, and no more: small regions of
// large graphs are cut by the thousand.
class Members {
public:
  explicit Members(std::span<const uint32_t> nodes)
      : begin(nodes.empty() ? 0 : nodes.front()), end(nodes.empty() ? 0 : nodes.back() + 1), inside(end - begin) {
    for (uint32_t node : nodes)
      inside[node - begin] = true;
  }
  bool contains(uint32_t node) const { return node >= begin && node < end && inside[node - begin]; }
  bool make(const MortiseValue &value) const { return value.producer && contains(value.producer->index); }

  const uint32_t begin, end;

private:
  std::vector<bool> inside;
};

Result<void> checkList(const MortiseGraph &graph, std::span<const uint32_t> nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] >= graph.node_count)
      return invalid("a region names node " + std::to_string(nodes[i]) + " of " + std::to_string(graph.node_count));
    if (i && nodes[i] <= nodes[i - 1])
      return invalid("expected a region's nodes in ascending order, found " + std::to_string(nodes[i]) + " after " +
                     std::to_string(nodes[i - 1]));
  }
  return {};
}

// Checks that no path leaves the region and returns to it.
Result<void> checkConvex(const MortiseGraph &graph, const Members &members) {
  std::vector<bool> left(members.end - members.begin); // nodes outside that depend on the region
  for (uint32_t i = members.begin; i < members.end; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    for (size_t j = 0; j < node.operand_count; ++j) {
      const MortiseNode *producer = node.operands[j] ? node.operands[j]->producer : nullptr;
      if (!producer || producer->index < members.begin)
        continue;
      const bool depends = left[producer->index - members.begin];
      if (members.contains(i) && depends)
        return invalid("the region is not convex: " + describe(node) + " in it needs " + describe(*producer) +
                       " outside, which needs the region; add that node or split the region");
      if (!members.contains(i) && (members.contains(producer->index) || depends))
        left[i - members.begin] = true;
    }
  }
  return {};
}

class Extractor {
public:
  Extractor(const MortiseGraph &graph, std::span<const uint32_t> nodes, const Members &members)
      : whole(graph), list(nodes), members(members) {}

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
    std::vector<uint32_t> used; // own values, once per use
    for (uint32_t n : list) {
      const MortiseNode &node = *whole.nodes[n];
      for (size_t j = 0; j < node.operand_count; ++j)
        if (const MortiseValue *operand = node.operands[j])
          (members.make(*operand) ? used : region.inputs).push_back(operand->index);
    }
    std::ranges::sort(used);
    std::ranges::sort(region.inputs);
    region.inputs.erase(std::ranges::unique(region.inputs).begin(), region.inputs.end());
    for (uint32_t n : list)
      for (size_t j = 0; j < whole.nodes[n]->result_count; ++j) {
        const MortiseValue &result = *whole.nodes[n]->results[j];
        own.push_back(result.index);
        if (const auto uses = std::ranges::equal_range(used, result.index); uses.size() < result.use_count)
          region.outputs.push_back(result.index);
      }
    std::ranges::sort(region.outputs);
    firstOwn = own.empty() ? 0 : *std::ranges::min_element(own);
    local.resize(own.empty() ? 0 : *std::ranges::max_element(own) - firstOwn + 1, absent);
  }

  void addValue(uint32_t index) {
    MortiseValue value = *whole.values[index];
    value.flags &= ~uint32_t(MORTISE_VALUE_DONATED);
    value.index = static_cast<uint32_t>(values.size());
    values.push_back(value);
  }

  void makeValues() {
    values.reserve(region.inputs.size() + own.size());
    for (uint32_t input : region.inputs)
      addValue(input);
    for (uint32_t result : own) {
      local[result - firstOwn] = static_cast<uint32_t>(values.size());
      addValue(result);
    }
    for (const MortiseValue &value : values)
      valueList.push_back(&value);
  }

  const MortiseValue *localValue(uint32_t index) const {
    if (index >= firstOwn && index - firstOwn < local.size() && local[index - firstOwn] != absent)
      return &values[local[index - firstOwn]];
    return &values[position(region.inputs, index)]; // inputs come first
  }

  std::vector<const MortiseValue *> locals(const std::vector<uint32_t> &indices) {
    std::vector<const MortiseValue *> list;
    for (uint32_t index : indices)
      list.push_back(localValue(index));
    return list;
  }

  void makeNodes() {
    size_t lists = 0;
    for (uint32_t node : list)
      lists += whole.nodes[node]->operand_count + whole.nodes[node]->result_count;
    nodeValues.reserve(lists);
    nodes.reserve(list.size());
    for (uint32_t index : list) {
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
      nodeValues.push_back(from[i] ? localValue(from[i]->index) : nullptr);
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
  std::span<const uint32_t> list;
  const Members &members;
  std::vector<uint32_t> own;   // the values that the region makes
  uint32_t firstOwn = 0;       // the least of them
  std::vector<uint32_t> local; // from there on: a value's index in the region
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
  if (Result<void> checked = checkList(graph, nodes); !checked)
    return checked.error();
  const Members members(nodes);
  if (Result<void> convex = checkConvex(graph, members); !convex)
    return convex.error();
  return Extractor(graph, nodes, members).extract();
}

} // namespace mortise
