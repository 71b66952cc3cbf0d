// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/ir/ops.hpp>
#include <mortise/passes/passes.hpp>

#include <mlir/IR/Builders.h>
#include <mlir/Pass/Pass.h>

namespace mortise::passes {
#define GEN_PASS_DEF_SINKCONSTANTS
#include "passes.h.inc"

namespace {

struct SinkConstants : impl::SinkConstantsBase<SinkConstants> {
  void runOnOperation() override {
    llvm::SmallVector<mlir::Operation *> literals, repeated;
    getOperation()->walk([&](mlir::Operation *op) {
      if (llvm::isa<ir::ConstantOp>(op))
        literals.push_back(op);
      else if (llvm::isa<ir::BroadcastOp>(op) && op->getOperand(0).getDefiningOp<ir::ConstantOp>())
        repeated.push_back(op);
    });
    for (mlir::Operation *op : repeated) // first, because their copies are users of the literals
      sink(op);
    for (mlir::Operation *op : literals)
      sink(op);
  }

  static void sink(mlir::Operation *literal) {
    llvm::SmallVector<mlir::Operation *> users(literal->getUsers());
    llvm::SmallPtrSet<mlir::Operation *, 8> served;
    for (mlir::Operation *user : users) {
      if (!served.insert(user).second) // the user reads the literal twice
        continue;
      if (served.size() == 1) {
        literal->moveBefore(user);
        continue;
      }
      mlir::Operation *copy = mlir::OpBuilder(user).clone(*literal);
      user->replaceUsesOfWith(literal->getResult(0), copy->getResult(0));
    }
  }
};

} // namespace
} // namespace mortise::passes
