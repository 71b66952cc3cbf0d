// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin takes: all that kernels can be generated for, attention among it, and what libraries compute.
#include "lowerings.hpp"

#include "device.hpp"
#include "product.hpp"
#include "window.hpp"

#include <mortise/codegen/simt_lowerings.hpp>
#include <mortise/symbols.hpp>

namespace mortise::cuda {

namespace {

bool isAttention(const MortiseNode &node) { return isOp(node, Op::Attention); }

codegen::Support judge(Device &device, const MortiseNode &node, std::span<const SymbolRange> ranges,
                       bool addsNarrowBias) {
  const int32_t dtype = node.result_count ? node.results[0]->type->dtype : 0;
  if (isProduct(node) && device.hasProductsOf(dtype))
    return supportsProduct(node, addsNarrowBias);
  if (isConvolution(node) && device.hasConvolutionsOf(dtype))
    return supportsConvolution(node, ranges);
  if (isAttention(node))
    return codegen::supportsAttention(node, device.target());
  return isPool(node) ? supportsPool(node) : codegen::supportsSimt(node);
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
  offer.readsMemory = [&](const MortiseNode &node) {
    const bool isCall = isProduct(node) && device.hasProductsOf(node.results[0]->type->dtype);
    return isAttention(node) || (isCall && !narrowType(node));
  };
  offer.productFlops = [&](const MortiseNode &node) {
    const int32_t dtype = node.results[0]->type->dtype, narrow = isProduct(node) ? narrowType(node) : 0;
    const bool isCall = isProduct(node) ? device.hasProductsOf(dtype) : device.hasConvolutionsOf(dtype);
    return isCall ? device.productFlops(narrow ? narrow : dtype, tensorFloats)
                  : device.generatedFlops(narrow ? narrow : dtype, isConvolution(node));
  };
  return codegen::propose(proposal, offer);
}

} // namespace mortise::cuda
