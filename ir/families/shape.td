// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that move or create elements without computing on them. Bits are kept, NaN payloads and signs of zero included.
// Extents that an attribute gives are at least 0, for all values of the symbols (shape_c1).
include "mortise/ir/dialect.td"

def Mortise_ConstantOp : Mortise_Op<"constant", [ConstantLike]> {
  let opTraits = [MortiseTrait_Creation];
  let summary = "a small literal; weights are function arguments, never literals";
  let description = [{(constant_c1) `value` is dense elements of a ranked tensor, static. Canonical form: a literal whose elements are all equal is a broadcast of a scalar constant.}];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
  let assemblyFormat = "$value attr-dict";
}
def Mortise_IotaOp : Mortise_Op<"iota"> {
  let opTraits = [MortiseTrait_Creation];
  let summary = "counts 0, 1, 2, ... along `axis`";
  let description = [{
    Values wrap or round as `convert` from i64 would. (iota_c1) `dtype` is the name of a number type. (shape_c1) No extent is
    negative. (iota_c2) 0 <= axis < rank.
  }];
  let arguments = (ins Mortise_Dims:$shape, StrAttr:$dtype, I64Attr:$axis);
  let results = (outs Mortise_NumberTensor:$result);
  let hasFolder = 1;
}
def Mortise_ExtentsOp : Mortise_Op<"extents"> {
  let opTraits = [MortiseTrait_Creation];
  let summary = "extents as an i64 tensor of rank 1, to compute with";
  let description = [{
    The values of the expressions when the function runs; entries may be negative. StableHLO queries an operand instead
    (get_dimension_size).
  }];
  let arguments = (ins Mortise_Dims:$shape);
  let results = (outs Mortise_TensorOf<[I64]>:$result);
  let hasFolder = 1;
  let since = 2;
}
def Mortise_ReshapeOp : Mortise_Op<"reshape"> {
  let opTraits = [MortiseTrait_Movement, MortiseTrait_View];
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    (shape_c1) No extent is negative. (reshape_c1) `shape` has as many elements as the operand: the products are equal as
    expressions.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Dims:$shape);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_TransposeOp : Mortise_Op<"transpose"> {
  let opTraits = [MortiseTrait_Movement, MortiseTrait_View];
  let summary = "result dimension i is operand dimension permutation[i]";
  let description = [{(transpose_c1) `permutation` names each dimension once.}];
  let arguments = (ins Mortise_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_BroadcastOp : Mortise_Op<"broadcast"> {
  let opTraits = [MortiseTrait_Movement, MortiseTrait_View];
  let summary = "repeats elements: operand dimension i becomes result dimension axes[i]";
  let description = [{
    StableHLO's broadcast_in_dim. (shape_c1) No extent is negative. (broadcast_c1) `axes` has an entry for each operand
    dimension, (broadcast_c2) strictly ascending and in range (StableHLO allows any order; write a transpose). (broadcast_c3)
    An operand extent is 1 or equals the result's.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Dims:$shape, DenseI64ArrayAttr:$axes);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_SliceOp : Mortise_Op<"slice"> {
  let opTraits = [MortiseTrait_Movement, MortiseTrait_View];
  let summary = "elements start, start + stride, ... below limit, per dimension";
  let description = [{
    (slice_c1) `starts`, `limits` and `strides` have an entry for each dimension. (slice_c2) stride >= 1. (slice_c3)
    0 <= start <= limit <= extent. The extent is ceil((limit - start) / stride).
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Dims:$starts, Mortise_Dims:$limits,
                       DenseI64ArrayAttr:$strides);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_ConcatenateOp : Mortise_Op<"concatenate"> {
  let opTraits = [MortiseTrait_Movement];
  let summary = "operands one after the other along `axis`";
  let description = [{
    (concatenate_c1) There is an operand. (concatenate_c2) 0 <= axis < rank. (concatenate_c3) Operands have one element type, and
    one shape but for `axis`.
  }];
  let arguments = (ins Variadic<Mortise_Tensor>:$operands, I64Attr:$axis);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_PadOp : Mortise_Op<"pad"> {
  let opTraits = [MortiseTrait_Movement];
  let summary = "surrounds with a scalar; negative amounts remove";
  let description = [{
    `interior` counts padding between neighbours, which comes before `low` and `high` add or remove. (pad_c1) `value` is a
    scalar of the operand's element type. (pad_c2) `low`, `high` and `interior` have an entry for each dimension. (pad_c3)
    interior >= 0. (pad_c4) extent + max(extent - 1, 0) * interior + low + high >= 0.
  }];
  let arguments = (ins Mortise_Tensor:$operand, Mortise_Tensor:$value, Mortise_Dims:$low,
                       Mortise_Dims:$high, DenseI64ArrayAttr:$interior);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
def Mortise_ReverseOp : Mortise_Op<"reverse"> {
  let opTraits = [MortiseTrait_Movement];
  let summary = "turns the order round along `axes`";
  let description = [{(reverse_c1) `axes` is strictly ascending (StableHLO: any order) and in range.}];
  let arguments = (ins Mortise_Tensor:$operand, DenseI64ArrayAttr:$axes);
  let results = (outs Mortise_Tensor:$result);
  let hasFolder = 1;
}
