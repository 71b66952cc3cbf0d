# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators written in terms of others, in PyTorch's own language: decompositions that PyTorch does not have."""

import itertools
import math

import torch

from .core import decomposes

aten = torch.ops.aten
builtin_range = range  # some operators have an argument of this name


# ---- histograms ------------------------------------------------------------------------------------


def counted(columns, edges, weight, density):
    """Counts the points with the given columns in the cells between `edges`, one sorted tensor per column. Every cell includes its lower
    edge; the last cell also includes its upper edge."""
    dtype = columns[0].dtype
    shape = [len(e) - 1 for e in edges]
    inside, place = None, None
    for column, edge, extent in zip(columns, edges, shape):
        cell = (torch.searchsorted(edge, column, right=True) - 1).clamp(max=extent - 1)
        good = (column >= edge[0]) & (column <= edge[-1])
        inside = good if inside is None else inside & good
        place = cell if place is None else place * extent + cell
    total = math.prod(shape)
    place = torch.where(inside, place, total)  # points outside are counted in one extra cell, which is cut off
    weight = torch.ones_like(columns[0]) if weight is None else weight.reshape(-1).to(dtype)
    result = torch.zeros(total + 1, dtype=dtype).index_add(0, place, weight)[:-1].reshape(shape)
    if density:
        result = result / result.sum()
        for axis, edge in enumerate(edges):
            width = edge[1:] - edge[:-1]
            result = result / width.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return result


def even_edges(column, bins, bounds):
    """bins + 1 equally spaced edges, over `bounds` or over the range of the data."""
    if bounds is not None:
        low, high = (torch.tensor(v, dtype=column.dtype) for v in bounds)
    elif column.numel():
        low, high = column.min(), column.max()
    else:
        low, high = torch.zeros((), dtype=column.dtype), torch.ones((), dtype=column.dtype)
    same = low == high
    low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    return torch.linspace(low, high, bins + 1, dtype=column.dtype)


@decomposes(aten.histogram.bins_tensor)
def histogram_bins(x, bins, *, weight=None, density=False):
    return counted([x.reshape(-1)], [bins], weight, density), bins.clone()


@decomposes(aten.histogram.bin_ct)
def histogram_count(x, bins=100, *, range=None, weight=None, density=False):
    edges = even_edges(x.reshape(-1), bins, range)
    return counted([x.reshape(-1)], [edges], weight, density), edges


def columns_of(x):
    x = x.reshape(-1, x.shape[-1])
    return [x[:, i] for i in range(x.shape[1])]


@decomposes(aten._histogramdd_bin_edges.default)
def histogramdd_edges(x, bins, *, range=None, weight=None, density=False):
    bounds = [None if range is None else range[2 * i : 2 * i + 2] for i in builtin_range(x.shape[-1])]
    return [even_edges(c, b, r) for c, b, r in zip(columns_of(x), bins, bounds)]


@decomposes(aten._histogramdd_from_bin_cts.default)
def histogramdd_count(x, bins, *, range=None, weight=None, density=False):
    return counted(columns_of(x), histogramdd_edges(x, bins, range=range), weight, density)


@decomposes(aten._histogramdd_from_bin_tensors.default)
def histogramdd_tensors(x, bins, *, weight=None, density=False):
    return counted(columns_of(x), bins, weight, density)


# ---- sampling --------------------------------------------------------------------------------------


def reflected(place, extent, align_corners):
    """Coordinates reflected at the borders low / 2 and high / 2 until they lie between them."""
    low, high = (0, 2 * (extent - 1)) if align_corners else (-1, 2 * extent - 1)
    if low == high:
        return torch.zeros_like(place)
    start, span = low / 2, (high - low) / 2
    place = (place - start).abs()
    extra, flips = torch.fmod(place, span), torch.floor(place / span)
    return torch.where(torch.remainder(flips, 2) == 0, extra + start, span - extra + start)


@decomposes(aten.grid_sampler_3d.default)
def grid_sampler_3d(x, grid, interpolation, padding, align_corners):
    if interpolation > 1:
        return NotImplemented
    batch, channels, *space = x.shape
    places = []
    for extent, part in zip(space[::-1], grid.unbind(-1)):
        place = (part + 1) / 2 * (extent - 1) if align_corners else ((part + 1) * extent - 1) / 2
        if padding == 1:
            place = place.clamp(0, extent - 1)
        elif padding == 2:
            place = reflected(place, extent, align_corners).clamp(0, extent - 1)
        places.append(place)
    places = places[::-1]
    rows = torch.arange(batch).reshape(-1, 1, 1, 1)

    def read(cell):
        inside = None
        for part, extent in zip(cell, space):
            good = (part >= 0) & (part < extent)
            inside = good if inside is None else inside & good
        at = [torch.where(inside, part, 0).to(torch.int64) for part in cell]
        values = x[rows, :, at[0], at[1], at[2]]  # [batch, places..., channels]
        return torch.where(inside.unsqueeze(-1), values, 0)

    if interpolation == 1:
        return read([p.round() for p in places]).permute(0, 4, 1, 2, 3)
    corners = [p.floor() for p in places]
    total = 0
    for side in itertools.product((0, 1), repeat=3):
        weight = 1
        for place, corner, s in zip(places, corners, side):
            weight = weight * (place - corner if s else corner + 1 - place)
        total = total + read([c + s for c, s in zip(corners, side)]) * weight.unsqueeze(-1)
    return total.permute(0, 4, 1, 2, 3)


def fractional_pool(x, window, shape, samples):
    """Max pooling over windows at pseudo-random places, from one number per batch, channel and axis."""
    rank = len(window)
    single = x.dim() == rank + 1
    x = x.unsqueeze(0) if single else x
    batch, channels, *space = x.shape
    starts = []
    for i, (extent, out, k) in enumerate(zip(space, shape, window)):
        sample = samples[:, :, i if rank == 3 else 1 - i].to(x.dtype)
        sample = sample.reshape(batch, channels, 1)
        alpha = (extent - k) / (out - 1) if out > 1 else 0.0
        count = torch.arange(out, dtype=x.dtype)
        place = ((count + sample) * alpha).trunc() - (sample * alpha).trunc()
        last = torch.arange(out) == out - 1
        starts.append(torch.where(last, float(extent - k), place).to(torch.int64))
    flat = None
    for i, (start, extent, k) in enumerate(zip(starts, space, window)):
        at = start.unsqueeze(-1) + torch.arange(k)
        at = at.reshape([batch, channels] + [1] * (2 * i) + [shape[i], k] + [1] * (2 * (rank - 1 - i)))
        flat = at if flat is None else flat * extent + at
    order = [0, 1, *(2 + 2 * i for i in range(rank)), *(3 + 2 * i for i in range(rank))]
    cells, area = math.prod(shape), math.prod(window)
    flat = flat.permute(order).reshape(batch, channels, cells * area)
    values = x.reshape(batch, channels, math.prod(space)).gather(2, flat).reshape(batch, channels, cells, area)
    best = values.argmax(-1, keepdim=True)
    result = values.gather(3, best).reshape(batch, channels, *shape)
    places = flat.reshape(batch, channels, cells, area).gather(3, best).reshape(batch, channels, *shape)
    return (result[0], places[0]) if single else (result, places)


decomposes(aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)(fractional_pool)


# ---- the rest ----------------------------------------------------------------------------------------


@decomposes(aten.embedding_renorm.default)
def embedding_renorm(table, indices, max_norm, norm_type):
    """The table with the rows that are read and longer than max_norm scaled to that norm."""
    used = torch.zeros(table.shape[0], dtype=torch.int64).index_fill(0, indices.reshape(-1), 1)
    norms = torch.linalg.vector_norm(table, norm_type, 1)
    long = (used == 1) & (norms > max_norm)
    return torch.where(long.unsqueeze(1), table * (max_norm / (norms + 1e-7)).unsqueeze(1), table)


@decomposes(aten.rrelu_with_noise_functional.default)
def rrelu(x, noise, lower=0.125, upper=1 / 3, training=False, generator=None):
    if generator is not None:
        return NotImplemented
    if not training:
        return aten.leaky_relu(x, (lower + upper) / 2), noise
    slope = torch.where(x <= 0, torch.rand_like(x) * (upper - lower) + lower, torch.ones_like(x))
    return x * slope, slope


# ---- gradients -------------------------------------------------------------------------------------


@decomposes(aten.masked_scatter_backward.default)
def masked_scatter_backward(gradient, mask, sizes):
    """Element k of the source went to the place of the mask's k-th True, whose gradient it gets."""
    count = math.prod(sizes)
    if gradient.numel() == 0 or count == 0:
        return gradient.new_zeros(sizes)
    seen = mask.expand(gradient.shape).reshape(-1).cumsum(0)
    number = torch.arange(1, count + 1, device=gradient.device)
    place = torch.searchsorted(seen, number).clamp(max=gradient.numel() - 1)
    return torch.where(number <= seen[-1], gradient.reshape(-1)[place], 0).reshape(sizes)
