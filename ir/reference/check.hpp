// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "kernels.hpp"

namespace mortise::reference::inline MORTISE_ARITHMETIC {

// NULL for an op of a vendor.
const OpSpec *findOp(const MortiseNode &node);

// Whether the interpreter has the op and the node is well formed; `refuse` also refuses collectives of several ranks.
Refusal checkNode(const MortiseNode &node);
// The number of ranks of a collective; 0 for other ops.
int64_t rankCount(const MortiseNode &node);

inline constexpr int maxDepth = 16; // nesting depth of bodies

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
