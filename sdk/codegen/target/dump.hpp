// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace mortise::codegen {

// Whether MORTISE_DEV_CODEGEN_DUMP asks for this stage: "mlir", "llvm", "ptx", "spirv".
bool isDumped(const char *stage);

} // namespace mortise::codegen
