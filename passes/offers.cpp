// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/offers.hpp>

#include "devices.hpp"
#include "propose.hpp"

#include <algorithm>

namespace mortise::passes {
namespace {

// The number in the region of a value of the whole graph that crosses its border.
uint32_t inRegion(const Region &region, uint32_t value) {
  const MortiseGraph &view = region.graph->view();
  if (const auto input = std::ranges::find(region.inputs, value); input != region.inputs.end())
    return view.inputs[input - region.inputs.begin()]->index;
  return view.outputs[std::ranges::find(region.outputs, value) - region.outputs.begin()]->index;
}

} // namespace

Result<Offers> offersOf(const MortiseGraph &graph, const runtime::Registry &registry, const runtime::Config &config) {
  const auto targets = chooseTargets(registry, config, {});
  if (!targets)
    return targets.error();
  const Proposals proposals = propose(graph, *targets);
  Offers found;
  for (const Candidate &candidate : proposals.candidates) {
    auto region = extractRegion(graph, candidate.nodes);
    if (!region)
      return region.error();
    const Target &target = (*targets)[candidate.target];
    Offer offer{target.device, candidate.lowering, std::move(*region), {}, {}, target.options, candidate.specialised};
    for (const MortiseInPlace &pair : candidate.inPlace)
      offer.inPlace.push_back({inRegion(offer.region, pair.input), inRegion(offer.region, pair.output)});
    for (MortiseForm form : candidate.forms) {
      form.value = inRegion(offer.region, form.value);
      offer.forms.push_back(form);
    }
    found.offers.push_back(std::move(offer));
  }
  for (const Declined &declined : proposals.declined)
    if (declined.detail.starts_with(ignoredCandidate))
      found.ignored.push_back(declined.detail);
  return found;
}

} // namespace mortise::passes
