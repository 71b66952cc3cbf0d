// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/passes.hpp>

#include <mortise/ir/dialect.hpp>

#include <mlir/IR/Verifier.h>
#include <mlir/Pass/Pass.h>

namespace mortise::passes {
#define GEN_PASS_DECL_VERIFYSTAGE
#define GEN_PASS_DEF_VERIFYSTAGE
#include "passes.h.inc"

namespace {

struct VerifyStage : impl::VerifyStageBase<VerifyStage> {
  using VerifyStageBase::VerifyStageBase;
  void runOnOperation() override {
    mlir::Operation *root = getOperation();
    if (mlir::failed(mlir::verify(root)))
      return signalPassFailure();
    root->walk([&](mlir::Operation *op) {
      const llvm::StringRef dialect = op->getName().getDialectNamespace();
      if (op == root || dialect == "mortise" || dialect == "func" || dialect == "builtin")
        return;
      op->emitError("expected mortise ops only after " + after + ", found " + op->getName().getStringRef());
      signalPassFailure();
    });
  }
};

} // namespace

std::unique_ptr<mlir::Pass> createVerifyStage(llvm::StringRef after) {
  return std::make_unique<VerifyStage>(VerifyStageOptions{after.str()});
}

} // namespace mortise::passes
