// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The patterns are in raise/, a file for each family.
#include "raise/match.hpp"

#include <mortise/passes/passes.hpp>

#include <mlir/Interfaces/SideEffectInterfaces.h>
#include <mlir/Pass/Pass.h>
#include <mlir/Rewrite/PatternApplicator.h>

#include <llvm/ADT/DenseSet.h>

namespace mortise::passes {
#define GEN_PASS_DEF_RAISECOMPOSITES
#include "passes.h.inc"

namespace {

class Pattern : public mlir::RewritePattern {
public:
  Pattern(const raise::Row &row, mlir::MLIRContext *context) : RewritePattern(row.root, 1, context), raise(row.raise) {}
  mlir::LogicalResult matchAndRewrite(mlir::Operation *op, mlir::PatternRewriter &rewriter) const override {
    return raise(op, rewriter);
  }

private:
  mlir::LogicalResult (*raise)(mlir::Operation *, mlir::PatternRewriter &);
};

struct RaiseComposites : impl::RaiseCompositesBase<RaiseComposites> {
  mlir::LogicalResult initialize(mlir::MLIRContext *context) override {
    mlir::RewritePatternSet set(context);
    for (auto *family : {raise::activations, raise::norms, raise::softmaxes, raise::attentions, raise::ropes,
                         raise::linears, raise::convolutions})
      for (const raise::Row &row : family())
        set.add(std::make_unique<Pattern>(row, context));
    patterns = mlir::FrozenRewritePatternSet(std::move(set));
    return mlir::success();
  }

  // Sweeps over the block until nothing changes, each op after its operands. MLIR's greedy driver takes twice as long:
  // it keeps a worklist of all ops and folds each of them, which the canonicalizer has done already. Here only ops that
  // are new, or that read a new op, are folded.
  void runOnOperation() override {
    mlir::PatternApplicator applicator(patterns);
    applicator.applyDefaultCostModel();
    fresh.clear();
    bool changed = true;
    for (int sweep = 0; changed && sweep < maxSweeps; ++sweep) {
      changed = false;
      getOperation()->walk([&](mlir::Block *block) { changed |= raise(*block, applicator); });
    }
  }

private:
  // Each sweep can match composites of the one before. Few are needed, because no pattern undoes another.
  static constexpr int maxSweeps = 10;

  bool raise(mlir::Block &block, mlir::PatternApplicator &applicator) {
    mlir::PatternRewriter rewriter(block.getParentOp()->getContext());
    bool changed = false;
    for (auto next = block.begin(); next != block.end();) {
      mlir::Operation *op = &*next++, *before = op->getPrevNode();
      llvm::SmallVector<mlir::Value> unread(op->getOperands());
      rewriter.setInsertionPoint(op);
      const bool replaced = fold(op, rewriter) || mlir::succeeded(applicator.matchAndRewrite(op, rewriter));
      if (!replaced && op->getPrevNode() == before)
        continue; // no op was created
      changed |= replaced;
      // Patterns check whether a value has one user. Ops of failed matches and ops that lost their users must not
      // count, so they are erased at once.
      for (mlir::Operation &made : llvm::make_range(before ? std::next(before->getIterator()) : block.begin(), next)) {
        if (&made != op)
          fresh.insert(&made);
        llvm::append_range(unread, made.getResults());
      }
      dropUnread(unread, rewriter);
    }
    return changed;
  }

  // Folds the op when it is new or reads a new op. Returns whether it changed or was replaced.
  bool fold(mlir::Operation *op, mlir::PatternRewriter &rewriter) {
    if (!fresh.contains(op) &&
        llvm::none_of(op->getOperands(), [&](mlir::Value value) { return fresh.contains(value.getDefiningOp()); }))
      return false;
    llvm::SmallVector<mlir::OpFoldResult> folded;
    if (mlir::failed(op->fold(folded)))
      return false;
    llvm::SmallVector<mlir::Value> values;
    for (mlir::OpFoldResult result : folded)
      if (auto value = llvm::dyn_cast<mlir::Value>(result); value && value.getType() == op->getResult(0).getType())
        values.push_back(value);
    if (folded.empty()) { // folded in place: it may fold further
      fresh.insert(op);
      return true;
    }
    if (values.size() != op->getNumResults())
      return false; // folded to constants, which no pattern needs
    rewriter.replaceOp(op, values);
    return true;
  }

  // Erases the producers of `values` that have no users, the last first, and then ops that only those read.
  static void dropUnread(llvm::SmallVector<mlir::Value> &values, mlir::PatternRewriter &rewriter) {
    while (!values.empty()) {
      mlir::Operation *op = values.pop_back_val().getDefiningOp();
      if (!op || !mlir::isOpTriviallyDead(op))
        continue;
      for (mlir::Value result : op->getResults())
        llvm::erase(values, result);
      llvm::append_range(values, op->getOperands());
      rewriter.eraseOp(op);
    }
  }

  mlir::FrozenRewritePatternSet patterns;
  // Ops that patterns created. The address of an erased op may belong to another op later, which costs one needless
  // fold.
  llvm::DenseSet<mlir::Operation *> fresh;
};

} // namespace
} // namespace mortise::passes
