// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results before they are rounded to their types, for judges. See number.hpp.
#pragma once

#include <mortise/graph.hpp>

#include <span>

namespace mortise::reference {

// As interpret(), but float outputs are f64, whatever their type: 8 bytes an element. `interpretUnrounded` computes in
// f64, `interpretInMpfr` in numbers of 128 bits, of which results keep 53.
Result<void> interpretUnrounded(const MortiseGraph &graph, std::span<const void *const> inputs,
                                std::span<void *const> outputs);
Result<void> interpretInMpfr(const MortiseGraph &graph, std::span<const void *const> inputs,
                             std::span<void *const> outputs);

} // namespace mortise::reference
