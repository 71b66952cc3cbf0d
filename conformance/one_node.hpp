// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A node alone.
#pragma once

#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace mortise::conformance {

using Bytes = std::vector<std::byte>;

// One node as a graph of its own, unchanged or with f64 in place of every float type.
class OneNode {
public:
  static Result<std::unique_ptr<OneNode>> make(const MortiseGraph &whole, const MortiseNode &of, bool wide) {
    std::unique_ptr<OneNode> made(new OneNode(whole, of, wide));
    Result<std::unique_ptr<reference::Interpreter>> program = reference::Interpreter::compile(made->graph);
    if (!program)
      return program.error();
    made->program = std::move(*program);
    made->workspace.resize(made->program->workspaceBytes() + 64);
    return made;
  }

  const MortiseGraph &view() const { return graph; }

  // Indices, in the whole graph, of the node's distinct operands in order of first use.
  std::vector<uint32_t> operandValues;

  void run(std::span<const void *const> operands, std::span<void *const> results) {
    auto start = (reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64;
    program->run(operands, results, reinterpret_cast<void *>(start), nullptr, nullptr);
  }

private:
  OneNode(const MortiseGraph &whole, const MortiseNode &of, bool wide) : graph(whole), node(of) {
    std::map<uint32_t, const MortiseValue *> copies;
    auto copy = [&](const MortiseValue *value) {
      if (!value)
        return value;
      auto [found, isNew] = copies.try_emplace(value->index);
      if (isNew) {
        MortiseType &type = types.emplace_back(*value->type);
        if (wide && isFloat(type.dtype))
          type.dtype = MORTISE_F64;
        MortiseValue &made = values.emplace_back(*value);
        made.type = &type;
        found->second = &made;
      }
      return found->second;
    };
    for (size_t i = 0; i < of.operand_count; ++i) {
      operands.push_back(copy(of.operands[i]));
      if (operands.back() && std::ranges::find(inputs, operands.back()) == inputs.end()) {
        inputs.push_back(operands.back());
        operandValues.push_back(operands.back()->index);
      }
    }
    for (MortiseValue &value : values)
      value.producer = nullptr;
    for (size_t i = 0; i < of.result_count; ++i)
      outputs.push_back(copy(of.results[i]));
    for (const MortiseValue *output : outputs)
      const_cast<MortiseValue *>(output)->producer = &node;
    node.operands = operands.data();
    node.results = outputs.data();
    nodes[0] = &node;
    graph.nodes = nodes;
    graph.node_count = 1;
    graph.inputs = inputs.data();
    graph.input_count = inputs.size();
    graph.outputs = outputs.data();
    graph.output_count = outputs.size();
    graph.alias_count = 0;
  }

  MortiseGraph graph;
  MortiseNode node;
  const MortiseNode *nodes[1] = {};
  std::deque<MortiseType> types;
  std::deque<MortiseValue> values;
  std::vector<const MortiseValue *> operands, inputs, outputs;
  std::unique_ptr<reference::Interpreter> program;
  Bytes workspace;
};

} // namespace mortise::conformance
