# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every element type and every op that the dialect has. Made from sdk/include/mortise/dtypes.h and ir/families/*.td by
./dev docs; do not edit."""

from typing import NamedTuple


class DType(NamedTuple):
    number: int  # MortiseDType
    name: str
    kind: str  # float, signed, unsigned or bool
    bits: int
    exponent: int
    mantissa: int
    max: float  # the largest finite number of a float
    torch: str  # the attribute of torch; "" where there is none


F64 = 1
F32 = 2
F16 = 3
BF16 = 4
F8E4M3FN = 5
F8E5M2 = 6
I64 = 7
I32 = 8
I16 = 9
I8 = 10
I4 = 11
UI8 = 12
I1 = 13
UI16 = 14
__all__ = ["F64", "F32", "F16", "BF16", "F8E4M3FN", "F8E5M2", "I64", "I32", "I16", "I8", "I4", "UI8", "I1", "UI16"]

DTYPES = (
    DType(1, "f64", "float", 64, 11, 52, 1.7976931348623157e+308, "float64"),
    DType(2, "f32", "float", 32, 8, 23, 3.4028234663852886e+38, "float32"),
    DType(3, "f16", "float", 16, 5, 10, 65504.0, "float16"),
    DType(4, "bf16", "float", 16, 8, 7, 3.3895313892515355e+38, "bfloat16"),
    DType(5, "f8E4M3FN", "float", 8, 4, 3, 448.0, "float8_e4m3fn"),
    DType(6, "f8E5M2", "float", 8, 5, 2, 57344.0, "float8_e5m2"),
    DType(7, "i64", "signed", 64, 0, 0, 0.0, "int64"),
    DType(8, "i32", "signed", 32, 0, 0, 0.0, "int32"),
    DType(9, "i16", "signed", 16, 0, 0, 0.0, "int16"),
    DType(10, "i8", "signed", 8, 0, 0, 0.0, "int8"),
    DType(11, "i4", "signed", 4, 0, 0, 0.0, ""),
    DType(12, "ui8", "unsigned", 8, 0, 0, 0.0, "uint8"),
    DType(13, "i1", "bool", 1, 0, 0, 0.0, "bool"),
    DType(14, "ui16", "unsigned", 16, 0, 0, 0.0, "uint16"),
)

# Each op with its traits.
OPS = {
    "abs": ("elementwise",),
    "acos": ("elementwise",),
    "acosh": ("elementwise",),
    "add": ("elementwise",),
    "all_gather": ("collective",),
    "all_reduce": ("collective",),
    "all_to_all": ("collective",),
    "and": ("elementwise",),
    "argmax": ("reduction",),
    "argmin": ("reduction",),
    "asin": ("elementwise",),
    "asinh": ("elementwise",),
    "atan": ("elementwise",),
    "atan2": ("elementwise",),
    "atanh": ("elementwise",),
    "attention": ("composite", "contraction"),
    "attention_forward": ("composite", "contraction"),
    "attention_gradient": ("composite", "contraction"),
    "batch_norm": ("composite",),
    "bernoulli": ("composite", "random"),
    "broadcast": ("movement", "view"),
    "ceil": ("elementwise",),
    "collective_broadcast": ("collective",),
    "collective_permute": ("collective",),
    "compare": ("elementwise",),
    "concatenate": ("movement",),
    "constant": ("creation",),
    "convert": ("elementwise",),
    "convolution": ("contraction", "window"),
    "copysign": ("elementwise",),
    "cos": ("elementwise",),
    "cosh": ("elementwise",),
    "cross_entropy": ("composite", "reduction"),
    "cumlogsumexp": ("running",),
    "cummax": ("running",),
    "cummin": ("running",),
    "cumprod": ("running",),
    "cumsum": ("running",),
    "dequantize": ("composite", "quantisation"),
    "div": ("elementwise",),
    "dot": ("contraction",),
    "dropout": ("composite", "random"),
    "dynamic_quantize": ("composite", "quantisation"),
    "embedding": ("composite", "indexing"),
    "erf": ("elementwise",),
    "erfc": ("elementwise",),
    "exp": ("elementwise",),
    "exp2": ("elementwise",),
    "expm1": ("elementwise",),
    "extents": ("creation",),
    "floor": ("elementwise",),
    "fused_convolution": ("composite", "contraction", "window"),
    "gelu": ("composite", "elementwise"),
    "group_norm": ("composite", "normalisation"),
    "if": ("control_flow",),
    "iota": ("creation",),
    "layer_norm": ("composite", "normalisation"),
    "linear": ("composite", "contraction"),
    "log": ("elementwise",),
    "log10": ("elementwise",),
    "log1p": ("elementwise",),
    "log2": ("elementwise",),
    "log_softmax": ("composite", "normalisation"),
    "logistic": ("elementwise",),
    "max": ("elementwise",),
    "max_pool": ("window",),
    "mean": ("composite", "reduction"),
    "min": ("elementwise",),
    "mul": ("elementwise",),
    "neg": ("elementwise",),
    "normal": ("composite", "random"),
    "not": ("elementwise",),
    "or": ("elementwise",),
    "pad": ("movement",),
    "pow": ("elementwise",),
    "put": ("indexing",),
    "quantize": ("composite", "quantisation"),
    "quantized_linear": ("composite", "contraction", "quantisation"),
    "ragged_attention": ("composite", "contraction"),
    "random_bits": ("random",),
    "random_permutation": ("composite", "random"),
    "rank": ("collective",),
    "reduce_max": ("reduction",),
    "reduce_min": ("reduction",),
    "reduce_prod": ("reduction",),
    "reduce_scatter": ("collective",),
    "reduce_sum": ("reduction",),
    "relu": ("composite", "elementwise"),
    "rem": ("elementwise",),
    "reshape": ("movement", "view"),
    "reverse": ("movement",),
    "rms_norm": ("composite", "normalisation"),
    "rope": ("composite",),
    "round": ("elementwise",),
    "rsqrt": ("elementwise",),
    "scan": ("control_flow",),
    "scatter_along": ("indexing",),
    "scatter_nd": ("indexing",),
    "searchsorted": ("indexing",),
    "select": ("elementwise",),
    "shift_left": ("elementwise",),
    "shift_right": ("elementwise",),
    "sign": ("elementwise",),
    "silu": ("composite", "elementwise"),
    "sin": ("elementwise",),
    "sinh": ("elementwise",),
    "slice": ("movement", "view"),
    "softmax": ("composite", "normalisation"),
    "sort": ("sort",),
    "sqrt": ("elementwise",),
    "sub": ("elementwise",),
    "sum_pool": ("window",),
    "swiglu": ("composite", "elementwise"),
    "take": ("indexing",),
    "take_along": ("indexing",),
    "take_nd": ("indexing",),
    "tan": ("elementwise",),
    "tanh": ("elementwise",),
    "top_k": ("composite", "sort"),
    "transpose": ("movement", "view"),
    "uniform": ("composite", "random"),
    "while": ("control_flow",),
    "xor": ("elementwise",),
}
