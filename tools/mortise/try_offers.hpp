// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tries each candidate that a plugin offers for a graph, without the runtime between: its kernel gets memory that the
// runtime would give it only now and then.
#pragma once

#include "cases.hpp"
#include "host.hpp"

#include <set>
#include <string>

namespace mortise::tool {

struct OffersTried {
  size_t offers = 0, fused = 0; // that were run; those of several nodes
  std::string wrong;            // "" when all are right
};

// With a workspace that ends at a page which nobody may touch, full of NaN and then as the last run left it; with
// outputs apart, and in the memory of the inputs that a candidate names (MortiseCandidate::in_place), one pair by one
// and several at once; a state is written in place. Candidates that name layouts or spaces of their own, or read
// constants, are for the runtime to try. On a device with streams the kernel of each lowering that is not in `queued`
// is tried in queues too (try_queues.hpp).
OffersTried tryOffers(const MortiseGraph &graph, const std::vector<Point> &points, const Host &host,
                      std::set<std::string> &queued);

} // namespace mortise::tool
