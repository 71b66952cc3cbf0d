# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds equal layers in a list of FX nodes, so that the import of a few serves for all (region_import.Importer).

A run is a list of consecutive copies. Corresponding nodes of the copies have the same target and equal arguments. Each operand is the
corresponding node of the same copy, one node that all copies read, or a node that only this copy reads there (its weights, results of the
copy before). Only nodes from outside the run are compared by their values, because the values of the others follow from their arguments."""

import operator

import torch
import torch.fx

from . import _library

WINDOW = 8  # consecutive targets that must recur before a period is tried
IMPORTED = 3  # copies of a run that are imported: constants come with the first, and the second and third are compared
FEWEST = IMPORTED + 2  # copies of a run; for fewer the comparison does not pay
MULTIPLES = 6  # layers of several kinds with the same targets may alternate
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Run:
    """`copies` times `period` nodes from `start` on. `own`: for each copy but the first, the nodes that only this copy reads, in the same
    order for all copies."""

    __slots__ = ("start", "period", "copies", "own")

    def __init__(self, start, period, copies, own):
        self.start, self.period, self.copies, self.own = start, period, copies, own


def same(a, b):
    """Whether two arguments of one type, which are neither nodes nor plain Python values, are equal."""
    if isinstance(a, SYMBOLIC):
        return a.node.expr == b.node.expr
    return isinstance(a, (torch.device, torch.dtype, torch.layout, torch.memory_format)) and a == b


def described(value):
    """A comparable form of the value of a node from outside a run."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.layout, id(value)  # like no other; no program takes it
        if not value._has_symbolic_sizes_strides:
            return value.dtype, value.device, value.shape, value.stride(), value.storage_offset()
        parts = (*value.shape, *value.stride(), value.storage_offset())
        return (value.dtype, value.device, len(value.shape), *[p.node.expr if isinstance(p, SYMBOLIC) else p for p in parts])
    if isinstance(value, (tuple, list)):
        return tuple([described(v) for v in value])
    return type(value), value.node.expr if isinstance(value, SYMBOLIC) else repr(value)


def used(node):
    """Which results of a node with several results are used; handlers ask for this (Emitter.uses)."""
    return {u.args[1] for u in node.users if u.target is operator.getitem and u.users}


class Search:
    def __init__(self, nodes, roles):
        self.nodes, self.roles = nodes, roles  # roles: node from outside -> its role in the region
        self.index = {node: i for i, node in enumerate(nodes)}
        self.alike = _library.native().alike
        self.forms = {}

    def form(self, node):
        found = self.forms.get(node)
        if found is None:
            found = self.forms[node] = (self.roles.get(node), described(node.meta.get("val")))
        return found

    def stretches(self):
        """(start, period, end) of the parts in which each target recurs `period` nodes later, from left to right."""
        numbers = {}  # by id, because an operator's own hash is computed in Python
        for node in self.nodes:
            numbers.setdefault(id(node.target), len(numbers))
        # A string with a character for each target: its parts are quick to make and to hash.
        targets = "".join([chr(numbers[id(node.target)]) for node in self.nodes])
        following, last = [0] * len(targets), {}
        for i in range(len(targets) - WINDOW, -1, -1):
            window = targets[i : i + WINDOW]
            following[i] = last.get(window, 0)
            last[window] = i
        at, ends = 0, {}  # ends: period -> where it was seen to end
        while at < len(targets):
            period = following[at] - at
            if period > 0 and ends.get(period, 0) <= at:
                end = at
                while end + period < len(targets) and targets[end] == targets[end + period]:
                    end += 1
                ends[period] = end
                if end - at >= (FEWEST - 1) * period:
                    yield at, period, end + period
                    at = end + period
                    continue
            at += 1

    def runs(self):
        for start, period, end in self.stretches():
            for multiple in range(1, MULTIPLES + 1):
                found = list(self.runs_of(start, period * multiple, end))
                if found:
                    yield from found
                    break

    def runs_of(self, at, period, end):
        while at + FEWEST * period <= end:
            run = self.run_at(at, period, (end - at) // period)
            if run is not None:
                yield run
            at += period * (run.copies if run is not None else 1)

    def run_at(self, start, period, most):
        """The longest run that starts at `start`."""
        model = start + (IMPORTED - 1) * period
        several = [i for i in range(period) if isinstance(self.nodes[model + i].meta.get("val"), (tuple, list))]
        read = []
        for base in range(start + period, start + most * period, period):
            outside = self.alike(self.nodes, self.index, torch.fx.Node, same, model, base, period)
            if outside is None or any(used(self.nodes[base + i]) != used(self.nodes[model + i]) for i in several):
                break
            read.append(outside)
        if len(read) + 1 < FEWEST:
            return None
        return self.checked(start, period, read)

    def checked(self, start, period, read):
        """Separates the nodes that all copies read from each copy's own, and ends the run where own nodes are not alike."""
        places, common = {}, set()
        for column in zip(*read):
            if all(node is column[0] for node in column):
                common.add(column[0])
            else:
                places[column] = None  # a node read in several places is listed once
        own = list(zip(*places)) if places else [() for _ in read]
        forms = list(map(self.form, own[IMPORTED - 2]))
        copies = 1
        for row in own:
            distinct = set(row)
            if len(distinct) != len(row) or not distinct.isdisjoint(common) or list(map(self.form, row)) != forms:
                break
            copies += 1
        return Run(start, period, copies, own[: copies - 1]) if copies >= FEWEST else None


def find(nodes, roles):
    """The runs in `nodes`, from left to right. `nodes` are in the order of their import; `roles`: {node from outside: its role}."""
    return list(Search(nodes, roles).runs()) if len(nodes) >= FEWEST * 2 else []


def models(nodes, runs):
    """{node of a copy that is not imported: its counterpart in the last imported copy}"""
    found = {}
    for run in runs:
        model = run.start + (IMPORTED - 1) * run.period
        for start in range(model + run.period, run.start + run.copies * run.period, run.period):
            found.update(zip(nodes[start : start + run.period], nodes[model : model + run.period]))
    return found
