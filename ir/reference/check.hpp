// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "kernels.hpp"

namespace mortise::reference {

// NULL for an op that is not ours.
const OpSpec *findOp(const MortiseNode &node);

// Whether the interpreter has the op and the node is well formed; `refuse` also asks that one rank is enough.
Refusal checkNode(const MortiseNode &node);
// How many ranks a collective is for; 0 for other ops.
int64_t rankCount(const MortiseNode &node);

inline constexpr int maxDepth = 16; // of bodies inside bodies

} // namespace mortise::reference
