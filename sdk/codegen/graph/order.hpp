// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of fusion: what groups are called, and the order in which they run.
#pragma once

#include <mortise/codegen/codegen.hpp>

namespace mortise::codegen {

// For people: its ops, the telling ones first, and the extents of its first output.
std::string nameOf(const MortiseGraph &graph, const Group &group);

// Group::inPlace: the input that the put which ends the group updates, if nothing else of the group reads it and
// both are dense.
int updatedInput(const MortiseGraph &graph, const Group &group);

// Each behind the groups, and behind those of `others`, whose values it reads; else in the graph's order. `others`: the
// nodes that no group computes. `views`, per value: through which a value without memory is read. Errors:
// MORTISE_INTERNAL if groups depend on each other.
Result<std::vector<Group>> inOrder(const MortiseGraph &graph, std::vector<Group> groups,
                                   std::span<const uint32_t> others, const std::vector<std::optional<View>> &views);

} // namespace mortise::codegen
