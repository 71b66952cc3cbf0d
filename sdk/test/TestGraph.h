// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small graphs of f32 tensors of one shape, made by hand.
#pragma once

#include <mortise/plugin.hpp>

#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

struct TestGraph {
  std::vector<int64_t> shape;
  std::deque<MortiseType> types;
  std::deque<MortiseValue> values;
  std::deque<MortiseNode> nodes;
  std::deque<std::vector<const MortiseValue *>> lists;
  std::vector<const MortiseValue *> allValues, inputs, outputs;
  std::vector<const MortiseNode *> allNodes;
  MortiseGraph graph = mortise::sized<MortiseGraph>();

  explicit TestGraph(std::vector<int64_t> shape) : shape(std::move(shape)) {}

  const MortiseValue *value(const MortiseNode *producer, uint32_t resultIndex) {
    MortiseType &type = types.emplace_back(mortise::sized<MortiseType>());
    type.dtype = MORTISE_F32;
    type.rank = static_cast<int32_t>(shape.size());
    type.dims = shape.data();
    MortiseValue &made = values.emplace_back(mortise::sized<MortiseValue>());
    made.type = &type;
    made.producer = producer;
    made.index = static_cast<uint32_t>(allValues.size());
    made.result_index = resultIndex;
    made.name = "";
    allValues.push_back(&made);
    return &made;
  }
  const MortiseValue *input(uint32_t flags = 0) {
    const MortiseValue *made = value(nullptr, static_cast<uint32_t>(inputs.size()));
    values.back().flags = flags;
    inputs.push_back(made);
    return made;
  }
  const MortiseValue *node(const char *op, std::initializer_list<const MortiseValue *> operands) {
    MortiseNode &made = nodes.emplace_back(mortise::sized<MortiseNode>());
    for (const MortiseValue *operand : operands)
      values[operand->index].use_count++;
    made.index = static_cast<uint32_t>(allNodes.size());
    made.since = 1;
    made.op = op;
    made.location = "";
    made.operands = lists.emplace_back(operands).data();
    made.operand_count = operands.size();
    const MortiseValue *result = value(&made, 0);
    made.results = lists.emplace_back(1, result).data();
    made.result_count = 1;
    allNodes.push_back(&made);
    return result;
  }
  const MortiseGraph &finish(std::initializer_list<const MortiseValue *> results) {
    outputs = results;
    for (const MortiseValue *output : outputs)
      values[output->index].use_count++;
    graph.name = "test";
    graph.opset = MORTISE_OPSET;
    graph.nodes = allNodes.data();
    graph.node_count = allNodes.size();
    graph.values = allValues.data();
    graph.value_count = allValues.size();
    graph.inputs = inputs.data();
    graph.input_count = inputs.size();
    graph.outputs = outputs.data();
    graph.output_count = outputs.size();
    return graph;
  }
};
