// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/plugin.hpp>

namespace mortise::rocm {

// Says which nodes we take, as maximal convex regions with a roofline cost, and why we refuse the others.
Result<void> propose(Proposal &proposal);

} // namespace mortise::rocm
