# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads and writes at computed positions."""

import math

import torch

from .. import dtypes
from ..dtypes import F32, I1, I32, I64, UI8, Unsupported, is_narrow_float
from .core import axis_of, broadcast_shapes, handles

aten = torch.ops.aten


def as_index(e, index, masks=False):
    if masks and index.dtype in (I1, UI8):
        raise Unsupported("a boolean index: the result's shape depends on data")
    return index if index.dtype in (I32, I64) else e.convert(index, I64)


def counted_from_zero(e, index, extent):
    """The index as i64, with the extent added to negative indices."""
    index = e.convert(index, I64)
    negative = e.compare(index, e.constant(0, I64, index.shape), "lt")
    return e.select(negative, e.op("add", index, e.constant(extent, I64, index.shape)), index)


@handles(aten.embedding.default)
def embedding(e, table, indices, padding=-1, scale_grad_by_freq=False, sparse=False):
    return e.op("embedding", table, as_index(e, indices))


@handles(aten.index_select.default)
def index_select(e, x, axis, indices):
    indices = as_index(e, indices)
    if x.rank == 0:
        return x
    return e.op("take", x, e.reshape(indices, (indices.elements,)), axis=axis_of(axis, x.rank))


@handles(aten.gather.default)
def gather(e, x, axis, indices, sparse_grad=False):
    if x.rank == 0 or indices.rank == 0:  # a scalar is treated as a tensor of one element
        x, indices = e.reshape(x, x.shape or (1,)), e.reshape(indices, indices.shape or (1,))
        return e.reshape(gather(e, x, axis, indices), e.sizes(e.value.shape))
    if indices.elements == 0:
        return e.constant(0, x.dtype, indices.shape)
    return e.op("take_along", x, as_index(e, indices), axis=axis_of(axis, x.rank))


@handles(aten.take.default)
def take(e, x, indices):
    return e.op("take", e.reshape(x, (x.elements,)), as_index(e, indices), axis=0)


@handles(aten.put.default)
def put(e, x, indices, source, accumulate=False):
    count = (indices.elements,)
    flat, mode = e.reshape(x, (x.elements,)), "add" if accumulate else "set"
    indices, source = e.reshape(as_index(e, indices), count), e.reshape(source, count)
    return e.reshape(e.op("put", flat, indices, source, axis=0, mode=mode), x.shape)


@handles(aten.masked_scatter.default)
def masked_scatter(e, x, mask, source):
    """Replaces the i-th element under the mask by the i-th element of the source."""
    shape = broadcast_shapes(x.shape, mask.shape)
    x, mask = e.broadcast(x, shape), e.broadcast(e.convert(mask, I1), shape)
    if 0 in shape or source.elements == 0:
        return x
    count = math.prod(shape)
    flat = e.reshape(mask, (count,))
    place = e.op("cumsum", e.convert(flat, I64), axis=0)
    place = e.op("sub", place, e.constant(1, I64, (count,)))
    place = e.op("min", place, e.constant(source.elements - 1, I64, (count,)))
    place = e.op("max", place, e.constant(0, I64, (count,)))
    chosen = e.op("take", e.reshape(source, (source.elements,)), place, axis=0)
    return e.select(mask, e.reshape(chosen, shape), x)


@handles(aten.nonzero_static.default)
def nonzero_static(e, x, size, fill_value=-1):
    """The coordinates of the first `size` elements that are not zero, followed by `fill_value`."""
    if size == 0 or x.elements == 0 or x.rank == 0:
        shape = (size, x.rank)
        if x.elements == 0 or 0 in shape:
            return e.constant(fill_value, I64, shape)
    count = x.elements
    there = e.reshape(e.convert(x, I1), (count,))
    place = e.op("sub", e.op("cumsum", e.convert(there, I64), axis=0), e.constant(1, I64, (count,)))
    # elements that are zero, or beyond `size`, are written to an extra row that is cut off
    kept = e.op("and", there, e.compare(place, e.constant(size, I64, (count,)), "lt"))
    place = e.select(kept, place, e.constant(size, I64, (count,)))
    grid = [e.reshape(e.iota(x.shape, I64, axis), (count, 1)) for axis in range(x.rank)]
    grid = grid[0] if x.rank == 1 else e.op("concatenate", *grid, axis=1)
    rows = e.op("put", e.constant(fill_value, I64, (size + 1, x.rank)), place, grid, axis=0, mode="set")
    return e.slice(rows, 0, 0, size)


def count_below(e, boundaries, values, right, sorter=None):
    """For each of values [..., m], the number of the sorted boundaries [..., n] below it (with `right`: not above it)."""
    dtype = dtypes.number(torch.promote_types(dtypes.TO_TORCH[boundaries.dtype], dtypes.TO_TORCH[values.dtype]))
    if sorter is not None:
        boundaries = e.op("take_along", boundaries, as_index(e, sorter), axis=boundaries.rank - 1)
    if dtype == I1:
        dtype = dtypes.I32
    boundaries, values = e.convert(boundaries, dtype), e.convert(values, dtype)
    return e.op("searchsorted", boundaries, values, right=right)


@handles(aten.searchsorted.Tensor)
def searchsorted(e, boundaries, values, out_int32=False, right=False, side=None, sorter=None):
    right = right or side == "right"
    return e.convert(count_below(e, boundaries, values, right, sorter), e.dtype)


@handles(aten.searchsorted.Scalar)
def searchsorted_scalar(e, boundaries, value, out_int32=False, right=False, side=None, sorter=None):
    at = boundaries.dtype if not isinstance(value, float) or dtypes.is_float(boundaries.dtype) else dtypes.F32
    return searchsorted(e, boundaries, e.constant(value, at), out_int32, right, side, sorter)


@handles(aten.bucketize.Tensor)
def bucketize(e, values, boundaries, out_int32=False, right=False):
    return e.convert(count_below(e, boundaries, values, right), e.dtype)


@handles(aten.bucketize.Scalar)
def bucketize_scalar(e, value, boundaries, out_int32=False, right=False):
    return searchsorted_scalar(e, boundaries, value, out_int32, right)


def split_indices(e, x, indices):
    """Returns the indexed axes, the index Values in one shape, the order of x's dimensions with those axes first, and the position of the
    index dimensions in the result."""
    axes = [i for i, index in enumerate(indices) if index is not None]
    values = [as_index(e, indices[a], masks=True) for a in axes]
    shape = broadcast_shapes(*[v.shape for v in values])
    values = [e.broadcast(v, shape) for v in values]
    adjacent = axes[-1] - axes[0] == len(axes) - 1
    order = axes + [i for i in range(x.rank) if i not in axes]
    return axes, values, order, axes[0] if adjacent else 0, shape


def move_block(e, value, length, position):
    """Moves the first `length` dimensions to `position`."""
    rest = list(range(length, value.rank))
    return e.transpose(value, rest[:position] + list(range(length)) + rest[position:])


@handles(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(e, x, indices):
    axes, values, order, position, shape = split_indices(e, x, indices)
    if len(axes) == 1:
        return e.op("take", x, values[0], axis=axes[0])
    values = [e.reshape(e.convert(v, I64), shape + (1,)) for v in values]
    coordinates = e.op("concatenate", *values, axis=len(shape))
    result = e.op("take_nd", e.transpose(x, order), coordinates)
    return move_block(e, result, len(shape), position)


@handles(aten.index_copy.default)
def index_copy(e, x, axis, indices, source):
    if x.rank == 0:
        x, source = e.reshape(x, (1,)), e.reshape(source, (1,))
        return e.reshape(index_copy(e, x, 0, indices, source), ())
    indices = as_index(e, indices)
    return e.op(
        "put",
        x,
        e.reshape(indices, (indices.elements,)),
        e.convert(source, x.dtype),
        axis=axis_of(axis, x.rank),
        mode="set",
    )


@handles(aten.index_add.default)
def index_add(e, x, axis, indices, source, alpha=1):
    indices = as_index(e, indices)
    if x.rank == 0:
        x, source = e.reshape(x, (1,)), e.reshape(source, (1,))
        return e.reshape(index_add(e, x, 0, indices, source, alpha), ())
    source = e.convert(source, x.dtype)
    if alpha != 1:
        source = e.op("mul", source, e.constant(alpha, x.dtype, source.shape))
    return e.op("put", x, e.reshape(indices, (indices.elements,)), source, axis=axis_of(axis, x.rank), mode="add")


def put_where(e, x, first, mask, values, accumulate):
    """x[..., mask, ...] = values, where the mask covers the dimensions from `first` on. The data decides which elements are written, but
    not the result's shape."""
    last = first + mask.rank
    if mask.shape != x.shape[first:last]:
        raise Unsupported(f"expected a mask of shape {x.shape[first:last]}, found {mask.shape}")
    if 0 in x.shape or 0 in values.shape:
        return x
    mask, values = e.convert(mask, I1), e.convert(values, x.dtype)
    lead, rest = x.shape[:first], x.shape[last:]
    places = (1,) * mask.rank
    values = e.reshape(values, (1,) * (first + 1 + len(rest) - values.rank) + values.shape)
    if values.shape[first] == 1:
        chosen = e.broadcast(e.reshape(values, values.shape[:first] + places + values.shape[first + 1 :]), x.shape)
    else:  # the i-th position under the mask takes the i-th value
        count = values.shape[first]
        place = e.op("cumsum", e.convert(e.reshape(mask, (mask.elements,)), I64), axis=0)
        place = e.op("sub", place, e.constant(1, I64, place.shape))
        place = e.op("max", e.op("min", place, e.constant(count - 1, I64, place.shape)), e.constant(0, I64, place.shape))
        values = e.broadcast(values, lead + (count,) + rest)
        chosen = e.reshape(e.op("take", values, place, axis=first), x.shape)
    if accumulate:
        chosen = e.op("add", x, chosen)
    return e.select(e.broadcast(e.reshape(mask, (1,) * first + mask.shape + (1,) * len(rest)), x.shape), chosen, x)


@handles(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(e, x, indices, values, accumulate=False, unsafe=False):
    given = [i for i, index in enumerate(indices) if index is not None]
    if len(given) == 1 and indices[given[0]].dtype in (I1, UI8):
        return put_where(e, x, given[0], indices[given[0]], values, accumulate)
    axes, parts, order, position, shape = split_indices(e, x, indices)
    moved = e.transpose(x, order)
    lead, rest = moved.shape[: len(axes)], moved.shape[len(axes) :]
    linear = None
    for part, extent in zip(parts, lead):
        part = counted_from_zero(e, part, extent)
        if linear is not None:
            part = e.op("add", e.op("mul", linear, e.constant(extent, I64, shape)), part)
        linear = part
    # the values have the shape that x[indices] would have
    wanted = rest[:position] + shape + rest[position:]
    values = e.broadcast(e.convert(values, x.dtype), wanted)
    back = list(range(position, position + len(shape))) + [
        i for i in range(len(wanted)) if not position <= i < position + len(shape)
    ]
    values = e.reshape(e.transpose(values, back), (math.prod(shape),) + rest)
    result = e.op(
        "put",
        e.reshape(moved, (math.prod(lead),) + rest),
        e.reshape(linear, (math.prod(shape),)),
        values,
        axis=0,
        mode="add" if accumulate else "set",
    )
    inverse = [order.index(i) for i in range(x.rank)]
    return e.transpose(e.reshape(result, moved.shape), inverse)


def scatter_into(e, x, axis, indices, source, mode):
    """For each p, in row-major order, writes source[p] to the position p whose coordinate along `axis` is replaced by indices[p]."""
    if x.rank == 0 or indices.rank == 0 or source.rank == 0:
        shape = x.shape
        x, indices, source = (e.reshape(v, v.shape or (1,)) for v in (x, indices, source))
        return e.reshape(scatter_into(e, x, axis, indices, source, mode), shape)
    axis = axis_of(axis, x.rank)
    for i in range(source.rank):
        source = e.slice(source, i, 0, indices.shape[i])
    linear = None
    for i, extent in enumerate(x.shape):
        part = counted_from_zero(e, as_index(e, indices), extent) if i == axis else e.iota(indices.shape, I64, i)
        if linear is not None:
            part = e.op("add", e.op("mul", linear, e.constant(extent, I64, indices.shape)), part)
        linear = part
    count = indices.elements
    flat = e.op(
        "put",
        e.reshape(x, (x.elements,)),
        e.reshape(linear, (count,)),
        e.reshape(e.convert(source, x.dtype), (count,)),
        axis=0,
        mode=mode,
    )
    return e.reshape(flat, x.shape)


@handles(aten.scatter.src)
def scatter(e, x, axis, indices, source):
    return scatter_into(e, x, axis, indices, source, "set")


@handles(aten.scatter.value)
def scatter_value(e, x, axis, indices, value):
    return scatter_into(e, x, axis, indices, e.constant(value, x.dtype, indices.shape), "set")


@handles(aten.scatter_add.default)
def scatter_add(e, x, axis, indices, source):
    return scatter_into(e, x, axis, indices, source, "add")


# ---- bags of rows --------------------------------------------------------------------------------


def masked_rows(e, rows, keep, fill):
    mask = e.broadcast(keep, rows.shape, (0,))
    return e.select(mask, rows, e.constant(fill, rows.dtype, rows.shape))


@handles(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(e, table, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, weights=None,
                  include_last_offset=False, padding=-1):
    """Sums (mode 0), means (1) or maxima (2) over runs of rows that begin at `offsets`."""
    if any(e.uses(i) for i in (1, 2, 3)):
        raise Unsupported("embedding_bag's saved offsets and sizes")
    count, bags = indices.elements, offsets.shape[0] - bool(include_last_offset)
    width, dtype = table.shape[1], table.dtype
    if 0 in (count, bags, width):
        return e.constant(0, dtype, (bags, width)), None, None, None
    indices = counted_from_zero(e, e.reshape(indices, (count,)), table.shape[0])
    starts = e.convert(e.slice(offsets, 0, 0, bags), I64)
    # a row belongs to the last bag that starts at or before it
    shape = (count, bags)
    begun = e.compare(e.broadcast(starts, shape, (1,)), e.iota(shape, I64, 0), "le")
    bag = e.op("sub", e.op("reduce_sum", e.convert(begun, I64), axes=(1,)), e.constant(1, I64, (count,)))
    keep = e.compare(bag, e.constant(0, I64, (count,)), "ge")
    if padding >= 0:
        keep = e.op("and", keep, e.compare(indices, e.constant(padding, I64, (count,)), "ne"))
    wide = F32 if is_narrow_float(dtype) else dtype
    rows = e.convert(e.op("take", table, indices, axis=0), wide)
    if weights is not None:
        rows = e.op("mul", rows, e.broadcast(e.convert(e.reshape(weights, (count,)), wide), rows.shape, (0,)))
    member = e.compare(e.broadcast(bag, shape, (0,)), e.iota(shape, I64, 1), "eq")
    member = e.op("and", member, e.broadcast(keep, shape, (0,)))
    sizes = e.op("reduce_sum", e.convert(member, I64), axes=(0,))
    if mode == 2:
        full = shape + (width,)
        spread, mask = e.broadcast(rows, full, (0, 2)), e.broadcast(member, full, (0, 1))
        result = e.op("reduce_max", e.select(mask, spread, e.constant(-math.inf, wide, full)), axes=(0,))
        some = e.broadcast(e.compare(sizes, e.constant(0, I64, sizes.shape), "gt"), result.shape, (0,))
        result = e.select(some, result, e.constant(0, wide, result.shape))
    else:
        place = e.op("max", bag, e.constant(0, I64, (count,)))
        result = e.constant(0, wide, (bags, width))
        result = e.op("put", result, place, masked_rows(e, rows, keep, 0), axis=0, mode="add")
    if mode == 1:
        sizes = e.op("max", sizes, e.constant(1, I64, sizes.shape))
        result = e.op("div", result, e.broadcast(e.convert(sizes, wide), result.shape, (0,)))
    return e.convert(result, dtype), None, None, None
