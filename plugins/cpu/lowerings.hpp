// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/plugin.hpp>

namespace mortise::cpu {

// Whether this plugin computes the node, whatever the symbols' values, and if not why.
codegen::Support judge(const MortiseNode &node, std::span<const SymbolRange> symbols);

// Outputs that a region of these nodes may write over its inputs, as propose() promises.
std::vector<MortiseInPlace> inPlacePairs(const MortiseGraph &graph, std::span<const uint32_t> nodes);

// Says which nodes we take, as maximal convex regions with a roofline cost, and why we refuse the others.
Result<void> propose(Proposal &proposal);

} // namespace mortise::cpu
