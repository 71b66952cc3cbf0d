// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layout of arenas lives with the runtime, which repeats it for the values of symbols.
#pragma once

#include <mortise/runtime/memory_plan.hpp>

namespace mortise::passes {

using Block = runtime::ArenaBlock;
using runtime::arenaAlignment;
using runtime::assignOffsets;

} // namespace mortise::passes
