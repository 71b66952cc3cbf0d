// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is computed when constants are bound.
#include "builder.hpp"

#include <algorithm>

namespace mortise::cuda {

void Builder::findLevels() {
  levels.assign(region.value_count, Level::Literal);
  // Symbols have no values yet when constants are bound.
  const auto isBound = [](const MortiseValue &input) {
    return (input.flags & MORTISE_VALUE_CONSTANT) && isStatic(*input.type);
  };
  const auto hasSymbols = [](const MortiseNode &node) {
    return !std::all_of(node.results, node.results + node.result_count,
                        [](const MortiseValue *result) { return isStatic(*result->type); }) ||
           std::any_of(node.attributes, node.attributes + node.attribute_count,
                       [](const MortiseAttribute *attribute) { return exprsOf(*attribute) != nullptr; });
  };
  for (size_t i = 0; i < region.input_count; ++i)
    levels[region.inputs[i]->index] = isBound(*region.inputs[i]) ? Level::Constant : Level::Variable;
  for (size_t n = 0; n < region.node_count; ++n) {
    const MortiseNode &node = *region.nodes[n];
    const bool isEachCall =
        isProduct(node) || isConvolution(node) || isOp(node, Op::Attention) || has(node, Trait::Sort);
    Level level = isEachCall ? Level::Variable : Level::Literal;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i])
        level = std::max(level, levels[node.operands[i]->index]);
    if (level == Level::Constant && hasSymbols(node))
      level = Level::Variable;
    for (size_t i = 0; i < node.result_count; ++i)
      levels[node.results[i]->index] = level;
  }
}

// Whether the node is computed from constants, and its result takes not much more memory than they do.
bool Builder::isPacked(const MortiseNode &node) const {
  constexpr double mostGrowth = 4, always = 65536; // bytes
  if (has(node, Trait::View) || levels[node.results[0]->index] != Level::Constant)
    return false;
  const auto bytes = [](const MortiseValue &value) {
    double count = static_cast<double>(dtypeBits(value.type->dtype)) / 8;
    for (int32_t i = 0; i < value.type->rank; ++i)
      count *= static_cast<double>(value.type->dims[i]); // no symbols, by findLevels
    return count;
  };
  double read = 0;
  for (size_t i = 0; i < node.operand_count; ++i)
    if (const MortiseValue *value = node.operands[i]) {
      while (value->producer && has(*value->producer, Trait::View)) // a broadcast takes no memory
        value = value->producer->operands[0];
      read += bytes(*value);
    }
  return bytes(*node.results[0]) <= std::max(always, mostGrowth * read);
}

// Those that calls read, and operands of libraries.
std::vector<bool> Builder::valuesToPack() const {
  std::vector<bool> wanted(region.value_count);
  for (size_t v = 0; v < region.value_count; ++v)
    wanted[v] = request.materialise[v] && levels[v] == Level::Constant && region.values[v]->producer &&
                (has(*region.values[v]->producer, Trait::View) || isPacked(*region.values[v]->producer));
  const auto read = [&](const MortiseValue *value) {
    while (!wanted[value->index] && value->producer && has(*value->producer, Trait::View))
      value = value->producer->operands[0];
    if (value->producer && isPacked(*value->producer))
      wanted[value->index] = true;
  };
  for (size_t n = 0; n < region.node_count; ++n) {
    const MortiseNode &node = *region.nodes[n];
    if (isPacked(node) || (has(node, Trait::View) && levels[node.results[0]->index] == Level::Constant))
      continue;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i])
        read(node.operands[i]);
  }
  for (size_t i = 0; i < region.output_count; ++i)
    read(region.outputs[i]);
  return wanted;
}

// Into groups that run when constants are bound. What they write has no operands in `unpacked`.
Result<void> Builder::fusePacking() {
  packingGroups.clear();
  isInPacked.assign(region.value_count, false);
  codegen::FuseRequest packing;
  packing.materialise = valuesToPack();
  MortiseGraph whole = region;
  whole.output_count = 0;
  packing.graph = &whole;
  packing.taken.assign(region.node_count, false);
  if (std::ranges::find(packing.materialise, true) != packing.materialise.end()) {
    Result<codegen::FuseResult> fused = codegen::fuse(packing, codegen::simtFuseTarget());
    if (!fused)
      return fused.error();
    packingGroups = std::move(fused->groups);
    for (const codegen::Group &group : packingGroups)
      for (const uint32_t output : group.outputs)
        isInPacked[output] = true;
  }
  unpacked = region;
  stubs.clear();
  unpackedNodes.assign(region.nodes, region.nodes + region.node_count);
  for (size_t n = 0; n < region.node_count; ++n) {
    const MortiseNode &node = *region.nodes[n];
    if (!isPacked(node) && !isInPacked[node.results[0]->index])
      continue;
    request.taken[n] = true;
    stubs.push_back(copyStruct(node));
    stubs.back().operand_count = 0;
    unpackedNodes[n] = &stubs.back();
  }
  unpacked.nodes = unpackedNodes.data();
  request.graph = &unpacked;
  return {};
}

} // namespace mortise::cuda
