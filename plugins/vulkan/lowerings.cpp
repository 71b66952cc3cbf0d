// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: all that kernels can be generated for, in types that the device has.
#include "lowerings.hpp"

#include "device.hpp"

#include <mortise/codegen/simt_lowerings.hpp>

#include <algorithm>

namespace mortise::vulkan {

static bool hasDoubles(const MortiseNode &node) {
  const auto isDouble = [](const MortiseValue *value) { return value && value->type->dtype == MORTISE_F64; };
  return std::any_of(node.operands, node.operands + node.operand_count, isDouble) ||
         std::any_of(node.results, node.results + node.result_count, isDouble);
}

Result<void> propose(Proposal &proposal) {
  const Device &device = Device::of(proposal.device());
  codegen::SimtOffer offer;
  offer.lowering = "vulkan.region";
  offer.device = &device.info();
  offer.supports = [&](const MortiseNode &node) -> codegen::Support {
    const codegen::Support verdict = codegen::supportsSimt(node);
    if (verdict.yes && !device.hasF64() && hasDoubles(node))
      return {false, MORTISE_REASON_HARDWARE,
              "expected a device with f64 that rounds to nearest and keeps NaN, found none; use f32"};
    return verdict;
  };
  return codegen::propose(proposal, offer);
}

} // namespace mortise::vulkan
