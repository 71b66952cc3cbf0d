// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rebuild.hpp"

#include "limits.hpp"

#include <utility>

namespace mortise::portable {

Result<MortiseGraph> Rebuild::rebuild(const MortiseGraph &from) {
  MortiseGraph to{};
  if (!copyGraph(from, to, 0))
    return error;
  return to;
}

const MortiseValue *Rebuild::newValue(const MortiseType *type) {
  MortiseValue &value = values.emplace_back();
  value.struct_size = sizeof(MortiseValue);
  value.type = type;
  value.name = "";
  value.index = static_cast<uint32_t>(scope->values.size());
  scope->values.push_back(&value);
  return &value;
}

bool Rebuild::copyGraph(const MortiseGraph &from, MortiseGraph &to, size_t depth) {
  if (depth > maxNesting)
    return fail(MORTISE_INVALID_ARGUMENT,
                "expected bodies nested at most " + std::to_string(maxNesting) + " deep, found more");
  to = shallow(from);
  to.extension = nullptr; // the owner's
  Scope inner{&from, {}}, *outer = std::exchange(scope, &inner);
  for (size_t i = 0; i < from.value_count; ++i) {
    MortiseValue &value = values.emplace_back(shallow(*from.values[i]));
    value.flags = changeFlags(value.flags);
    if (!changeType(value.type))
      return false;
    inner.values.push_back(&value);
  }
  to.inputs = mapped(from.inputs, from.input_count);
  std::vector<const MortiseNode *> list;
  list.reserve(from.node_count);
  for (size_t i = 0; i < from.node_count; ++i)
    if (!copyNode(*from.nodes[i], list, depth))
      return false;
  to.node_count = list.size();
  to.nodes = keep(nodeLists, std::move(list));
  to.outputs = mapped(from.outputs, from.output_count);
  to.value_count = inner.values.size();
  to.values = keep(valueLists, std::vector<const MortiseValue *>(inner.values.begin(), inner.values.end()));
  changeGraph(to);
  scope = outer;
  return true;
}

bool Rebuild::copyNode(const MortiseNode &from, std::vector<const MortiseNode *> &list, size_t depth) {
  const MortiseNode node = shallow(from);
  std::vector<Draft> drafts{{node.op,
                             node.since,
                             {node.operands, node.operands + node.operand_count},
                             {node.results, node.results + node.result_count},
                             {node.attributes, node.attributes + node.attribute_count},
                             {node.bodies, node.bodies + node.body_count}}};
  if (!changeNode(node, drafts))
    return false;
  for (const Draft &draft : drafts)
    if (!finish(draft, from, list, depth))
      return false;
  return true;
}

bool Rebuild::finish(const Draft &draft, const MortiseNode &from, std::vector<const MortiseNode *> &list,
                     size_t depth) {
  std::vector<const MortiseGraph *> bodies;
  for (const MortiseGraph *body : draft.bodies) {
    MortiseGraph &copy = graphs.emplace_back();
    if (!copyGraph(*body, copy, depth + 1))
      return false;
    bodies.push_back(&copy);
  }
  MortiseNode &node = nodes.emplace_back(shallow(from));
  node.extension = nullptr;
  node.index = static_cast<uint32_t>(list.size());
  node.op = keep(draft.op);
  node.since = draft.since;
  node.operands = mapped(draft.operands.data(), draft.operands.size());
  node.operand_count = draft.operands.size();
  node.results = mapped(draft.results.data(), draft.results.size());
  node.result_count = draft.results.size();
  for (uint32_t i = 0; i < node.result_count; ++i) {
    MortiseValue &result = *scope->values[node.results[i]->index];
    result.producer = &node;
    result.result_index = i;
  }
  std::vector<const MortiseAttribute *> sorted = draft.attributes;
  std::sort(sorted.begin(), sorted.end(), [](auto *a, auto *b) { return std::strcmp(a->name, b->name) < 0; });
  node.attribute_count = sorted.size();
  node.attributes = keep(attributeLists, std::move(sorted));
  node.body_count = bodies.size();
  node.bodies = keep(graphLists, std::move(bodies));
  list.push_back(&node);
  return true;
}

const MortiseValue *const *Rebuild::mapped(const MortiseValue *const *list, size_t count) {
  std::vector<const MortiseValue *> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const MortiseValue *value = list[i];
    const bool original =
        value && value->index < scope->from->value_count && scope->from->values[value->index] == value;
    result.push_back(original ? scope->values[value->index] : value);
  }
  return keep(valueLists, std::move(result));
}

} // namespace mortise::portable
