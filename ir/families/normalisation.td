// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Composite activations, normalisations and losses. f16, bf16 and f8 compute in f32 and round once at the end; an
// intermediate result outside the range of the compute type (f32; f64 for f64) becomes infinity or 0, as in the
// decomposition. Sums accumulate in at least that type, in any order. A NaN in a row makes the whole row NaN.
include "mortise/ir/dialect.td"

class Mortise_Activation<string mnemonic> : Mortise_SameTypeCompositeOp<mnemonic> {
  let opTraits = [MortiseTrait_Elementwise];
  let arguments = (ins Mortise_FloatTensor:$operand);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_ReluOp : Mortise_SameTypeCompositeOp<"relu"> {
  let opTraits = [MortiseTrait_Elementwise];
  let summary = "max(x, 0)";
  let description = [{Keeps the type. NaN gives NaN; -0 gives +0.}];
  let arguments = (ins Mortise_NumberTensor:$operand);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_SiluOp : Mortise_Activation<"silu"> {
  let summary = "x * logistic(x)";
  let description = [{Keeps the type. -inf gives NaN, +inf gives +inf.}];
}
def Mortise_SwigluOp : Mortise_SameTypeCompositeOp<"swiglu"> {
  let opTraits = [MortiseTrait_Elementwise];
  let summary = "silu(gate) * up";
  let description = [{Operands and result have one type. Infinities follow from silu and the product: 0 times infinity is NaN.}];
  let arguments = (ins Mortise_FloatTensor:$gate, Mortise_FloatTensor:$up);
  let results = (outs Mortise_FloatTensor:$result);
  let since = 2;
}
def Mortise_GeluOp : Mortise_SameTypeCompositeOp<"gelu"> {
  let opTraits = [MortiseTrait_Elementwise];
  let summary = "x * Phi(x); approximate \"none\" uses erfc, \"tanh\" the tanh form";
  let description = [{
    Keeps the type. Phi(x) = erfc(-x / sqrt 2) / 2; tanh: Phi(x) is about (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2. Neither cancels in the
    negative tail. -inf gives NaN.
  }];
  let arguments = (ins Mortise_FloatTensor:$operand, Mortise_Choice<["none", "tanh"]>:$approximate);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_SoftmaxOp : Mortise_CompositeOp<"softmax"> {
  let opTraits = [MortiseTrait_Normalisation];
  let summary = "exp(x - max) / sum along `axis`; a row of -inf gives NaN";
  let description = [{
    Keeps the type. A row with +inf becomes NaN; -inf beside finite numbers gives 0. Constraint: softmax_c1: 0 <= axis < rank.
  }];
  let arguments = (ins Mortise_FloatTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_LogSoftmaxOp : Mortise_CompositeOp<"log_softmax"> {
  let opTraits = [MortiseTrait_Normalisation];
  let summary = "x - max - log(sum(exp(x - max))) along `axis`";
  let description = [{
    Keeps the type. A row of -inf, or with +inf, becomes NaN; -inf beside finite numbers gives -inf. Constraint: log_softmax_c1:
    0 <= axis < rank.
  }];
  let arguments = (ins Mortise_FloatTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_LayerNormOp : Mortise_CompositeOp<"layer_norm", [AttrSizedOperandSegments]> {
  let opTraits = [MortiseTrait_Normalisation];
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias over the dimensions from `axis` on";
  let description = [{
    The variance is the mean of (x - mean)^2; dimensions of no elements give NaN, if there is anything to give. An infinity in a row makes the row NaN.
    Constraints: layer_norm_c1: 0 <= axis < rank; layer_norm_c2: scale and bias have the shape of the normalised dimensions and x's element
    type.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, Optional<Mortise_FloatTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
def Mortise_RmsNormOp : Mortise_CompositeOp<"rms_norm"> {
  let opTraits = [MortiseTrait_Normalisation];
  let summary = "x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from `axis` on";
  let description = [{
    An infinity in a row becomes NaN, and the row's finite numbers 0. Constraints: rms_norm_c1: 0 <= axis < rank; rms_norm_c2: scale has the
    shape of the normalised dimensions and x's element type.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_GroupNormOp : Mortise_CompositeOp<"group_norm", [AttrSizedOperandSegments]> {
  let opTraits = [MortiseTrait_Normalisation];
  let summary = "layer_norm over each group of channels of x [N, C, ...]; scale and bias [C]";
  let description = [{
    A group is C / groups neighbouring channels with all spatial dimensions; instance norm is groups = C. Constraints: group_norm_c1: x has rank 2 or more; group_norm_c2:
    C is a multiple of groups, which is at least 1; group_norm_c3: scale and bias have shape [C] and x's element type.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, Optional<Mortise_FloatTensor>:$bias,
                       I64Attr:$groups, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
def Mortise_BatchNormOp : Mortise_CompositeOp<"batch_norm", [AttrSizedOperandSegments]> {
  let summary = "(x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c] for x [N, C, ...], inference";
  let description = [{
    Computed as x * f + (bias - mean * f) with f = scale / sqrt(variance + epsilon), which determines the results for infinities. Constraints: batch_norm_c1: x has
    rank 2 or more; batch_norm_c2: the other operands have shape [C] and x's element type.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, Optional<Mortise_FloatTensor>:$bias,
                       Mortise_FloatTensor:$mean, Mortise_FloatTensor:$variance, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? `mean` $mean `variance` $variance attr-dict `:` functional-type(operands, results)";
}
def Mortise_CrossEntropyOp : Mortise_CompositeOp<"cross_entropy"> {
  let opTraits = [MortiseTrait_Reduction];
  let summary = "-log_softmax(logits)[target], over the last dimension of logits [..., C]";
  let description = [{
    With p = log_softmax(logits): loss = -(1 - label_smoothing) * p[target] - label_smoothing * mean(p); the second term is left out when
    label_smoothing is 0. A target equal to `ignore_index` has loss 0 and is not counted. Any other target below 0 or not below C gives NaN (negative targets do
    not count from the end). `reduction`: "none" gives the losses, "sum" their sum, "mean" the sum divided by the number of counted targets, NaN
    when there are none. Sums are rounded to the compute type.

    Constraints:
    * cross_entropy_c1: logits has rank 1 or more; targets has its shape without the last dimension.
    * cross_entropy_c2: 0 <= label_smoothing <= 1.
    * cross_entropy_c3: ignore_index is a number of the targets' type.

    The result has the element type of logits, and the shape of targets or rank 0.
  }];
  let arguments = (ins Mortise_FloatTensor:$logits, Mortise_IndexTensor:$targets, I64Attr:$ignore_index,
                       F64Attr:$label_smoothing, Mortise_Choice<["none", "mean", "sum"]>:$reduction);
  let results = (outs Mortise_FloatTensor:$result);
  let since = 2;
}
