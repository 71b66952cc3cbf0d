# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers: one seed gives one tensor on every device, and the numbers have the requested distribution."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_mortise
from error_bounds import unit_roundoff

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def test_random_numbers_are_the_same_on_every_device(device):
    """One seed, one tensor: bits and exact functions of them are equal, normal numbers agree within the last places of log and cos."""

    def f(x):
        exact = (
            *(torch.rand(7, 33, dtype=dtype) for dtype in FLOATS),
            F.dropout(x, 0.3, True),
            torch.bernoulli(x),
            torch.randint(3, 1000, (129,)),
            torch.randperm(77),
            torch.rand(20001),
        )
        return exact, (torch.randn(1001), torch.randn(5, 5, dtype=torch.float64))

    def draw(kind):
        torch._dynamo.reset()
        torch_mortise.reset()
        compiled = torch.compile(f, backend="mortise", dynamic=False, options={"device": kind})
        torch.manual_seed(3)
        with torch.no_grad():
            drawn = compiled(torch.full((5, 13), 0.5))
        report = torch_mortise.last_report()
        assert all("seed" in e["op"] for g in report["graphs"] for e in g["eager"]), report["graphs"]
        return drawn

    (exact, normal), (expected, numbers) = draw(device), draw("reference")
    for found, want in zip(exact, expected):
        assert torch.equal(found, want)
    for found, want in zip(normal, numbers):
        # A few units in the last place of the radius, which is at most 8.6, and of the cosine's argument.
        torch.testing.assert_close(found, want, rtol=0, atol=100 * torch.finfo(want.dtype).eps)


def test_random_numbers_of_dynamic_shapes(device):
    def draw(kind, size):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: torch.rand_like(x) + x, backend="mortise", dynamic=True, options={"device": kind})
        with torch.no_grad():
            compiled(torch.zeros(4, 6))
            torch.manual_seed(size)
            return compiled(torch.ones(size, 3 * size))

    for size in (3, 9, 70):
        assert torch.equal(draw(device, size), draw("reference", size))


# ---- distributions -------------------------------------------------------------------------------------

SEED, COUNT = 7, 100_000
FALSE_ALARM, TESTS = 1e-9, 1000  # for all of these tests together, if the seed were not fixed; there are fewer comparisons
# Massart 1990: a sample's distribution function differs from the true one by more than t with a probability of 2 exp(-2 n t^2).
APART = math.sqrt(math.log(2 * TESTS / FALSE_ALARM) / (2 * COUNT))
DEVIATIONS = math.sqrt(2 * math.log(2 * TESTS / FALSE_ALARM))  # of a normal mean, by its Chernoff bound


def normal_below(x):
    return (1 + torch.erf(x / 2**0.5)) / 2


def filled(method, *arguments):
    return lambda: getattr(torch.empty(COUNT), method)(*arguments)


def bernoulli_below(p):
    return lambda x: torch.where(x < 0, 0.0, torch.where(x < 1, 1 - p, 1.0))


# name: (draw, distribution function, least, largest, mean, variance, kurtosis); None for moments that do not exist
DISTRIBUTIONS = {
    **{f"rand {dtype}": (lambda dtype=dtype: torch.rand(COUNT, dtype=dtype), lambda x: x.clamp(0, 1), 0, 1, 0.5, 1 / 12, 1.8)
       for dtype in FLOATS},
    **{f"randn {dtype}": (lambda dtype=dtype: torch.randn(COUNT, dtype=dtype), normal_below, -9, 9, 0, 1, 3) for dtype in FLOATS},
    "rand_like": (lambda: torch.rand_like(torch.empty(COUNT)), lambda x: x.clamp(0, 1), 0, 1, 0.5, 1 / 12, 1.8),
    "randn_like": (lambda: torch.randn_like(torch.empty(COUNT)), normal_below, -9, 9, 0, 1, 3),
    "uniform": (filled("uniform_", -2, 5), lambda x: ((x + 2) / 7).clamp(0, 1), -2, 5, 1.5, 49 / 12, 1.8),
    "normal": (filled("normal_", 3, 0.5), lambda x: normal_below((x - 3) / 0.5), -2, 8, 3, 0.25, 3),
    "normal of tensors": (lambda: torch.normal(torch.full((COUNT,), 3.0), torch.full((COUNT,), 0.5)),
                          lambda x: normal_below((x - 3) / 0.5), -2, 8, 3, 0.25, 3),
    "exponential": (filled("exponential_", 2.0), lambda x: 1 - torch.exp(-2 * x.clamp(min=0)), 0, 30, 0.5, 0.25, 9),
    "log_normal": (filled("log_normal_", 0.5, 0.25), lambda x: normal_below((x.log() - 0.5) / 0.25), 0, 20, math.exp(0.53125),
                   (math.exp(0.0625) - 1) * math.exp(1.0625), 4.1),
    "cauchy": (filled("cauchy_", 1.0, 2.0), lambda x: 0.5 + torch.atan((x - 1) / 2) / math.pi, -math.inf, math.inf, None, None, None),
    "geometric": (filled("geometric_", 0.3), lambda x: 1 - 0.7 ** x.floor(), 1, 100, 1 / 0.3, 0.7 / 0.09, 9.2),
    "bernoulli": (lambda: torch.bernoulli(torch.full((COUNT,), 0.3)), bernoulli_below(0.3), 0, 1, 0.3, 0.21, 1.8),
    "bernoulli_": (filled("bernoulli_", 0.8), bernoulli_below(0.8), 0, 1, 0.8, 0.16, 3.3),
    "dropout": (lambda: F.dropout(torch.ones(COUNT), 0.2, True) * 0.8, bernoulli_below(0.8), 0, 1.0001, 0.8, 0.16, 3.3),
    "randint": (lambda: torch.randint(3, 9, (COUNT,)), lambda x: ((x.floor() - 2) / 6).clamp(0, 1), 3, 8, 5.5, 35 / 12, 1.8),
    "randint_like": (lambda: torch.randint_like(torch.empty(COUNT), 6),
                     lambda x: ((x.floor() + 1) / 6).clamp(0, 1), 0, 5, 2.5, 35 / 12, 1.8),
    "randperm": (lambda: torch.randperm(2 * COUNT)[:COUNT] / (2.0 * COUNT), lambda x: x.clamp(0, 1), 0, 1, 0.5, 1 / 12, 1.8),
    "rrelu": (lambda: -F.rrelu(torch.full((COUNT,), -1.0), 0.25, 0.75, True), lambda x: (2 * x - 0.5).clamp(0, 1), 0.25, 0.75, 0.5,
              1 / 48, 1.8),
    "multinomial": (lambda: torch.multinomial(torch.tensor([0.5, 0.0, 3.0, 1.5]), COUNT, True),
                    lambda x: torch.tensor([0.1, 0.1, 0.7, 1.0])[x.long()], 0, 3, 2.1, 0.69, 3.9),
}


def wrong_with(x, below, least, largest, mean, variance, kurtosis):
    """Why the numbers do not have this distribution, or None. Rounding to a dtype moves each by up to 2 unit roundoffs."""
    slack = 2 * unit_roundoff(x.dtype) if x.is_floating_point() else 0.0
    x = x.double()
    if not bool(((x >= least) & (x <= largest)).all()):
        return f"numbers from {float(x.min())} to {float(x.max())}"
    places, counts = x.unique(return_counts=True)
    apart = float((counts.cumsum(0) / x.numel() - below(places)).abs().max())
    if not apart <= APART + slack:
        return f"the distribution function is off by {apart}"
    if mean is None:
        return None
    if not abs(float(x.mean()) - mean) <= DEVIATIONS * math.sqrt(variance / x.numel()) + slack:
        return f"mean {float(x.mean())}, expected {mean}"
    if not abs(float(x.var()) / variance - 1) <= DEVIATIONS * math.sqrt((kurtosis - 1) / x.numel()) + slack:
        return f"variance {float(x.var())}, expected {variance}"
    return None


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(compile_for, name):
    draw, *expected = DISTRIBUTIONS[name]
    compiled = compile_for(draw)
    torch.manual_seed(SEED)
    with torch.no_grad():
        x = compiled()
    assert x.numel() == COUNT and wrong_with(x, *expected) is None, f"seed {SEED}"


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_what_is_not_of_the_distribution_is_found(name):
    """Finds numbers shifted by 5 % of a deviation, too wide by 10 %, one NaN, and all numbers equal."""
    draw, *expected = DISTRIBUTIONS[name]
    torch.manual_seed(SEED)
    x = draw()
    assert wrong_with(x, *expected) is None
    wide = x.double()
    variance = expected[4] or 4.0
    outside = wide.clone()
    outside[3] = math.nan
    for fault in (wide + 0.05 * variance**0.5, (wide - wide.median()) * 1.1 + wide.median(), outside, torch.full_like(wide, wide.median())):
        assert wrong_with(fault.to(x.dtype) if x.is_floating_point() else fault, *expected)
