# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Divides the nodes of a graph into programs and pieces that run in eager, and decides in which order they run."""

import operator

import torch

from . import collectives
from .errors import INTERNAL, MortiseError
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


def is_view(target):
    """Whether the results of an operator share memory with its operands."""
    return isinstance(target, torch._ops.OpOverload) and any(result.alias_info for result in target._schema.returns)


def in_order(graph, chosen):
    """The graph's sources, and for each node that is `chosen` and runs in eager the one before it."""
    sources, before = dict(graph.sources), []
    for node in graph.computed:
        if node in graph.reasons and chosen(node):
            sources[node] = [*sources[node], *before]
            before = [node]
    return sources


class Partition:
    """`segments`: {number: nodes}, which run in the order of their numbers: even segments are programs, odd ones run in eager, node by node
    as listed. Views and constants float: each segment that needs one computes it. A graph without reasons to run in eager is one program.

    Each segment takes what can run at that time, so that there are few. Collectives change that in three ways (decision 0073): they start
    in the order of the graph, which is the same on all ranks; what the next one needs runs before anything else; and a wait comes when
    nothing is left that can run without it."""

    def __init__(self, graph):
        self.segments = {}
        self.segment_of = {}
        self.floating = set()
        if not graph.reasons:
            self.segments[0] = list(graph.computed)
            return
        self.reasons = graph.reasons
        self.sources = in_order(graph, draws) if graph.own.fallback_random else graph.sources
        self.nodes = list(graph.computed)
        self.pending = {}  # the nodes that have no segment yet, in the graph's order
        for node in self.nodes:
            if self.floats(node):
                self.floating.add(node)
            else:
                self.pending[node] = None
        self.unstarted = [node for node in self.pending if collectives.starts(node.target)]
        self.unstarted.reverse()  # the next one comes last
        while self.pending:
            self.advance()
        for number, nodes in self.segments.items():
            if number % 2 == 0:
                nodes.sort()  # equal layers are found by the graph's order

    def floats(self, node):
        """Whether each segment computes the node for itself: a view or a constant, which depends on nothing that has a segment."""
        if node in self.reasons or any(source in self.pending for source in self.sources[node]):
            return False
        return node.target in VIEWS or node.target in CREATION or node.target is operator.getitem

    def advance(self):
        """Gives segments to some pending nodes: up to the next collective, or up to and with the next wait."""
        urgent = self.needed_by(self.unstarted[-1]) if self.unstarted else self.pending
        self.run(urgent)
        if self.unstarted and self.is_ready(self.unstarted[-1]):
            return self.place(self.unstarted.pop())
        if urgent is not self.pending:
            self.run(self.pending)
        for node in self.pending:
            if collectives.waits(node.target) and node in urgent and self.is_ready(node):
                return self.place(node)
        if self.pending:
            raise MortiseError(INTERNAL, f"nodes wait for each other: {list(self.pending)[:3]}")

    def run(self, among):
        """Gives segments to all nodes of `among` that can run without a wait."""
        while self.run_one_kind(among, False) | self.run_one_kind(among, True):
            pass

    def run_one_kind(self, among, eager):
        """Whether any node was found that can run in a program, or in `eager`."""
        found = False
        for node in list(among):
            if node in self.pending and (node in self.reasons) == eager and self.is_ready(node):
                if not collectives.is_collective(node.target):
                    self.place(node)
                    found = True
        return found

    def is_ready(self, node):
        return not any(source in self.pending for source in self.sources[node])

    def place(self, node):
        """Adds a node to the last segment, or begins a new one if that is of the other kind."""
        last = max(self.segments, default=0)
        number = last if last % 2 == (node in self.reasons) else last + 1
        for placed in [node, *(user for user in node.users if user.target is operator.getitem and user in self.pending)]:
            self.segment_of[placed] = number
            self.segments.setdefault(number, []).append(placed)
            del self.pending[placed]

    def needed_by(self, node):
        """The pending nodes that a pending node depends on, in the graph's order."""
        needed, todo = set(), [node]
        while todo:
            for source in self.sources[todo.pop()]:
                if source in self.pending and source not in needed:
                    needed.add(source)
                    todo.append(source)
        return sorted(needed)

    def with_floating(self, nodes, wanted):
        """`nodes` and the floating nodes that they or `wanted` need, each before the first node that reads it."""
        if not self.floating:
            return nodes
        ordered = {}

        def add(node):
            for source in self.sources[node]:
                if source in self.floating and source not in ordered:
                    add(source)
            ordered[node] = None

        for node in nodes:
            add(node)
        for node in wanted:
            if node in self.floating and node not in ordered:
                add(node)
        return list(ordered)

    def last_reader(self):
        """{node: the last segment during which its memory is read}. A collective reads until its result is waited for, and whoever reads a
        view of a node reads the node."""
        readers = {}
        for node in reversed(self.nodes):
            until = readers.get(node, -1) if node in self.floating or is_view(node.target) else -1
            if node in self.segment_of:
                until = max(until, self.ends(node) if collectives.starts(node.target) else self.segment_of[node])
            for source in self.sources[node]:
                readers[source] = max(readers.get(source, -1), until)
        return readers

    def ends(self, collective):
        """The segment that waits for a collective; the one after the last if none does."""
        results = [collective, *(user for user in collective.users if user.target is operator.getitem)]
        waits = [self.segment_of[user] for result in results for user in result.users if collectives.waits(user.target)]
        return max(waits, default=max(self.segments) + 1)
