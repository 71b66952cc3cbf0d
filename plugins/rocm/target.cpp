// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device.hpp"

namespace mortise::rocm {

Result<codegen::SimtTarget> targetOf(std::string_view architecture, unsigned compileThreads) {
  return codegen::SimtTarget::rocm(architecture, compileThreads);
}

} // namespace mortise::rocm
