// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host_uses.hpp"

namespace mortise::runtime {

void hostUses(const void *, uint64_t, bool) {}

} // namespace mortise::runtime
