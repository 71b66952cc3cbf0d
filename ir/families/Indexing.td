// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that read or write at computed positions. An index below -extent or not below extent is out of range:
// reads clamp it to the nearest valid index, writes drop it. Negative indices in range count from the end.
include "mortise/ir/Dialect.td"

def Mortise_TakeOp : Mortise_Op<"take"> {
  let summary = "slices of `operand` along `axis`, chosen by `indices`";
  let description = [{Result shape: operand dimensions before `axis`, those of `indices` (any rank), operand dimensions after.}];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_TakeAlongOp : Mortise_Op<"take_along"> {
  let summary = "result[.., i, ..] = operand[.., indices[.., i, ..], ..] along `axis`";
  let description = [{
    `indices` has the rank of `operand`; off the axis each extent of `indices` is at most that of `operand`
    (PyTorch's gather). The result has the shape of `indices`.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_TakeNdOp : Mortise_Op<"take_nd"> {
  let summary = "operand at the coordinates held in the last dimension of `indices`";
  let description = [{
    indices: [b..., k] with k <= rank(operand). Coordinates address the leading k dimensions; the result has shape
    b... followed by the operand's remaining dimensions.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_PutOp : Mortise_Op<"put"> {
  let summary = "operand with slices along `axis` replaced, or added to, at one-dimensional `indices`";
  let description = [{
    updates has the operand's shape with extent(indices) at `axis`. mode "set": the last update to an index wins;
    "add": all are added, in order.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, Mortise_Tensor:$updates,
                       I64Attr:$axis, Mortise_Choice<["set", "add"]>:$mode);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_EmbeddingOp : Mortise_CompositeOp<"embedding"> {
  let summary = "rows of a table: take along axis 0";
  let arguments = (ins Mortise_Tensor:$table, Mortise_IndexTensor:$indices);
  let results = (outs Mortise_Tensor:$result);
}
