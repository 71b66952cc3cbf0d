// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/ir/decompose.hpp>

#include "writer.hpp"

using namespace mlir;

namespace mortise::ir {

// The symbol table in the op's types; NULL when all are static.
static SymbolsAttr symbolsOf(Operation *op) {
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (SymbolsAttr symbols = symbolsOf(type))
        return symbols;
  return {};
}

bool isComposite(Operation *op) {
  auto known = llvm::dyn_cast<MortiseOp>(op);
  return known && known.isComposite();
}

LogicalResult decompose(Operation *op, RewriterBase &rewriter) {
  if (!isComposite(op))
    return failure();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  Writer write{rewriter, op->getLoc(), symbolsOf(op)};
  Values results = llvm::cast<MortiseOp>(op).expand(write);
  if (results.size() != op->getNumResults())
    return failure();
  for (auto [result, old] : llvm::zip(results, op->getResults()))
    result = write.converted(result, elementOf(old));
  rewriter.replaceOp(op, results);
  return success();
}

} // namespace mortise::ir
