// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/passes/Passes.h>

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

namespace mortise::passes {
namespace {
#define GEN_PASS_DEF_SINKCONSTANTS
#include "Passes.h.inc"

struct SinkConstants : impl::SinkConstantsBase<SinkConstants> {
  void runOnOperation() override {
    llvm::SmallVector<mlir::Operation *> literals;
    getOperation()->walk([&](mlir::Operation *op) {
      if (op->getName().getStringRef() == "mortise.constant")
        literals.push_back(op);
    });
    for (mlir::Operation *literal : literals)
      sink(literal);
  }

  static void sink(mlir::Operation *literal) {
    llvm::SmallVector<mlir::Operation *> users(literal->getUsers());
    llvm::SmallPtrSet<mlir::Operation *, 8> served;
    for (mlir::Operation *user : users) {
      if (!served.insert(user).second) // uses it twice
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

std::unique_ptr<mlir::Pass> createSinkConstants() { return std::make_unique<SinkConstants>(); }

} // namespace mortise::passes
