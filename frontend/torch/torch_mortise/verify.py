# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The option verify: "first" compares the first call of each compiled graph with eager PyTorch, a number between 0 and 1 that share of all
calls. A graph whose results differ runs in eager from that call on, and gives eager's results for it; a note in last_report() and a warning
say by how much they differed."""

import math
import operator
import random

import torch
import torch.fx

from .errors import INVALID_ARGUMENT, MortiseError

# How far a result may be from eager's, relative to its largest number: two orders of summation differ by less, faults by more.
ALLOWED = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}

SHAKES, FACTOR = 2, 4  # how often arguments are moved by a rounding, and how much further from eager's a result may be than those


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
    if node.target in (torch.ops.mortise.random.default, torch.ops.mortise.seed.default):
        return True
    # PyTorch tags attention as an operator that draws, and each of its calls says by its rate of dropout whether it does.
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and dropout(node) != 0


def draws_within(module):
    """Whether the graph of a module, or one that its operators call, has a node that draws."""
    graphs = [part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    return any(node.op == "call_function" and draws(node) for graph in graphs for node in graph.nodes)


def dropout(node):
    """The rate of dropout that a call of attention gives; None for other operators."""
    for place, parameter in enumerate(node.target._schema.arguments):
        if parameter.name == "dropout_p":
            return node.args[place] if place < len(node.args) else node.kwargs.get(parameter.name, parameter.default_value)
    return None


def is_own_matter(graph, node):
    """Whether a result is what attention leaves to its own backward operator, and cannot be compared. In eager on GPUs these are keys of
    random numbers, which nothing sets without dropout, and sums in rows that are padded; PyTorch before 2.13 traces sums of f64 as f32."""
    if not isinstance(node, torch.fx.Node) or node.target is not operator.getitem or not node.args[1]:
        return False
    source = node.args[0]
    if torch.Tag.nondeterministic_seeded not in getattr(source.target, "tags", ()):
        return False
    return source in graph.reasons or node.meta["val"].dtype != source.meta["val"][0].dtype == torch.float64


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
        before = list(copies)
        for position in states:
            before[position] = arguments[position].clone()
        numbers = [number for number, node in enumerate(graph.outputs) if not is_own_matter(graph, node)]

        def compared(results, arguments):
            return [*(results[number] for number in numbers), *(arguments[position] for position in states)]

        results = run()
        expected = in_eager(graph, copies)
        names = [*(f"result {number}" for number in numbers), *(f"input {position}, which is updated," for position in states)]
        found, wanted = compared(results, arguments), compared(expected, copies)
        wrong = {place: words for place, name in enumerate(names) if (words := difference(name, found[place], wanted[place]))}
        for seed in range(SHAKES if wrong and not graph.has_collectives else 0):  # other ranks would not take part
            try:
                shaken = [moved_by_a_rounding(value, seed) for value in before]
                moved = compared(in_eager(graph, shaken), shaken)
            except RuntimeError:  # of an operator that refuses such numbers
                break
            wrong = {place: words for place, words in wrong.items() if not explains(moved[place], found[place], wanted[place])}
        if not wrong:
            return results, ""
        for position in states:
            arguments[position].copy_(copies[position])
            expected = [arguments[position] if e is copies[position] else e for e in expected]
        return expected, next(iter(wrong.values()))


def in_eager(graph, arguments):
    results = graph.module(*arguments)
    return list(results) if isinstance(results, (tuple, list)) else [results]


# ---- what roundings explain: a gradient that is 0 but for roundings (of a bias of attention's keys), a comparison of two near numbers ----


def moved_by_a_rounding(value, seed):
    """A copy of an argument with each number one rounding further up or down."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype not in ALLOWED:
        return value.clone()
    up = torch.rand(value.shape, generator=torch.Generator(value.device).manual_seed(seed), device=value.device) < 0.5
    moved = value * torch.where(up, 1 + torch.finfo(value.dtype).eps, 1 - torch.finfo(value.dtype).eps).to(value.dtype)
    return value.clone().copy_(torch.where(moved.isfinite(), moved, value))  # with the strides of the argument


def explains(moved, found, expected):
    """Whether a result is as near to eager's as eager's own results are to each other when the arguments move by a rounding."""
    if not isinstance(expected, torch.Tensor) or found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    away = distance(found, expected)
    return away < math.inf and away <= FACTOR * distance(moved, expected)


def distance(value, expected):
    """The largest difference; of integers, in how many places there is one."""
    if not expected.is_floating_point():
        return int((value != expected).sum())
    value, expected = value.double(), expected.double()
    same = value.eq(expected) | value.isnan() & expected.isnan()
    return float(torch.where(same, 0.0, (value - expected).abs()).nan_to_num(nan=math.inf, posinf=math.inf).max())


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
