// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a module to a plan.
#pragma once

#include <mortise/runtime/config.hpp>
#include <mortise/runtime/program.hpp>
#include <mortise/runtime/refusal.hpp>
#include <mortise/runtime/registry.hpp>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mortise::passes {

struct Timings { // seconds
  double passes = 0, place = 0, kernels = 0;
};

// Where the caller's tensors lie: one device per input or output of the graph, or NULL for host memory. What a list has
// no entry for lies in host memory. An output that aliases an input lies where the input does, whatever its entry says;
// constants may lie anywhere.
struct Homes {
  std::vector<const runtime::Device *> inputs, outputs;
};

using runtime::reasonName;
using runtime::Uncovered;

// Runs the pipeline of pipelines.cpp on `module` (which it changes), places it on the devices that config's `device`
// selects (a name that Registry::find knows, or several with commas between), and writes the plan. Errors: a node that
// no chosen device takes even after decomposition (the message lists the op, its location and every plugin's reason),
// `require` not met, an unknown device. `timings` may be NULL. `uncovered`, which may be NULL, receives every device's
// answer for every node that no device takes; it is empty after success and after every other error. `homes` has
// devices of the registry.
Result<std::shared_ptr<const plan::PlanT>> compile(mlir::ModuleOp module, const runtime::Registry &registry,
                                                   const runtime::Config &config, Timings *timings = nullptr,
                                                   std::vector<Uncovered> *uncovered = nullptr,
                                                   const Homes &homes = {});

// compile(), and the program of its plan. A plugin may find only when it compiles a region, or binds its constants,
// that it does not support it (MORTISE_UNSUPPORTED). The offer is then refused, with the plugin's words as the reason,
// half of its nodes are asked for at a time, and the module is placed again: on other devices, or `uncovered` lists the
// nodes. The program does the same later (Program::setPlaceAgain).
Result<std::shared_ptr<runtime::Program>> compileAndLoad(mlir::ModuleOp module,
                                                         const std::shared_ptr<const runtime::Registry> &registry,
                                                         const runtime::Config &config, Timings *timings = nullptr,
                                                         std::vector<Uncovered> *uncovered = nullptr,
                                                         const Homes &homes = {});

} // namespace mortise::passes
