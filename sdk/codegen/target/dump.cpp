// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/dump.hpp"

#include <cstdlib>
#include <cstring>

namespace mortise::codegen {

bool isDumped(const char *stage) {
  static const char *wanted = std::getenv("MORTISE_DEV_CODEGEN_DUMP");
  return wanted && std::strstr(wanted, stage);
}

} // namespace mortise::codegen
