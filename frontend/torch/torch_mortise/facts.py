# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the guards of a trace prove about its symbols: the least and greatest value of each, and a number that divides it. PyTorch calls a
compiled graph only if its guards hold, and traces again otherwise."""

import math

import sympy
from torch.utils._sympy import functions

LARGEST = 2**63 - 1
TRIED = 1024  # values for which guards are evaluated
QUOTIENTS = (functions.FloorDiv, functions.CleanDiv)
REMAINDERS = (functions.Mod, functions.PythonMod, sympy.Mod)


def narrowed(environment, symbol):
    """range_of, with the least value raised until all guards about this symbol alone hold: PyTorch's own ranges are loose for extents that
    are computed from a window."""
    low, high = range_of(environment, symbol)
    guards = [guard.expr for guard in environment.guards if guard.expr.free_symbols == {symbol}]

    def holds(guard, number):
        try:
            return guard.xreplace({symbol: sympy.Integer(number)}) != sympy.false
        except ZeroDivisionError:
            return False

    for number in range(low, min(high, low + TRIED)):
        if all(holds(guard, number) for guard in guards):
            return number, high
    return low, high


def range_of(environment, symbol):
    """(least, greatest), from `mark_dynamic(min=, max=)` and the comparisons in the trace."""
    found = environment.var_to_range.get(symbol)
    if found is None:
        return 0, LARGEST
    finite = [value.is_finite and -LARGEST < value < LARGEST for value in (found.lower, found.upper)]
    return (max(int(found.lower), 0) if finite[0] else 0, int(found.upper) if finite[1] else LARGEST)


def equalities(environment):
    """(divisors, values): {symbol: number} for symbols that the guards restrict to multiples of the number, or to the number itself."""
    zeros = [z for z in map(_zero, _conditions(environment)) if z is not None and z.has(*QUOTIENTS, *REMAINDERS)]
    zeros = [z for z in (*zeros, *environment.divisible) if all(range_of(environment, s)[0] > 0 for s in z.free_symbols)]
    found = {}

    def counted():  # each symbol s over its known divisor d, so that known facts are not found again
        multiples = {s: d * s for s, d in found.items()}
        return (zero.xreplace(multiples) for zero in zeros)

    def more():
        return next(filter(None, map(_facts, counted())), None)

    while facts := more():
        for symbol, number in facts.items():
            found[symbol] = found.get(symbol, 1) * number
    fixed = {s: n * found.get(s, 1) for s, n in filter(None, map(_solution, counted()))}
    return found, fixed


def _conditions(environment):
    for guard in environment.guards:
        yield from guard.expr.args if isinstance(guard.expr, sympy.And) else (guard.expr,)


def _zero(condition):
    """An expression that is 0 exactly when the condition holds; None when the condition is not an equation."""
    return condition.args[0] - condition.args[1] if isinstance(condition, sympy.Eq) else None


def _linear(expression):
    """(c, s) for c*s, None for other expressions."""
    coefficient, rest = expression.as_coeff_Mul()
    return (int(coefficient), rest) if rest.is_Symbol and coefficient.is_Integer and coefficient > 0 else None


def _divided(atom):
    """(c, s, k) for floordiv(c*s, k) and mod(c*s, k), None for others."""
    dividend, divisor = atom.args
    linear = _linear(dividend)
    return (*linear, int(divisor)) if linear and divisor.is_Integer and divisor > 0 else None


def _facts(zero):
    """{symbol: a number that divides it}, derived from `zero` being 0. All symbols are positive.

    In a polynomial of symbols and quotients q = floordiv(c*s, k), each q is at most c*s/k. If the polynomial is 0 with c*s/k in place of
    each q, and is increasing in all of them or decreasing in all, it is 0 only when each q equals c*s/k."""
    if isinstance(zero, REMAINDERS):
        found = _divided(zero)
        return _multiple(*found) if found else {}
    atoms = sorted(zero.atoms(*QUOTIENTS), key=str)
    parts = [_divided(atom) for atom in atoms]
    if not atoms or None in parts:
        return {}
    if sympy.expand(zero.xreplace({a: sympy.Rational(c, k) * s for a, (c, s, k) in zip(atoms, parts)})) != 0:
        return {}
    quotients = [sympy.Dummy() for _ in atoms]
    polynomial = sympy.expand(zero.xreplace(dict(zip(atoms, quotients))))
    if not polynomial.is_polynomial(*polynomial.free_symbols):
        return {}
    signs = {bool(term.as_coeff_Mul()[0] > 0) for term in sympy.Add.make_args(polynomial) if term.has(*quotients)}
    if len(signs) != 1:
        return {}
    facts = {}
    for part in parts:
        for symbol, number in _multiple(*part).items():
            facts[symbol] = math.lcm(facts.get(symbol, 1), number)
    return facts


def _solution(zero):
    """(symbol, number) when `zero`, which is 0, is linear in its only symbol."""
    polynomial = sympy.expand(zero)
    if len(polynomial.free_symbols) != 1 or polynomial.atoms(sympy.Function):
        return None
    (symbol,) = polynomial.free_symbols
    slope, constant = polynomial.coeff(symbol, 1), polynomial.coeff(symbol, 0)
    if not slope.is_Integer or not constant.is_Integer or polynomial != slope * symbol + constant or constant % slope:
        return None
    return symbol, int(-constant // slope)


def _multiple(coefficient, symbol, divisor):
    number = divisor // math.gcd(coefficient, divisor)
    return {symbol: number} if number > 1 else {}
