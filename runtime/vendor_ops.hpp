// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/runtime/registry.hpp>

namespace mortise::runtime {

// Asks the plugin, which declares the op, for the types of the results. Those that reach `asked.add` can be read.
Result<void> askInfer(const Plugin &plugin, const MortiseInferArgs &asked);

// Calls the slot, and says what is wrong with the types that it answers with; "" where nothing is. Error: its status.
Result<std::string> callInfer(const MortisePlugin &table, const MortiseInferArgs &asked);

} // namespace mortise::runtime
