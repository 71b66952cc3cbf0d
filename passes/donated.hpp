// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region that is told which of its inputs it may overwrite (decision 0075). Links no LLVM.
#pragma once

#include <mortise/portable/graph.hpp>

namespace mortise::passes {

// A copy of the region's graph with MORTISE_VALUE_DONATED on the chosen ones of its inputs.
Result<std::shared_ptr<const Graph>> withDonated(const MortiseGraph &region, const std::vector<bool> &inputs);

} // namespace mortise::passes
