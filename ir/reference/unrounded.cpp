// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/reference/interpreter.hpp>
#include <mortise/reference/unrounded.hpp>

namespace mortise::reference {

#if MORTISE_REFERENCE_VARIANT == 1
Result<void> interpretUnrounded(const MortiseGraph &graph, std::span<const void *const> inputs,
                                std::span<void *const> outputs) {
#else
Result<void> interpretInMpfr(const MortiseGraph &graph, std::span<const void *const> inputs,
                             std::span<void *const> outputs) {
#endif
  return interpret(graph, inputs, outputs);
}

} // namespace mortise::reference
