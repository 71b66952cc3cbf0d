# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The option verify: "first" compares the first call of each compiled graph with eager PyTorch, a number between 0 and 1 that share of all
calls. A graph whose results differ runs in eager from that call on, and gives eager's results for it; a note in last_report() and a warning
say by how much they differed."""

import math
import random

import torch

from .errors import INVALID_ARGUMENT, MortiseError

# How far a result may be from eager's, relative to its largest number: two orders of summation differ by less, faults by more.
ALLOWED = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def share(text):
    """The share of calls that are compared; math.inf for "first"."""
    if text in ("off", "first"):
        return 0.0 if text == "off" else math.inf
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise MortiseError(INVALID_ARGUMENT, f'option verify: expected off, first or a number from 0 to 1, found "{text}"')
    return number


def draws(node):
    """Whether an FX node draws random numbers, so that eager would get others."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or node.target in (
        torch.ops.mortise.random.default,
        torch.ops.mortise.seed.default,
    )


class Verifier:
    """Compares calls of one graph."""

    def __init__(self, share):
        self.share = share
        self.chance = random.Random()  # the program's own draws stay what they are

    def wants_more(self):
        """Whether later calls may be compared, so that they must come by here."""
        return self.share > 0

    def takes(self):
        """Whether this call is compared."""
        if self.share == math.inf:
            self.share = 0.0
            return True
        return self.share > 0 and self.chance.random() < self.share

    @staticmethod
    def call(graph, run, arguments):
        """(results, what is wrong with those of `run`): then they are eager's, and so is what was written to the arguments."""
        states = [graph.placeholders.index(target) for target, _ in graph.mutations.values()]
        spent = [graph.placeholders.index(node) for node in graph.donated]  # a program may overwrite them
        copies = list(arguments)
        for position in (*states, *spent):
            copies[position] = arguments[position].clone()
        results = run()
        expected = graph.module(*copies)
        expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
        pairs = [(f"result {number}", r, e) for number, (r, e) in enumerate(zip(results, expected, strict=True))]
        pairs += [(f"input {position}, which is updated,", arguments[position], copies[position]) for position in states]
        wrong = next(filter(None, (difference(*pair) for pair in pairs)), "")
        if not wrong:
            return results, ""
        for position in states:
            arguments[position].copy_(copies[position])
            expected = [arguments[position] if e is copies[position] else e for e in expected]
        return expected, wrong


def difference(name, found, expected):
    """In words, how a tensor differs from eager's by more than rounding explains; "" if it does not."""
    if not isinstance(expected, torch.Tensor):
        return "" if found == expected else f"{name} is {found}, eager's is {expected}"
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{name} is {found.dtype}{list(found.shape)}, eager's is {expected.dtype}{list(expected.shape)}"
    if not expected.numel():
        return ""
    if not expected.is_floating_point():
        places = int((found != expected).sum())
        return f"{name} differs from eager's in {places} of {expected.numel()} places" if places else ""
    finite = expected.isfinite()
    found, wanted = found.double(), expected.double()
    unequal = int((~(found.eq(wanted) | found.isnan() & wanted.isnan()) & ~finite | finite & ~found.isfinite()).sum())
    if unequal:
        return f"{name} has NaN or infinities in {unequal} places where eager's has others"
    size = wanted[finite].abs().max() if bool(finite.any()) else 0.0
    away = (found - wanted)[finite].abs().max() if bool(finite.any()) else 0.0
    if away <= ALLOWED.get(expected.dtype, 0.2) * size:
        return ""
    return f"{name} differs from eager's by {float(away):.3g}, where the largest number is {float(size):.3g}"
