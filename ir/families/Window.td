// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops over sliding windows of the spatial dimensions. Layout: batch, channels, spatial...
// `low` and `high` pad each spatial dimension and are not negative.
include "mortise/ir/Dialect.td"

def Mortise_ConvolutionOp : Mortise_Op<"convolution"> {
  let summary = "x [N, C, s...] with weight [O, C / groups, k...]: [N, O, s'...]";
  let description = [{
    Cross-correlation. s' = floor((s + low + high - dilation * (k - 1) - 1) / stride) + 1. C and O are multiples of `groups`.
    One, two or three spatial dimensions.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$weight, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Mortise_FloatTensor:$result);
}
class Mortise_Pool<string mnemonic, Type operand> : Mortise_Op<mnemonic> {
  let arguments = (ins operand:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilations);
  let results = (outs operand:$result);
  let inferDeclaration = [{
    static ::mortise::ir::Inferred infer(Adaptor op, const ::mortise::ir::Report &report) {
      return ::mortise::ir::pooled(op.getX(), op.getWindow(), op.getStrides(), op.getLow(), op.getHigh(),
                                   op.getDilations(), report);
    }
  }];
}
def Mortise_MaxPoolOp : Mortise_Pool<"max_pool", Mortise_NumberTensor> { let summary = "largest of each window; padding is never chosen; NaN wins"; }
def Mortise_SumPoolOp : Mortise_Pool<"sum_pool", Mortise_NumberTensor> { let summary = "sum of each window; padding counts as 0"; }
