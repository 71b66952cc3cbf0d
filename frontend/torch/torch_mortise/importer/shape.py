# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that move elements without computing. `VIEWS`: the operators whose result shares memory with their operand in eager."""

import torch

from .. import dtypes
from ..dtypes import Unsupported
from .core import Value, axis_of, handles

aten = torch.ops.aten

VIEWS = {
    aten.view.default,
    aten.alias.default,
    aten.detach.default,
    aten.expand.default,
    aten.permute.default,
    aten.t.default,
    aten.transpose.int,
    aten.slice.Tensor,
    aten.select.int,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.unbind.int,
    aten.diagonal.default,
}


def resolve(shape, elements):
    """The shape with -1 replaced by the extent that gives `elements` elements."""
    shape = list(shape)
    if -1 in shape:
        known = 1
        for extent in shape:
            known *= 1 if extent == -1 else extent
        shape[shape.index(-1)] = elements // known if known else 0
    return tuple(shape)


@handles(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def view(e, x, shape):
    return e.reshape(x, resolve(e.sizes(shape), x.elements))


@handles(
    aten.alias.default, aten.detach.default, aten.clone.default, aten.lift_fresh_copy.default, aten.contiguous.default
)
def same(e, x, memory_format=None):
    return x


@handles(aten.expand.default)
def expand(e, x, shape, implicit=False):
    shape = e.sizes(shape)
    lead = len(shape) - x.rank
    return e.broadcast(x, tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(shape)))


@handles(aten.permute.default)
def permute(e, x, axes):
    return e.transpose(x, [axis_of(a, x.rank) for a in axes])


@handles(aten.t.default)
def t(e, x):
    return e.transpose(x, range(x.rank)[::-1])


@handles(aten.transpose.int)
def transpose(e, x, first, second):
    if x.rank == 0:
        return x
    permutation = list(range(x.rank))
    first, second = axis_of(first, x.rank), axis_of(second, x.rank)
    permutation[first], permutation[second] = second, first
    return e.transpose(x, permutation)


def clamp_index(index, extent):
    if index < 0:
        index += extent
    return min(max(index, 0), extent)


@handles(aten.slice.Tensor)
def slice_tensor(e, x, axis=0, start=None, end=None, step=1):
    axis = axis_of(axis, x.rank)
    extent = x.shape[axis]
    start = clamp_index(0 if start is None else e.size(start), extent)
    end = clamp_index(extent if end is None else e.size(end), extent)
    return e.slice(x, axis, start, max(start, end), e.size(step))


@handles(aten.select.int)
def select(e, x, axis, index):
    axis = axis_of(axis, x.rank)
    index = e.size(index)
    if index < 0:
        index += x.shape[axis]
    return e.reshape(e.slice(x, axis, index, index + 1), x.shape[:axis] + x.shape[axis + 1 :])


@handles(aten.unsqueeze.default)
def unsqueeze(e, x, axis):
    axis = axis_of(axis, x.rank + 1)
    return e.reshape(x, x.shape[:axis] + (1,) + x.shape[axis:])


@handles(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def squeeze(e, x, axes=None):
    axes = range(x.rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    gone = {axis_of(a, x.rank) for a in axes}
    return e.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in gone or n != 1))


def pieces(e, x, lengths, axis):
    results, start = [], 0
    for length in lengths:
        results.append(e.slice(x, axis, start, start + length))
        start += length
    return tuple(results)


@handles(aten.split.Tensor)
def split(e, x, length, axis=0):
    axis = axis_of(axis, x.rank)
    return pieces(e, x, [e.size(piece.shape[axis]) for piece in e.value], axis)


@handles(aten.split_with_sizes.default)
def split_with_sizes(e, x, lengths, axis=0):
    return pieces(e, x, e.sizes(lengths), axis_of(axis, x.rank))


@handles(aten.unbind.int)
def unbind(e, x, axis=0):
    axis = axis_of(axis, x.rank)
    return tuple(select(e, x, axis, i) for i in range(x.shape[axis]))


@handles(aten.cat.default)
def cat(e, values, axis=0):
    dtype = e.dtype
    values = [e.convert(v, dtype) for v in values if v.shape != (0,)] or [e.convert(values[0], dtype)]
    return values[0] if len(values) == 1 else e.op("concatenate", *values, axis=axis_of(axis, values[0].rank))


@handles(aten.stack.default)
def stack(e, values, axis=0):
    axis = axis_of(axis, values[0].rank + 1)
    return cat(e, [unsqueeze(e, v, axis) for v in values], axis)


@handles(aten.repeat.default)
def repeat(e, x, repeats):
    repeats = e.sizes(repeats)
    shape = (1,) * (len(repeats) - x.rank) + x.shape
    x = e.reshape(x, [n for extent in shape for n in (1, extent)])
    tiled = e.broadcast(x, [n for r, extent in zip(repeats, shape) for n in (r, extent)])
    return e.reshape(tiled, [r * extent for r, extent in zip(repeats, shape)])


@handles(aten.flip.default)
def flip(e, x, axes):
    return e.op("reverse", x, axes=tuple(sorted(axis_of(a, x.rank) for a in axes))) if axes else x


@handles(aten.constant_pad_nd.default)
def constant_pad(e, x, padding, value=0):
    low, high = [0] * x.rank, [0] * x.rank
    padding = e.sizes(padding)
    for i in range(len(padding) // 2):
        low[-1 - i], high[-1 - i] = padding[2 * i], padding[2 * i + 1]
    return e.op("pad", x, e.constant(value, x.dtype), low=tuple(low), high=tuple(high), interior=(0,) * x.rank)


@handles(aten.slice_scatter.default)
def slice_scatter(e, x, source, axis=0, start=None, end=None, step=1):
    axis = axis_of(axis, x.rank)
    extent = x.shape[axis]
    start = clamp_index(0 if start is None else e.size(start), extent)
    count, step = source.shape[axis], e.size(step)
    source = e.convert(source, x.dtype)
    if step == 1:
        parts = [e.slice(x, axis, 0, start), source, e.slice(x, axis, start + count, extent)]
        parts = [p for p in parts if p.shape[axis]] or [x]
        return parts[0] if len(parts) == 1 else e.op("concatenate", *parts, axis=axis)
    indices = e.iota((count,), dtypes.I64)
    indices = e.op(
        "add", e.op("mul", indices, e.constant(step, dtypes.I64, (count,))), e.constant(start, dtypes.I64, (count,))
    )
    return e.op("put", x, indices, source, axis=axis, mode="set")


@handles(aten.select_scatter.default)
def select_scatter(e, x, source, axis, index):
    axis = axis_of(axis, x.rank)
    index = e.size(index)
    index += x.shape[axis] if index < 0 else 0
    return slice_scatter(e, x, e.reshape(source, x.shape[:axis] + (1,) + x.shape[axis + 1 :]), axis, index, index + 1)


def whole_memory(e, node):
    """(value, order): the last Value in the chain of views from `node` whose elements fill the memory, and the order of its dimensions
    there; None if there is no such Value."""
    from ..layout import memory_order  # layout imports VIEWS from here

    fake, found = node.meta["val"], None
    while isinstance(node.meta.get("val"), torch.Tensor) and torch._C._is_alias_of(node.meta["val"], fake):
        value, shown = e.value_of(node), node.meta["val"]
        if isinstance(value, Value) and not e.size(shown.storage_offset()):
            order = memory_order(value.shape, tuple(e.sizes(shown.stride())))
            found = found if order is None else (value, order)
        node = node.args[0] if node.op == "call_function" else None
        if isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), (tuple, list)):
            node = node.args[0]  # split and similar operators
        if not isinstance(node, torch.fx.Node):
            break
    return found


@handles(aten.as_strided.default)
def as_strided(e, x, size, stride, offset=None):
    from ..layout import memory_order

    fake = e.node.args[0].meta["val"]
    found = whole_memory(e, e.node.args[0])
    if found is not None:
        x, order = found
        offset = fake.storage_offset() if offset is None else offset
    else:
        order = memory_order(x.shape, tuple(e.sizes(fake.stride())))
        # the offset counts from the start of the memory, which a call may change; without one it is the tensor's own start
        if order is None or offset is not None:
            raise Unsupported("as_strided of a tensor that is a part of another's memory")
    x = e.transpose(x, order)  # in memory order
    shape, strides = tuple(e.sizes(size)), e.sizes(stride)
    offset = 0 if offset is None else e.size(offset)
    dense = 1
    for extent, step in zip(reversed(shape), reversed(strides)):
        if extent != 1 and step != dense:
            dense = -1
            break
        dense *= extent
    if dense == x.elements and not offset:
        return e.reshape(x, shape)
    if 0 in shape:
        return e.constant(0, x.dtype, shape)
    if offset + sum((n - 1) * s for n, s in zip(shape, strides)) >= x.elements:
        raise Unsupported("as_strided beyond the tensor's own memory")
    return e.op("take", e.reshape(x, (x.elements,)), positions(e, shape, strides, offset), axis=0)


def positions(e, shape, strides, offset):
    """offset + the sum of coordinate * stride, in i64."""
    place = e.constant(offset, dtypes.I64, shape)
    for axis, step in enumerate(strides):
        if shape[axis] > 1 and step:
            steps = e.op("mul", e.iota(shape, dtypes.I64, axis), e.constant(step, dtypes.I64, shape))
            place = e.op("add", place, steps)
    return place


@handles(aten.as_strided_scatter.default)
def as_strided_scatter(e, x, source, size, stride, offset=None):
    from ..layout import inverse, memory_order

    fake = e.node.args[0].meta["val"]
    found = whole_memory(e, e.node.args[0])
    if found is not None:
        memory, order = found
        offset = fake.storage_offset() if offset is None else offset
    else:
        memory, order = x, memory_order(x.shape, tuple(e.sizes(fake.stride())))
        if order is None or offset is not None:
            raise Unsupported("as_strided of a tensor that is a part of another's memory")
    shape, strides, offset = tuple(e.sizes(size)), e.sizes(stride), 0 if offset is None else e.size(offset)
    if 0 in shape:
        return x
    if offset + sum((n - 1) * s for n, s in zip(shape, strides)) >= memory.elements:
        raise Unsupported("as_strided beyond the tensor's own memory")
    place = positions(e, shape, strides, offset)
    laid = e.transpose(memory, order)
    flat = e.reshape(laid, (laid.elements,))
    source = e.reshape(e.convert(source, x.dtype), (place.elements,))
    flat = e.op("put", flat, e.reshape(place, (place.elements,)), source, axis=0, mode="set")
    if memory is x:
        return e.transpose(e.reshape(flat, laid.shape), inverse(order))
    return e.op("take", flat, positions(e, x.shape, e.sizes(fake.stride()), e.size(fake.storage_offset())), axis=0)


@handles(aten.unfold.default)
def unfold(e, x, axis, size, step):
    """Windows of `size` along `axis`, `step` apart, as a new last dimension."""
    if x.rank == 0:
        return e.reshape(x, (1,) * size)
    axis = axis_of(axis, x.rank)
    count = (x.shape[axis] - size) // step + 1
    place = positions(e, (count, size), (step, 1), 0)
    result = e.op("take", x, place, axis=axis)
    return e.transpose(result, [i for i in range(result.rank) if i != axis + 1] + [axis + 1])


@handles(aten.copy.default)
def copy(e, destination, source, non_blocking=False):
    return e.tensor(source, destination.dtype, destination.shape) if isinstance(source, Value) else None


@handles(aten.diagonal.default)
def diagonal(e, x, offset=0, first=0, second=1):
    first, second = axis_of(first, x.rank), axis_of(second, x.rank)
    rest = [i for i in range(x.rank) if i not in (first, second)]
    rows, columns = x.shape[first], x.shape[second]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    lead = tuple(x.shape[i] for i in rest)
    if count == 0 or rows * columns == 0:
        return e.constant(0, x.dtype, lead + (count,))
    flat = e.reshape(e.transpose(x, rest + [first, second]), lead + (rows * columns,))
    begin = offset if offset >= 0 else -offset * columns
    return e.slice(flat, len(lead), begin, min(begin + (count - 1) * (columns + 1) + 1, rows * columns), columns + 1)


@handles(aten.diagonal_scatter.default)
def diagonal_scatter(e, x, source, offset=0, first=0, second=1):
    first, second = axis_of(first, x.rank), axis_of(second, x.rank)
    rest = [i for i in range(x.rank) if i not in (first, second)]
    rows, columns, source = x.shape[first], x.shape[second], e.convert(source, x.dtype)
    count = source.shape[-1]
    if source.elements == 0:
        return x
    order = rest + [first, second]
    moved = e.transpose(x, order)
    flat = e.reshape(moved, moved.shape[:-2] + (rows * columns,))
    place = positions(e, (count,), (columns + 1,), offset if offset >= 0 else -offset * columns)
    flat = e.op("put", flat, place, source, axis=len(rest), mode="set")
    return e.transpose(e.reshape(flat, moved.shape), [order.index(i) for i in range(x.rank)])


@handles(aten.resize.default)
def resize(e, x, shape, memory_format=None):
    """The first elements in memory, with another shape. Additional elements are unspecified, as in eager."""
    if memory_format not in (None, torch.contiguous_format) or not e.node.args[0].meta["val"].is_contiguous():
        raise Unsupported("resize of a tensor that is not contiguous")
    shape = tuple(e.sizes(shape))
    count, flat = 1, e.reshape(x, (x.elements,))
    for extent in shape:
        count *= extent
    if count > x.elements:
        flat = e.op("pad", flat, e.constant(0, x.dtype), low=(0,), high=(count - x.elements,), interior=(0,))
    return e.reshape(e.slice(flat, 0, 0, count), shape)


# ---- sizes: numbers of the graph, not tensors ----------------------------------------------------


@handles(aten.sym_size.int)
def sym_size(e, x, axis):
    return x.shape[axis]


@handles(aten.sym_numel.default)
def sym_numel(e, x):
    return x.elements


@handles(aten.sym_stride.int)
def sym_stride(e, x, axis):
    return e.size(e.node.args[0].meta["val"].stride(axis))


@handles(aten.sym_is_contiguous.default)
def sym_is_contiguous(e, x, memory_format=torch.contiguous_format):
    return e.node.args[0].meta["val"].is_contiguous(memory_format=memory_format)


@handles(aten.sym_storage_offset.default)
def sym_storage_offset(e, x):
    return e.size(e.node.args[0].meta["val"].storage_offset())
