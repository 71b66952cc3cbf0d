// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantised numbers, scale * (q - zero_point). The shape of `scale` determines the granularity: it has the rank of the
// quantised tensor, and each of its extents divides the tensor's. All extents 1 is per tensor, [C, 1] per channel,
// [C, K / g] per group.
//
// The compute type C is f64 when one of the float types involved is f64, else f32. Each formula below is computed in C, op
// by op, each rounded to nearest even, so every backend gives the same bits. StableHLO has quantised element types; here
// scales and zero points are values, and only the ops below interpret them.
include "mortise/ir/dialect.td"

def Mortise_Quantised : AnyTypeOf<[I8, UI8, I<4>, F8E4M3FN, F8E5M2], "i8, ui8, i4, f8E4M3FN or f8E5M2">;
def Mortise_QuantisedTensor : Mortise_TensorOf<[Mortise_Quantised]>;
def Mortise_ZeroPointTensor : Mortise_TensorOf<[AnyTypeOf<[I8, UI8, I<4>, I32], "i8, ui8, i4 or i32">]>;

let since = 2 in {
def Mortise_QuantizeOp : Mortise_CompositeOp<"quantize"> {
  let opTraits = [MortiseTrait_Quantisation];
  let summary = "x as numbers of `dtype`: saturate(round(x / scale) + zero_point)";
  let description = [{
    To an integer: t = round(x / scale), ties to even; then t + zero_point; then `convert`, which saturates at the ends of
    the type. Infinities saturate; NaN gives 0 (StableHLO leaves it open). To a float of 8 bits: x / scale, limited to the largest finite
    number of either sign (448 for f8E4M3FN, 57344 for f8E5M2), then rounded to nearest even; NaN stays NaN, and there is no zero point. A
    scale of 0 divides as in IEEE 754. Both the quotient and the sum are rounded to C and may overflow there.

    Constraints:
    * quantize_c1: `dtype` is i8, ui8, i4, f8E4M3FN or f8E5M2.
    * quantize_c2: scale has the rank of x, and each of its extents is x's or 1 or a divisor of x's, for all values of symbols.
    * quantize_c3: zero_point has the shape of scale, element type `dtype` or i32, and `dtype` is an integer type.

    The result has the shape of x.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$scale, Optional<Mortise_ZeroPointTensor>:$zero_point,
                       StrAttr:$dtype);
  let results = (outs Mortise_QuantisedTensor:$result);
}
def Mortise_DequantizeOp : Mortise_CompositeOp<"dequantize"> {
  let opTraits = [MortiseTrait_Quantisation];
  let summary = "(q - zero_point) * scale, as floats of `dtype`";
  let description = [{
    q and zero_point are converted to C, subtracted and multiplied there, then rounded to `dtype`: exact but for the product while
    |zero_point| <= 2^24. Without zero_point nothing is subtracted, so -0 of a float q keeps its sign. NaN gives NaN; a result outside the
    range of `dtype` becomes what `convert` gives for it.

    Constraints:
    * dequantize_c1: `dtype` is a float type.
    * dequantize_c2: scale has the rank of q, and each of its extents is q's or 1 or a divisor of q's, for all values of symbols.
    * dequantize_c3: zero_point has the shape of scale, q's element type or i32, and q holds integers.

    The result has the shape of q.
  }];
  let arguments = (ins Mortise_QuantisedTensor:$q, Mortise_FloatTensor:$scale, Optional<Mortise_ZeroPointTensor>:$zero_point,
                       StrAttr:$dtype);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_DynamicQuantizeOp : Mortise_CompositeOp<"dynamic_quantize"> {
  let opTraits = [MortiseTrait_Quantisation];
  let summary = "x quantised with a scale for each row of the last dimension: q, scale";
  let description = [{
    With M the largest finite number of `dtype` (127, 7, 448, 57344): scale = max |x| / M over the row, and 1 for a row of zeros or
    without elements; q = quantize(x, scale). It is symmetric, so ui8 is not permitted. A row with NaN has scale NaN, a row with an infinity
    and no NaN has scale infinity, a row where max |x| / M rounds to 0 has scale 0; q follows from quantize in each case. scale has element type C
    and x's shape with 1 as the last extent.

    Constraints:
    * dynamic_quantize_c1: `dtype` is i8, i4, f8E4M3FN or f8E5M2.
    * dynamic_quantize_c2: x has rank 1 or more.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, StrAttr:$dtype);
  let results = (outs Mortise_QuantisedTensor:$q, Mortise_FloatTensor:$scale);
}
def Mortise_QuantizedLinearOp : Mortise_CompositeOp<"quantized_linear", [AttrSizedOperandSegments]> {
  let opTraits = [MortiseTrait_Contraction, MortiseTrait_Quantisation];
  let summary = "linear(x [..., K], (weight [N, K] - zero_point) * scale, bias [N]): [..., N]";
  let description = [{
    The weight is dequantised to C, x and bias are converted to C, products are summed in at least C in any order, and the result is
    rounded to x's type once. `weight_transposed` true: the weight is stored [K, N]. scale is [] (one for all), [N], or one for
    each group of K: [N, K / g], [K / g, N] when transposed. Overflow of the dequantised weight or of the sum gives infinity of C;
    0 * infinity is NaN wherever it stands in a sum, and a sum of no terms is +0.

    Constraints:
    * quantized_linear_c1: x has rank 1 or more, weight rank 2, and the last extent of x is K.
    * quantized_linear_c2: scale is [], [N], or of rank 2 with N and a divisor of K.
    * quantized_linear_c3: zero_point has the shape of scale, weight's element type or i32, and the weight holds integers.
    * quantized_linear_c4: scale has x's element type or f32; bias is [N] with x's element type.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_QuantisedTensor:$weight, Mortise_FloatTensor:$scale,
                       Optional<Mortise_ZeroPointTensor>:$zero_point, Optional<Mortise_FloatTensor>:$bias,
                       BoolAttr:$weight_transposed);
  let results = (outs Mortise_FloatTensor:$result);
  let assemblyFormat = "$x `,` $weight `scale` $scale (`zero_point` $zero_point^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)";
}
}
