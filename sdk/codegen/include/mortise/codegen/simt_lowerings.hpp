// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which nodes a plugin takes that generates kernels for GPUs, and what they cost.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/plugin.hpp>

#include <functional>

namespace mortise::codegen {

// What a plugin has to say of its device.
struct SimtOffer {
  const char *lowering = ""; // "cuda.region"
  const MortiseDeviceInfo *device = nullptr;
  // Layouts are judged before.
  std::function<Support(const MortiseNode &)> supports;
  // Whether the node's operands have memory, whatever makes them. Empty: no node's.
  std::function<bool(const MortiseNode &)> readsMemory;
  // Operations a second of products, convolutions and attention. Empty: MortiseDeviceInfo::peak_flops.
  std::function<double(const MortiseNode &)> productFlops;
};

// Offers maximal convex regions of the nodes that are supported, each with a roofline cost at typical values of the
// symbols, and refuses the others. Fused nodes read what comes from outside once and write what others use; a node that
// looks at many elements ends a kernel, so that its result is written and read again.
Result<void> propose(Proposal &proposal, const SimtOffer &offer);

} // namespace mortise::codegen
