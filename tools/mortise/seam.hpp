// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only part of this folder that uses MLIR; all other files include no LLVM header.
#pragma once

#include <mortise/passes/compile.hpp>
#include <mortise/portable/graph.hpp>

#include <memory>
#include <string>
#include <vector>

namespace mortise::plan {
struct PlanT;
}

namespace mortise::tool {

// Reads the one public function of a module. `name` stands for the text in messages.
Result<std::shared_ptr<const Graph>> parse(const std::string &text, const std::string &name);
// Each public function of a text's modules, between which "// -----" stands, as far as it is a graph.
std::vector<std::shared_ptr<const Graph>> parseAll(const std::string &text);
Result<std::string> print(const Graph &graph);

// The graph after the compiler's passes, and its plan, which refers to the nodes of this graph.
struct Placed {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const plan::PlanT> plan;
};
Result<Placed> compile(const Graph &graph, const runtime::Registry &registry, const runtime::Config &config,
                       const passes::Homes &homes = {});

Result<std::shared_ptr<runtime::Program>> compileAndLoad(const Graph &graph,
                                                         const std::shared_ptr<const runtime::Registry> &registry,
                                                         const runtime::Config &config);

} // namespace mortise::tool
