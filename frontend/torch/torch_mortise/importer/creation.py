# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that make tensors from numbers."""

import torch

from .. import dtypes
from ..dtypes import F64, I64, is_float
from .core import Value, decomposes, handles

aten = torch.ops.aten


@handles(aten.full.default)
def full(e, shape, value, **_):
    return e.tensor(value, e.dtype, tuple(e.sizes(shape)))


@handles(aten.full_like.default)
def full_like(e, x, value, **_):
    return e.tensor(value, e.dtype, x.shape)


@handles(aten.new_full.default)
def new_full(e, x, shape, value, **_):
    return e.tensor(value, e.dtype, tuple(e.sizes(shape)))


@handles(aten.scalar_tensor.default)
def scalar_tensor(e, value, **_):
    return e.tensor(value, e.dtype)


def filled(value, plain, like, new):
    @handles(plain)
    def of_shape(e, shape, **_):
        return e.constant(value, e.dtype, tuple(e.sizes(shape)))

    @handles(like)
    def like_tensor(e, x, **_):
        return e.constant(value, e.dtype, x.shape)

    @handles(new)
    def new_tensor(e, x, shape, **_):
        return e.constant(value, e.dtype, tuple(e.sizes(shape)))


filled(0, aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
filled(1, aten.ones.default, aten.ones_like.default, aten.new_ones.default)
filled(0, aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default)  # the elements of an `empty` are unspecified


@handles(aten.new_empty_strided.default)
def new_empty_strided(e, x, shape, stride, **_):
    return e.constant(0, e.dtype, tuple(e.sizes(shape)))


@handles(aten.empty_strided.default)
def empty_strided(e, shape, stride, **_):
    return e.constant(0, e.dtype, tuple(e.sizes(shape)))


@handles(aten.empty_permuted.default)
def empty_permuted(e, shape, layout, **_):
    return e.constant(0, e.dtype, tuple(e.sizes(shape)))


@handles(aten.arange.default)
def arange(e, end, **_):
    return arange_step(e, 0, end, 1)


@handles(aten.arange.start)
def arange_start(e, start, end, **_):
    return arange_step(e, start, end, 1)


@handles(aten.arange.start_step)
def arange_step(e, start, end, step=1, **_):
    dtype = e.dtype
    shape = tuple(e.sizes(e.value.shape))
    start, step = e.size(start), e.size(step)
    at = F64 if is_float(dtype) else I64
    values = e.iota(shape, dtype if (start, step) == (0, 1) and dtypes.is_int(dtype) else at)
    if step != 1:
        values = e.op("mul", values, e.constant(step, at, shape))
    if start != 0:
        values = e.op("add", values, e.constant(start, at, shape))
    return e.convert(values, dtype)


@handles(torch.ops.prims.iota.default)
def iota(e, length, start=0, step=1, **_):
    return arange_step(e, start, None, step)


@handles(aten.eye.default, aten.eye.m)
def eye(e, rows, columns=None, **_):
    shape = (e.size(rows), e.size(rows if columns is None else columns))
    return e.convert(e.compare(e.iota(shape, I64, 0), e.iota(shape, I64, 1), "eq"), e.dtype)


@handles(aten.fill.Scalar, aten.fill.Tensor)
def fill(e, x, value):
    return e.tensor(value, x.dtype, x.shape) if isinstance(value, Value) else e.constant(value, x.dtype, x.shape)


@decomposes(*(getattr(aten.linspace, name) for name in aten.linspace.overloads() if "out" not in name))
def linspace(start, end, steps, *, dtype=None, **_):
    """As in eager, the first half is computed from the start and the second from the end. Integer ends are truncated first, and the steps
    are computed in f64."""
    dtype = dtype or torch.get_default_dtype()
    if dtype.is_complex:
        return NotImplemented
    wide = dtype if dtype.is_floating_point else torch.float64
    wide = torch.float32 if wide.itemsize < 4 else wide

    def in_range(value):
        if isinstance(value, torch.Tensor):
            return value.to(torch.float64).to(dtype).to(wide)
        return float(value) if dtype.is_floating_point else float(int(value))

    start, end = in_range(start), in_range(end)
    count = torch.arange(steps)
    if steps < 2:
        return (start + torch.zeros(steps, dtype=wide)).to(dtype)
    step = (end - start) / (steps - 1)
    upwards = start + step * count.to(wide)
    downwards = end - step * (steps - 1 - count).to(wide)
    return torch.where(count < steps // 2, upwards, downwards).to(dtype)
