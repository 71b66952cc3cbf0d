# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared by all handlers: the table of handlers, values, and an emitter with the conversions that PyTorch does implicitly."""

import functools
import operator

import torch

from .. import collectives, dtypes
from ..dtypes import NAMES, Unsupported
from ..extents import Extent, NeedsNumbers

HANDLERS = {}
EAGER = {}  # overload -> why it always runs in eager by design
SCALAR = (bool, int, float)


def handles(*overloads):
    """Registers handler(emitter, *args, **kwargs) -> Value, or a tuple of Values for an op with several results."""

    def register(function):
        for overload in overloads:
            HANDLERS[overload] = function
        return function

    return register


DECOMPOSITIONS = {}


def decomposes(*overloads):
    """Registers a decomposition that PyTorch traces instead of the overload. The tensors that it makes lie where the result does."""

    def register(function):
        @functools.wraps(function)
        def on_device(*args, **kwargs):
            device = kwargs.get("device") or next((v.device for v in tensors_of(args)), None)
            if device is None or torch.device(device) == torch.get_default_device():
                return function(*args, **kwargs)
            with torch.device(device):
                return function(*args, **kwargs)

        DECOMPOSITIONS.update(dict.fromkeys(overloads, on_device))
        return function

    return register


def tensors_of(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors_of(value)


def handled():
    return HANDLERS.keys()


def by_design(target):
    """Why an operator always runs in eager by design, rather than for lack of a handler; None for all others."""
    return collectives.REASON if collectives.is_collective(target) else EAGER.get(target)


class Value:
    """A value of the graph being built."""

    __slots__ = ("id", "dtype", "shape")

    def __init__(self, id, dtype, shape):
        self.id, self.dtype, self.shape = id, dtype, shape

    @property
    def rank(self):
        return len(self.shape)

    @property
    def elements(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count


class Emitter:
    """Emits ops into a builder. `node` is the current FX node. `size(x)` converts a symbolic size to a number, or to an Extent if `table`,
    the symbols of a region that is compiled for all shapes at once, is given."""

    def __init__(self, builder, size, table=None):
        self.table = table
        self.builder = builder
        self.size = size
        self.node = None
        self.environment = {}  # FX node -> its Value, tuple of Values, or number
        self.location = ""
        self.constants = {}
        self.broadcasts = {}
        self.boolean_masks = {}  # value id of where(m, 0, a negative number) -> m, the number

    def value_of(self, node):
        """The value of an FX node; None if it has none."""
        return self.environment.get(node)

    # ---- ops --------------------------------------------------------------------------------

    def op(self, name, *operands, **attributes):
        """The op's Value, or a tuple of Values for an op with several results."""
        results = self.emit("mortise." + name, operands, attributes)
        return results[0] if len(results) == 1 else tuple(results)

    def emit(self, name, operands, attributes):
        """The results of an op of the language or of a vendor."""
        ids = tuple([None if v is None else v.id for v in operands])
        if self.table is not None:
            attributes = {key: programs(value) for key, value in attributes.items()}
        return [self.described(*result) for result in self.builder.op(name, ids, attributes, self.location)]

    def described(self, id, dtype, shape):
        """The Value for a (number, dtype, dims) that the builder returned."""
        if self.table is not None:
            shape = tuple([self.table.normalised(n) if isinstance(n, tuple) else n for n in shape])
        return Value(id, dtype, shape)

    def constant(self, value, dtype, shape=()):
        key = (value, type(value), dtype, str(value))  # str, because 0.0 and -0.0 are equal
        scalar = self.constants.get(key)
        if scalar is None:
            scalar = self.op("constant", value=(dtype, (), dtypes.literal(value, dtype)))
            self.constants[key] = scalar
        return self.broadcast(scalar, shape)

    def tensor_literal(self, tensor):
        tensor = tensor.detach().cpu().contiguous()
        data = bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""
        return self.op("constant", value=(dtypes.number(tensor.dtype), tuple(tensor.shape), data))

    def convert(self, value, dtype):
        return value if value.dtype == dtype else self.op("convert", value, dtype=NAMES[dtype])

    def reshape(self, value, shape):
        shape = tuple(shape)
        return value if value.shape == shape else self.op("reshape", value, shape=shape)

    def transpose(self, value, permutation):
        permutation = tuple(permutation)
        if permutation == tuple(range(value.rank)):
            return value
        return self.op("transpose", value, permutation=permutation)

    def broadcast(self, value, shape, axes=None):
        """Broadcasts to `shape` by PyTorch's rules, which align trailing dimensions, or along `axes`."""
        shape = tuple(shape)
        if axes is None:
            if value.shape == shape:
                return value
            axes = tuple(range(len(shape) - value.rank, len(shape)))
        key = (value.id, shape, axes)
        result = self.broadcasts.get(key)
        if result is None:
            result = self.broadcasts[key] = self.op("broadcast", value, shape=shape, axes=tuple(axes))
        return result

    def slice(self, value, axis, start, limit, step=1):
        if start == 0 and limit == value.shape[axis] and step == 1:
            return value
        starts, limits, strides = [0] * value.rank, list(value.shape), [1] * value.rank
        starts[axis], limits[axis], strides[axis] = start, limit, step
        return self.op("slice", value, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides))

    def iota(self, shape, dtype, axis=0):
        return self.op("iota", shape=tuple(shape), dtype=NAMES[dtype], axis=axis)

    def compare(self, lhs, rhs, direction):
        return self.op("compare", lhs, rhs, direction=direction)

    def select(self, predicate, on_true, on_false):
        return self.op("select", predicate, on_true, on_false)

    # ---- PyTorch's conventions ----------------------------------------------------------------

    @property
    def value(self):
        """The fake tensor(s) that the node computes."""
        return self.node.meta["val"]

    @property
    def dtype(self):
        return dtypes.number(self.value.dtype)

    def uses(self, index):
        """Whether result `index` of a node with several results is used."""
        return any(u.target is operator.getitem and u.args[1] == index and u.users for u in self.node.users)

    def sizes(self, values):
        return [self.size(v) for v in values]

    def tensor(self, value, dtype, shape=()):
        """A Value or a Python number as a Value in `dtype`, broadcast to at least `shape`."""
        if isinstance(value, Value):
            value = self.convert(value, dtype)
            return self.broadcast(value, shape) if shape != () else value
        if isinstance(value, Extent):
            scalar = self.reshape(self.op("extents", shape=(value,)), ())
            return self.broadcast(self.convert(scalar, dtype), shape)
        if not isinstance(value, SCALAR):
            raise Unsupported(f"scalar operand {value!r}")
        return self.constant(value, dtype, shape)

    def pair(self, lhs, rhs, dtype):
        """Both operands in `dtype` and in their common shape."""
        shape = broadcast_shapes(*[v.shape for v in (lhs, rhs) if isinstance(v, Value)])
        return self.tensor(lhs, dtype, shape), self.tensor(rhs, dtype, shape)


def programs(value):
    """An attribute in the builder's form. Extents stand in lists only."""
    if isinstance(value, Extent):
        raise NeedsNumbers(f"an attribute is {value}, which depends on the shape")
    if isinstance(value, tuple) and any(isinstance(v, Extent) for v in value):
        return tuple([v.program if isinstance(v, Extent) else v for v in value])
    return value


def broadcast_shapes(*shapes):
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extent != 1:
                result[i] = extent
    return tuple(result)


def axis_of(axis, rank):
    return axis + rank if axis < 0 else axis


def axes_of(axes, rank):
    """The axes, sorted. None and () mean all axes."""
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, int):
        axes = (axes,)
    return tuple(sorted({axis_of(a, max(rank, 1)) for a in axes if rank})) or tuple(range(rank))


def is_node(value, *targets):
    return isinstance(value, torch.fx.Node) and value.op == "call_function" and value.target in targets
