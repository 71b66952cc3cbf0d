# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sorting and operators based on it, cumulative products and extremes, scattered reductions."""

import math

import torch

from ..dtypes import F32, I1, I64, is_float, is_narrow_float, lowest
from ..extents import Extent
from .core import axis_of, handles
from .indexing import as_index
from .reduction import kept
from .elementwise import floor_divide_int

aten = torch.ops.aten


def on_axis(function):
    """Lets function(e, x, axis, ...), which returns Values of x's rank, treat a scalar as a tensor of one element."""

    def handler(e, x, *arguments, **keywords):
        if x.rank:
            return function(e, x, *arguments, **keywords)
        results = function(e, e.reshape(x, (1,)), *arguments, **keywords)
        return tuple(e.reshape(r, ()) for r in results) if isinstance(results, tuple) else e.reshape(results, ())

    return handler


def sorted_along(e, x, axis, descending=False):
    """(values, indices). The sort is always stable, as eager's is on CPU."""
    return e.op("sort", x, axis=axis_of(axis, x.rank), descending=bool(descending), stable=True)


@handles(aten.sort.default)
@on_axis
def sort(e, x, axis=-1, descending=False):
    return sorted_along(e, x, axis, descending)


@handles(aten.sort.stable)
@on_axis
def sort_stable(e, x, *, stable=None, dim=-1, descending=False):
    return sorted_along(e, x, dim, descending)


@handles(aten.topk.default)
def topk(e, x, k, axis=-1, largest=True, sorted=True):
    k = e.size(k)
    if x.rank == 0:
        result = topk(e, e.reshape(x, (1,)), k, 0, largest, sorted)
        return tuple(e.reshape(r, ()) for r in result)
    return e.op("top_k", x, k=k, axis=axis_of(axis, x.rank), largest=bool(largest), sorted=bool(sorted))


def pick(e, ordered, place, axis, keepdim):
    """The values and indices at `place` (a number, or a Value of extent 1 along the axis) in a result of `sorted_along`."""
    results = []
    for value in ordered:
        one = e.slice(value, axis, place, place + 1) if isinstance(place, (int, Extent)) else e.op("take_along", value, place, axis=axis)
        results.append(one if keepdim else e.reshape(one, value.shape[:axis] + value.shape[axis + 1 :]))
    return tuple(results)


@handles(aten.kthvalue.default)
def kthvalue(e, x, k, axis=-1, keepdim=False):
    if x.rank == 0:
        return tuple(e.reshape(r, ()) for r in kthvalue(e, e.reshape(x, (1,)), k, 0, True))
    axis = axis_of(axis, x.rank)
    return pick(e, sorted_along(e, x, axis), e.size(k) - 1, axis, keepdim)


def median_along(e, x, axis, keepdim, skip_nan):
    if x.rank == 0:
        return tuple(e.reshape(r, ()) for r in median_along(e, e.reshape(x, (1,)), 0, True, skip_nan))
    axis = axis_of(axis, x.rank)
    extent = x.shape[axis]
    ordered = sorted_along(e, x, axis)
    if not is_float(x.dtype):
        return pick(e, ordered, (extent - 1) // 2, axis, keepdim)
    number = e.convert(e.compare(x, x, "eq"), I64)
    count = kept(e, e.op("reduce_sum", number, axes=(axis,)), x, (axis,), True)  # NaN is sorted last
    one, zero, two = (e.constant(n, I64, count.shape) for n in (1, 0, 2))
    place = e.op("max", e.op("div", e.op("sub", count, one), two), zero)
    if not skip_nan:  # the position of the first NaN, if there is one
        place = e.select(e.compare(count, e.constant(extent, I64, count.shape), "lt"), count, place)
    return pick(e, ordered, place, axis, keepdim)


def median(overload, whole, skip_nan):
    @handles(overload)
    def along(e, x, axis, keepdim=False):
        return median_along(e, x, axis, keepdim, skip_nan)

    @handles(whole)
    def of_all(e, x):
        if x.elements == 0:
            return e.constant(math.nan if is_float(x.dtype) else lowest(x.dtype), x.dtype)
        return median_along(e, e.reshape(x, (x.elements,)), 0, False, skip_nan)[0]


median(aten.median.dim, aten.median.default, False)
median(aten.nanmedian.dim, aten.nanmedian.default, True)


@handles(aten.mode.default)
def mode(e, x, axis=-1, keepdim=False):
    """The most frequent value (the least of several equally frequent ones) and the last index at which it occurs."""
    if x.rank == 0:
        return x, e.constant(0, I64)
    axis = axis_of(axis, x.rank)
    values, indices = sorted_along(e, x, axis)
    order = [i for i in range(x.rank) if i != axis] + [axis]
    rows = e.transpose(values, order)
    shape, rank = rows.shape + (rows.shape[-1],), rows.rank
    left = e.broadcast(rows, shape, tuple(range(rank)))
    right = e.broadcast(rows, shape, tuple(range(rank - 1)) + (rank,))
    counts = e.op("reduce_sum", e.convert(e.compare(left, right, "eq"), I64), axes=(rank,))
    first = e.op("argmax", counts, axis=rank - 1)
    most = e.op("reduce_max", counts, axes=(rank - 1,))
    last = e.op("add", first, e.op("max", e.op("sub", most, e.constant(1, I64, most.shape)), e.constant(0, I64, most.shape)))
    place = e.reshape(last, [1 if i == axis else n for i, n in enumerate(x.shape)])
    return pick(e, (values, indices), place, axis, keepdim)


# ---- running ----------------------------------------------------------------------------------------


@handles(aten.cumprod.default)
def cumprod(e, x, axis, dtype=None):
    x = e.convert(x, e.dtype)
    return e.op("cumprod", x, axis=axis_of(axis, x.rank)) if x.rank else x


def running(name, overload):
    @handles(overload)
    def handler(e, x, axis):
        if x.rank == 0:
            return x, e.constant(0, I64)
        return e.op(name, x, axis=axis_of(axis, x.rank))


running("cummax", aten.cummax.default)
running("cummin", aten.cummin.default)


# ---- scattered reductions ------------------------------------------------------------------------


def identity(kind, dtype):
    if kind in ("sum", "mean"):
        return 0
    if kind == "prod":
        return 1
    if kind == "amax":
        return lowest(dtype)
    if is_float(dtype):
        return math.inf
    return True if dtype == I1 else -1 - lowest(dtype) if lowest(dtype) else 255


MODES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def scatter_reduced(e, x, axis, indices, source, kind, include_self):
    if x.rank == 0 or indices.rank == 0 or source.rank == 0:
        shape = x.shape
        x, indices, source = (e.reshape(v, v.shape or (1,)) for v in (x, indices, source))
        return e.reshape(scatter_reduced(e, x, axis, indices, source, kind, include_self), shape)
    if indices.elements == 0:
        return x
    axis, dtype, indices = axis_of(axis, x.rank), x.dtype, as_index(e, indices)
    for i in range(source.rank):
        source = e.slice(source, i, 0, indices.shape[i])
    wide = F32 if is_narrow_float(dtype) else dtype
    result, source = e.convert(x, wide), e.convert(source, wide)
    if not include_self:
        neutral = e.constant(identity(kind, wide), wide, indices.shape)
        result = e.op("scatter_along", result, indices, neutral, axis=axis, mode="set")
    result = e.op("scatter_along", result, indices, source, axis=axis, mode=MODES[kind])
    if kind == "mean":
        counts = e.constant(int(include_self), wide, x.shape)
        ones = e.constant(1, wide, indices.shape)
        counts = e.op("scatter_along", counts, indices, ones, axis=axis, mode="add")
        counts = e.op("max", counts, e.constant(1, wide, x.shape))
        result = e.op("div", result, counts) if is_float(wide) else floor_divide_int(e, result, counts)
    return e.convert(result, dtype)


@handles(aten.scatter_reduce.two)
def scatter_reduce(e, x, axis, indices, source, kind, *, include_self=True):
    return scatter_reduced(e, x, axis, indices, source, kind, include_self)


NAMES = {"add": "sum", "multiply": "prod"}


@handles(aten.scatter.reduce)
def scatter_with(e, x, axis, indices, source, *, reduce):
    return scatter_reduced(e, x, axis, indices, source, NAMES[reduce], True)


@handles(aten.scatter.value_reduce)
def scatter_value_with(e, x, axis, indices, value, *, reduce):
    source = e.constant(value, x.dtype, indices.shape)
    return scatter_reduced(e, x, axis, indices, source, NAMES[reduce], True)


@handles(aten.index_reduce.default)
def index_reduce(e, x, axis, indices, source, kind, *, include_self=True):
    if x.rank == 0:
        x, source = e.reshape(x, (1,)), e.reshape(source, (1,))
        return e.reshape(index_reduce(e, x, 0, indices, source, kind, include_self=include_self), ())
    axis = axis_of(axis, x.rank)
    indices = e.broadcast(e.reshape(as_index(e, indices), (indices.elements,)), source.shape, (axis,))
    return scatter_reduced(e, x, axis, indices, source, kind, include_self)
