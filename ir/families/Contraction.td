// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products that sum over shared dimensions.
include "mortise/ir/Dialect.td"

def Mortise_DotOp : Mortise_Op<"dot"> {
  let summary = "StableHLO's dot_general";
  let description = [{
    Sums over the contracting dimensions for every index of the batch dimensions. Result dimensions: batch, the rest
    of lhs, the rest of rhs, each in order. lhs, rhs and the result have one element type; a sum of no terms is 0.
  }];
  let arguments = (ins Mortise_NumberTensor:$lhs, Mortise_NumberTensor:$rhs, DenseI64ArrayAttr:$lhs_batch,
                       DenseI64ArrayAttr:$rhs_batch, DenseI64ArrayAttr:$lhs_contract, DenseI64ArrayAttr:$rhs_contract);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_LinearOp : Mortise_CompositeOp<"linear"> {
  let summary = "x [..., K] times weight [N, K] transposed, plus bias [N]: [..., N]";
  let description = [{`weight_transposed` true: the weight is stored [K, N].}];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$weight, Optional<Mortise_FloatTensor>:$bias,
                       BoolAttr:$weight_transposed);
  let results = (outs Mortise_FloatTensor:$result);
}
