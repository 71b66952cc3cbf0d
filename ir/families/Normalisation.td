// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Composite activations and normalisations. f16, bf16 and f8 compute in f32 and round once at the end.
include "mortise/ir/Dialect.td"

class Mortise_Activation<string mnemonic> : Mortise_SameTypeCompositeOp<mnemonic> {
  let arguments = (ins Mortise_FloatTensor:$operand);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_ReluOp : Mortise_SameTypeCompositeOp<"relu"> {
  let summary = "max(x, 0)";
  let arguments = (ins Mortise_NumberTensor:$operand);
  let results = (outs Mortise_NumberTensor:$result);
}
def Mortise_SiluOp : Mortise_Activation<"silu"> { let summary = "x * logistic(x)"; }
def Mortise_GeluOp : Mortise_SameTypeCompositeOp<"gelu"> {
  let summary = "x * Phi(x); approximate \"none\" uses erfc, \"tanh\" the tanh form";
  let arguments = (ins Mortise_FloatTensor:$operand, Mortise_Choice<["none", "tanh"]>:$approximate);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_SoftmaxOp : Mortise_CompositeOp<"softmax"> {
  let summary = "exp(x - max) / sum along `axis`; a row of -inf gives NaN";
  let arguments = (ins Mortise_FloatTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_LogSoftmaxOp : Mortise_CompositeOp<"log_softmax"> {
  let summary = "x - max - log(sum(exp(x - max))) along `axis`";
  let arguments = (ins Mortise_FloatTensor:$operand, I64Attr:$axis);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_LayerNormOp : Mortise_CompositeOp<"layer_norm", [AttrSizedOperandSegments]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias over the dimensions from `axis` on";
  let description = [{The variance is the mean of (x - mean)^2. scale and bias have the shape of the normalised dimensions.}];
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, Optional<Mortise_FloatTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
def Mortise_RmsNormOp : Mortise_CompositeOp<"rms_norm"> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from `axis` on";
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_GroupNormOp : Mortise_CompositeOp<"group_norm", [AttrSizedOperandSegments]> {
  let summary = "layer_norm over each group of channels of x [N, C, ...]; scale and bias [C]";
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, Optional<Mortise_FloatTensor>:$bias,
                       I64Attr:$groups, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
def Mortise_BatchNormOp : Mortise_CompositeOp<"batch_norm", [AttrSizedOperandSegments]> {
  let summary = "(x - mean[c]) / sqrt(variance[c] + epsilon) * scale[c] + bias[c] for x [N, C, ...], inference";
  let arguments = (ins Mortise_FloatTensor:$x, Optional<Mortise_FloatTensor>:$scale, Optional<Mortise_FloatTensor>:$bias,
                       Mortise_FloatTensor:$mean, Mortise_FloatTensor:$variance, F64Attr:$epsilon);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x (`scale` $scale^)? (`bias` $bias^)? `mean` $mean `variance` $variance attr-dict `:` functional-type(operands, results)";
}
