# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Extents that are expressions over symbols, for the importer. They add, multiply and divide like numbers, and compare if the symbols'
ranges decide the comparison. An operation that needs a number raises NeedsNumbers, and the region is then compiled for each shape."""

import sympy
from torch.utils._sympy import functions

from . import _library
from .facts import LARGEST

CONST, SYMBOL, ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX = range(1, 10)  # MortiseExprOp


class NeedsNumbers(TypeError):
    """An operation needs a number, but the extent is an expression."""


class Table:
    """The symbols of one region, in order: sympy symbols with their least value, greatest value and divisor."""

    def __init__(self, symbols, ranges, fixed=None):
        self.symbols, self.fixed = list(symbols), fixed or {}  # fixed: {symbol: the only value that it can have}
        self.known = {*self.symbols, *self.fixed}
        self.number = {s: i for i, s in enumerate(self.symbols)}
        self.ranges = tuple(number for facts in ranges for number in facts)
        self._positive = None

    def positive(self):
        """The same table for symbols that are not 0."""
        if self._positive is None:
            lows = [max(low, 1) if number % 3 == 0 else low for number, low in enumerate(self.ranges)]
            self._positive = Table(self.symbols, (), self.fixed)
            self._positive.ranges = tuple(lows)
        return self._positive

    def normalised(self, program):
        value, low, high = _library.native().normalise(program, self.ranges)
        return Extent(self, value, low, high) if isinstance(value, tuple) else value

    def extent(self, expression):
        """Returns an int or an Extent for a sympy expression over the symbols."""
        if expression.is_Integer:
            return int(expression)
        return self.normalised(self._program(expression))

    def _program(self, x):
        if x.is_Integer:
            return (CONST, int(x))
        if x.is_Symbol:
            if x not in self.number:
                raise NeedsNumbers(f"symbol {x} is not an extent of an input")
            return (SYMBOL, self.number[x])
        if isinstance(x, (functions.FloorDiv, functions.CleanDiv)):
            return self._all(FLOORDIV, x.args)
        if isinstance(x, (functions.Mod, functions.PythonMod, sympy.Mod)):
            return self._all(MOD, x.args)
        if isinstance(x, functions.ModularIndexing):
            return self._program(x.args[0]) + self._program(x.args[1]) + (FLOORDIV, 0) + self._program(x.args[2]) + (MOD, 0)
        if isinstance(x, (functions.Min, sympy.Min)):
            return self._all(MIN, x.args)
        if isinstance(x, (functions.Max, sympy.Max)):
            return self._all(MAX, x.args)
        if isinstance(x, sympy.floor):
            numerator, denominator = x.args[0].as_numer_denom()
            return self._all(FLOORDIV, (numerator, denominator))
        if isinstance(x, sympy.ceiling):
            numerator, denominator = x.args[0].as_numer_denom()
            return (CONST, 0) + self._all(FLOORDIV, (-numerator, denominator)) + (SUB, 0)
        if x.is_Add:
            return self._all(ADD, x.args)
        if x.is_Mul and all(a.is_Integer or not a.is_number for a in x.args):
            return self._all(MUL, x.args)
        if x.is_Pow and x.exp.is_Integer and x.exp > 0:
            return self._all(MUL, (x.base,) * int(x.exp))
        raise NeedsNumbers(f"extent {x} is no expression that programs have")

    def _all(self, op, parts):
        program = self._program(parts[0])
        for part in parts[1:]:
            program += self._program(part) + (op, 0)
        return program


class Extent:
    """An extent that is an expression over a Table's symbols: a program in normal form with its least and greatest value. Immutable.
    Extents are equal when their expressions are."""

    __slots__ = ("table", "program", "low", "high")

    def __init__(self, table, program, low, high):
        self.table, self.program, self.low, self.high = table, program, low, high

    def at(self, values):
        return _library.native().evaluate(self.program, values)

    def _combine(self, op, other, swapped=False):
        if isinstance(other, float):
            if not other.is_integer():
                raise NeedsNumbers(f"extent {self} has to be a number beside {other}")
            other = int(other)
        if not isinstance(other, (int, Extent)) or isinstance(other, bool):
            return NotImplemented
        other = other.program if isinstance(other, Extent) else (CONST, other)
        left, right = (other, self.program) if swapped else (self.program, other)
        return self.table.normalised(left + right + (op, 0))

    def __add__(self, other):
        return self._combine(ADD, other)

    def __radd__(self, other):
        return self._combine(ADD, other, True)

    def __sub__(self, other):
        return self._combine(SUB, other)

    def __rsub__(self, other):
        return self._combine(SUB, other, True)

    def __mul__(self, other):
        return self._combine(MUL, other)

    def __rmul__(self, other):
        return self._combine(MUL, other, True)

    def __floordiv__(self, other):
        return self._combine(FLOORDIV, other)

    def __rfloordiv__(self, other):
        return self._combine(FLOORDIV, other, True)

    def __mod__(self, other):
        return self._combine(MOD, other)

    def __neg__(self):
        return 0 - self

    def __eq__(self, other):
        if isinstance(other, Extent):
            return self.program == other.program
        if isinstance(other, int) and self.low <= other <= self.high and self.low == self.high:
            return True
        return False

    def __hash__(self):
        return hash(self.program)

    def _least(self, other):
        """The least and the greatest value of self - other."""
        if isinstance(other, int) and other == LARGEST:  # PyTorch writes LARGEST for "to the end"
            return -1, -1
        difference = self - other
        if isinstance(difference, int):
            return difference, difference
        if difference.low <= 0 <= difference.high:
            return _library.native().proved(difference.program, self.table.ranges)
        return difference.low, difference.high

    def _decide(self, true, false, other):
        if not true and not false:
            raise NeedsNumbers(f"whether {self} is more or less than {other} depends on the shape")
        return true

    def __lt__(self, other):
        low, high = self._least(other)
        return self._decide(high < 0, low >= 0, other)

    def __le__(self, other):
        low, high = self._least(other)
        return self._decide(high <= 0, low > 0, other)

    def __gt__(self, other):
        low, high = self._least(other)
        return self._decide(low > 0, high <= 0, other)

    def __ge__(self, other):
        low, high = self._least(other)
        return self._decide(low >= 0, high < 0, other)

    def __bool__(self):
        return self._decide(self.low > 0 or self.high < 0, self.low == self.high == 0, 0)

    def __index__(self):
        raise NeedsNumbers(f"extent {self} has to be a number here")

    def __truediv__(self, other):
        raise NeedsNumbers(f"extent {self} has to be a number where it is divided with a fraction as the result")

    __int__ = __float__ = __index__
    __rtruediv__ = __truediv__

    def __repr__(self):
        stack = []
        signs = {ADD: "+", SUB: "-", MUL: "*", FLOORDIV: "//", MOD: "%"}
        for op, value in zip(self.program[::2], self.program[1::2]):
            if op in (CONST, SYMBOL):
                stack.append(str(value) if op == CONST else str(self.table.symbols[value]))
                continue
            right, left = stack.pop(), stack.pop()
            stack.append(f"({left} {signs[op]} {right})" if op in signs else f"{'min' if op == MIN else 'max'}({left}, {right})")
        return stack[0]


def positive(extent):
    """The extent for symbols that are not 0, to compare it with others."""
    return extent.table.positive().normalised(extent.program) if isinstance(extent, Extent) else extent


def at(value, values):
    """`value`, an extent or nested tuples, with every Extent replaced by its number for these values of the symbols."""
    if isinstance(value, tuple):
        return tuple([at(v, values) for v in value])
    return value.at(values) if isinstance(value, Extent) else value
