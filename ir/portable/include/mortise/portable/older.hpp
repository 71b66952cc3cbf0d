// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs for plugins of older opsets. Links no LLVM.
#pragma once

#include <mortise/portable/graph.hpp>

namespace mortise::portable {

// The opset that introduced an op, itself of opset `opSince`, at these attributes: one that was added later counts
// unless it has the value that earlier opsets implied, and so does a value that was added to an enumeration.
uint32_t sinceOf(std::string_view op, uint32_t opSince, std::span<const MortiseAttribute *const> attributes,
                 const Opset &opset = portable::opset());

// The graph for a plugin that knows opset `newest`: without attributes that were added later and have the value that
// this opset implied. Those with another value stay; MortiseNode::since says that such a node is too new. NULL where
// nothing is left out.
Result<std::shared_ptr<const Graph>> withoutImplied(const MortiseGraph &graph, uint32_t newest,
                                                    const Opset &opset = portable::opset());

} // namespace mortise::portable
