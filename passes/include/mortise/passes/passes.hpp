// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes (passes.td) and the pipeline (pipelines.cpp), for tools and tests.
#pragma once

#include <llvm/ADT/StringRef.h>

#include <memory>

namespace mlir {
class OpPassManager;
class Pass;
} // namespace mlir

namespace mortise::passes {

std::unique_ptr<mlir::Pass> createMergeEqual();
std::unique_ptr<mlir::Pass> createRaiseComposites();
std::unique_ptr<mlir::Pass> createSinkConstants();
std::unique_ptr<mlir::Pass> createVerifyStage(llvm::StringRef after);

// The passes that raise the frontend's ops to composites.
void buildRecognition(mlir::OpPassManager &manager);
// The passes that must run after composites were raised or decomposed.
void buildCleanup(mlir::OpPassManager &manager);
// Recognition and cleanup: the whole compiler up to placement, on a module.
void buildPipeline(mlir::OpPassManager &manager);

// Every pass by its flag, and the pipeline as `mortise-pipeline`.
void registerPasses();

} // namespace mortise::passes
