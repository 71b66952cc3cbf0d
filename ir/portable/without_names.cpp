// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/graph.hpp>

#include <deque>

namespace mortise {

Result<std::shared_ptr<const Graph>> withoutNames(const MortiseGraph &graph) {
  std::vector<MortiseValue> values;
  for (const MortiseValue *value : std::span(graph.values, graph.value_count)) {
    values.push_back(*value);
    values.back().name = "";
  }
  std::deque<std::vector<const MortiseValue *>> lists;
  const auto own = [&](const MortiseValue *const *list, size_t count) {
    std::vector<const MortiseValue *> &made = lists.emplace_back();
    for (const MortiseValue *value : std::span(list, count))
      made.push_back(value ? &values[value->index] : nullptr);
    return made.data();
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
  MortiseGraph nameless = graph;
  nameless.name = "";
  nameless.nodes = nodeList.data();
  nameless.values = own(graph.values, graph.value_count);
  nameless.inputs = own(graph.inputs, graph.input_count);
  nameless.outputs = own(graph.outputs, graph.output_count);
  return Graph::copy(nameless);
}

} // namespace mortise
