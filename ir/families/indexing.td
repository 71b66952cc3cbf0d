// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that read or write at computed positions.
//
// Negative indices count from the end. An index below -extent or not below extent is out of range: reads clamp it to the
// nearest valid index, writes drop it. (StableHLO's gather clamps and its scatter drops too, but there -1 is out of range. For
// other modes, compute on the index first: `rem` wraps it; a `select` on a comparison of it replaces what was read.) Reads and
// elements without a write keep bits.
//
// Writes follow the row-major order of `updates`. Modes have the meaning of elementwise ops: "set", where the last write to an
// element wins; "add", "mul", "max", "min", which combine with the operand's element. Floats add and multiply in at least f32
// (f64 for f64), in the backend's order, and round once; integers wrap. max and min: NaN wins, +0 is above -0. For i1, add and
// max are or, mul and min are and.
include "mortise/ir/dialect.td"

def Mortise_TakeOp : Mortise_Op<"take"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "slices of `operand` along `axis`, chosen by `indices`";
  let description = [{
    Result shape: operand dimensions before `axis`, those of `indices` (any rank), operand dimensions after. (take_c1)
    0 <= axis < rank. (take_c2) The extent along `axis` is at least 1, unless there are no indices.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_TakeAlongOp : Mortise_Op<"take_along"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "result[.., i, ..] = operand[.., indices[.., i, ..], ..] along `axis`";
  let description = [{
    PyTorch's gather. The result has the shape of `indices`. (along_c1) `indices` has the rank of `operand`.
    (along_c2) 0 <= axis < rank. (along_c3) Off the axis each extent of `indices` is at most that of `operand`.
    (take_along_c1) The extent along `axis` is at least 1, unless there are no indices.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_TakeNdOp : Mortise_Op<"take_nd"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "operand at the coordinates held in the last dimension of `indices`";
  let description = [{
    indices: [b..., k]. Coordinates address the leading k dimensions; the result has shape b... followed by the operand's
    remaining dimensions. (nd_c1) k is a number, at most rank(operand). (take_nd_c1) The leading k extents are at least
    1, unless there are no coordinates.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_PutOp : Mortise_Op<"put"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "operand with slices along `axis` replaced, or added to, at one-dimensional `indices`";
  let description = [{
    (put_c1) 0 <= axis < rank. (put_c2) `indices` has rank 1. (put_c3) `updates` has the operand's shape with extent(indices)
    at `axis`, and its element type.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, Mortise_Tensor:$updates,
                       I64Attr:$axis, Mortise_Choice<["set", "add"]>:$mode);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_EmbeddingOp : Mortise_CompositeOp<"embedding"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "rows of a table: take along axis 0";
  let description = [{
    (embedding_c1) The table has rank 1 or more. (embedding_c2) It has a row, unless there are no indices.
  }];
  let arguments = (ins Mortise_Tensor:$table, Mortise_IndexTensor:$indices);
  let results = (outs Mortise_Tensor:$result);
}

let since = 2 in {
def Mortise_ScatterAlongOp : Mortise_Op<"scatter_along"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "operand written at [.., indices[.., i, ..], ..] along `axis` with updates[.., i, ..]";
  let description = [{
    PyTorch's scatter, scatter_add and scatter_reduce; ONNX's ScatterElements. along_c1, along_c2 and along_c3 as for
    take_along. (scatter_along_c1) `updates` has the shape of `indices` and the operand's element type. To leave the operand's
    elements out of a sum, first "set" the identity at the same indices; a mean is a sum divided by a scatter of ones.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, Mortise_Tensor:$updates, I64Attr:$axis,
                       Mortise_Choice<["set", "add", "mul", "max", "min"]>:$mode);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_ScatterNdOp : Mortise_Op<"scatter_nd"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "operand written at the coordinates held in the last dimension of `indices`";
  let description = [{
    indices: [b..., k], updates: b... followed by the operand's dimensions after the leading k, which coordinates address.
    ONNX's ScatterND, PyTorch's index_put; StableHLO's scatter with all window dimensions last. nd_c1 as for take_nd.
    (scatter_nd_c1) `updates` has that shape and the operand's element type. A slice is dropped when any
    of its coordinates is out of range.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_IndexTensor:$indices, Mortise_Tensor:$updates,
                       Mortise_Choice<["set", "add", "mul", "max", "min"]>:$mode);
  let results = (outs Mortise_Tensor:$result);
}
def Mortise_SearchsortedOp : Mortise_Op<"searchsorted"> {
  let opTraits = [MortiseTrait_Indexing];
  let summary = "where each value would be inserted into an ascending sequence";
  let description = [{
    The number of elements below the value, or, if `right`, not above it, in the order of `sort` (a NaN is above all numbers and
    equal to another NaN, -0 equals +0). The sequence may be empty. StableHLO has no such op.
    (searchsorted_c1) `sequence` has rank 1, or the rank of `values` and the same extents but for the last.
    (searchsorted_c2) Both have one element type. When the sequence is not ascending, the result is some number from 0 to its extent.
  }];
  let arguments = (ins Mortise_NumberTensor:$sequence, Mortise_NumberTensor:$values, BoolAttr:$right);
  let results = (outs Mortise_TensorOf<[I64]>:$result);
}
}
