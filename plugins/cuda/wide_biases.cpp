// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "wide_biases.hpp"

#include <algorithm>

namespace mortise::cuda {

bool WideBiases::changeNode(const MortiseNode &node, Drafts &drafts) {
  if (std::ranges::find(linears, node.index) != linears.end()) {
    const int32_t dtype = node.results[0]->type->dtype;
    const std::vector<Dim> dims = dimsOf(*node.results[0]->type);
    const auto wide = [&](size_t operand) { return converted(drafts, *node.operands[operand], MORTISE_F32); };
    const MortiseValue *product = add(drafts, Op::Linear, {wide(0), wide(1)}, MORTISE_F32, dims,
                                      {node.attributes, node.attributes + node.attribute_count});
    const MortiseValue *bias = add(drafts, Op::Broadcast, {wide(2)}, MORTISE_F32, dims,
                                   {attribute("shape", std::span<const Dim>(dims)),
                                    attribute("axes", std::vector<int64_t>{static_cast<int64_t>(dims.size()) - 1})});
    const MortiseValue *sum = add(drafts, Op::Add, {product, bias}, MORTISE_F32, dims);
    drafts.back().op = nameOf(Op::Convert), drafts.back().operands = {sum};
    drafts.back().attributes = {attribute("dtype", dtypeName(dtype))};
  }
  origins.insert(origins.end(), drafts.size(), std::vector<uint32_t>{node.index});
  return true;
}

} // namespace mortise::cuda
