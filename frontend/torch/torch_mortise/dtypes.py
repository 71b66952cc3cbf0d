# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's dtypes, the numbers of MortiseDType (F32, UI8, I1, ...) and their names in the IR."""

import math
import struct

import torch

from ._tables import DTYPES
from ._tables import *  # noqa: F403  (the numbers)
from .errors import Unsupported

_INFO = {row.number: row for row in DTYPES}
NUMBERS = {row.name: row.number for row in DTYPES}
NAMES = {row.number: row.name for row in DTYPES}
# No tensor has a dtype that this PyTorch lacks, so it is left out.
TO_TORCH = {row.number: getattr(torch, row.torch) for row in DTYPES if row.torch and hasattr(torch, row.torch)}
_FROM_TORCH = {dtype: number for number, dtype in TO_TORCH.items()}


def number(dtype):
    found = _FROM_TORCH.get(dtype)
    if found is None:
        raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")
    return found


def is_float(dtype):
    return _INFO[dtype].kind == "float"


def is_narrow_float(dtype):
    return is_float(dtype) and _INFO[dtype].bits < 32


def is_int(dtype):
    return _INFO[dtype].kind in ("signed", "unsigned")


def is_unsigned(dtype):
    return _INFO[dtype].kind == "unsigned"


def is_bool(dtype):
    return _INFO[dtype].kind == "bool"


def bits(dtype):
    return _INFO[dtype].bits


def int_range(dtype):
    """The least and the greatest integer."""
    width = bits(dtype)
    return (0, (1 << width) - 1) if is_unsigned(dtype) else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def _struct_code(dtype):
    """The format character of Python's struct module; None for a float that struct lacks."""
    info = _INFO[dtype]
    if info.kind == "float":
        return {(11, 52): "d", (8, 23): "f", (5, 10): "e"}.get((info.exponent, info.mantissa))
    code = {1: "?", 8: "b", 16: "h", 32: "i", 64: "q"}[info.bits]
    return code.upper() if info.kind == "unsigned" else code


def literal(value, dtype):
    """The bytes of `value` in `dtype`, converted as PyTorch converts a Python scalar."""
    if is_float(dtype):
        value = float(value)
    elif is_bool(dtype):
        value = bool(value)
    else:  # wraps
        least, _ = int_range(dtype)
        value = (int(value) - least) % (1 << bits(dtype)) + least
    code = _struct_code(dtype)
    if code is None:
        raw = torch.tensor([value], dtype=TO_TORCH[dtype])
        return bytes(raw.view(torch.uint8).tolist())
    try:
        return struct.pack("<" + code, value)
    except OverflowError:
        return struct.pack("<" + code, math.copysign(math.inf, value))


def is_exact(value, dtype):
    """Whether the scalar is exactly representable in `dtype`."""
    if not is_narrow_float(dtype) or isinstance(value, bool) or value != value:
        return True
    return float(torch.tensor(value, dtype=TO_TORCH[dtype])) == float(value)


def lowest(dtype):
    if is_float(dtype):
        return -math.inf
    return False if is_bool(dtype) else int_range(dtype)[0]
