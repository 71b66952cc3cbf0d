// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/refusal.hpp>

#include <mortise/plugin.h>

namespace mortise::runtime {

const char *reasonName(int32_t reason) {
  constexpr const char *names[] = {"unknown", "op",    "dtype",  "rank",   "attribute", "layout", "needs static",
                                   "size",    "opset", "memory", "option", "hardware",  "error",  "cost"};
  return names[reason >= MORTISE_REASON_OP && reason <= MORTISE_REASON_COST ? reason : 0];
}

} // namespace mortise::runtime
