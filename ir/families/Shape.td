// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that move or make elements without computing on them.
include "mortise/ir/Dialect.td"

def Mortise_ConstantOp : Mortise_Op<"constant", [ConstantLike]> {
  let summary = "a small literal; weights are function arguments, never literals";
  let description = [{Canonical form: a literal whose elements are all equal is a broadcast of a scalar constant.}];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$value attr-dict";
}
def Mortise_IotaOp : Mortise_Op<"iota"> {
  let summary = "counts 0, 1, 2, ... along `axis`";
  let description = [{Values wrap or round as `convert` from i64 would.}];
  let arguments = (ins Mortise_Dims:$shape, StrAttr:$dtype, I64Attr:$axis);
  let results = (outs Mortise_NumberTensor:$result);
  let hasFolder = 1;
}
def Mortise_ExtentsOp : Mortise_Op<"extents"> {
  let summary = "extents as an i64 tensor of rank 1, to compute with";
  let arguments = (ins Mortise_Dims:$shape);
  let results = (outs Mortise_TensorOf<[I64]>:$result);
  let hasFolder = 1;
  let since = 2;
}
def Mortise_ReshapeOp : Mortise_Op<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Dims:$shape);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_TransposeOp : Mortise_Op<"transpose"> {
  let summary = "result dimension i is operand dimension permutation[i]";
  let arguments = (ins Mortise_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_BroadcastOp : Mortise_Op<"broadcast"> {
  let summary = "repeats elements: operand dimension i becomes result dimension axes[i]";
  let description = [{
    StableHLO's broadcast_in_dim. An operand extent is 1 or equals the result's; `axes` is strictly ascending
    (StableHLO allows any order; write a transpose).
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Dims:$shape, DenseI64ArrayAttr:$axes);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_SliceOp : Mortise_Op<"slice"> {
  let summary = "elements start, start + stride, ... below limit, per dimension";
  let description = [{0 <= start <= limit <= extent and stride >= 1.}];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Dims:$starts, Mortise_Dims:$limits,
                       DenseI64ArrayAttr:$strides);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_ConcatenateOp : Mortise_Op<"concatenate"> {
  let summary = "operands one after the other along `axis`";
  let arguments = (ins Variadic<Mortise_Tensor>:$operands, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_PadOp : Mortise_Op<"pad"> {
  let summary = "surrounds with a scalar; negative amounts remove";
  let description = [{`interior` counts padding between neighbours and is not negative.}];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Tensor:$value, Mortise_Dims:$low,
                       Mortise_Dims:$high, DenseI64ArrayAttr:$interior);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_ReverseOp : Mortise_Op<"reverse"> {
  let summary = "turns the order round along `axes`";
  let arguments = (ins Mortise_Tensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
