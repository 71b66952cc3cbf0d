// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/runtime/registry.hpp>

namespace mortise::runtime {

// Asks the plugin, which declares the op, for the types of the results. Those that reach `asked.add` can be read.
Result<void> askInfer(const Plugin &plugin, const MortiseInferArgs &asked);

} // namespace mortise::runtime
