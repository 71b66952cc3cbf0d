// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: all that kernels can be generated for, pools and attention among it, and products and
// convolutions where there are libraries for them.
#include "lowerings.hpp"

#include "device.hpp"
#include "product.hpp"
#include "window.hpp"

#include <mortise/codegen/simt_lowerings.hpp>
#include <mortise/symbols.hpp>

namespace mortise::cuda {

namespace {

bool isAttention(const MortiseNode &node) { return isOp(node, Op::Attention); }

// Without its library a call is refused with what to do about it.
template <typename Open> codegen::Support behind(codegen::Support verdict, Open &&open) {
  if (!verdict.yes)
    return verdict;
  const auto library = open();
  if (library)
    return verdict;
  return {false, library.error().code == MORTISE_UNSUPPORTED ? MORTISE_REASON_OPTION : MORTISE_REASON_HARDWARE,
          library.error().message};
}

codegen::Support judge(Device &device, const MortiseNode &node, std::span<const SymbolRange> ranges,
                       bool addsNarrowBias) {
  if (isProduct(node))
    return behind(supportsProduct(node, addsNarrowBias), [&] { return device.products(); });
  if (isConvolution(node))
    return behind(supportsConvolution(node, ranges), [&] { return device.convolutions(); });
  if (isAttention(node))
    return codegen::supportsAttention(node, device.target());
  return isPool(node) ? supportsPool(node) : codegen::supportsSimt(node, /*contractions=*/false);
}

} // namespace

Result<void> propose(Proposal &proposal, bool addsNarrowBias) {
  Device &device = Device::of(proposal.device());
  const std::vector<SymbolRange> ranges = symbolRanges(proposal.graph());
  const bool tensorFloats = proposal.compileOptions().precision != MORTISE_PRECISION_HIGHEST;
  codegen::SimtOffer offer;
  offer.lowering = "cuda.region";
  offer.device = &device.info();
  offer.supports = [&](const MortiseNode &node) { return judge(device, node, ranges, addsNarrowBias); };
  // A product of converted numbers reads them as they were before.
  offer.readsMemory = [](const MortiseNode &node) {
    return isAttention(node) || (isProduct(node) && !narrowType(node));
  };
  offer.productFlops = [&](const MortiseNode &node) {
    const int32_t narrow = isProduct(node) ? narrowType(node) : 0;
    return device.productFlops(narrow ? narrow : node.results[0]->type->dtype, tensorFloats);
  };
  return codegen::propose(proposal, offer);
}

} // namespace mortise::cuda
