// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products that sum over shared dimensions. A sum of floats accumulates in at least f32 (f64 for f64) in any order, and is
// rounded to the element type once; integers wrap in their own type, so that order does not count. Overflow of the
// accumulator, or of the rounding, gives infinity (NaN for f8E4M3FN); 0 * infinity is NaN wherever it stands in a sum.
include "mortise/ir/dialect.td"

def Mortise_DotOp : Mortise_Op<"dot"> {
  let opTraits = [MortiseTrait_Contraction];
  let summary = "StableHLO's dot_general";
  let description = [{
    Sums over the contracting dimensions for every index of the batch dimensions. Result dimensions: batch, the rest of lhs, the rest of rhs,
    each in order. A sum of no terms is +0. StableHLO's options (precision, algorithm, mixed and quantised types) do not exist here; convert
    the operands first.

    Constraints:
    * dot_c1: lhs and rhs have one element type, which is the result's.
    * dot_c2: lhs_batch and lhs_contract name different dimensions of lhs.
    * dot_c3: rhs_batch and rhs_contract name different dimensions of rhs.
    * dot_c4: both sides name equally many batch dimensions, and equally many contracting ones.
    * dot_c5: batch and contracting extents agree pairwise, for all values of symbols.
  }];
  let arguments = (ins Mortise_NumberTensor:$lhs, Mortise_NumberTensor:$rhs, DenseI64ArrayAttr:$lhs_batch,
                       DenseI64ArrayAttr:$rhs_batch, DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_LinearOp : Mortise_CompositeOp<"linear"> {
  let opTraits = [MortiseTrait_Contraction];
  let summary = "x [..., K] times weight [N, K] transposed, plus bias [N]: [..., N]";
  let description = [{
    `weight_transposed` true: the weight is stored [K, N]. f16, bf16 and f8 compute in f32 and round once, after the bias.

    Constraints:
    * linear_c1: x has rank 1 or more, weight rank 2.
    * linear_c2: the last extent of x is the weight's K.
    * linear_c3: weight and bias have the element type of x, which is the result's.
    * linear_c4: bias has shape [N].
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$weight, Optional<Mortise_FloatTensor>:$bias,
                       BoolAttr:$weight_transposed);
  let results = (outs Mortise_FloatTensor:$result);
}
