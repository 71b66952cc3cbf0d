# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which integers an argument may hold that is read as indices. Eager raises IndexError for others, and the language's ops read the nearest
element instead, so that each call checks such arguments (native/program.cpp). Indices that a program computes are not checked."""

import torch

aten = torch.ops.aten
NONE = (0, 0)  # anything
# Operators whose result has all elements of their operand and no others.
SAME = {
    *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.alias.default, aten.detach.default, aten.clone.default),
    *(aten.expand.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.unsqueeze.default, aten.squeeze.default),
    *(aten.squeeze.dim, aten.squeeze.dims),
}


def allowed(argument, nodes):
    """(least, end) of the indices that all of `nodes` accept in `argument`; NONE if none of them reads it as such."""
    least, end = None, None
    todo, seen = [argument], set()
    while todo:
        node = todo.pop()
        for user in node.users:
            if user in seen or user not in nodes:
                continue
            seen.add(user)
            if user.target in SAME:
                todo.append(user)
                continue
            for low, high in _read_by(user, node):
                least = low if least is None else max(least, low)
                end = high if end is None else min(end, high)
    return NONE if end is None else (least, end)


def _read_by(user, node):
    """(least, end) for each use of `node` as indices."""
    target, args = user.target, user.args
    if target is aten.embedding.default and args[1] is node:
        extents = [(0, _shape(args[0])[0])]
    elif target in (aten.index_select.default, aten.gather.default) and args[2] is node and _shape(args[0]):
        extents = [(0, _shape(args[0])[args[1]])]
    elif target is aten.index.Tensor:
        extents = [(-size if isinstance(size, int) else 0, size) for index, size in zip(args[1], _shape(args[0])) if index is node]
    else:
        extents = []
    return [(low, high) for low, high in extents if isinstance(high, int)]


def _shape(node):
    return node.meta["val"].shape
