// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/graph.hpp>

#include <deque>

namespace mortise {
namespace {

// The numbers of the inputs, those that nodes use first coming first, and those that no node uses last.
std::vector<uint32_t> inputsByUse(const MortiseGraph &graph) {
  std::vector<uint32_t> order;
  std::vector<bool> listed(graph.input_count);
  const auto list = [&](uint32_t input) {
    if (!listed[input])
      order.push_back(input);
    listed[input] = true;
  };
  for (const MortiseNode *node : std::span(graph.nodes, graph.node_count))
    for (const MortiseValue *operand : std::span(node->operands, node->operand_count))
      if (operand && !operand->producer)
        list(operand->result_index);
  for (uint32_t input = 0; input < graph.input_count; ++input)
    list(input);
  return order;
}

} // namespace

Result<std::shared_ptr<const Graph>> canonical(const MortiseGraph &graph) {
  const std::vector<uint32_t> inputs = inputsByUse(graph);
  std::vector<uint32_t> position(graph.input_count); // of an input, by its number
  std::vector<MortiseValue> values;
  values.reserve(graph.value_count);
  std::vector<const MortiseValue *> made(graph.value_count); // by the value's number in `graph`
  const auto add = [&](const MortiseValue &value) {
    MortiseValue &copy = values.emplace_back(value);
    copy.name = "";
    copy.flags &= ~uint32_t(MORTISE_VALUE_DONATED);
    copy.index = static_cast<uint32_t>(values.size() - 1);
    made[value.index] = &copy;
  };
  for (const uint32_t input : inputs) {
    position[input] = static_cast<uint32_t>(values.size());
    add(*graph.inputs[input]);
    values.back().result_index = position[input];
  }
  for (const MortiseValue *value : std::span(graph.values, graph.value_count))
    if (value->producer)
      add(*value);
  std::deque<std::vector<const MortiseValue *>> lists;
  const auto own = [&](const MortiseValue *const *list, size_t count) {
    std::vector<const MortiseValue *> &copies = lists.emplace_back();
    for (const MortiseValue *value : std::span(list, count))
      copies.push_back(value ? made[value->index] : nullptr);
    return copies.data();
  };
  std::deque<MortiseNode> nodes;
  std::vector<const MortiseNode *> nodeList;
  for (const MortiseNode *node : std::span(graph.nodes, graph.node_count)) {
    MortiseNode &copy = nodes.emplace_back(*node);
    copy.location = "";
    copy.operands = own(node->operands, node->operand_count);
    copy.results = own(node->results, node->result_count);
    nodeList.push_back(&copy);
  }
  std::deque<MortiseAlias> aliases;
  std::vector<const MortiseAlias *> aliasList;
  for (const MortiseAlias *alias : std::span(graph.aliases, graph.alias_count)) {
    MortiseAlias &copy = aliases.emplace_back(*alias);
    copy.input = position[alias->input];
    aliasList.push_back(&copy);
  }
  std::vector<const MortiseValue *> all, inputList;
  for (const MortiseValue &value : values)
    all.push_back(&value);
  inputList.assign(all.begin(), all.begin() + static_cast<ptrdiff_t>(graph.input_count));
  MortiseGraph form = graph;
  form.name = "";
  form.nodes = nodeList.data();
  form.values = all.data();
  form.inputs = inputList.data();
  form.outputs = own(graph.outputs, graph.output_count);
  form.aliases = aliasList.data();
  return Graph::copy(form);
}

} // namespace mortise
