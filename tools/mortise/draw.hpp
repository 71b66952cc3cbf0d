// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws a graph as a self-contained HTML page: ops, shapes, devices, costs.
#pragma once

#include <mortise/portable/graph.hpp>

#include <string>
#include <string_view>

namespace mortise::plan {
struct PlanT;
}

namespace mortise::tool {

// Text as it stands in HTML.
std::string escaped(std::string_view text);

// `plan` must be a plan of `graph`; it adds colours for devices, and costs. NULL draws the graph alone.
std::string draw(const MortiseGraph &graph, const plan::PlanT *plan);

} // namespace mortise::tool
