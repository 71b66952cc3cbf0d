// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/Compile.h>

#include "Devices.h"
#include "PlanWriter.h"

#include <mortise/ir/Decompose.h>
#include <mortise/ir/Portable.h>
#include <mortise/passes/Passes.h>
#include <mortise/runtime/plan_generated.h>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <chrono>

namespace mortise::passes {
namespace {

class Clock {
public:
  explicit Clock(double *total) : total(total) {}
  ~Clock() {
    if (total)
      *total += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  double *total;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

Result<void> runPasses(mlir::ModuleOp module, void (*build)(mlir::OpPassManager &), double *seconds) {
  Clock clock(seconds);
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    diagnostics += (diagnostics.empty() ? "" : "; ") + diagnostic.str();
    return mlir::success();
  });
  mlir::PassManager manager(module.getContext());
  manager.enableVerifier(false); // at the borders of stages instead: Pipelines.cpp
  build(manager);
  if (mlir::failed(manager.run(module)))
    return Error{MORTISE_INTERNAL, "the compiler's own passes failed: " + diagnostics};
  return {};
}

// Decomposes the composites among `nodes`. Nodes of the exported graph are the mortise ops of the function in order.
Result<bool> decomposeAll(mlir::ModuleOp module, const MortiseGraph &graph, const std::vector<uint32_t> &nodes) {
  std::vector<mlir::Operation *> ops;
  module.walk([&](mlir::Operation *op) {
    if (op->getName().getDialectNamespace() == "mortise")
      ops.push_back(op);
  });
  if (ops.size() != graph.node_count)
    return Error{MORTISE_INTERNAL, "the exported graph has " + std::to_string(graph.node_count) +
                                       " nodes, the module " + std::to_string(ops.size()) + " ops"};
  bool changed = false;
  mlir::IRRewriter rewriter(module.getContext());
  for (uint32_t node : nodes) {
    if (ops[node]->getName().getStringRef() != graph.nodes[node]->op)
      return Error{MORTISE_INTERNAL, "node " + std::to_string(node) + " is " + graph.nodes[node]->op +
                                         " in the exported graph and " + ops[node]->getName().getStringRef().str() +
                                         " in the module"};
    if (ir::isComposite(ops[node]) && mlir::succeeded(ir::decompose(ops[node], rewriter)))
      changed = true;
  }
  return changed;
}

} // namespace

Result<std::shared_ptr<const plan::PlanT>> compile(mlir::ModuleOp module, const runtime::Registry &registry,
                                                   const runtime::Config &config, Timings *timings) {
  double *passSeconds = timings ? &timings->passes : nullptr, *placeSeconds = timings ? &timings->place : nullptr;
  Result<std::vector<Target>> targets = chooseTargets(registry, config);
  if (!targets)
    return targets.error();
  if (Result<void> done = runPasses(module, buildPipeline, passSeconds); !done)
    return done.error();
  std::vector<Lost> lost;
  for (;;) {
    Result<std::shared_ptr<const Graph>> exported = [&] {
      Clock clock(passSeconds);
      return ir::exportGraph(module);
    }();
    if (!exported)
      return exported.error();
    const MortiseGraph &graph = (*exported)->view();
    if (Result<void> checked = checkGraph(graph); !checked)
      return checked.error();
    Placement placement = [&] {
      Clock clock(placeSeconds);
      return place(graph, *targets);
    }();
    if (placement.uncovered.empty()) {
      if (Result<void> met = checkRequirement(config.get("require"), graph, placement, *targets); !met)
        return met.error();
      Clock clock(placeSeconds);
      return writePlan(graph, placement, *targets, lost);
    }
    Result<bool> decomposed = decomposeAll(module, graph, placement.uncovered);
    if (!decomposed)
      return decomposed.error();
    if (!*decomposed)
      return uncoveredError(graph, placement, *targets);
    for (Refusal &refusal : placement.refusals)
      if (std::binary_search(placement.uncovered.begin(), placement.uncovered.end(), refusal.node)) {
        lost.push_back({graph.nodes[refusal.node]->op, std::move(refusal)});
        lost.back().refusal.node = UINT32_MAX;
      }
    if (Result<void> done = runPasses(module, buildCleanup, passSeconds); !done)
      return done.error();
  }
}

} // namespace mortise::passes
