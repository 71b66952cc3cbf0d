// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "Kernels.h"

namespace mortise::reference {

// The table entry of "mortise.add" and the like; NULL for what is not ours.
const OpSpec *findOp(std::string_view op);

} // namespace mortise::reference
