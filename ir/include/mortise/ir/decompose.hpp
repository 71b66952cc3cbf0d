// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces composite ops by other ops.
#pragma once

#include <llvm/Support/LogicalResult.h>

namespace mlir {
class Operation;
class RewriterBase;
} // namespace mlir

namespace mortise::ir {

bool isComposite(mlir::Operation *op);

// Replaces a composite op by its decomposition, one level deep: that of attention contains a softmax, which is
// composite itself. Fails and changes nothing for any other op.
llvm::LogicalResult decompose(mlir::Operation *op, mlir::RewriterBase &rewriter);

} // namespace mortise::ir
