// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#define GET_OP_CLASSES
#include <mortise/ir/ControlFlow.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/ControlFlow.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addControlFlowOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/ControlFlow.cpp.inc>
      >();
}

} // namespace mortise::ir
