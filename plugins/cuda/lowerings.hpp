// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/plugin.hpp>

namespace mortise::cuda {

// Says which nodes we take, as maximal convex regions with a roofline cost, and why we refuse the others.
// `addsNarrowBias`: as supportsProduct's.
Result<void> propose(Proposal &proposal, bool addsNarrowBias);

} // namespace mortise::cuda
