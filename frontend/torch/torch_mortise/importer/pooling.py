# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adaptive pools, the indices of max pools, and the gradients of pools."""

import itertools
import math

import torch

from ..dtypes import F32, I32, I64, is_float, is_narrow_float, lowest
from .core import handles
from .indexing import scatter_into
from .window import each, pool_padding

aten = torch.ops.aten
FEW_TAPS = 32  # of a window: each becomes some operators


def wide(e, x):
    return e.convert(x, F32 if is_narrow_float(x.dtype) else x.dtype)


def ranges(begins, ends):
    """The positions [count, longest] of the windows begin .. end along one axis, and whether each position lies in its window."""
    longest = max(b - a for a, b in zip(begins, ends))
    positions = [[max(min(a + i, b - 1), 0) for i in range(longest)] for a, b in zip(begins, ends)]
    inside = [[a + i < b for i in range(longest)] for a, b in zip(begins, ends)]
    return torch.tensor(positions, dtype=torch.int64).reshape(-1, longest), torch.tensor(inside).reshape(-1, longest)


def window_sums(e, x, axis, begins, ends):
    """Sums of x over the windows begin .. end along `axis`, which may have different lengths."""
    count, extent = len(begins), x.shape[axis]
    lengths = {b - a for a, b in zip(begins, ends)}
    tail = x.shape[axis + 1 :]
    if lengths == {extent // count} and begins == [i * (extent // count) for i in range(count)]:
        split = e.reshape(x, x.shape[:axis] + (count, extent // count) + tail)
        return e.op("reduce_sum", split, axes=(axis + 1,))
    if lengths == {0}:
        return e.constant(0, x.dtype, x.shape[:axis] + (count,) + tail)
    positions, inside = ranges(begins, ends)
    taken = e.op("take", x, e.tensor_literal(positions), axis=axis)
    mask = e.broadcast(e.tensor_literal(inside), taken.shape, (axis, axis + 1))
    taken = e.select(mask, taken, e.constant(0, x.dtype, taken.shape))
    return e.op("reduce_sum", taken, axes=(axis + 1,))


def adaptive_windows(extent, count):
    return [i * extent // count for i in range(count)], [-(-(i + 1) * extent // count) for i in range(count)]


def adaptive_avg_pool(overload, rank):
    @handles(overload)
    def handler(e, x, shape):
        shape, lead, dtype = tuple(e.sizes(shape)), x.rank - rank, x.dtype
        result_shape = x.shape[:lead] + shape
        if 0 in result_shape:
            return e.constant(0, dtype, result_shape)
        if all(extent % count == 0 for extent, count in zip(x.shape[lead:], shape)) and is_float(dtype):
            split = [n for extent, count in zip(x.shape[lead:], shape) for n in (count, extent // count)]
            split = e.reshape(x, (*x.shape[:lead], *split))
            return e.op("mean", split, axes=tuple(lead + 1 + 2 * i for i in range(rank)))
        result = wide(e, x)
        for axis, count in enumerate(shape, lead):
            result = window_sums(e, result, axis, *adaptive_windows(x.shape[axis], count))
        for axis, count in enumerate(shape, lead):
            result = divide_by_lengths(e, result, axis, *adaptive_windows(x.shape[axis], count))
        return e.convert(result, dtype)


def divide_by_lengths(e, value, axis, begins, ends):
    lengths = torch.tensor([b - a for a, b in zip(begins, ends)], dtype=torch.float64)
    lengths = e.convert(e.tensor_literal(lengths), value.dtype)
    return e.op("div", value, e.broadcast(lengths, value.shape, (axis,)))


adaptive_avg_pool(aten._adaptive_avg_pool2d.default, 2)
adaptive_avg_pool(aten._adaptive_avg_pool3d.default, 3)


@handles(aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool1d(e, x, shape):
    dtype, axis, count = x.dtype, x.rank - 1, e.sizes(shape)[0]
    windows = adaptive_windows(x.shape[axis], count)
    return e.convert(divide_by_lengths(e, window_sums(e, wide(e, x), axis, *windows), axis, *windows), dtype)


def adaptive_avg_pool_backward(overload, rank):
    """Each input element gets its share of the gradients of the windows that it lies in, which are consecutive."""

    @handles(overload)
    def handler(e, grad, x):
        dtype, lead, result = x.dtype, x.rank - rank, wide(e, grad)
        if 0 in x.shape or 0 in grad.shape:
            return e.constant(0, dtype, x.shape)
        for axis in range(lead, x.rank):
            begins, ends = adaptive_windows(x.shape[axis], grad.shape[axis])
            result = divide_by_lengths(e, result, axis, begins, ends)
            windows = [[o for o, (a, b) in enumerate(zip(begins, ends)) if a <= i < b] for i in range(x.shape[axis])]
            result = window_sums(e, result, axis, [w[0] for w in windows], [w[-1] + 1 for w in windows])
        return e.convert(result, dtype)


adaptive_avg_pool_backward(aten._adaptive_avg_pool2d_backward.default, 2)
adaptive_avg_pool_backward(aten._adaptive_avg_pool3d_backward.default, 3)


# ---- max pools -----------------------------------------------------------------------------------


def padded_windows(e, x, fill, lead, windows):
    """x [lead, s...] as [lead, o..., elements of a window], by one gather per axis. `windows` has (window, stride, low, high, dilation) for
    each axis. Padding has the value `fill`."""
    rank = x.rank - lead
    low, high = [w[2] for w in windows], [w[3] for w in windows]
    if any(low) or any(high):
        x = e.op("pad", x, e.constant(fill, x.dtype), low=(0,) * lead + tuple(low), high=(0,) * lead + tuple(high),
                 interior=(0,) * x.rank)
    outs = []
    for i, (k, s, _, _, d) in enumerate(windows):
        axis = lead + 2 * i
        out = (x.shape[axis] - d * (k - 1) - 1) // s + 1
        outs.append(out)
        starts = e.op("mul", e.iota((out, k), I64, 0), e.constant(s, I64, (out, k)))
        steps = e.op("mul", e.iota((out, k), I64, 1), e.constant(d, I64, (out, k)))
        x = e.op("take", x, e.op("add", starts, steps), axis=axis)
    order = [*range(lead), *(lead + 2 * i for i in range(rank)), *(lead + 2 * i + 1 for i in range(rank))]
    x = e.transpose(x, order)
    return e.reshape(x, x.shape[: lead + rank] + (math.prod(w[0] for w in windows),))


def max_pool_indices(e, x, windows):
    """The position in x's spatial dimensions of the largest element of each window."""
    seen = padded_windows(e, x, lowest(x.dtype), 2, windows)
    space = x.shape[2:]
    places = e.reshape(e.iota((math.prod(space),), I64), space)
    return largest_place(e, seen, padded_windows(e, places, -1, 0, windows))


def max_pool_by_taps(e, x, windows):
    """The largest element of each window and its position in x's spatial dimensions, tap by tap as in eager's loop: a pointwise program
    over strided slices. Positions are counted from each window's begin."""
    space = x.shape[2:]
    low, high = ((0, 0, *[w[i] for w in windows]) for i in (2, 3))
    padded = e.op("pad", x, e.constant(lowest(x.dtype), x.dtype), low=low, high=high, interior=(0,) * x.rank)
    counts = [(n + lo + hi - d * (k - 1) - 1) // s + 1 for n, (k, s, lo, hi, d) in zip(space, windows)]
    steps = [math.prod(space[i + 1 :]) for i in range(len(space))]
    begins = first = torch.zeros(counts, dtype=torch.int32)
    for i, (count, step, (_, s, lo, _, d)) in enumerate(zip(counts, steps, windows)):
        begin = torch.arange(count, dtype=torch.int32) * s - lo
        along = [count if axis == i else 1 for axis in range(len(space))]
        begins = begins + (begin * step).view(along)
        first = first + ((-begin).clamp(min=0).add(d - 1).div(d, rounding_mode="floor") * d * step).view(along)
    shape, axes = x.shape[:2] + tuple(counts), tuple(range(2, x.rank))
    best = e.constant(lowest(x.dtype), x.dtype, shape)
    chosen = e.broadcast(e.tensor_literal(first.to(torch.int32)), shape, axes)  # the first that is not padding, if none is larger
    for taps in itertools.product(*(range(w[0]) for w in windows)):
        seen = padded
        for i, (tap, count, (_, s, _, _, d)) in enumerate(zip(taps, counts, windows)):
            seen = e.slice(seen, i + 2, tap * d, tap * d + (count - 1) * s + 1, s)
        better = e.compare(seen, best, "gt")
        if is_float(x.dtype):
            better = e.op("or", better, e.compare(seen, seen, "ne"))
        best = e.select(better, seen, best)
        at = sum(tap * w[4] * step for tap, w, step in zip(taps, windows, steps))
        chosen = e.select(better, e.constant(at, I32, shape), chosen)
    return best, e.convert(e.op("add", chosen, e.broadcast(e.tensor_literal(begins.to(torch.int32)), shape, axes)), I64)


def largest_place(e, seen, places):
    """The index of the largest element of each window. `seen` [lead..., o..., k]: the elements of each window; `places` [o..., k]: their
    indices in the input, -1 in the padding. Of equal elements the first is chosen, of several NaN the last, as in eager's loop."""
    axis = seen.rank - 1
    places = e.broadcast(places, seen.shape, tuple(range(seen.rank - places.rank, seen.rank)))
    inside = e.compare(places, e.constant(0, I64, places.shape), "ge")
    largest = e.op("reduce_max", seen, axes=(axis,))
    wins = e.compare(seen, e.broadcast(largest, seen.shape, tuple(range(axis))), "eq")
    order = e.op("neg", e.iota(seen.shape, I64, axis))
    if is_float(seen.dtype):
        nan = e.compare(seen, seen, "ne")
        wins = e.op("or", wins, nan)
        some = e.broadcast(e.op("reduce_max", nan, axes=(axis,)), seen.shape, tuple(range(axis)))
        order = e.select(some, e.op("neg", order), order)
    order = e.select(e.op("and", wins, inside), order, e.constant(-(1 << 62), I64, seen.shape))
    chosen = e.reshape(e.op("argmax", order, axis=axis), largest.shape + (1,))
    return e.reshape(e.op("take_along", places, chosen, axis=axis), largest.shape)


def adaptive_max_pool(overload, rank):
    @handles(overload)
    def handler(e, x, shape):
        shape, lead = tuple(e.sizes(shape)), x.rank - rank
        if 0 in x.shape[:lead] + shape:
            return e.constant(0, x.dtype, x.shape[:lead] + shape), e.constant(0, I64, x.shape[:lead] + shape)
        seen, space = x, x.shape[lead:]
        places = e.reshape(e.iota((math.prod(space),), I64), space)
        for i, count in enumerate(shape):
            positions, inside = ranges(*adaptive_windows(space[i], count))
            axes, inside = (lead + 2 * i, lead + 2 * i + 1), e.tensor_literal(inside)
            positions = e.tensor_literal(positions)
            seen = e.op("take", seen, positions, axis=axes[0])
            mask = e.broadcast(inside, seen.shape, axes)
            seen = e.select(mask, seen, e.constant(lowest(x.dtype), x.dtype, seen.shape))
            places = e.op("take", places, positions, axis=2 * i)
            mask = e.broadcast(inside, places.shape, (2 * i, 2 * i + 1))
            places = e.select(mask, places, e.constant(-1, I64, places.shape))

        def together(value, lead):
            order = [*range(lead), *(lead + 2 * i for i in range(rank)), *(lead + 2 * i + 1 for i in range(rank))]
            value = e.transpose(value, order)
            return e.reshape(value, value.shape[: lead + rank] + (math.prod(value.shape[lead + rank :]),))

        seen = together(seen, lead)
        result = e.op("reduce_max", seen, axes=(seen.rank - 1,))
        return result, largest_place(e, seen, together(places, 0)) if e.uses(1) else None


adaptive_max_pool(aten.adaptive_max_pool2d.default, 2)
adaptive_max_pool(aten.adaptive_max_pool3d.default, 3)


def max_pool(overload, rank):
    @handles(overload)
    def handler(e, x, window, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        window = each(window, rank)
        stride, padding, dilation = each(stride, rank) or window, each(padding, rank), each(dilation, rank)

        def pool(x):
            low, high = pool_padding(x, window, stride, padding, dilation, ceil_mode)
            windows = list(zip(window, stride, low, high, dilation))
            if e.uses(1) and math.prod(window) <= FEW_TAPS and all(isinstance(n, int) for n in x.shape[2:]):
                return max_pool_by_taps(e, x, windows)
            largest = e.op("max_pool", x, window=window, strides=stride, low=low, high=high, dilations=dilation)
            return largest, max_pool_indices(e, x, windows) if e.uses(1) else None

        if x.rank == rank + 2:
            return pool(x)
        results = pool(e.reshape(x, (1,) + x.shape))
        return tuple(result and e.reshape(result, result.shape[1:]) for result in results)


max_pool(aten.max_pool2d_with_indices.default, 2)
max_pool(aten.max_pool3d_with_indices.default, 3)


def max_pool_backward(overload, rank):
    @handles(overload)
    def handler(e, grad, x, window, stride, padding, dilation, ceil_mode, indices):
        lead = x.shape[: x.rank - rank]
        flat = lead + (math.prod(x.shape[x.rank - rank :]),)
        many = lead + (math.prod(grad.shape[x.rank - rank :]),)
        zeros = e.constant(0, x.dtype, flat)
        result = scatter_into(e, zeros, len(lead), e.reshape(indices, many), e.reshape(grad, many), "add")
        return e.reshape(result, x.shape)


max_pool_backward(aten.max_pool2d_with_indices_backward.default, 2)
max_pool_backward(aten.max_pool3d_with_indices_backward.default, 3)


def avg_pool_backward(overload, rank):
    @handles(overload)
    def handler(e, grad, x, window, stride, padding, ceil_mode, count_include_pad, divisor_override):
        window = each(window, rank)
        stride, padding = each(stride, rank) or window, each(padding, rank)
        dtype, lead, result = x.dtype, x.rank - rank, wide(e, grad)
        if 0 in x.shape or 0 in grad.shape:
            return e.constant(0, dtype, x.shape)
        if divisor_override:
            result = e.op("div", result, e.constant(float(divisor_override), result.dtype, result.shape))
        for axis in range(lead, x.rank):
            i, extent, count = axis - lead, x.shape[axis], grad.shape[axis]
            begins = [o * stride[i] - padding[i] for o in range(count)]
            ends = [min(b + window[i], extent + padding[i]) for b in begins]
            inner = [max(b, 0) for b in begins], [min(n, extent) for n in ends]
            if not divisor_override:
                result = divide_by_lengths(e, result, axis, *((begins, ends) if count_include_pad else inner))
            windows = [[o for o, (a, b) in enumerate(zip(*inner)) if a <= n < b] for n in range(extent)]
            sums = [w[0] if w else 0 for w in windows], [w[-1] + 1 if w else 0 for w in windows]
            result = window_sums(e, result, axis, *sums)
        return e.convert(result, dtype)


avg_pool_backward(aten.avg_pool2d_backward.default, 2)
avg_pool_backward(aten.avg_pool3d_backward.default, 3)
