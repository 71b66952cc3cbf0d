// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes for tests.
#include "test_passes.hpp"

#include <mortise/ir/decompose.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/PatternMatch.h>
#include <mlir/Pass/Pass.h>
#include <mlir/Pass/PassRegistry.h>

namespace {

// Decomposes every composite op once, or until none is left.
struct Decompose : mlir::PassWrapper<Decompose, mlir::OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Decompose)
  Decompose() = default;
  Decompose(const Decompose &other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const override { return "test-decompose"; }
  llvm::StringRef getDescription() const override { return "replaces composite ops by their decompositions"; }
  Option<bool> once{*this, "once", llvm::cl::desc("one level only")};

  void runOnOperation() override {
    mlir::IRRewriter rewriter(&getContext());
    for (bool found = true; found; found = found && !once) {
      llvm::SmallVector<mlir::Operation *> composites;
      getOperation()->walk([&](mlir::Operation *op) {
        if (mortise::ir::isComposite(op))
          composites.push_back(op);
      });
      found = !composites.empty();
      for (mlir::Operation *op : composites)
        if (mlir::failed(mortise::ir::decompose(op, rewriter)))
          return (void)(op->emitOpError("has no decomposition"), signalPassFailure());
    }
  }
};

// Writes the module in the portable format and reads it back.
struct RoundTrip : mlir::PassWrapper<RoundTrip, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RoundTrip)
  llvm::StringRef getArgument() const override { return "test-portable-round-trip"; }
  llvm::StringRef getDescription() const override { return "writes the portable format and reads it back"; }

  void fail(const mortise::Error &error) {
    getOperation().emitError(error.message);
    signalPassFailure();
  }
  void runOnOperation() override {
    auto exported = mortise::ir::exportGraph(getOperation());
    if (!exported)
      return fail(exported.error());
    auto read = mortise::Graph::read((*exported)->bytes());
    if (!read)
      return fail(read.error());
    auto module = mortise::ir::importGraph(**read, getContext());
    if (!module)
      return fail(module.error());
    getOperation().getBodyRegion().takeBody((*module)->getBodyRegion());
  }
};

} // namespace

void mortise::registerTestPasses() {
  mlir::PassRegistration<Decompose>();
  mlir::PassRegistration<RoundTrip>();
}
