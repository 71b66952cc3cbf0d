# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's dtypes, the numbers of MortiseDType and their names in the IR."""

import math
import struct

import torch

from .errors import Unsupported

F64, F32, F16, BF16, F8E4M3FN, F8E5M2, I64, I32, I16, I8, I4, UI8, I1 = range(1, 14)
NAMES = {
    F64: "f64",
    F32: "f32",
    F16: "f16",
    BF16: "bf16",
    F8E4M3FN: "f8E4M3FN",
    F8E5M2: "f8E5M2",
    I64: "i64",
    I32: "i32",
    I16: "i16",
    I8: "i8",
    I4: "i4",
    UI8: "ui8",
    I1: "i1",
}
_TORCH = {
    torch.float64: F64,
    torch.float32: F32,
    torch.float16: F16,
    torch.bfloat16: BF16,
    torch.float8_e4m3fn: F8E4M3FN,
    torch.float8_e5m2: F8E5M2,
    torch.int64: I64,
    torch.int32: I32,
    torch.int16: I16,
    torch.int8: I8,
    torch.uint8: UI8,
    torch.bool: I1,
}
TO_TORCH = {number: dtype for dtype, number in _TORCH.items()}
_PACK = {F64: "d", F32: "f", F16: "e", I64: "q", I32: "i", I16: "h", I8: "b", UI8: "B", I1: "?"}
_WIDTH = {I64: 64, I32: 32, I16: 16, I8: 8}


def number(dtype):
    found = _TORCH.get(dtype)
    if found is None:
        raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")
    return found


def is_float(dtype):
    return dtype <= F8E5M2


def is_narrow_float(dtype):
    return F16 <= dtype <= F8E5M2


def is_int(dtype):
    return I64 <= dtype <= UI8


def literal(value, dtype):
    """The bytes of `value` in `dtype`, converted as PyTorch converts a Python scalar."""
    if is_float(dtype):
        value = float(value)
    elif dtype == I1:
        value = bool(value)
    else:
        value = int(value)
        if dtype in _WIDTH:  # wraps
            half = 1 << (_WIDTH[dtype] - 1)
            value = (value + half) % (2 * half) - half
        else:
            value %= 256
    if dtype in (BF16, F8E4M3FN, F8E5M2):
        raw = torch.tensor([value], dtype=TO_TORCH[dtype])
        return bytes(raw.view(torch.uint8).tolist())
    try:
        return struct.pack("<" + _PACK[dtype], value)
    except OverflowError:
        return struct.pack("<" + _PACK[dtype], math.copysign(math.inf, value))


def is_exact(value, dtype):
    """Whether the scalar has this very value in `dtype`."""
    if not is_narrow_float(dtype) or isinstance(value, bool) or value != value:
        return True
    return float(torch.tensor(value, dtype=TO_TORCH[dtype])) == float(value)


def lowest(dtype):
    if is_float(dtype):
        return -math.inf
    return False if dtype == I1 else 0 if dtype == UI8 else -(1 << (_WIDTH[dtype] - 1))
