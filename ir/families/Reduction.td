// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over `axes`, which disappear from the result, and running sums. `axes` is strictly ascending.
include "mortise/ir/Dialect.td"

class Mortise_Reduce<string mnemonic, Type operand> : Mortise_Op<mnemonic> {
  let arguments = (ins operand:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs operand:$result);
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::reduced(op.getOperand(), op.getAxes(), report);
    }
  }];
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) {
      return getAxes().empty() ? ::mlir::OpFoldResult(getOperand()) : ::mlir::OpFoldResult();
    }
  }];
  let hasFolder = 1;
}
def Mortise_ReduceSumOp : Mortise_Reduce<"reduce_sum", Mortise_NumberTensor> { let summary = "sum; of nothing, 0. The order is the backend's."; }
def Mortise_ReduceProdOp : Mortise_Reduce<"reduce_prod", Mortise_NumberTensor> { let summary = "product; of nothing, 1."; }
def Mortise_ReduceMaxOp : Mortise_Reduce<"reduce_max", Mortise_Tensor> { let summary = "largest, NaN wins; of nothing, -inf or the minimum; for i1, any."; }
def Mortise_ReduceMinOp : Mortise_Reduce<"reduce_min", Mortise_Tensor> { let summary = "smallest, NaN wins; of nothing, +inf or the maximum; for i1, all."; }
def Mortise_ArgmaxOp : Mortise_Op<"argmax"> {
  let summary = "i64 index of the first largest element along `axis`, which disappears; NaN is largest; the extent is not 0";
  let arguments = (ins Mortise_NumberTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_TensorOf<[I64]>:$result);
}
def Mortise_CumsumOp : Mortise_Op<"cumsum"> {
  let summary = "running sum along `axis`, the element itself included";
  let arguments = (ins Mortise_NumberTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_MeanOp : Mortise_CompositeOp<"mean"> {
  let summary = "reduce_sum divided by the number of elements; of nothing, NaN";
  let arguments = (ins Mortise_FloatTensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs Mortise_FloatTensor:$result);
}
