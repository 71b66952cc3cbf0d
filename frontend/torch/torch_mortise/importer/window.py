# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions and pools."""

import math

import torch

from ..dtypes import F32, Unsupported, is_narrow_float
from .core import handles

aten = torch.ops.aten


def each(values, rank):
    values = list(values)
    return tuple(values * rank if len(values) == 1 else values)


@handles(aten.convolution.default)
def convolution(e, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = x.rank - 2
    stride, padding, dilation = (each(e.sizes(v), rank) for v in (stride, padding, dilation))
    if transposed:
        x, weight, low, high = as_forward(e, x, weight, stride, padding, dilation, each(output_padding, rank), groups)
        stride = (1,) * rank
    else:
        low = high = padding
    result = e.op("convolution", x, weight, strides=stride, low=low, high=high, dilations=dilation, groups=groups)
    if bias is None:
        return result
    return e.op("add", result, e.broadcast(bias, result.shape, (1,)))


def as_forward(e, x, weight, stride, padding, dilation, output_padding, groups):
    """A transposed convolution as a convolution of the input with gaps and the kernel turned round."""
    rank = x.rank - 2
    kernel = weight.shape[2:]
    low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding)]
    high = [n + extra for n, extra in zip(low, output_padding)]
    crop_low, crop_high = [min(n, 0) for n in low], [min(n, 0) for n in high]
    if any(s > 1 for s in stride) or any(crop_low) or any(crop_high):
        x = e.op(
            "pad",
            x,
            e.constant(0, x.dtype),
            low=(0, 0, *crop_low),
            high=(0, 0, *crop_high),
            interior=(0, 0, *[s - 1 for s in stride]),
        )
    channels, per_group = weight.shape[:2]
    weight = e.reshape(weight, (groups, channels // groups, per_group, *kernel))
    weight = e.transpose(weight, (0, 2, 1, *range(3, 3 + rank)))
    weight = e.reshape(weight, (groups * per_group, channels // groups, *kernel))
    weight = e.op("reverse", weight, axes=tuple(range(2, 2 + rank)))
    return x, weight, tuple(max(n, 0) for n in low), tuple(max(n, 0) for n in high)


def pool_padding(x, window, stride, padding, dilation, ceil_mode):
    """(low, high): ceil mode lets the last window hang over, unless it would start in the padding on the right."""
    high = []
    for extent, k, s, p, d in zip(x.shape[2:], window, stride, padding, dilation):
        span = extent + 2 * p - d * (k - 1) - 1
        count = span // s + 1
        if ceil_mode:
            count = -(-span // s) + 1
            if (count - 1) * s >= extent + p:
                count -= 1
        high.append(max((count - 1) * s + d * (k - 1) + 1 - extent - p, p if not ceil_mode else -extent))
    return tuple(padding), tuple(max(n, 0) for n in high)


def with_batch(e, x, rank, function):
    """Pools also take tensors without a batch dimension."""
    if x.rank == rank + 2:
        return function(x)
    result = function(e.reshape(x, (1,) + x.shape))
    return e.reshape(result, result.shape[1:])


def max_pool(overload, rank):
    @handles(overload)
    def handler(e, x, window, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        if e.uses(1):
            raise Unsupported("max_pool's indices")
        window = each(window, rank)
        stride, padding, dilation = each(stride, rank) or window, each(padding, rank), each(dilation, rank)

        def pool(x):
            low, high = pool_padding(x, window, stride, padding, dilation, ceil_mode)
            return e.op("max_pool", x, window=window, strides=stride, low=low, high=high, dilations=dilation)

        return with_batch(e, x, rank, pool), None


max_pool(aten.max_pool2d_with_indices.default, 2)
max_pool(aten.max_pool3d_with_indices.default, 3)


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
            # count what each window sees: the padding counts, what hangs over it does not
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


@handles(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool(e, x, shape):
    lead, (height, width) = x.shape[:-2], x.shape[-2:]
    rows, columns = e.sizes(shape)
    if not rows or not columns or height % rows or width % columns:
        raise Unsupported(f"adaptive pool of {height} x {width} to {rows} x {columns}: windows of several sizes")
    split = e.reshape(x, (*lead, rows, height // rows, columns, width // columns))
    return e.op("mean", split, axes=(len(lead) + 1, len(lead) + 3))
