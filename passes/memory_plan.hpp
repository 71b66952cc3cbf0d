// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arena layout is implemented in the runtime, which computes it again when the values of symbols are known.
#pragma once

#include <mortise/runtime/memory_plan.hpp>

namespace mortise::passes {

using Block = runtime::ArenaBlock;
using runtime::arenaAlignment;
using runtime::assignOffsets;

} // namespace mortise::passes
