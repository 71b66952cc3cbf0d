// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/x86/runtime.hpp"

#include <cstring>

namespace mortise::codegen {

std::span<const RuntimeFunction> runtimeFunctions() {
  static const RuntimeFunction all[] = {
      {"memcpy", reinterpret_cast<void *>(&std::memcpy)},
      {"memmove", reinterpret_cast<void *>(&std::memmove)},
      {"memset", reinterpret_cast<void *>(&std::memset)},
  };
  return all;
}

} // namespace mortise::codegen
