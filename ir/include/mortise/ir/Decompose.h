// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of composite ops in terms of others.
#pragma once

#include <mlir/Support/LLVM.h>

namespace mlir {
class RewriterBase;
} // namespace mlir

namespace mortise::ir {

bool isComposite(mlir::Operation *op);

// Replaces a composite op by its decomposition, one level: attention leaves a softmax, which decomposes in its turn.
// Fails, with nothing changed, on any other op.
mlir::LogicalResult decompose(mlir::Operation *op, mlir::RewriterBase &rewriter);

} // namespace mortise::ir
