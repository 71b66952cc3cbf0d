// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a module to a plan.
#pragma once

#include <mortise/runtime/config.hpp>
#include <mortise/runtime/program.hpp>
#include <mortise/runtime/registry.hpp>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mortise::passes {

struct Timings { // seconds
  double passes = 0, place = 0;
};

// Runs the pipeline of pipelines.cpp on `module` (which it changes), places it on the devices that config's `device`
// selects (a name that Registry::find knows, or several with commas between), and writes the plan. Errors: a node that
// no chosen device takes even after decomposition (the message lists the op, its location and every plugin's reason),
// `require` not met, an unknown device. `timings` may be NULL.
Result<std::shared_ptr<const plan::PlanT>> compile(mlir::ModuleOp module, const runtime::Registry &registry,
                                                   const runtime::Config &config, Timings *timings = nullptr);

} // namespace mortise::passes
