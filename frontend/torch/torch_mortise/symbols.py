# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dynamic shapes: which symbols a graph has, which arguments of a call give their values, and how a symbolic size becomes a number
or an Extent."""

import sympy
import torch
import torch.fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .extents import NeedsNumbers, Table
from .facts import LARGEST, equalities, narrowed

NONE = frozenset()
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def symbols_of(parts):
    return set().union(*(p.node.expr.free_symbols for p in parts if isinstance(p, SYMBOLIC)))


def shape_symbols(value):
    """The symbols in a number, or in a fake tensor's shape."""
    if isinstance(value, torch.Tensor) and not value._has_symbolic_sizes_strides:
        return NONE
    if isinstance(value, (tuple, list)):
        return set().union(*map(shape_symbols, value))
    return symbols_of(value.shape if isinstance(value, torch.Tensor) else (value,))


def parts_of(value):
    """(dimension, part) of a tensor's shape; (None, number) for a number."""
    return enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]


def readable(values):
    """The symbols that these arguments of a graph give."""
    return {part.node.expr for value in values for _, part in parts_of(value) if isinstance(part, SYMBOLIC) and part.node.expr.is_Symbol}


def of_data(nodes):
    """The nodes whose values or shapes depend on data: {node: a set of symbols that no argument gives}. What checks such symbols is among
    them, and has no value."""
    given = readable([n.meta.get("val") for n in nodes if n.op == "placeholder"])
    symbols = {n: unbacked_symbols(n.meta.get("val")) - given for n in nodes if n.op == "call_function"}
    for node in symbols:
        if node.meta.get("val") is None:
            symbols[node] = set().union(*[symbols.get(source, ()) for source in node.all_input_nodes])
    return {node: found for node, found in symbols.items() if found}


def unbacked_symbols(value):
    if isinstance(value, (tuple, list)):
        return set().union(*map(unbacked_symbols, value))
    is_symbolic = value._has_symbolic_sizes_strides if isinstance(value, torch.Tensor) else isinstance(value, SYMBOLIC)
    return free_unbacked_symbols(value) if is_symbolic else set()


def needed_symbols(nodes, results):
    """The symbols that a graph's results depend on. Symbols that occur only in the strides and offsets of inputs are left out, because an
    input whose layout differs from the expected one is copied."""
    needed = set()
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, (torch.Tensor, tuple, list)) or node.users:
            needed |= shape_symbols(value)
    for node in results:
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if isinstance(value, torch.Tensor) and node.op != "placeholder":
            needed |= symbols_of(value.stride())
    return needed


class Symbols:
    """Converts symbolic sizes to Extents, for a program that serves all shapes. Numbers is its counterpart for one shape."""

    def __init__(self, table):
        self.table = table

    def __call__(self, value):
        if not isinstance(value, SYMBOLIC):
            return value
        expression = value.node.expr.xreplace(self.table.fixed)
        if isinstance(value, torch.SymInt):
            return self.table.extent(expression)
        if expression.free_symbols:
            raise NeedsNumbers(f"{expression} is no extent")
        return float(expression) if isinstance(value, torch.SymFloat) else bool(expression)

    def known(self, values):
        return all(not isinstance(v, SYMBOLIC) or v.node.expr.free_symbols <= self.table.known for v in values)

    def sizes(self, values):
        return tuple([self(v) for v in values])


class Numbers:
    """Converts symbolic sizes to numbers, for a program that serves one shape."""

    def __init__(self, values):
        self.values = values

    def __call__(self, value):
        if not isinstance(value, SYMBOLIC):
            return value
        result = value.node.expr.xreplace(self.values)
        if isinstance(value, torch.SymFloat):
            return float(result)
        return bool(result) if isinstance(value, torch.SymBool) else int(result)

    def known(self, values):
        return all(not isinstance(v, SYMBOLIC) or v.node.expr.free_symbols <= self.values.keys() for v in values)

    def sizes(self, values):
        return tuple([self(v) for v in values])


class Key:
    """Where a call's arguments give the values of the needed symbols. `read` returns these values, the key of a specialisation."""

    def __init__(self, placeholders, needed):
        self.sources = []  # (symbol, position, dimension; or None if the argument is a number)
        self.ranges = []  # for each source: (least, greatest, divisor)
        self.fixed = {}  # symbols for which the guards permit only one value
        self.environment = None
        known = set()
        for tensors in (False, True):
            for position, node in enumerate(placeholders):
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor) is tensors:
                    self._add(value, position, needed, known)
        self.unknown = needed - known  # symbols whose values depend on data
        if self.sources:
            steps, fixed = equalities(self.environment)
            self.fixed = {s: sympy.Integer(fixed[s]) for s, _, _ in self.sources if s in fixed}
            self.sources = [source for source in self.sources if source[0] not in fixed]
            self.ranges = [(*narrowed(self.environment, s), steps.get(s, 1)) for s, _, _ in self.sources]

    def _add(self, value, position, needed, known):
        for dimension, part in parts_of(value):
            if isinstance(part, SYMBOLIC):
                symbol = part.node.expr
                if symbol in needed and symbol not in known:
                    known.add(symbol)
                    self.sources.append((symbol, position, dimension))
                    self.environment = part.node.shape_env

    def __bool__(self):
        return bool(self.sources)

    def read(self, arguments):
        return tuple([arguments[p] if d is None else arguments[p].shape[d] for _, p, d in self.sources])

    def described(self, key):
        """{symbol's name: its value}. For `key` None, {name: the range of values that a program for all shapes serves}."""
        if key is None:
            return {
                str(s): f"{low}..{high if high != LARGEST else ''}" + (f" step {step}" if step > 1 else "")
                for (s, _, _), (low, high, step) in zip(self.sources, self.ranges)
            }
        return {str(s): n for (s, _, _), n in zip(self.sources, key)}

    def symbols(self):
        return Symbols(Table([s for s, _, _ in self.sources], self.ranges, self.fixed))

    def numbers(self, key):
        return Numbers({**self.fixed, **{s: sympy.sympify(n) for (s, _, _), n in zip(self.sources, key)}})
