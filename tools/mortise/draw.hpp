// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph as a page that stands alone: ops, shapes, devices, costs.
#pragma once

#include <mortise/portable/graph.hpp>

#include <string>

namespace mortise::plan {
struct PlanT;
}

namespace mortise::tool {

// `plan`, whose node numbers are the graph's, colours devices and says costs; NULL: the graph alone.
std::string draw(const MortiseGraph &graph, const plan::PlanT *plan);

} // namespace mortise::tool
