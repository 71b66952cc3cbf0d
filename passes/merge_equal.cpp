// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/passes.hpp>

#include <mlir/Interfaces/SideEffectInterfaces.h>
#include <mlir/Pass/Pass.h>

#include <llvm/ADT/DenseMap.h>

namespace mortise::passes {
#define GEN_PASS_DEF_MERGEEQUAL
#include "passes.h.inc"

namespace {

struct MergeEqual : impl::MergeEqualBase<MergeEqual> {
  void runOnOperation() override {
    getOperation()->walk([](mlir::Block *block) { merge(*block); });
  }

  static bool merges(mlir::Operation &op) {
    return op.getNumRegions() == 0 && op.getNumResults() != 0 && !op.hasTrait<mlir::OpTrait::IsTerminator>() &&
           mlir::isMemoryEffectFree(&op);
  }

  static llvm::hash_code hash(mlir::Operation &op) {
    return llvm::hash_combine(op.getName().getAsOpaquePointer(), op.hashProperties(), op.getNumResults(),
                              op.getResult(0).getType().getAsOpaquePointer(),
                              llvm::hash_combine_range(op.operand_begin(), op.operand_end()));
  }

  static bool equal(mlir::Operation &a, mlir::Operation &b) {
    return a.getName() == b.getName() && a.getOperands() == b.getOperands() &&
           a.getResultTypes() == b.getResultTypes() &&
           a.getDiscardableAttrDictionary() == b.getDiscardableAttrDictionary() &&
           a.getName().compareOpProperties(a.getPropertiesStorage(), b.getPropertiesStorage());
  }

  // Replaces each op by the first equal one of the block.
  static void merge(mlir::Block &block) {
    llvm::DenseMap<size_t, mlir::Operation *> known; // the last op with this hash
    llvm::SmallVector<mlir::Operation *> dead;
    for (mlir::Operation &op : block) {
      if (!merges(op))
        continue;
      auto [found, fresh] = known.try_emplace(hash(op) & (~size_t(0) >> 1), &op);
      if (fresh)
        continue;
      if (equal(*found->second, op)) {
        op.replaceAllUsesWith(found->second->getResults());
        dead.push_back(&op);
      } else {
        found->second = &op;
      }
    }
    for (mlir::Operation *op : dead)
      op->erase();
  }
};

} // namespace
} // namespace mortise::passes
