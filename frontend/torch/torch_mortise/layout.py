# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a tensor's elements lie in memory, and which tensors are views of others."""

import functools
import operator

import torch

from .extents import NeedsNumbers
from .importer.shape import VIEWS

AS_STRIDED = torch.ops.aten.as_strided.default


def _compare(strides, i, j):
    """Larger strides first; equal ones in the dimensions' order. Symbolic strides compare where their ranges decide: those that
    may be equal belong to an extent that is then 1, and stand either way."""
    if strides[i] == strides[j]:
        return 0
    try:
        return -1 if strides[i] >= strides[j] else 1
    except NeedsNumbers:
        return 1 if strides[j] >= strides[i] else -1


def memory_order(shape, strides):
    """The dimensions from the outermost in memory to the innermost when the elements fill memory without gaps, else None."""
    if 0 in shape:
        return tuple(range(len(shape)))
    # dimensions of extent 1 have any stride: they stay beside their right neighbour
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


def view_source(node, strided=False):
    """The node whose memory this one shows, one step back; None when it has its own. `strided`: as_strided counts too."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        node = node.args[0]
    return node.args[0] if node.target in VIEWS or (strided and node.target is AS_STRIDED) else None
