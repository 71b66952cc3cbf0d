// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "graph/order.hpp"

#include "graph/expr.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace mortise::codegen {

std::string nameOf(const MortiseGraph &graph, const Group &group) {
  std::vector<std::string> ops;
  for (uint32_t n : group.nodes) {
    std::string op = graph.nodes[n]->op + 8;
    if (!isView(*graph.nodes[n]) && op != "constant" && std::find(ops.begin(), ops.end(), op) == ops.end())
      ops.push_back(op);
  }
  // Names the heavy ops first, because they tell what the group is.
  auto heavy = [](const std::string &op) {
    return op.find("norm") != op.npos || op.find("softmax") != op.npos || op.find("reduce") != op.npos || op == "dot" ||
           op == "linear" || op == "convolution" || op.find("pool") != op.npos;
  };
  for (size_t i = 1; i < ops.size(); ++i)
    for (size_t j = i; j > 0 && heavy(ops[j]) && !heavy(ops[j - 1]); --j)
      std::swap(ops[j], ops[j - 1]);
  if (ops.empty())
    ops.push_back("copy");
  std::string name;
  for (size_t i = 0; i < ops.size() && i < 4; ++i)
    name += (i ? "+" : "") + ops[i];
  if (ops.size() > 4)
    name += "+..";
  auto symbolName = [&](uint32_t i) { return std::string(graph.symbols[i]->name); };
  bool first = true;
  for (const Dim &dim : dimsOf(*graph.values[group.outputs[0]]->type)) {
    name += (first ? " " : "x") + dim.text(symbolName);
    first = false;
  }
  return name;
}

int updatedInput(const MortiseGraph &graph, const Group &group) {
  const MortiseNode &put = *graph.nodes[group.nodes.back()];
  if (!isUpdate(put) || group.outputs.size() != 1)
    return -1;
  size_t readers = 0;
  for (const uint32_t n : group.nodes)
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      readers += graph.nodes[n]->operands[i] == put.operands[0];
  const auto input = std::ranges::find(group.inputs, put.operands[0]->index);
  if (readers != 1 || input == group.inputs.end())
    return -1;
  // What is not updated stays where it is, so that it must be there that the result has it.
  const size_t at = static_cast<size_t>(input - group.inputs.begin());
  const auto isDenseAt = [](const std::vector<View> &views, size_t i) {
    return i >= views.size() || isDense(views[i]);
  };
  return isDenseAt(group.inputViews, at) && isDenseAt(group.outputViews, 0) ? static_cast<int>(at) : -1;
}

Result<std::vector<Group>> inOrder(const MortiseGraph &graph, std::vector<Group> groups,
                                   std::span<const uint32_t> others, const std::vector<std::optional<View>> &views) {
  // Units are the groups, and behind them the other nodes.
  std::unordered_map<uint32_t, uint32_t> madeBy; // value -> unit
  std::vector<uint32_t> position;                // per unit: its place in the graph's order
  for (const Group &group : groups) {
    for (const uint32_t output : group.outputs)
      madeBy[output] = position.size();
    position.push_back(group.nodes.back());
  }
  for (const uint32_t n : others) {
    for (size_t i = 0; i < graph.nodes[n]->result_count; ++i)
      madeBy[graph.nodes[n]->results[i]->index] = position.size();
    position.push_back(n);
  }
  std::vector<std::vector<uint32_t>> after(position.size());
  std::vector<uint32_t> waiting(position.size());
  const auto edge = [&](uint32_t value, uint32_t unit) {
    if (views[value] && !madeBy.count(value))
      value = views[value]->base;
    if (auto found = madeBy.find(value); found != madeBy.end() && found->second != unit) {
      after[found->second].push_back(unit);
      ++waiting[unit];
    }
  };
  for (size_t g = 0; g < groups.size(); ++g)
    for (const uint32_t input : groups[g].inputs)
      edge(input, g);
  for (size_t i = 0; i < others.size(); ++i)
    for (size_t o = 0; o < graph.nodes[others[i]]->operand_count; ++o)
      if (const MortiseValue *operand = graph.nodes[others[i]]->operands[o])
        edge(operand->index, groups.size() + i);
  std::set<std::pair<uint32_t, uint32_t>> ready;
  for (uint32_t unit = 0; unit < position.size(); ++unit)
    if (!waiting[unit])
      ready.insert({position[unit], unit});
  std::vector<Group> ordered;
  size_t done = 0;
  while (!ready.empty()) {
    const uint32_t unit = ready.begin()->second;
    ready.erase(ready.begin());
    ++done;
    if (unit < groups.size())
      ordered.push_back(std::move(groups[unit]));
    for (const uint32_t next : after[unit])
      if (--waiting[next] == 0)
        ready.insert({position[next], next});
  }
  if (done == position.size())
    return ordered;
  std::string names;
  for (uint32_t unit = 0; unit < groups.size(); ++unit)
    if (waiting[unit])
      names += " '" + groups[unit].name + "'";
  return Error{MORTISE_INTERNAL, "fused groups depend on each other in a cycle, report this:" + names};
}

} // namespace mortise::codegen
