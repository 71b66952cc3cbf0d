// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of a graph fits into a device's memory.
#pragma once

#include <mortise/plugin.h>

#include <functional>
#include <span>

namespace mortise::passes {

// The most bytes that running `nodes` in this order holds at a time: their constants, and values from the step that
// makes or first reads them to the last that reads them. `isThere`: whether a graph input needs no memory, because the
// caller keeps it on the device. An estimate: a plugin packs constants and has workspaces, and values of extents that
// are no numbers do not count.
uint64_t memoryUse(const MortiseGraph &graph, std::span<const uint32_t> nodes,
                   const std::function<bool(uint32_t input)> &isThere);

// The length of the longest beginning of `nodes` that uses no more than `bytes`.
size_t countThatFits(const MortiseGraph &graph, std::span<const uint32_t> nodes, uint64_t bytes,
                     const std::function<bool(uint32_t input)> &isThere);

} // namespace mortise::passes
