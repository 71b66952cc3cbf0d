// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that run bodies.
include "mortise/ir/Dialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Mortise_YieldOp : Op<Mortise_Dialect, "yield", [Pure, Terminator, ReturnLike]> {
  let summary = "ends a body and names its outputs";
  let arguments = (ins Variadic<Mortise_Tensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}
