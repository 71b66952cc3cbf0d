// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "donated.hpp"

#include <mortise/rewrite.hpp>

namespace mortise::passes {
namespace {

class Donation : public GraphRewriter {
public:
  Donation(const MortiseGraph &region, const std::vector<bool> &inputs) : donated(region.value_count) {
    for (size_t i = 0; i < region.input_count; ++i)
      donated[region.inputs[i]->index] = inputs[i];
  }

protected:
  uint32_t changeFlags(uint32_t flags) override { // of the region's values in their order, then of those of bodies
    const size_t value = next++;
    return value < donated.size() && donated[value] ? flags | MORTISE_VALUE_DONATED : flags;
  }

private:
  std::vector<bool> donated; // by value
  size_t next = 0;
};

} // namespace

Result<std::shared_ptr<const Graph>> withDonated(const MortiseGraph &region, const std::vector<bool> &inputs) {
  Donation donation(region, inputs);
  const Result<MortiseGraph> marked = donation.rewrite(region);
  return marked ? Graph::copy(*marked) : marked.error();
}

} // namespace mortise::passes
