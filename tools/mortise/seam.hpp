// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one seam to MLIR: everything else in this folder sees no LLVM header.
#pragma once

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/registry.hpp>

#include <memory>
#include <string>

namespace mortise::plan {
struct PlanT;
}

namespace mortise::tool {

// The module's one public function. `name` stands for the text in messages.
Result<std::shared_ptr<const Graph>> parse(const std::string &text, const std::string &name);
Result<std::string> print(const Graph &graph);

// The graph as the compiler left it, and its plan, whose node numbers are that graph's.
struct Placed {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const plan::PlanT> plan;
};
Result<Placed> compile(const Graph &graph, const runtime::Registry &registry, const runtime::Config &config);

} // namespace mortise::tool
