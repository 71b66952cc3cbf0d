// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise ops. All operands and the result have one shape and, unless an op says otherwise, one type (same_type_c1). As in
// StableHLO, there is no implicit broadcast.
//
// Floats: the result is that of f64, rounded once to the element type, or within the error bound of the conformance kit. add,
// sub, mul, div, sqrt, rem, floor, ceil, round, neg, abs and ops that only select are exact. A NaN operand gives a NaN with any
// payload, except that neg, select and ops that move elements keep bits. Integers wrap. Booleans (i1) take the logical ops.
include "mortise/ir/dialect.td"

class Mortise_Unary<string mnemonic, Type operand> : Mortise_SameTypeOp<mnemonic> {
  let opTraits = [MortiseTrait_Elementwise];
  let arguments = (ins operand:$operand);
  let results = (outs operand:$result);
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) { return ::mortise::ir::foldElementwise(getOperation()); }
  }];
  let hasFolder = 1;
}
class Mortise_FloatUnary<string mnemonic> : Mortise_Unary<mnemonic, Mortise_FloatTensor>;
class Mortise_Binary<string mnemonic, Type operand> : Mortise_SameTypeOp<mnemonic> {
  let opTraits = [MortiseTrait_Elementwise];
  let arguments = (ins operand:$lhs, operand:$rhs);
  let results = (outs operand:$result);
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) { return ::mortise::ir::foldElementwise(getOperation()); }
  }];
  let hasFolder = 1;
}

def Mortise_AbsOp : Mortise_Unary<"abs", Mortise_NumberTensor> {
  let summary = "|x|; the minimum integer stays itself.";
  let description = [{Clears the sign of floats, of NaN too. The minimum integer stays itself (it wraps).}];
}
def Mortise_NegOp : Mortise_Unary<"neg", Mortise_NumberTensor> {
  let summary = "-x; flips the sign of zero and of NaN; integers wrap.";
  let description = [{Flips the sign bit of floats, of zero and NaN too. Integers wrap: the minimum stays itself; ui8 counts from 256.}];
}
def Mortise_SignOp : Mortise_Unary<"sign", Mortise_NumberTensor> {
  let summary = "-1, 0 or 1; zeros keep their sign, NaN gives NaN.";
  let description = [{A float zero keeps its sign, NaN stays NaN.}];
}
def Mortise_ExpOp : Mortise_FloatUnary<"exp"> {
  let summary = "e^x";
  let description = [{+inf at +inf and on overflow, +0 at -inf.}];
}
def Mortise_Expm1Op : Mortise_FloatUnary<"expm1"> {
  let summary = "e^x - 1, exact near 0.";
  let description = [{-1 at -inf; keeps the sign of zero.}];
}
def Mortise_LogOp : Mortise_FloatUnary<"log"> {
  let summary = "natural logarithm; NaN below 0, -inf at 0.";
  let description = [{-inf at +-0, NaN below 0, +inf at +inf.}];
}
def Mortise_Log1pOp : Mortise_FloatUnary<"log1p"> {
  let summary = "log(1 + x), exact near 0.";
  let description = [{-inf at -1, NaN below; keeps the sign of zero.}];
}
def Mortise_SqrtOp : Mortise_FloatUnary<"sqrt"> {
  let summary = "square root, correctly rounded; sqrt(-0) = -0.";
  let description = [{NaN below 0; sqrt(-0) is -0.}];
}
def Mortise_RsqrtOp : Mortise_FloatUnary<"rsqrt"> {
  let summary = "1 / sqrt(x); +-inf at +-0.";
  let description = [{+inf at +0, -inf at -0, +0 at +inf, NaN below 0.}];
}
def Mortise_SinOp : Mortise_FloatUnary<"sin"> {
  let summary = "sine of radians; NaN at infinities.";
  let description = [{The argument is reduced exactly, however large. NaN at infinities. sin(-0) is -0.}];
}
def Mortise_CosOp : Mortise_FloatUnary<"cos"> {
  let summary = "cosine of radians; NaN at infinities.";
  let description = [{The argument is reduced exactly, however large. NaN at infinities.}];
}
def Mortise_TanhOp : Mortise_FloatUnary<"tanh"> {
  let summary = "hyperbolic tangent.";
  let description = [{+-1 at infinities; keeps the sign of zero.}];
}
def Mortise_ErfOp : Mortise_FloatUnary<"erf"> {
  let summary = "error function.";
  let description = [{+-1 at infinities; keeps the sign of zero. In CHLO, not in StableHLO; so are erfc and most of the inverse functions here.}];
}
def Mortise_ErfcOp : Mortise_FloatUnary<"erfc"> {
  let summary = "1 - erf(x), exact where erf is near 1.";
  let description = [{0 at +inf, 2 at -inf.}];
}
def Mortise_LogisticOp : Mortise_FloatUnary<"logistic"> {
  let summary = "1 / (1 + e^-x), without overflow for any x.";
  let description = [{0 at -inf, 1 at +inf; tiny results are not flushed while the element type holds them.}];
}
let since = 2 in {
def Mortise_TanOp : Mortise_FloatUnary<"tan"> {
  let summary = "tangent of radians; NaN at infinities.";
  let description = [{Keeps the sign of zero. The argument is reduced exactly, however large.}];
}
def Mortise_AsinOp : Mortise_FloatUnary<"asin"> {
  let summary = "arc sine in [-pi/2, pi/2]; NaN outside [-1, 1].";
  let description = [{Keeps the sign of zero.}];
}
def Mortise_AcosOp : Mortise_FloatUnary<"acos"> {
  let summary = "arc cosine in [0, pi]; NaN outside [-1, 1].";
  let description = [{+0 at 1.}];
}
def Mortise_AtanOp : Mortise_FloatUnary<"atan"> {
  let summary = "arc tangent in [-pi/2, pi/2]; +-pi/2 at infinities.";
  let description = [{Keeps the sign of zero.}];
}
def Mortise_SinhOp : Mortise_FloatUnary<"sinh"> {
  let summary = "hyperbolic sine.";
  let description = [{Keeps the sign of zero; +-inf at infinities and on overflow.}];
}
def Mortise_CoshOp : Mortise_FloatUnary<"cosh"> {
  let summary = "hyperbolic cosine.";
  let description = [{1 at +-0; +inf at infinities and on overflow.}];
}
def Mortise_AsinhOp : Mortise_FloatUnary<"asinh"> {
  let summary = "inverse hyperbolic sine.";
  let description = [{Keeps the sign of zero, and infinities.}];
}
def Mortise_AcoshOp : Mortise_FloatUnary<"acosh"> {
  let summary = "inverse hyperbolic cosine, not negative; NaN below 1.";
  let description = [{+0 at 1, +inf at +inf.}];
}
def Mortise_AtanhOp : Mortise_FloatUnary<"atanh"> {
  let summary = "inverse hyperbolic tangent; +-inf at +-1, NaN beyond.";
  let description = [{Keeps the sign of zero.}];
}
def Mortise_Log2Op : Mortise_FloatUnary<"log2"> {
  let summary = "logarithm to base 2; NaN below 0, -inf at 0.";
  let description = [{-inf at +-0, +inf at +inf.}];
}
def Mortise_Log10Op : Mortise_FloatUnary<"log10"> {
  let summary = "logarithm to base 10; NaN below 0, -inf at 0.";
  let description = [{-inf at +-0, +inf at +inf.}];
}
def Mortise_Exp2Op : Mortise_FloatUnary<"exp2"> {
  let summary = "2^x";
  let description = [{+inf at +inf and on overflow, +0 at -inf.}];
}
}
def Mortise_FloorOp : Mortise_FloatUnary<"floor"> {
  let summary = "largest integer not above x.";
  let description = [{Keeps the sign of zero, and infinities.}];
}
def Mortise_CeilOp : Mortise_FloatUnary<"ceil"> {
  let summary = "smallest integer not below x.";
  let description = [{Keeps infinities; gives -0 for -1 < x < 0.}];
}
def Mortise_RoundOp : Mortise_FloatUnary<"round"> {
  let summary = "nearest integer, ties to even.";
  let description = [{StableHLO's round_nearest_even. Keeps the sign, also of zero and of numbers that round to zero.}];
}
def Mortise_NotOp : Mortise_Unary<"not", Mortise_BitsTensor> {
  let summary = "logical for i1, bitwise for integers.";
  let description = [{One operand: ~x.}];
}

def Mortise_AddOp : Mortise_Binary<"add", Mortise_Tensor> {
  let summary = "x + y; for i1, or.";
  let description = [{-0 + -0 is -0; opposite infinities give NaN. Integers wrap.}];
}
def Mortise_SubOp : Mortise_Binary<"sub", Mortise_NumberTensor> {
  let summary = "x - y";
  let description = [{x - x is +0; equal infinities give NaN. Integers wrap, ui8 too.}];
}
def Mortise_MulOp : Mortise_Binary<"mul", Mortise_Tensor> {
  let summary = "x * y; for i1, and.";
  let description = [{0 times infinity gives NaN. Integers wrap.}];
}
def Mortise_DivOp : Mortise_Binary<"div", Mortise_NumberTensor> {
  let summary = "x / y; integers truncate towards 0.";
  let description = [{Floats as IEEE 754: x / 0 is an infinity with the sign of both, 0 / 0 NaN. Integer division by 0 gives -1 (all bits set for ui8), and the minimum divided by -1 gives the minimum; StableHLO leaves both open.}];
}
def Mortise_RemOp : Mortise_Binary<"rem", Mortise_NumberTensor> {
  let summary = "remainder of the truncated division; sign of x.";
  let description = [{Integer x rem 0 gives x, and the minimum rem -1 gives 0 (StableHLO leaves both open). Float rem is exact as C's fmod, with the sign of x: NaN for y = 0 or infinite x, x for infinite y.}];
}
def Mortise_PowOp : Mortise_Binary<"pow", Mortise_NumberTensor> {
  let summary = "x ^ y";
  let description = [{Floats as C's pow: pow(x, 0) and pow(1, y) are 1, for NaN too. Integers wrap; a negative exponent gives 0, except for bases 1 and -1 (StableHLO leaves it open), and 0 to a negative power gives 0.}];
}
def Mortise_MaxOp : Mortise_Binary<"max", Mortise_Tensor> {
  let summary = "larger; NaN if either is NaN; +0 is above -0; for i1, or.";
  let description = [{For two NaNs, the result is either of them. (StableHLO has the same rule, from IEEE 754-2019 maximum.)}];
}
def Mortise_MinOp : Mortise_Binary<"min", Mortise_Tensor> {
  let summary = "smaller; NaN if either is NaN; -0 is below +0; for i1, and.";
  let description = [{For two NaNs, the result is either of them. (IEEE 754-2019 minimum.)}];
}
def Mortise_Atan2Op : Mortise_Binary<"atan2", Mortise_FloatTensor> {
  let summary = "angle of (rhs, lhs) in radians, as C's atan2.";
  let description = [{lhs is y, rhs is x. atan2(+-0, -0) is +-pi, atan2(+-0, +0) is +-0; two infinities give odd multiples of pi / 4.}];
}
def Mortise_CopysignOp : Mortise_Binary<"copysign", Mortise_FloatTensor> {
  let summary = "magnitude of lhs with the sign of rhs, as C's copysign.";
  let description = [{Uses the sign bit of rhs, of zeros and NaN too. A NaN lhs stays NaN and takes the sign. StableHLO has no such op.}];
  let since = 3;
}
def Mortise_AndOp : Mortise_Binary<"and", Mortise_BitsTensor> { let summary = "logical for i1, bitwise for integers."; }
def Mortise_OrOp : Mortise_Binary<"or", Mortise_BitsTensor> { let summary = "logical for i1, bitwise for integers."; }
def Mortise_XorOp : Mortise_Binary<"xor", Mortise_BitsTensor> { let summary = "logical for i1, bitwise for integers."; }

let since = 2 in {
def Mortise_ShiftLeftOp : Mortise_Binary<"shift_left", Mortise_BitsTensor> {
  let summary = "x * 2^y, the bits that leave are lost; 0 for y < 0 or y >= the width";
  let description = [{StableHLO leaves y below 0 or not below the width open. i1 has the width 1.}];
}
def Mortise_ShiftRightOp : Mortise_Binary<"shift_right", Mortise_BitsTensor> {
  let summary = "floor(x / 2^y): arithmetic for signed types; y < 0 or y >= the width leaves the sign only, -1 or 0";
  let description = [{
    ui8 and i1 have no sign, so the result is then 0. StableHLO's shift_right_arithmetic; for shift_right_logical, mask the result with `and`.
  }];
}
}

def Mortise_CompareOp : Mortise_Op<"compare"> {
  let opTraits = [MortiseTrait_Elementwise];
  let summary = "elementwise comparison to i1";
  let description = [{(same_type_c1) The operands have one type; the result is i1 of their shape. Floats compare as IEEE 754: with a NaN all are false but `ne`; -0 equals +0. (StableHLO can also order totally.) false is below true; ui8 is unsigned.}];
  let arguments = (ins Mortise_Tensor:$lhs, Mortise_Tensor:$rhs,
                       Mortise_Choice<["eq", "ne", "lt", "le", "gt", "ge"]>:$direction);
  let results = (outs Mortise_BoolTensor:$result);
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) { return ::mortise::ir::foldElementwise(getOperation()); }
  }];
  let hasFolder = 1;
}
def Mortise_SelectOp : Mortise_Op<"select"> {
  let opTraits = [MortiseTrait_Elementwise];
  let summary = "on_true where the predicate holds, else on_false; all of one shape";
  let description = [{
    (same_type_c1) on_true and on_false have one type, the result's. (select_c1) The predicate has their shape (StableHLO also
    takes a scalar). Bits are kept; elements that are not selected have no effect, NaN included.
  }];
  let arguments = (ins Mortise_BoolTensor:$predicate, Mortise_Tensor:$on_true, Mortise_Tensor:$on_false);
  let results = (outs Mortise_Tensor:$result);
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) { return ::mortise::ir::foldElementwise(getOperation()); }
  }];
  let hasFolder = 1;
}
def Mortise_ConvertOp : Mortise_Op<"convert"> {
  let opTraits = [MortiseTrait_Elementwise];
  let summary = "to another element type";
  let description = [{
    To a float: rounds to nearest even, overflow gives infinity (NaN for f8E4M3FN). Float to integer truncates towards 0; NaN
    gives 0 and values out of range saturate (StableHLO leaves both open). Integer to integer keeps the low bits.
    To i1: true where not 0 (NaN is true). From i1: 0 or 1. An integer that a float cannot hold is rounded to nearest even, once.
    (convert_c1) `dtype` is the name of an element type ("f32").
  }];
  let arguments = (ins Mortise_Tensor:$operand, StrAttr:$dtype);
  let results = (outs Mortise_Tensor:$result);
  let foldDefinition = [{
    ::mlir::OpFoldResult $cppClass::fold(FoldAdaptor) { return ::mortise::ir::foldElementwise(getOperation()); }
  }];
  let hasFolder = 1;
}
