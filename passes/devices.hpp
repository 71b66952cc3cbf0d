// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resolves the configuration's `device` to targets. Links no LLVM.
#pragma once

#include "propose.hpp"

namespace mortise::passes {

Result<std::vector<Target>> chooseTargets(const runtime::Registry &registry, const runtime::Config &config);

} // namespace mortise::passes
