# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dynamic shapes: a graph with symbols is a template, and a call's numbers turn it into a static graph."""
import sympy
import torch

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def free_symbols(value):
    """The symbols in a number, or in a fake tensor's sizes and strides."""
    if isinstance(value, SYMBOLIC):
        return value.node.expr.free_symbols
    if isinstance(value, torch.Tensor):
        parts = [*value.shape, *value.stride()]
        return set().union(*(p.node.expr.free_symbols for p in parts if isinstance(p, SYMBOLIC)))
    if isinstance(value, (tuple, list)):
        return set().union(*map(free_symbols, value))
    return set()


class Numbers:
    """Gives symbolic numbers their values."""

    def __init__(self, values):
        self.values = values

    def __call__(self, value):
        if not isinstance(value, SYMBOLIC):
            return value
        result = value.node.expr.xreplace(self.values)
        if isinstance(value, torch.SymFloat):
            return float(result)
        return bool(result) if isinstance(value, torch.SymBool) else int(result)

    def sizes(self, values):
        return tuple([self(v) for v in values])


class Key:
    """Which of a call's arguments tell the values of the symbols in `placeholders`."""

    def __init__(self, placeholders):
        self.sources = []  # (symbol, position, dimension or None for a number)
        known = set()
        for tensors in (False, True):
            for position, node in enumerate(placeholders):
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor) is tensors:
                    self._add(value, position, known)
        used = set().union(*(free_symbols(n.meta.get("val")) for n in placeholders)) if placeholders else set()
        self.unknown = used - known

    def _add(self, value, position, known):
        parts = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for dimension, part in parts:
            if isinstance(part, SYMBOLIC):
                symbol = part.node.expr
                if isinstance(symbol, sympy.Symbol) and symbol not in known:
                    known.add(symbol)
                    self.sources.append((symbol, position, dimension))

    def __bool__(self):
        return bool(self.sources)

    def read(self, arguments):
        return tuple([arguments[p] if d is None else arguments[p].shape[d] for _, p, d in self.sources])

    def numbers(self, key):
        return Numbers({s: sympy.sympify(n) for (s, _, _), n in zip(self.sources, key)})
