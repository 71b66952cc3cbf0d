// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: all that kernels can be generated for.
#include "lowerings.hpp"

#include "device.hpp"

#include <mortise/codegen/simt_lowerings.hpp>

namespace mortise::rocm {

Result<void> propose(Proposal &proposal) {
  codegen::SimtOffer offer;
  offer.lowering = "rocm.region";
  offer.device = &Device::of(proposal.device()).info();
  offer.supports = &codegen::supportsSimt;
  return codegen::propose(proposal, offer);
}

} // namespace mortise::rocm
