// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where images lie between units: channels last in regions that train convolutions on such images. Without constant
// weights little is fused, so that a convolution's neighbours are groups, which read and write any strides, but no
// blocks. Regions with constant weights are left to the library's layouts (kernels/convolution.cpp).
#include "claims.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>

namespace mortise::cpu {

static bool trains(const Analysis &facts) {
  for (size_t i = 0; i < facts.graph.node_count; ++i)
    if (const MortiseNode &node = *facts.graph.nodes[i];
        isOp(node, Op::Convolution) && !facts.isConstant(node.operands[1]->index))
      return true;
  return false;
}

// The operands by which the result's layout goes.
static std::span<const MortiseValue *const> images(const MortiseNode &node) {
  const std::span<const MortiseValue *const> operands(node.operands, node.operand_count);
  if (isOp(node, Op::MaxPool, Op::SumPool, Op::Pad))
    return operands.first(1);
  if (isOp(node, Op::Convolution)) // as PyTorch has it
    return operands.first(2);
  if (has(node, Trait::Elementwise) || has(node, Trait::Normalisation) || isOp(node, Op::Concatenate))
    return operands;
  return {};
}

static bool isProduct(const MortiseNode &node) { return isOp(node, Op::Dot, Op::Linear); }

// Per value: a product may store it, row-major: what is fused behind one, and views of that.
static std::vector<bool> storedByProducts(const Analysis &facts) {
  std::vector<bool> found(facts.graph.value_count);
  for (size_t i = 0; i < facts.graph.node_count; ++i) {
    const MortiseNode &node = *facts.graph.nodes[i];
    const std::span<const MortiseValue *const> operands(node.operands, node.operand_count);
    const bool isBehind = has(node, Trait::Elementwise) || has(node, Trait::View);
    found[node.results[0]->index] =
        isProduct(node) || (isBehind && std::ranges::any_of(operands, [&](const MortiseValue *operand) {
                              return operand && found[operand->index];
                            }));
  }
  return found;
}

void chooseLayouts(const Analysis &facts, Layout &layout) {
  if (!trains(facts))
    return;
  const std::vector<bool> stored = storedByProducts(facts);
  Layout asked(facts.graph); // claims decide where some values lie, before anyone asks `layout` for what is behind them
  for (size_t i = 0; i < facts.graph.node_count; ++i) {
    const MortiseNode &node = *facts.graph.nodes[i];
    if (node.result_count != 1 || has(node, Trait::View))
      continue;
    const uint32_t result = node.results[0]->index;
    const View dense = facts.denseView(result);
    const auto readByProduct = [&](uint32_t user) { return isProduct(*facts.graph.nodes[user]); };
    if (stored[result] || std::ranges::any_of(facts.users[result], readByProduct)) // which may want it row-major
      continue;
    const auto decides = [&](const MortiseValue *operand) {
      return operand && operand->type->rank == node.results[0]->type->rank && !facts.isConstant(operand->index) &&
             isChannelsLast(asked.viewOf(operand->index));
    };
    // Outputs of the region are row-major, and what has one position or one channel is so in any case.
    if (!facts.isConstant(result) && !facts.isOutput(result) && isChannelsLast(channelsLast(dense)) &&
        std::ranges::any_of(images(node), decides)) {
      asked.setRoot(result, channelsLast(dense));
      layout.setRoot(result, channelsLast(dense));
    }
  }
}

} // namespace mortise::cpu
