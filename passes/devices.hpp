// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resolves the configuration's `device` to targets. Links no LLVM.
#pragma once

#include "propose.hpp"

#include <mortise/passes/compile.hpp>

namespace mortise::passes {

// Where a kind is named without an ordinal, the targets are those of its devices on which the caller's tensors lie, and
// its first device if there are none.
Result<std::vector<Target>> chooseTargets(const runtime::Registry &registry, const runtime::Config &config,
                                          const Homes &homes);

} // namespace mortise::passes
