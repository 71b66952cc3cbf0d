// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel of an attention, over the machine interface. Without a plan: its loops are always the same.
#pragma once

#include "emit/simt.hpp"

#include <mortise/codegen/simt.hpp>

namespace mortise::codegen {

// The arguments are the addresses of q, k, v, the mask where there is one, and the result, then the numbers of
// AttentionNumber. `alignment`: that the addresses, offsets and strides of all but the mask have, in bytes; 1: that of
// their elements. What is returned lacks the blocks, which come with each launch.
SimtLaunch emitAttention(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions,
                         llvm::StringRef name, unsigned alignment, mlir::ModuleOp module);

} // namespace mortise::codegen
