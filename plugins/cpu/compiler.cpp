// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device.hpp"
#include "units.hpp"

namespace mortise::cpu {

Result<std::unique_ptr<codegen::Compiler>> makeCompiler() { return codegen::Compiler::create(target()); }

} // namespace mortise::cpu
