# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and cumulative sums."""

import math

import torch

from .. import dtypes
from ..dtypes import F32, I1, Unsupported, is_float, is_narrow_float
from .core import axes_of, axis_of, broadcast_shapes, handles

aten = torch.ops.aten


def kept(e, value, x, axes, keepdim):
    """The result, with the reduced dimensions restored as extents of 1 if `keepdim`."""
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
    if e.dtype == I1:
        return reduce(e, "reduce_min", e.convert(x, I1), None)
    return reduce(e, "reduce_prod", e.convert(x, e.dtype), None)


@handles(aten.prod.dim_int)
def prod_dim(e, x, axis, keepdim=False, dtype=None):
    if e.dtype == I1:
        return reduce(e, "reduce_min", e.convert(x, I1), axis, keepdim)
    return reduce(e, "reduce_prod", e.convert(x, e.dtype), axis, keepdim)


def refuse_nothing(x):
    """PyTorch's tracing accepts what eager refuses, so that eager has to say so."""
    if 0 in x.shape:
        raise Unsupported("the largest, or least, of no elements, which is an error")


def extreme(name, reduced, whole):
    @handles(reduced)
    def along(e, x, axes=(), keepdim=False):
        return reduce(e, name, x, axes, keepdim)

    @handles(whole)
    def of_all(e, x):
        refuse_nothing(x)
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
    if axis is None:
        refuse_nothing(x)
    if x.dtype == I1:
        x = e.convert(x, dtypes.I32)
    name = "argmin" if smallest else "argmax"
    if axis is None:
        result = e.op(name, e.reshape(x, (x.elements,)), axis=0)
        return e.reshape(result, (1,) * x.rank) if keepdim else result
    if x.rank == 0:
        return e.constant(0, dtypes.I64)
    axis = axis_of(axis, x.rank)
    return kept(e, e.op(name, x, axis=axis), x, (axis,), keepdim)


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


def moments(e, x, axes, correction, keepdim, dtype):
    """(mean, variance) in `dtype`, computed in f32 for narrow floats."""
    correction = 1 if correction is None else correction
    axes = axes_of(axes, x.rank)
    x = e.convert(x, F32 if is_narrow_float(dtype) else dtype)
    mean = reduce(e, "mean", x, axes, True)
    centred = e.op("sub", x, e.broadcast(mean, x.shape))
    total = reduce(e, "reduce_sum", e.op("mul", centred, centred), axes, keepdim)
    count = math.prod(x.shape[a] for a in axes) - correction
    count = 0 if count < 0 else count
    variance = e.op("div", total, e.constant(float(count), total.dtype, total.shape))
    return e.convert(e.reshape(mean, total.shape), dtype), e.convert(variance, dtype)


@handles(aten.var.correction)
def var(e, x, axes=None, correction=1, keepdim=False):
    return moments(e, x, axes, correction, keepdim, e.dtype)[1]


@handles(aten.var_mean.correction)
def var_mean(e, x, axes=None, correction=1, keepdim=False):
    mean, variance = moments(e, x, axes, correction, keepdim, dtypes.number(e.value[0].dtype))
    return variance, mean


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
    elif order == 0:
        there = e.convert(e.compare(x, e.constant(0.0, x.dtype, x.shape), "ne"), x.dtype)
        result = reduce(e, "reduce_sum", there, axes, keepdim)
    else:
        power = e.op("pow", size, e.constant(float(order), x.dtype, x.shape))
        total = reduce(e, "reduce_sum", power, axes, keepdim)
        result = e.op("pow", total, e.constant(1.0 / order, x.dtype, total.shape))
    return e.convert(result, result_dtype)


def p_norm(e, x, order, axis):
    """The p-norm of the differences `x` along one axis."""
    size = e.op("abs", x)
    if order == 0:
        return e.op("reduce_sum", e.convert(e.compare(x, e.constant(0.0, x.dtype, x.shape), "ne"), x.dtype), axes=(axis,))
    if order == math.inf:
        return e.op("reduce_max", size, axes=(axis,))
    if order == 1:
        return e.op("reduce_sum", size, axes=(axis,))
    if order == 2:
        return e.op("sqrt", e.op("reduce_sum", e.op("mul", x, x), axes=(axis,)))
    total = e.op("reduce_sum", e.op("pow", size, e.constant(float(order), x.dtype, x.shape)), axes=(axis,))
    return e.op("pow", total, e.constant(1.0 / order, x.dtype, total.shape))


@handles(aten._cdist_forward.default)
def cdist(e, x, y, order, mode=None):
    """The distance of each row of x [..., p, m] to each row of y [..., r, m]."""
    shape = tuple(e.sizes(e.value.shape))
    rank, m = len(shape), x.shape[-1]
    if m == 0 or 0 in shape:
        return e.constant(0.0, x.dtype, shape)
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = e.broadcast(x, lead + x.shape[-2:]), e.broadcast(y, lead + y.shape[-2:])
    axes = tuple(range(rank - 2))
    x = e.broadcast(x, shape + (m,), axes + (rank - 2, rank))
    y = e.broadcast(y, shape + (m,), axes + (rank - 1, rank))
    return p_norm(e, e.op("sub", x, y), order, rank)


@handles(aten._pdist_forward.default)
def pdist(e, x, order=2.0):
    """The distance of each row to each later row."""
    n, m = x.shape
    if n < 2 or m == 0:
        return e.constant(0.0, x.dtype, (n * (n - 1) // 2,))
    first, second = torch.triu_indices(int(n), int(n), 1)
    rows = [e.op("take", x, e.tensor_literal(index), axis=0) for index in (first, second)]
    return p_norm(e, e.op("sub", *rows), order, 1)


@handles(aten.dist.default)
def dist(e, x, y, order=2):
    dtype = e.dtype
    difference = e.op("sub", *e.pair(x, y, dtype))
    return e.reshape(vector_norm(e, difference, order), ())


@handles(aten.logcumsumexp.default)
def logcumsumexp(e, x, axis):
    return x if x.rank == 0 or x.elements == 0 else e.op("cumlogsumexp", x, axis=axis_of(axis, x.rank))


# ---- runs of elements ----------------------------------------------------------------------------

NEUTRAL = {"sum": 0, "mean": 0, "prod": 1, "max": -math.inf, "min": math.inf}


@handles(aten.segment_reduce.default)
def segment_reduce(e, data, kind, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Reduces runs of `data` along `axis`, the last dimension of lengths or offsets; their other dimensions are those of data."""
    if indices is not None:
        raise Unsupported("segment_reduce by indices")
    bounds = e.convert(lengths if offsets is None else offsets, dtypes.I64)
    if offsets is None:
        ends = e.op("cumsum", bounds, axis=axis)
        starts = e.op("sub", ends, bounds)
    else:
        count = bounds.shape[axis] - 1
        starts, ends = e.slice(bounds, axis, 0, count), e.slice(bounds, axis, 1, count + 1)
    # [lead, segments, n, rest]
    lead, tail, n = data.shape[:axis], data.shape[axis + 1 :], data.shape[axis]
    shape = lead + (starts.shape[axis], n)
    place = e.iota(shape, dtypes.I64, axis + 1)
    starts, ends = (e.broadcast(v, shape, tuple(range(axis + 1))) for v in (starts, ends))
    inside = e.op("and", e.compare(place, starts, "ge"), e.compare(place, ends, "lt"))
    full = shape + tail
    values = e.broadcast(data, full, tuple(range(axis)) + tuple(range(axis + 1, len(full))))
    mask = e.broadcast(inside, full, tuple(range(axis + 2)))
    wide = e.convert(values, F32 if is_narrow_float(data.dtype) else data.dtype)
    neutral = e.constant(NEUTRAL[kind], wide.dtype, full)
    reducer = {"mean": "sum"}.get(kind, kind)
    result = e.op("reduce_" + reducer, e.select(mask, wide, neutral), axes=(axis + 1,))
    if initial is not None:
        start = e.constant(initial, wide.dtype, result.shape)
        result = e.op({"sum": "add", "mean": "add", "prod": "mul"}.get(kind, kind), result, start)
    if kind == "mean":
        count = e.op("reduce_sum", e.convert(inside, dtypes.I64), axes=(axis + 1,))
        count = e.broadcast(e.convert(count, wide.dtype), result.shape, tuple(range(axis + 1)))
        mean = e.op("div", result, count)
        if initial is not None:
            empty = e.compare(count, e.constant(0.0, wide.dtype, count.shape), "eq")
            mean = e.select(empty, result, mean)
        result = mean
    return e.convert(result, data.dtype)


@handles(aten.histc.default)
def histc(e, x, bins=100, minimum=0, maximum=0):
    """Counts in bins of equal width; over the data's own range if minimum == maximum."""
    dtype = e.dtype
    x = e.reshape(x, (x.elements,))
    if x.elements == 0:
        return e.constant(0, dtype, (bins,))
    wide = dtypes.F64 if not is_float(dtype) else dtype
    x = e.convert(x, wide)
    low, high = e.constant(float(minimum), wide), e.constant(float(maximum), wide)
    if minimum == maximum:
        low, high = e.op("reduce_min", x, axes=(0,)), e.op("reduce_max", x, axes=(0,))
    same = e.compare(low, high, "eq")
    one = e.constant(1.0, wide)
    low, high = e.select(same, e.op("sub", low, one), low), e.select(same, e.op("add", high, one), high)
    lows, highs = e.broadcast(low, x.shape), e.broadcast(high, x.shape)
    share = e.op("mul", e.op("sub", x, lows), e.constant(float(bins), wide, x.shape))
    place = e.convert(e.op("floor", e.op("div", share, e.op("sub", highs, lows))), dtypes.I64)
    place = e.op("min", place, e.constant(bins - 1, dtypes.I64, x.shape))
    inside = e.op("and", e.compare(x, lows, "ge"), e.compare(x, highs, "le"))
    place = e.select(inside, place, e.constant(bins, dtypes.I64, x.shape))  # elements outside are counted in one extra bin, which is cut
                                                                            # off
    counts = e.op("put", e.constant(0, dtypes.I64, (bins + 1,)), place, e.constant(1, dtypes.I64, x.shape), axis=0, mode="add")
    return e.convert(e.slice(counts, 0, 0, bins), dtype)
