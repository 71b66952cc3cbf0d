// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops over sliding windows of the spatial dimensions. Layout: batch, channels, spatial...; one to three spatial dimensions.
// A window of k elements, `dilations` apart, moves by `strides` over s elements padded by `low` and `high`:
// s' = floor((s + low + high - dilation * (k - 1) - 1) / stride) + 1 positions.
//
// All share the constraints: window_c1: one to three spatial dimensions; window_c2: strides, low, high, dilations (and
// window) have an entry for each; window_c3: window, strides and dilations are at least 1, low and high at least 0;
// window_c4: the window is not larger than the padded extent, for all values of symbols (StableHLO gives an empty result).
include "mortise/ir/dialect.td"

def Mortise_ConvolutionOp : Mortise_Op<"convolution"> {
  let opTraits = [MortiseTrait_Contraction, MortiseTrait_Window];
  let summary = "x [N, C, s...] with weight [O, C / groups, k...]: [N, O, s'...]";
  let description = [{
    Cross-correlation. Output channel o reads the input channels of its group, o / (O / groups). Padding counts as 0, and 0 times an infinite
    weight is NaN (kernels may skip padding, and zeros by which a `pad` made x). Sums accumulate in at least f32 (f64 for f64) in any order
    and round once. StableHLO also has dilated inputs, batch groups and other layouts; here these are written with pad, reshape and transpose.

    Constraints, beside window_c1 to window_c4:
    * convolution_c1: x and weight have one element type, which is the result's, and one rank.
    * convolution_c2: groups is at least 1; C and O are multiples of it.
    * convolution_c3: the second extent of weight is C / groups.
    * convolution_c4: the window of weight has no symbolic extents.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$weight, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilations, I64Attr:$groups);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_FusedConvolutionOp : Mortise_CompositeOp<"fused_convolution", [AttrSizedOperandSegments]> {
  let opTraits = [MortiseTrait_Contraction, MortiseTrait_Window];
  let summary = "activation(convolution(x, weight) * scale + bias), scale and bias [O]";
  let description = [{
    A convolution, a normalisation by constants and an activation in one op. `activation` is "none", "relu", "silu", "gelu" (with erf) or "gelu_tanh".
    f16, bf16 and f8 compute in f32 throughout and round once at the end.

    Constraints, beside those of convolution: fused_convolution_c1: scale and bias have shape [O] and the element type of x.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$weight, Optional<Mortise_FloatTensor>:$scale,
                       Optional<Mortise_FloatTensor>:$bias, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$dilations, I64Attr:$groups,
                       Mortise_Choice<["none", "relu", "silu", "gelu", "gelu_tanh"]>:$activation);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x `,` $weight (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
  let since = 2;
}
class Mortise_Pool<string mnemonic, Type operand> : Mortise_Op<mnemonic> {
  let opTraits = [MortiseTrait_Window];
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
def Mortise_MaxPoolOp : Mortise_Pool<"max_pool", Mortise_NumberTensor> {
  let summary = "largest of each window; padding is never chosen; NaN wins";
  let description = [{
    +0 is above -0. A window of padding only gives -infinity (-448 for f8E4M3FN), or the smallest integer. Constraints: window_c1 to
    window_c4.
  }];
}
def Mortise_SumPoolOp : Mortise_Pool<"sum_pool", Mortise_NumberTensor> {
  let summary = "sum of each window; padding counts as 0";
  let description = [{
    Accumulates in at least f32 (f64 for f64) in any order and rounds once; integers wrap. A window that holds padding only gives +0.
    Constraints: window_c1 to window_c4.
  }];
}
