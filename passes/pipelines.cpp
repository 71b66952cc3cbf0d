// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler on one page. It has three stages, and the IR is checked after each: the builder verifies every op that
// it adds; the passes here end with verify-stage; the export to the portable format, from which placement starts, is
// read back with the checks that a file gets. compile.cpp runs the stages, and then
// place.cpp chooses the regions (composites that no plugin takes are decomposed, cleaned up and proposed again),
// plan_writer.cpp assigns values to buffers, and runtime/memory_plan.cpp computes their offsets.
#include <mortise/passes/passes.hpp>

#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>
#include <mlir/Transforms/Passes.h>

namespace mortise::passes {

// Functions have one block, and the driver erases dead ops itself. Region simplification would find nothing and would
// take a fifth of the pass's time.
static std::unique_ptr<mlir::Pass> canonicalizer() {
  return mlir::createCanonicalizerPass(
      mlir::GreedyRewriteConfig().setRegionSimplificationLevel(mlir::GreedySimplifyRegionLevel::Disabled));
}

void buildRecognition(mlir::OpPassManager &manager) {
  manager.addPass(canonicalizer());    // folds shape ops and erases dead ops, which leaves fewer forms to recognise
  manager.addPass(createMergeEqual()); // raising compares subexpressions by identity
  manager.addPass(createRaiseComposites()); // backends have fast kernels for whole norms and activations
}

void buildCleanup(mlir::OpPassManager &manager) {
  manager.addPass(canonicalizer());       // raising and decomposing leave dead ops and chains of reshapes
  manager.addPass(createMergeEqual());    // layers that build equal masks then share one
  manager.addPass(createSinkConstants()); // last, because merge-equal would undo it
  manager.addPass(createVerifyStage("the passes"));
}

void buildPipeline(mlir::OpPassManager &manager) {
  buildRecognition(manager);
  buildCleanup(manager); // in between, compile.cpp decomposes ops that no plugin lowers
}

void registerPasses() {
  mlir::registerPass([] { return createMergeEqual(); });
  mlir::registerPass([] { return createRaiseComposites(); });
  mlir::registerPass([] { return createSinkConstants(); });
  mlir::registerPass([] { return createVerifyStage("the frontend"); });
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  static mlir::PassPipelineRegistration<> pipeline("mortise-pipeline", "the compiler up to placement", buildPipeline);
}

} // namespace mortise::passes
