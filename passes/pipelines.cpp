// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler on one page. Three stages, each checked at its border: what comes in was verified op by op by the
// builder; these passes end with verify-stage; the export to the portable format, which placement starts from, is read
// back with the checks of a file. compile.cpp runs them, and then:
//   place.cpp       chooses the regions (decomposes what nobody takes, cleans up, and asks again),
//   plan_writer.cpp  says where values live, memory_plan.cpp at which offsets.
#include <mortise/passes/passes.hpp>

#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>
#include <mlir/Transforms/Passes.h>

namespace mortise::passes {

// Functions have one block, and the driver drops dead ops itself: simplifying regions finds nothing and takes a fifth
// of a pass.
static std::unique_ptr<mlir::Pass> canonicalizer() {
  return mlir::createCanonicalizerPass(
      mlir::GreedyRewriteConfig().setRegionSimplificationLevel(mlir::GreedySimplifyRegionLevel::Disabled));
}

void buildRecognition(mlir::OpPassManager &manager) {
  manager.addPass(canonicalizer());         // folds shape ops, drops what nobody uses: fewer forms to recognise
  manager.addPass(createMergeEqual());      // equal subexpressions become one value, which raising compares by identity
  manager.addPass(createRaiseComposites()); // backends have fast kernels for whole norms and activations
}

void buildCleanup(mlir::OpPassManager &manager) {
  manager.addPass(canonicalizer());       // raising and decomposing leave dead steps and reshapes of reshapes
  manager.addPass(createMergeEqual());    // one mask for all layers
  manager.addPass(createSinkConstants()); // last: no literal ties two regions together
  manager.addPass(createVerifyStage("the passes"));
}

void buildPipeline(mlir::OpPassManager &manager) {
  buildRecognition(manager);
  buildCleanup(manager); // compile.cpp takes apart what no plugin has a lowering for in between
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
