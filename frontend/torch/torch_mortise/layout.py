# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layout of a tensor's elements in memory, and which tensors are views of others."""

import functools
import operator

import torch

from .extents import NeedsNumbers, positive
from .importer.shape import VIEWS

AS_STRIDED = torch.ops.aten.as_strided.default


def _compare(strides, i, j):
    """Orders dimensions by decreasing stride, and dimensions of equal stride by number. Symbolic strides are compared by their ranges, for
    extents above 0, because every order is right for a tensor without elements. If two may be equal, the extent between them is then 1, and
    either order is right."""
    if strides[i] == strides[j]:
        return 0
    left, right = positive(strides[i]), positive(strides[j])
    try:
        return -1 if left >= right else 1
    except NeedsNumbers:
        return 1 if right >= left else -1


def memory_order(shape, strides):
    """The dimensions from the outermost in memory to the innermost if the elements fill memory without gaps, else None."""
    if 0 in shape:
        return tuple(range(len(shape)))
    # a dimension of extent 1 may have any stride, so it takes no part in the order
    order = sorted((i for i, n in enumerate(shape) if n != 1), key=functools.cmp_to_key(lambda i, j: _compare(strides, i, j)))
    expected = 1
    for i in reversed(order):
        if strides[i] != expected:
            return None
        expected *= shape[i]
    if order == sorted(order):
        return tuple(range(len(shape)))
    return tuple(order + [i for i, n in enumerate(shape) if n == 1])


def dense_strides(shape):
    strides, step = [0] * len(shape), 1
    for i in reversed(range(len(shape))):
        strides[i] = step
        step = step * max(shape[i], 1)
    return tuple(strides)


def inverse(order):
    result = [0] * len(order)
    for position, dimension in enumerate(order):
        result[dimension] = position
    return tuple(result)


def memory_of(node):
    """The node in whose memory this node's result lies."""
    while (source := view_source(node, strided=True)) is not None:
        node = source
    return node


def view_source(node, strided=False):
    """The operand whose memory this node's result is a view of; None if the result has memory of its own. `strided`: results of as_strided
    count as views."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        node = node.args[0]
    return node.args[0] if node.target in VIEWS or (strided and node.target is AS_STRIDED) else None
