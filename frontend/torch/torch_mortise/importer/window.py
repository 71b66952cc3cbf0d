# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and pools."""

import itertools
import math

import torch

from ..dtypes import F32, is_float, is_narrow_float
from ..extents import NeedsNumbers
from .core import handles

aten = torch.ops.aten


def each(values, rank):
    values = list(values)
    return tuple(values * rank if len(values) == 1 else values)


@handles(aten.convolution.default)
def convolution(e, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = weight.rank - 2
    if x.rank == weight.rank - 1:  # no batch dimension
        whole = (bias, stride, padding, dilation, transposed, output_padding, groups)
        result = convolution(e, e.reshape(x, (1,) + x.shape), weight, *whole)
        return e.reshape(result, result.shape[1:])
    stride, padding, dilation = (each(e.sizes(v), rank) for v in (stride, padding, dilation))
    if transposed:
        result = transposed_convolution(e, x, weight, stride, padding, dilation, each(output_padding, rank), groups)
    else:
        result = correlate(e, x, weight, stride, padding, padding, dilation, groups)
    if bias is None:
        return result
    return e.op("add", result, e.broadcast(bias, result.shape, (1,)))


def correlate(e, x, weight, stride, low, high, dilation, groups):
    if not is_float(x.dtype):
        return integer_correlate(e, x, weight, stride, low, high, dilation, groups)
    return e.op("convolution", x, weight, strides=stride, low=low, high=high, dilations=dilation, groups=groups)


def integer_correlate(e, x, weight, stride, low, high, dilation, groups):
    """One integer product per kernel position, because sums must wrap as eager's do."""
    kernel, (outputs, per_group) = weight.shape[2:], weight.shape[:2]
    rank, batch = len(kernel), x.shape[0]
    zeros = (0,) * (rank + 2)
    x = e.op("pad", x, e.constant(0, x.dtype), low=(0, 0, *low), high=(0, 0, *high), interior=zeros)
    out = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation))
    weight = e.reshape(weight, (groups, outputs // groups, per_group, *kernel))
    total = None
    for place in itertools.product(*map(range, kernel)):
        seen, tap = x, weight
        for i, (at, d, s, n) in enumerate(zip(place, dilation, stride, out)):
            seen = e.slice(seen, i + 2, at * d, at * d + (n - 1) * s + 1, s)
            tap = e.slice(tap, i + 3, at, at + 1)
        tap = e.reshape(tap, (groups, outputs // groups, per_group))
        seen = e.transpose(e.reshape(seen, (batch, groups, per_group, math.prod(out))), (1, 2, 0, 3))
        part = e.op("dot", tap, seen, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,))
        total = part if total is None else e.op("add", total, part)
    total = e.transpose(total, (2, 0, 1, 3))  # from [groups, outputs / groups, batch, places]
    return e.reshape(total, (batch, outputs, *out))


def transposed_convolution(e, x, weight, stride, padding, dilation, output_padding, groups):
    """The convolution by the reversed kernel of x with zeros between its elements. A kernel of one element comes before the zeros, so that
    it does not read them."""
    rank = x.rank - 2
    kernel = weight.shape[2:]
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding)]
    high = [n + extra for n, extra in zip(low, output_padding)]
    channels, per_group = weight.shape[:2]
    weight = e.reshape(weight, (groups, channels // groups, per_group, *kernel))
    weight = e.transpose(weight, (0, 2, 1, *range(3, 3 + rank)))
    weight = e.reshape(weight, (groups * per_group, channels // groups, *kernel))
    ones, none = (1,) * rank, (0,) * rank
    if all(extent == 1 for extent in kernel):
        return spread(e, correlate(e, x, weight, ones, none, none, ones, groups), stride, low, high)
    x = spread(e, x, stride, [min(n, 0) for n in low], [min(n, 0) for n in high])
    weight = e.op("reverse", weight, axes=tuple(range(2, 2 + rank)))
    return correlate(e, x, weight, ones, tuple(max(n, 0) for n in low), tuple(max(n, 0) for n in high), dilation, groups)


def spread(e, x, stride, low, high):
    """x with its elements `stride` apart, zeros between them and at its ends; negative `low` and `high` cut off."""
    if all(s == 1 for s in stride) and not any(low) and not any(high):
        return x
    return e.op("pad", x, e.constant(0, x.dtype), low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, *[s - 1 for s in stride]))


def pool_padding(x, window, stride, padding, dilation, ceil_mode):
    """(low, high). In ceil mode the last window may extend beyond the padding, unless it would start in the padding at the end."""
    high = []
    for extent, k, s, p, d in zip(x.shape[2:], window, stride, padding, dilation):
        if not ceil_mode:
            high.append(p)
        elif isinstance(extent, int):
            count = -(-(extent + 2 * p - d * (k - 1) - 1) // s) + 1
            if (count - 1) * s >= extent + p:
                count -= 1
            high.append(max((count - 1) * s + d * (k - 1) + 1 - extent - p, 0))
        elif p + s < d * (k - 1) + 2:  # no window starts there
            high.append(p + s - 1)
        else:
            raise NeedsNumbers(f"whether the last of the windows over {extent} starts in the padding depends on the shape")
    return tuple(padding), tuple(high)


def with_batch(e, x, rank, function):
    """Adds a batch dimension for tensors without one, which pools also take."""
    if x.rank == rank + 2:
        return function(x)
    result = function(e.reshape(x, (1,) + x.shape))
    return e.reshape(result, result.shape[1:])


def avg_pool(overload, rank):
    @handles(overload)
    def handler(e, x, window, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
        window = each(window, rank)
        stride, padding = each(stride, rank) or window, each(padding, rank)
        dtype = x.dtype
        x = e.convert(x, F32 if is_narrow_float(dtype) else dtype)
        ones = (1,) * rank

        def pool(x):
            low, high = pool_padding(x, window, stride, padding, ones, ceil_mode)
            parameters = dict(window=window, strides=stride, low=low, high=high, dilations=ones)
            total = e.op("sum_pool", x, **parameters)
            hangs_over = any(h > p for h, p in zip(high, padding))
            if divisor_override is not None or (not hangs_over and (count_include_pad or not any(padding))):
                return e.op(
                    "div", total, e.constant(float(divisor_override or math.prod(window)), x.dtype, total.shape)
                )
            # count the elements of each window: those in the padding count, those beyond it do not
            ones_shape = (1, 1) + x.shape[2:]
            inside = e.constant(1.0, x.dtype, ones_shape)
            if count_include_pad:
                inside = e.op(
                    "pad",
                    inside,
                    e.constant(1.0, x.dtype),
                    low=(0, 0, *padding),
                    high=(0, 0, *padding),
                    interior=(0, 0) + (0,) * rank,
                )
                parameters.update(low=(0,) * rank, high=tuple(max(h - p, 0) for h, p in zip(high, padding)))
            count = e.op("sum_pool", inside, **parameters)
            return e.op("div", total, e.broadcast(count, total.shape))

        return e.convert(with_batch(e, x, rank, pool), dtype)


avg_pool(aten.avg_pool1d.default, 1)
avg_pool(aten.avg_pool2d.default, 2)
avg_pool(aten.avg_pool3d.default, 3)


# ---- backward ------------------------------------------------------------------------------------


def spread_padding(x, kernel, stride, padding, dilation, result):
    """output_padding: the difference between the input's extents and those that a transposed convolution of the result gives."""
    return [n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, o, s, p, d, k in zip(x, result, stride, padding, dilation, kernel)]


def weight_gradient(e, x, grad, kernel, stride, padding, dilation, groups):
    """w[o, i, k] = sum over n, p of grad[n, o, p] * x[n, i, p * stride + k * dilation - padding]: a convolution of x, with the channels as
    its batch, by the kernel grad."""
    rank, batch = len(kernel), x.shape[0]
    inputs, outputs = x.shape[1] // groups, grad.shape[1] // groups
    tail = tuple(range(3, 3 + rank))
    x = e.transpose(e.reshape(x, (batch, groups, inputs, *x.shape[2:])), (2, 1, 0, *tail))
    x = e.reshape(x, (inputs, groups * batch, *x.shape[3:]))
    taps = e.reshape(e.transpose(grad, (1, 0, *range(2, 2 + rank))), (groups * outputs, batch, *grad.shape[2:]))
    # the kernel's last element decides the padding at the end; what is too much is cut off below
    high = [max((g - 1) * s + (k - 1) * d + 1 - n - p, 0)
            for g, s, k, d, n, p in zip(grad.shape[2:], stride, kernel, dilation, x.shape[2:], padding)]
    result = correlate(e, x, taps, dilation, padding, tuple(high), stride, groups)
    for i, extent in enumerate(kernel, 2):
        result = e.slice(result, i, 0, extent)
    return e.transpose(result, (1, 0, *range(2, 2 + rank)))


@handles(aten.convolution_backward.default)
def convolution_backward(
    e, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, wanted
):
    rank = weight.rank - 2
    if x.rank == weight.rank - 1:
        x, grad = e.reshape(x, (1,) + x.shape), e.reshape(grad, (1,) + grad.shape)
        results = convolution_backward(e, grad, x, weight, bias_sizes, stride, padding, dilation, transposed,
                                       output_padding, groups, wanted)
        return (results[0] and e.reshape(results[0], results[0].shape[1:]), *results[1:])
    stride, padding, dilation = (each(e.sizes(v), rank) for v in (stride, padding, dilation))
    kernel, zeros, results = weight.shape[2:], (0,) * rank, [None, None, None]
    if wanted[0]:
        extra = zeros if transposed else spread_padding(x.shape[2:], kernel, stride, padding, dilation, grad.shape[2:])
        back = convolution(e, grad, weight, None, stride, padding, dilation, not transposed, extra, groups)
        for i, extent in enumerate(x.shape[2:], 2):
            back = e.slice(back, i, 0, extent)
        results[0] = back
    if wanted[1]:
        sides = (grad, x) if transposed else (x, grad)
        results[1] = weight_gradient(e, *sides, kernel, stride, padding, dilation, groups)
    if wanted[2]:
        results[2] = e.op("reduce_sum", grad, axes=(0, *range(2, 2 + rank)))
    return tuple(results)
