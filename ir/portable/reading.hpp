// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading and writing for versions other than this build's, which tests and older readers need.
#pragma once

#include "limits.hpp"
#include <mortise/portable/graph.hpp>

namespace mortise::detail {

struct Newest { // the newest versions that a reader knows
  uint32_t format = portable::formatVersion, opset = MORTISE_OPSET;
};
Result<std::shared_ptr<const Graph>> readBytes(std::span<const std::byte> bytes, Newest newest);
Result<std::shared_ptr<const Graph>> copyView(const MortiseGraph &view, Newest newest);

} // namespace mortise::detail
