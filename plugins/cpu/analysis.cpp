// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "analysis.hpp"

#include <mortise/plugin.hpp>

namespace mortise::cpu {

// Ops that a claim may take. They run with each call: a constant result of one is not computed at bind time.
static bool isClaimable(const MortiseNode &node) {
  return isOp(node, Op::Dot, Op::Linear, Op::QuantizedLinear, Op::Convolution, Op::MaxPool, Op::SumPool, Op::Put,
              Op::ScatterAlong, Op::ScatterNd, Op::RandomBits, Op::Sort, Op::TopK, Op::Cummax, Op::Cummin,
              Op::Attention, Op::AttentionForward, Op::AttentionGradient);
}

static Result<void> findExtents(Analysis &facts) {
  for (size_t i = 0; i < facts.graph.value_count; ++i) {
    facts.extentsOf.push_back(denseView(*facts.graph.values[i]).dims);
    for (const Dim &dim : facts.extentsOf.back())
      if (Result<int64_t> found = dim.evaluate(facts.sample.symbols); !found || *found < 0)
        return Error{MORTISE_NEEDS_STATIC, "found no values of the symbols for which every extent is one: value " +
                                               std::to_string(i) + " is " + typeString(*facts.graph.values[i]->type)};
  }
  return {};
}

Result<Analysis> analyse(const MortiseGraph &graph, const Options &options, Values sample) {
  Analysis facts{graph, options, std::move(sample), {}, {}, {}, {}, {}};
  facts.users.resize(graph.value_count);
  facts.outputsOf.resize(graph.value_count);
  facts.constant.resize(graph.value_count);
  for (size_t i = 0; i < graph.symbol_count; ++i)
    facts.ranges.push_back({graph.symbols[i]->min, graph.symbols[i]->max, graph.symbols[i]->divisor});
  if (Result<void> result = findExtents(facts); !result)
    return result.error();
  for (size_t i = 0; i < graph.output_count; ++i)
    facts.outputsOf[graph.outputs[i]->index].push_back(static_cast<uint32_t>(i));
  for (size_t i = 0; i < graph.input_count; ++i)
    if (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
      facts.constant[graph.inputs[i]->index] = true;
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    bool all = !isClaimable(node);
    for (size_t k = 0; k < node.operand_count; ++k)
      if (const MortiseValue *operand = node.operands[k]) {
        facts.users[operand->index].push_back(node.index);
        all &= facts.constant[operand->index];
      }
    for (size_t k = 0; k < node.result_count; ++k)
      facts.constant[node.results[k]->index] = all;
  }
  return facts;
}

const MortiseNode *Analysis::soleUser(uint32_t value) const {
  if (isOutput(value) || users[value].size() != 1)
    return nullptr;
  return graph.nodes[users[value][0]];
}

bool Analysis::overwrites(uint32_t result, uint32_t input) const {
  for (uint32_t position : outputsOf[result])
    for (size_t i = 0; i < graph.alias_count; ++i)
      if (graph.aliases[i]->output == position && graph.inputs[graph.aliases[i]->input]->index == input)
        return true;
  return false;
}

int64_t Analysis::sampleBytes(uint32_t value) const {
  return (elementCount(sample(extents(value))) * static_cast<int64_t>(dtypeBits(type(value).dtype)) + 7) / 8;
}

} // namespace mortise::cpu
