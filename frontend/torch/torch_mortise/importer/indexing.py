# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads and writes at computed positions."""

import math

import torch

from ..dtypes import I1, I32, I64, UI8, Unsupported
from .core import axis_of, broadcast_shapes, handles

aten = torch.ops.aten


def as_index(e, index):
    if index.dtype in (I1, UI8):
        raise Unsupported("a boolean index: the result's shape depends on data")
    return index if index.dtype in (I32, I64) else e.convert(index, I64)


def counted_from_zero(e, index, extent):
    """Negative indices made positive."""
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
    if x.rank == 0:
        return x
    return e.op("take_along", x, as_index(e, indices), axis=axis_of(axis, x.rank))


def split_indices(e, x, indices):
    """(axes indexed, index Values of one shape, the order of x's dimensions with those axes first, where the block of index
    dimensions stands in the result)."""
    axes = [i for i, index in enumerate(indices) if index is not None]
    values = [as_index(e, indices[a]) for a in axes]
    shape = broadcast_shapes(*[v.shape for v in values])
    values = [e.broadcast(v, shape) for v in values]
    adjacent = axes[-1] - axes[0] == len(axes) - 1
    order = axes + [i for i in range(x.rank) if i not in axes]
    return axes, values, order, axes[0] if adjacent else 0, shape


def move_block(e, value, length, position):
    """The first `length` dimensions moved to stand at `position`."""
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
        return e.reshape(source, ())
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
        raise Unsupported("index_add of a scalar")
    source = e.convert(source, x.dtype)
    if alpha != 1:
        source = e.op("mul", source, e.constant(alpha, x.dtype, source.shape))
    return e.op("put", x, e.reshape(indices, (indices.elements,)), source, axis=axis_of(axis, x.rank), mode="add")


@handles(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(e, x, indices, values, accumulate=False, unsafe=False):
    axes, parts, order, position, shape = split_indices(e, x, indices)
    moved = e.transpose(x, order)
    lead, rest = moved.shape[: len(axes)], moved.shape[len(axes) :]
    linear = None
    for part, extent in zip(parts, lead):
        part = counted_from_zero(e, part, extent)
        if linear is not None:
            part = e.op("add", e.op("mul", linear, e.constant(extent, I64, shape)), part)
        linear = part
    # the values stand as the result of x[indices] would
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
    """Writes source[p] at p with its coordinate along `axis` replaced by indices[p], in row-major order of p."""
    if x.rank == 0:
        raise Unsupported("scatter of a scalar")
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
