// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of composite ops in terms of others.
#pragma once

#include <llvm/Support/LogicalResult.h>

namespace mlir {
class Operation;
class RewriterBase;
} // namespace mlir

namespace mortise::ir {

bool isComposite(mlir::Operation *op);

// Replaces a composite op by its decomposition, one level: attention leaves a softmax, which decomposes in its turn.
// Fails, with nothing changed, on any other op.
llvm::LogicalResult decompose(mlir::Operation *op, mlir::RewriterBase &rewriter);

} // namespace mortise::ir
