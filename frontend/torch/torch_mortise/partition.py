# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which nodes of a graph run together, as programs and in eager."""

import operator

import torch

from .importer.shape import VIEWS
from .verify import draws

aten = torch.ops.aten
# The results of these operators are computed again in each region that reads them, instead of being passed between regions.
CREATION = {
    aten.scalar_tensor.default,
    aten.full.default,
    aten.arange.default,
    aten.arange.start,
    aten.arange.start_step,
    aten.zeros.default,
    aten.ones.default,
}


def is_tensor(node):
    value = node.meta.get("val")
    return isinstance(value, (torch.Tensor, tuple, list))


def is_operator(node):
    """Whether reports list and count the node: no part of another one's result, and no arithmetic or check of numbers."""
    return node.target is not operator.getitem and (is_tensor(node) or node.target is aten._local_scalar_dense.default)


class Partition:
    """Divides the nodes into segments that run one after the other: even segments are programs, odd segments run in eager. Views and
    constants float: each segment that needs one computes it. A graph without reasons to run in eager is one program."""

    def __init__(self, graph):
        self.computed = graph.computed
        self.segments = {}
        self.segment_of = {}
        self.floating = set()
        self.in_order = graph.own.fallback_random  # whether eager has to draw random numbers in the order of the graph
        self.last_draw = 1
        if not graph.reasons:
            self.segments[0] = list(graph.computed)
            return
        self.sources = graph.sources
        for node in graph.computed:
            self.place(node, node in graph.reasons)

    def place(self, node, eager):
        below = []  # the segments of its operands; -1 for an operand without a segment
        for source in self.sources[node]:
            at = self.segment_of.get(source)
            if at is not None:
                below.append(at)
            elif source in self.computed and source not in self.floating:
                below.append(-1)
        target = node.target
        if not below and not eager and (target in VIEWS or target in CREATION or target is operator.getitem):
            self.floating.add(node)
            return
        if target is operator.getitem:  # it belongs to the segment of the node whose result it indexes
            segment = self.segment_of[node.args[0]]
        else:
            segment = 1 if eager else 0
            for at in below:
                segment = max(segment, at if at % 2 == segment % 2 else at + 1)
            if eager and self.in_order and draws(node):
                segment = self.last_draw = max(segment, self.last_draw)
        self.segment_of[node] = segment
        self.segments.setdefault(segment, []).append(node)

    def with_floating(self, nodes, wanted):
        """`nodes` and the floating nodes that they or `wanted` need, in order."""
        if not self.floating:
            return nodes
        needed, todo = set(), [n for node in nodes for n in self.sources[node]] + [w for w in wanted]
        while todo:
            node = todo.pop()
            if node in self.floating and node not in needed:
                needed.add(node)
                todo.extend(self.sources[node])
        return sorted([*nodes, *needed]) if needed else nodes
