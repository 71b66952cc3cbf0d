// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that run bodies. A body is a function of its own arguments: it sees no value from outside, only the symbols, which
// are the function's. It ends in mortise.yield. Bodies are as pure as other ops, nest up to 16 deep, and hold no
// collectives, since ranks may take different paths. Inputs, state and results may be of any element type, and pass
// with their bits.
include "mortise/ir/dialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Mortise_YieldOp : Op<Mortise_Dialect, "yield", [Pure, Terminator, ReturnLike]> {
  let summary = "ends a body and names its outputs";
  let arguments = (ins Variadic<Mortise_Tensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
}

class Mortise_ControlFlowOp<string mnemonic> : Mortise_Op<mnemonic, [IsolatedFromAbove, SingleBlock]> {
  let opTraits = [MortiseTrait_ControlFlow];
  let since = 2;
}

def Mortise_IfOp : Mortise_ControlFlowOp<"if"> {
  let summary = "runs one of two bodies on `inputs`";
  let description = [{
    Runs the first body when the predicate is true, else the second. The other body is not run, so its cost and its NaNs have no effect. The
    results are the values that the body yields. (StableHLO's bodies take no arguments and see values from outside.)

    Constraints:
    * if_c1: the predicate is an i1 of rank 0.
    * if_c2: both bodies take arguments of the types of `inputs`.
    * if_c3: both bodies yield the same types, at least one; these are the results'.
    * if_c4: bodies hold no collectives.
  }];
  let arguments = (ins Mortise_BoolTensor:$predicate, Variadic<Mortise_Tensor>:$inputs);
  let results = (outs Variadic<Mortise_Tensor>:$outputs);
  let regions = (region AnyRegion:$then_body, AnyRegion:$else_body);
  let bodies = 2;
  let assemblyFormat = "operands `then` $then_body `else` $else_body attr-dict `:` functional-type(operands, results)";
}
def Mortise_WhileOp : Mortise_ControlFlowOp<"while"> {
  let summary = "repeats `step` while `condition` is true";
  let description = [{
    The state starts as `inputs`. `condition` takes the state and yields an i1; while it is true, `step` takes the state and yields the
    next. The results are the last state, which is `inputs` when the condition is false at once. The loop does not end when the condition is
    never false. Extents do not change from step to step. (StableHLO's while is the same, but its bodies see values from outside.)

    Constraints:
    * while_c1: at least one input.
    * while_c2: both bodies take arguments of the types of `inputs`.
    * while_c3: condition yields one i1 of rank 0.
    * while_c4: step yields the types of `inputs`; these are the results'.
    * while_c5: bodies hold no collectives.
  }];
  let arguments = (ins Variadic<Mortise_Tensor>:$inputs);
  let results = (outs Variadic<Mortise_Tensor>:$outputs);
  let regions = (region AnyRegion:$condition, AnyRegion:$step);
  let bodies = 2;
  let assemblyFormat = "operands `condition` $condition `step` $step attr-dict `:` functional-type(operands, results)";
}
def Mortise_ScanOp : Mortise_ControlFlowOp<"scan"> {
  let summary = "runs `step` `trips` times over stacked inputs";
  let description = [{
    The first `carried` inputs are the state; each of the others holds one slice per trip along dimension 0. Trip t takes the state and slice
    t of every stacked input (one dimension less), and yields the next state, then the values to stack. The results are the last state, then
    the stacked values, each with a new dimension 0 of extent `trips`. With 0 trips the results are the initial state and empty tensors.
    StableHLO has no scan.

    Constraints:
    * scan_c1: `trips` has one entry, which is not negative; 0 <= carried <= the number of inputs.
    * scan_c2: every stacked input has rank 1 or more and extent `trips` along dimension 0.
    * scan_c3: step takes the types of the state and of the slices.
    * scan_c4: step yields the types of the state first, and at least one.
    * scan_c5: the body holds no collectives.
  }];
  let arguments = (ins Variadic<Mortise_Tensor>:$inputs, Mortise_Dims:$trips, I64Attr:$carried);
  let results = (outs Variadic<Mortise_Tensor>:$outputs);
  let regions = (region AnyRegion:$step);
  let bodies = 1;
  let assemblyFormat = "operands `step` $step attr-dict `:` functional-type(operands, results)";
}
