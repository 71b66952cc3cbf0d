// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes a changed copy of a read-only graph: nodes replaced, split or removed, types and attributes exchanged. Header
// only. A plugin derives from GraphRewriter, overrides what it changes, and calls rewrite():
//
//   struct WithoutCopies : mortise::GraphRewriter {
//     bool changeNode(const MortiseNode &node, std::vector<Draft> &drafts) override {
//       if (std::string_view(node.op) == "acme.copy") {
//         replaceUses(node.results[0], node.operands[0]);
//         drafts.clear();
//       }
//       return true;
//     }
//   };
//   WithoutCopies rewriter;
//   Result<MortiseGraph> changed = rewriter.rewrite(graph);
//
// Ownership: the copy and everything made for it live as long as the rewriter. Unchanged parts are shared with the
// original, which must live as long. Threads: one thread at a time may use a rewriter; any thread may read a finished
// copy.
#pragma once

#include <mortise/graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mortise {

inline constexpr size_t maxNesting = 16; // levels of bodies within bodies

// The struct as this header knows it: members that the writer did not know are 0.
template <typename T> T copyStruct(const T &from) {
  T to{};
  std::memcpy(static_cast<void *>(&to), &from, std::min(from.struct_size, sizeof(T)));
  to.struct_size = sizeof(T);
  return to;
}

class GraphRewriter {
public:
  GraphRewriter() = default;
  GraphRewriter(const GraphRewriter &) = delete;
  GraphRewriter &operator=(const GraphRewriter &) = delete;
  virtual ~GraphRewriter() = default;

  // The changed copy, bodies included. Nodes keep their order. Nodes and values are renumbered, uses recounted, and
  // values that no node produces any more are left out. Extensions of graphs and nodes are not copied. Errors: the
  // error given to fail(); MORTISE_INVALID_ARGUMENT when something still reads a value that no node produces, or when
  // bodies are nested deeper than maxNesting.
  Result<MortiseGraph> rewrite(const MortiseGraph &from) {
    MortiseGraph to{};
    if (!copyGraph(from, to, 0))
      return error;
    return to;
  }

protected:
  // A node of the copy under construction. Values are the original's or made by newValue(); bodies are the original's.
  struct Draft {
    std::string op;
    uint32_t since = 1;
    std::vector<const MortiseValue *> operands, results;
    std::vector<const MortiseAttribute *> attributes; // in any order
    std::vector<const MortiseGraph *> bodies;
  };

  // The hooks. Each is called for the graph and for its bodies. A hook that returns false has called fail() before.

  virtual bool changeType(const MortiseType *& /*type*/) { return true; } // called for each value
  virtual uint32_t changeFlags(uint32_t flags) { return flags; }          // called for each value
  // `drafts` holds one draft equal to `node`. Change it, add drafts before or after it, or clear the list to remove the
  // node. One of the drafts must produce the node's results, unless they are replaced. Nodes come in order, and those
  // of a body after its node.
  virtual bool changeNode(const MortiseNode & /*node*/, std::vector<Draft> & /*drafts*/) { return true; }
  // Called with the copy of the graph or of a body. Its nodes, inputs and outputs are the copy's; outputs, aliases,
  // symbols, guards and the opset may be exchanged.
  virtual bool changeGraph(MortiseGraph & /*graph*/) { return true; }

  // Functions for the hooks.

  bool fail(MortiseCode code, std::string message) {
    error = {code, std::move(message)};
    return false;
  }
  // A new value for a draft's results. Only in changeNode().
  const MortiseValue *newValue(const MortiseType *type) {
    MortiseValue &value = values.emplace_back();
    value.struct_size = sizeof(MortiseValue);
    value.type = type;
    value.name = "";
    value.index = static_cast<uint32_t>(scope->values.size());
    scope->values.push_back(&value);
    return &value;
  }
  // From now on, drafts of this and later nodes and the graph's outputs read `by` where they read `value`. `by` must be
  // an input or be produced earlier. Only in changeNode().
  void replaceUses(const MortiseValue *value, const MortiseValue *by) {
    by = replacementOf(by);
    if (by != value) // otherwise `by` already reads `value`, so nothing is to be replaced
      scope->replaced[value] = by;
  }
  // A copy to be changed. It lives as long as the rewriter.
  MortiseType *copyOf(const MortiseType &type) { return &types.emplace_back(copyStruct(type)); }
  MortiseAttribute *copyOf(const MortiseAttribute &attribute) {
    return &attributes.emplace_back(copyStruct(attribute));
  }
  // Stores data that lives as long as the rewriter.
  const int64_t *keep(std::vector<int64_t> list) { return numbers.emplace_back(std::move(list)).data(); }
  const double *keep(std::vector<double> list) { return reals.emplace_back(std::move(list)).data(); }
  const MortiseExpr *keep(std::vector<MortiseExpr> list) { return exprs.emplace_back(std::move(list)).data(); }
  const MortiseExprStep *keep(std::vector<MortiseExprStep> list) { return steps.emplace_back(std::move(list)).data(); }
  const char *keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }

private:
  struct Scope { // a graph or a body under construction
    const MortiseGraph *from;
    std::vector<MortiseValue *> values; // by the original's index, followed by the new ones
    std::unordered_map<const MortiseValue *, const MortiseValue *> replaced;
  };

  bool copyGraph(const MortiseGraph &from, MortiseGraph &to, size_t depth) {
    if (depth > maxNesting)
      return fail(MORTISE_INVALID_ARGUMENT,
                  "expected bodies nested at most " + std::to_string(maxNesting) + " deep, found more");
    Scope inner{&from, {}, {}}, *const outer = std::exchange(scope, &inner);
    const bool done = fillGraph(from, to, depth);
    scope = outer;
    return done;
  }

  bool fillGraph(const MortiseGraph &from, MortiseGraph &to, size_t depth) {
    to = copyStruct(from);
    to.extension = nullptr; // extensions belong to the original's owner
    for (size_t i = 0; i < from.value_count; ++i) {
      MortiseValue &value = values.emplace_back(copyStruct(*from.values[i]));
      value.producer = nullptr;
      value.flags = changeFlags(value.flags);
      scope->values.push_back(&value);
      if (!changeType(value.type))
        return false;
    }
    std::vector<const MortiseNode *> list;
    list.reserve(from.node_count);
    for (size_t i = 0; i < from.node_count; ++i)
      if (!copyNode(*from.nodes[i], list, depth))
        return false;
    to.node_count = list.size();
    to.nodes = nodeLists.emplace_back(std::move(list)).data();
    to.inputs = mapped(from.inputs, from.input_count);
    to.outputs = mapped(from.outputs, from.output_count);
    return changeGraph(to) && number(to);
  }

  bool copyNode(const MortiseNode &from, std::vector<const MortiseNode *> &list, size_t depth) {
    const MortiseNode node = copyStruct(from);
    std::vector<Draft> drafts{{node.op,
                               node.since,
                               {node.operands, node.operands + node.operand_count},
                               {node.results, node.results + node.result_count},
                               {node.attributes, node.attributes + node.attribute_count},
                               {node.bodies, node.bodies + node.body_count}}};
    if (!changeNode(node, drafts))
      return false;
    for (const Draft &draft : drafts)
      if (!finish(draft, node, list, depth))
        return false;
    return true;
  }

  bool finish(const Draft &draft, const MortiseNode &from, std::vector<const MortiseNode *> &list, size_t depth) {
    std::vector<const MortiseGraph *> bodies;
    for (const MortiseGraph *body : draft.bodies) {
      MortiseGraph &copy = graphs.emplace_back();
      if (!copyGraph(*body, copy, depth + 1))
        return false;
      bodies.push_back(&copy);
    }
    MortiseNode &node = nodes.emplace_back(from);
    node.extension = nullptr;
    node.index = static_cast<uint32_t>(list.size());
    node.op = draft.op == from.op ? from.op : keep(draft.op);
    node.since = draft.since;
    node.operands = mapped(draft.operands.data(), draft.operands.size());
    node.operand_count = draft.operands.size();
    node.result_count = draft.results.size();
    std::vector<const MortiseValue *> results;
    for (uint32_t i = 0; i < node.result_count; ++i) {
      MortiseValue *result = draft.results[i] ? copyIn(draft.results[i]) : nullptr;
      if (!result || result->producer)
        return fail(MORTISE_INVALID_ARGUMENT, "node " + std::to_string(node.index) + " (" + node.op + "): result " +
                                                  std::to_string(i) +
                                                  (result ? " is made twice" : " is no value of the graph"));
      result->producer = &node;
      result->result_index = i;
      results.push_back(result);
    }
    node.results = valueLists.emplace_back(std::move(results)).data();
    std::vector<const MortiseAttribute *> sorted = draft.attributes;
    std::sort(sorted.begin(), sorted.end(), [](auto *a, auto *b) { return std::strcmp(a->name, b->name) < 0; });
    node.attribute_count = sorted.size();
    node.attributes = attributeLists.emplace_back(std::move(sorted)).data();
    node.body_count = bodies.size();
    node.bodies = graphLists.emplace_back(std::move(bodies)).data();
    list.push_back(&node);
    return true;
  }

  // Numbers the values and counts their uses.
  bool number(MortiseGraph &graph) {
    std::vector<bool> made(scope->values.size());
    for (MortiseValue *value : scope->values)
      value->use_count = 0;
    const auto isOwn = [&](const MortiseValue *value) {
      return value->index < scope->values.size() && scope->values[value->index] == value;
    };
    for (size_t i = 0; i < graph.input_count; ++i) {
      if (!isOwn(graph.inputs[i]))
        return fail(MORTISE_INVALID_ARGUMENT, "input " + std::to_string(i) + " is no value of the graph");
      made[graph.inputs[i]->index] = true;
    }
    const auto use = [&](const MortiseValue *value, const auto &reader) {
      if (!value)
        return true;
      if (!isOwn(value))
        return fail(MORTISE_INVALID_ARGUMENT, reader() + " reads what is no value of the graph");
      if (!made[value->index])
        return fail(MORTISE_INVALID_ARGUMENT,
                    reader() + " reads value " + std::to_string(value->index) +
                        ", which no earlier node of the changed graph makes; replace its uses, or keep its node");
      ++scope->values[value->index]->use_count;
      return true;
    };
    for (size_t n = 0; n < graph.node_count; ++n) {
      const MortiseNode &node = *graph.nodes[n];
      for (size_t i = 0; i < node.operand_count; ++i)
        if (!use(node.operands[i], [&] { return "node " + std::to_string(n) + " (" + node.op + ")"; }))
          return false;
      for (size_t i = 0; i < node.result_count; ++i)
        made[node.results[i]->index] = true;
    }
    for (size_t i = 0; i < graph.output_count; ++i)
      if (!use(graph.outputs[i], [&] { return "output " + std::to_string(i); }))
        return false;
    std::vector<const MortiseValue *> list;
    list.reserve(scope->values.size());
    for (size_t i = 0; i < scope->values.size(); ++i)
      if (made[i]) {
        scope->values[i]->index = static_cast<uint32_t>(list.size());
        list.push_back(scope->values[i]);
      }
    graph.value_count = list.size();
    graph.values = valueLists.emplace_back(std::move(list)).data();
    return true;
  }

  const MortiseValue *replacementOf(const MortiseValue *value) const {
    for (auto found = scope->replaced.find(value); found != scope->replaced.end(); found = scope->replaced.find(value))
      value = found->second;
    return value;
  }
  // The copy of one of the original's values, or a new value; NULL for any other.
  MortiseValue *copyIn(const MortiseValue *value) const {
    const bool known = value->index < scope->from->value_count
                           ? scope->from->values[value->index] == value
                           : value->index < scope->values.size() && scope->values[value->index] == value;
    return known ? scope->values[value->index] : nullptr;
  }

  const MortiseValue *const *mapped(const MortiseValue *const *list, size_t count) {
    std::vector<const MortiseValue *> result;
    result.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const MortiseValue *value = replacementOf(list[i]), *copy = value ? copyIn(value) : nullptr;
      result.push_back(copy ? copy : value); // number() refuses a value that is neither
    }
    return valueLists.emplace_back(std::move(result)).data();
  }

  // Deques, because they do not move their elements.
  Error error{};
  Scope *scope = nullptr;
  std::deque<MortiseGraph> graphs;
  std::deque<MortiseNode> nodes;
  std::deque<MortiseValue> values;
  std::deque<MortiseType> types;
  std::deque<MortiseAttribute> attributes;
  std::deque<std::string> texts;
  std::deque<std::vector<int64_t>> numbers;
  std::deque<std::vector<double>> reals;
  std::deque<std::vector<MortiseExpr>> exprs;
  std::deque<std::vector<MortiseExprStep>> steps;
  std::deque<std::vector<const MortiseValue *>> valueLists;
  std::deque<std::vector<const MortiseNode *>> nodeLists;
  std::deque<std::vector<const MortiseAttribute *>> attributeLists;
  std::deque<std::vector<const MortiseGraph *>> graphLists;
};

} // namespace mortise
