// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that generated code calls: those that LLVM makes of loads and stores.
#pragma once

#include <span>

namespace mortise::codegen {

struct RuntimeFunction {
  const char *name;
  void *address;
};
std::span<const RuntimeFunction> runtimeFunctions();

} // namespace mortise::codegen
