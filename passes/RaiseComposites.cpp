// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The patterns are in raise/, a file for each family.
#include "raise/Match.h"

#include <mortise/passes/Passes.h>

#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mortise::passes {
#define GEN_PASS_DEF_RAISECOMPOSITES
#include "Passes.h.inc"

namespace {

class Pattern : public mlir::RewritePattern {
public:
  Pattern(const raise::Row &row, mlir::MLIRContext *context) : RewritePattern(row.root, 1, context), raise(row.raise) {}
  mlir::LogicalResult matchAndRewrite(mlir::Operation *op, mlir::PatternRewriter &rewriter) const override {
    return raise(op, rewriter);
  }

private:
  raise::Raise raise;
};

struct RaiseComposites : impl::RaiseCompositesBase<RaiseComposites> {
  mlir::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::RewritePatternSet set(context);
    for (auto *family : {raise::activations, raise::norms, raise::softmaxes, raise::attentions, raise::ropes,
                         raise::linears, raise::convolutions})
      for (const raise::Row &row : family())
        if (raise::isKnown(context, row.makes))
          set.add(std::make_unique<Pattern>(row, context));
    patterns = mlir::FrozenRewritePatternSet(std::move(set));
    return mlir::success();
  }
  void runOnOperation() override {
    const auto config = mlir::GreedyRewriteConfig().setRegionSimplificationLevel(
        mlir::GreedySimplifyRegionLevel::Disabled); // functions have one block
    if (mlir::failed(mlir::applyPatternsGreedily(getOperation(), patterns, config)))
      signalPassFailure();
  }
  mlir::FrozenRewritePatternSet patterns;
};

} // namespace
} // namespace mortise::passes
