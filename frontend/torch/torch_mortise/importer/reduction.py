# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and running sums."""

import math

import torch

from .. import dtypes
from ..dtypes import F32, I1, Unsupported, is_float, is_narrow_float
from .core import axes_of, axis_of, handles

aten = torch.ops.aten


def kept(e, value, x, axes, keepdim):
    """With the reduced dimensions back as 1."""
    return e.reshape(value, [1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdim else value


def reduce(e, name, x, axes, keepdim=False):
    axes = axes_of(axes, x.rank)
    return kept(e, e.op(name, x, axes=axes) if axes else x, x, axes, keepdim)


@handles(aten.sum.dim_IntList)
def sum_dim(e, x, axes, keepdim=False, dtype=None):
    return reduce(e, "reduce_sum", e.convert(x, e.dtype), axes, keepdim)


@handles(aten.sum.default)
def sum_all(e, x, dtype=None):
    return sum_dim(e, x, None)


@handles(aten.mean.dim)
def mean_dim(e, x, axes, keepdim=False, dtype=None):
    return reduce(e, "mean", e.convert(x, e.dtype), axes, keepdim)


@handles(aten.mean.default)
def mean_all(e, x, dtype=None):
    return mean_dim(e, x, None)


@handles(aten.prod.default)
def prod_all(e, x, dtype=None):
    return reduce(e, "reduce_prod", e.convert(x, e.dtype), None)


@handles(aten.prod.dim_int)
def prod_dim(e, x, axis, keepdim=False, dtype=None):
    return reduce(e, "reduce_prod", e.convert(x, e.dtype), axis, keepdim)


def extreme(name, reduced, whole):
    @handles(reduced)
    def along(e, x, axes=(), keepdim=False):
        return reduce(e, name, x, axes, keepdim)

    @handles(whole)
    def of_all(e, x):
        return reduce(e, name, x, None)


extreme("reduce_max", aten.amax.default, aten.max.default)
extreme("reduce_min", aten.amin.default, aten.min.default)


def quantifier(name, *overloads):
    @handles(*overloads)
    def handler(e, x, axes=None, keepdim=False):
        return e.convert(reduce(e, name, e.convert(x, I1), axes, keepdim), e.dtype)


quantifier("reduce_max", aten.any.default, aten.any.dim, aten.any.dims)
quantifier("reduce_min", aten.all.default, aten.all.dim, aten.all.dims)


def arg_extreme(e, x, axis, keepdim, smallest):
    if x.dtype == I1:
        x = e.convert(x, dtypes.I32)
    if smallest:  # reverses the order without overflow
        x = e.op("neg" if is_float(x.dtype) else "not", x)
    if axis is None:
        result = e.op("argmax", e.reshape(x, (x.elements,)), axis=0)
        return e.reshape(result, (1,) * x.rank) if keepdim else result
    if x.rank == 0:
        return e.constant(0, dtypes.I64)
    axis = axis_of(axis, x.rank)
    return kept(e, e.op("argmax", x, axis=axis), x, (axis,), keepdim)


@handles(aten.argmax.default)
def argmax(e, x, axis=None, keepdim=False):
    return arg_extreme(e, x, axis, keepdim, False)


@handles(aten.argmin.default)
def argmin(e, x, axis=None, keepdim=False):
    return arg_extreme(e, x, axis, keepdim, True)


def extreme_with_index(name, smallest, overload):
    @handles(overload)
    def handler(e, x, axis, keepdim=False):
        return (
            reduce(e, name, x, axis, keepdim) if e.uses(0) else None,
            arg_extreme(e, x, axis, keepdim, smallest) if e.uses(1) else None,
        )


extreme_with_index("reduce_max", False, aten.max.dim)
extreme_with_index("reduce_min", True, aten.min.dim)


@handles(aten.var.correction)
def var(e, x, axes=None, correction=1, keepdim=False):
    dtype = e.dtype
    correction = 1 if correction is None else correction
    axes = axes_of(axes, x.rank)
    x = e.convert(x, F32 if is_narrow_float(dtype) else dtype)
    mean = reduce(e, "mean", x, axes, True)
    centred = e.op("sub", x, e.broadcast(mean, x.shape))
    total = reduce(e, "reduce_sum", e.op("mul", centred, centred), axes, keepdim)
    count = max(math.prod(x.shape[a] for a in axes) - correction, 0)
    return e.convert(e.op("div", total, e.constant(float(count), total.dtype, total.shape)), dtype)


@handles(aten.cumsum.default)
def cumsum(e, x, axis, dtype=None):
    x = e.convert(x, e.dtype)
    return e.op("cumsum", x, axis=axis_of(axis, x.rank)) if x.rank else x


@handles(aten.linalg_vector_norm.default)
def vector_norm(e, x, order=2, axes=None, keepdim=False, dtype=None):
    result_dtype = e.dtype
    x = e.convert(x, F32 if is_narrow_float(result_dtype) else result_dtype)
    size = e.op("abs", x)
    if order == 2:
        result = e.op("sqrt", reduce(e, "reduce_sum", e.op("mul", x, x), axes, keepdim))
    elif order == 1:
        result = reduce(e, "reduce_sum", size, axes, keepdim)
    elif order in (math.inf, -math.inf):
        result = reduce(e, "reduce_max" if order > 0 else "reduce_min", size, axes, keepdim)
    else:
        raise Unsupported(f"vector norm of order {order}")
    return e.convert(result, result_dtype)
