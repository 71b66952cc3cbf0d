# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The judge itself: right results pass, and each fault planted in one of them is found."""

import math
import os
import sys

import pytest
import torch
import torch.nn.functional as F
from agreement import with_noise
from error_bounds import MORE_RUNS, RUNS, Noise, error_of, length, ulp, unit_roundoff
from opinfo import compiled, distribution, judge, processes, runner, samples
from opinfo.overloads import Direct
from opinfo.trace import compile_graph, trace

aten = torch.ops.aten
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def chain(x, w, b, u):
    return F.gelu(x @ w + b) @ u


CALLS = {
    "mm": (aten.mm.default, [normal(6, 10), normal(10, 7)]),
    "long mm": (aten.mm.default, [normal(3, 700), normal(700, 5)]),
    "bmm": (aten.bmm.default, [normal(2, 6, 10), normal(2, 10, 7)]),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [normal(2, 3, 6, 5), normal(4, 3, 3, 3), normal(4)]),
    "sum": (lambda x: x.sum(1), [normal(6, 50, 3)]),
    "cumsum": (lambda x: x.cumsum(1), [normal(3, 20)]),
    "softmax": (lambda x: x.softmax(1), [normal(4, 12)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (16,), w, b), [normal(4, 16), normal(16), normal(16, seed=1)]),
    "exp": (torch.exp, [normal(5, 6)]),
    "mul": (torch.mul, [normal(5, 6), normal(5, 6, seed=1)]),
    "chain": (chain, [normal(4, 8), normal(8, 16), normal(16), normal(16, 5)]),
}


class Case:
    """A call, the interpreter's and eager's results for it, and the judge's answer to any results."""

    def __init__(self, name, dtype):
        function, inputs = CALLS[name]
        self.call = Direct(function, [x.to(dtype) for x in inputs], {})
        with torch.no_grad():
            self.module = trace(self.call, self.call.tensors)
            self.found = compile_graph(self.module, self.call.tensors).run(list(self.call.tensors))
            self.eager = self.call(*self.call.tensors)

    def judged(self, found):
        with torch.no_grad():
            return samples.verdict(self.call, self.call.tensors, self.module, found, self.eager, set())

    def limits(self, standard_errors=True):
        """The least and the largest number that the judge accepts, per element; without rule 3 if not `standard_errors`."""
        with torch.no_grad():
            wide, tensors = self.call.widened(self.call.tensors)
            exact = wide(*tensors)
            dtype = self.eager[0].dtype
            measured = [
                samples.roundings(wide, tensors, exact, {dtype}, [0], samples.Memory(), runs)[0] if standard_errors else None
                for runs in (RUNS, MORE_RUNS)
            ]
            bound = torch.maximum(*[judge.bound(self.eager[0], exact[0], allowed) for allowed in measured])
        near = 2 * ulp(self.eager[0].double(), dtype)
        target, theirs = judge.rounded(exact[0], dtype), self.eager[0].double()
        return torch.minimum(target - bound, theirs - near), torch.maximum(target + bound, theirs + near)


def changed(found, position, value):
    made = found.clone()
    made.view(-1)[position] = value
    return made


def typical(x):
    """The position of an element of median magnitude."""
    return int(x.abs().flatten().argsort()[x.numel() // 2])


def swapped(x):
    return changed(changed(x, int(x.argmax()), x.min()), int(x.argmin()), x.max())


NARROWER = {torch.float64: torch.float32, torch.float32: torch.bfloat16, torch.float16: torch.float8_e4m3fn,
            torch.bfloat16: torch.float8_e5m2}
FAULTS = {
    "a sign": lambda x: changed(x, typical(x), -x.view(-1)[typical(x)]),
    "a NaN": lambda x: changed(x, 1, math.nan),
    "an infinity": lambda x: changed(x, 1, math.inf),
    "a zero": lambda x: changed(x, typical(x), 0.0),
    "all zero": torch.zeros_like,
    "all NaN": lambda x: torch.full_like(x, math.nan),
    "swapped": swapped,
    "reversed": lambda x: x.flip(-1),
    "another dtype": lambda x: x.to(torch.float32 if x.dtype != torch.float32 else torch.float64),
    "another shape": lambda x: x[None],
    "flattened": torch.flatten,
    "a row less": lambda x: x[:-1],
    "a narrower dtype's precision": lambda x: x.to(NARROWER[x.dtype]).to(x.dtype),
    "half too large": lambda x: x * 1.5,
    "four roundoffs of a narrower dtype": lambda x: (x.double() * (1 + 4 * unit_roundoff(NARROWER[x.dtype]))).to(x.dtype),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_faults_are_found(name, dtype):
    case = Case(name, dtype)
    honest = case.judged(case.found)
    assert honest.why is None and honest.rule in judge.RULES
    missed = [fault for fault, plant in FAULTS.items() if case.judged([plant(case.found[0])]).why is None]
    assert not missed
    assert case.judged([]).why and case.judged(case.found * 2).why


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_one_place_more_than_allowed(name, dtype):
    """The largest number within the limit passes, and its neighbour does not."""
    case = Case(name, dtype)
    least, most = case.limits()
    for position in (0, typical(case.found[0])):
        for limit, side in ((most, 1), (least, -1)):
            exact, beyond = float(limit.view(-1)[position]), torch.tensor(side * math.inf, dtype=dtype)
            inside = torch.tensor(exact, dtype=torch.float64).to(dtype)
            if (float(inside) - exact) * side > 0 or dtype == torch.float64:  # the limit itself is rounded in f64
                inside = torch.nextafter(inside, -beyond)
            assert case.judged([changed(case.found[0], position, inside)]).why is None
            outside = torch.nextafter(inside, beyond)
            if dtype == torch.float64:
                outside = torch.nextafter(torch.nextafter(outside, beyond), beyond)
            assert case.judged([changed(case.found[0], position, outside)]).why


def test_what_seems_too_far_off_is_measured_again(monkeypatch):
    case = Case("chain", torch.float32)
    limit, without = case.limits()[1], case.limits(standard_errors=False)[1]
    position = int((limit - without).argmax())  # where rule 3 allows more than rule 2 does
    inside = torch.nextafter(limit.view(-1)[position].float(), torch.tensor(-math.inf))
    asked, spread = [], judge.spread

    def too_small_by_chance(*arguments):
        asked.append(arguments[-1])
        return [e * (1e-9 if asked[-1] == RUNS else 1.0) for e in spread(*arguments)]

    monkeypatch.setattr(judge, "spread", too_small_by_chance)
    assert case.judged([changed(case.found[0], position, inside)]).rule == judge.ROUNDINGS
    assert asked == [RUNS, MORE_RUNS]
    assert case.judged([changed(case.found[0], position, 2 * inside)]).why


def test_what_the_length_of_a_sum_allows():
    """At k = 10 in bf16, k roundoffs per operand accepted an error of 44 %; eight standard errors of one rounding are 3 %."""
    case = Case("mm", torch.bfloat16)
    least, most = case.limits()
    sizes = case.call.tensors[0].double().abs() @ case.call.tensors[1].double().abs()
    assert float(((most - least) / 2 / sizes).max()) < 0.07
    assert case.judged([(case.found[0].double() * 1.1).to(torch.bfloat16)]).why


def test_roundings_that_go_one_way(monkeypatch):
    """The interpreter adds few different numbers one after the other, and each of them is always rounded alike. (NNSmith's seed 42.)"""
    numbers = (torch.arange(62640, dtype=torch.float64) ** 2 % 7).sin() ** 2
    monkeypatch.setitem(CALLS, "few", (lambda x: x.sum(), [numbers]))
    case = Case("few", torch.float64)
    error = float((case.found[0] - case.eager[0]).abs())
    assert error > 8 * 62640**0.5 * 2**-53 * float(case.eager[0])
    assert case.judged(case.found).rule == judge.ROUNDINGS
    assert case.judged([case.eager[0] + 5 * error]).why and case.judged([case.eager[0].float().double()]).why


def test_the_gradient_of_a_convolution_s_weight_is_a_sum():
    """Whose terms may cancel: a network's loss that weighs one image against another gives such. Added one after the other in f32, it is
    further off than moving each operand by itself explains."""
    import agreement
    import numpy

    x = 1 + torch.rand(2, 1, 8192, generator=torch.Generator().manual_seed(1))
    gradient = torch.tensor([-1.0, 1.0]).view(2, 1, 1).expand(2, 1, 8192).contiguous()

    def run():
        return aten.convolution_backward(gradient, x, torch.ones(1, 1, 1), None, [1], [0], [1], False, [0], 1, [True, True, False])[:2]

    expected = run()
    one_by_one = numpy.add.accumulate((gradient * x).flatten().numpy(), dtype=numpy.float32)[-1]
    found = torch.full_like(expected[1], float(one_by_one))
    agreement.assert_same([expected[0], found], expected, run)
    bound = 8 * (2 * 8192) ** 0.5 * 2**-24 * float(x.sum())
    with pytest.raises(AssertionError, match="result 1"):
        agreement.assert_same([expected[0], expected[1] + 3 * bound], expected, run)
    with pytest.raises(AssertionError, match="result 0"):  # sums of one term, whatever the other's length
        agreement.assert_same([expected[0] * (1 + 2**-17), expected[1]], expected, run)


def test_lengths():
    x, w = torch.zeros(4, 10), torch.zeros(10, 6)
    image, weight = torch.zeros(2, 8, 9, 9), torch.zeros(12, 4, 3, 3)
    places = [1, 1], [0, 0], [1, 1]
    assert length(aten.mm.default, (x, w), ()) == 10
    assert length(aten.addmm.default, (torch.zeros(6), x, w), ()) == 10
    assert length(aten.bmm.default, (x[None], w[None]), ()) == 10
    assert length(aten.convolution.default, (image, weight, None, *places, False, [0, 0], 2), ()) == 4 * 9
    assert length(aten.convolution.default, (image, torch.zeros(8, 3, 3, 3), None, *places, True, [0, 0], 2), ()) == 4 * 9
    gradient = torch.zeros(2, 12, 7, 7)
    assert length(aten.convolution_backward.default, (gradient, image, weight, None, *places, False, [0, 0], 2, [True] * 3), ()) == 2 * 49
    assert length(aten.sum.dim_IntList, (x, [1]), (torch.zeros(4),)) == 10
    assert length(aten.mean.default, (x,), (torch.zeros(()),)) == 40
    assert length(aten._softmax.default, (x, 1, False), ()) == 10
    assert length(aten.native_layer_norm.default, (x, [10], None, None, 1e-5), ()) == 10
    assert length(aten.native_group_norm.default, (image, None, None, 2, 8, 81, 4, 1e-5), ()) == 2 * 81
    assert length(aten.avg_pool2d.default, (image, [3, 2]), ()) == 6
    assert length(aten.index_put.default, (x, [torch.zeros(9).long()], torch.zeros(9, 10), True), ()) == 90  # every value may be added to
                                                                                                             # one element


# ---- random numbers ------------------------------------------------------------------------------------

PROBABILITIES = torch.tensor([0.5, 0.0, 3.0, 1.5])
HONEST = {
    "rand": lambda: torch.rand(60),
    "randn": lambda: torch.randn(60, dtype=torch.bfloat16),
    "randint": lambda: torch.randint(3, 9, (60,)),
    "bernoulli": lambda: torch.bernoulli(torch.full((60,), 0.3)),
    "dropout": lambda: F.dropout(torch.ones(60), 0.3),
    "exponential": lambda: torch.empty(60).exponential_(2.0),
    "cauchy": lambda: torch.empty(60).cauchy_(),
    "multinomial": lambda: torch.multinomial(PROBABILITIES, 3),
    "randperm": lambda: torch.randperm(30),
}
DISTORTED = {
    "rand": [lambda: torch.rand(60) * 1.2, lambda: torch.rand(60) * 0.5 + 0.25, lambda: torch.rand(1).expand(60),
             lambda: torch.full((60,), 0.5), lambda: torch.rand(60).sort().values, lambda: torch.full((60,), math.nan)],
    "randn": [lambda: torch.randn(60, dtype=torch.bfloat16) + 0.2, lambda: torch.randn(60, dtype=torch.bfloat16) * 1.2,
              lambda: torch.randn(60, dtype=torch.bfloat16).abs()],
    "randint": [lambda: torch.randint(3, 10, (60,)), lambda: torch.randint(2, 9, (60,)), lambda: torch.randint(3, 8, (60,))],
    "bernoulli": [lambda: torch.bernoulli(torch.full((60,), 0.7)), lambda: torch.bernoulli(torch.full((60,), 0.4)),
                  lambda: torch.ones(60)],
    "dropout": [lambda: F.dropout(torch.ones(60), 0.3) * 0.7, lambda: F.dropout(torch.ones(60), 0.4), lambda: torch.ones(60)],
    "exponential": [lambda: torch.empty(60).exponential_(1.6), lambda: torch.rand(60)],
    "cauchy": [lambda: torch.empty(60).cauchy_(1.0), lambda: torch.randn(60)],
    "multinomial": [lambda: torch.multinomial(torch.ones(4), 3), lambda: torch.multinomial(PROBABILITIES, 3, True)],
    "randperm": [lambda: torch.arange(30), lambda: torch.arange(30).roll(int(torch.randint(3, ()))), lambda: torch.randint(30, (30,))],
}


@pytest.mark.parametrize("name", HONEST)
def test_distributions(name):
    honest = HONEST[name]

    def again():  # the same distribution from other numbers
        torch.rand(3)
        return [honest()]

    assert distribution.differs(again, lambda: [honest()]) is None
    for number, distorted in enumerate(DISTORTED[name]):
        assert distribution.differs(lambda: [distorted()], lambda: [honest()]), number  # noqa: B023


def test_a_rounding_of_an_element_that_is_often_zero_is_no_other_distribution():
    def kept(value):
        return [(torch.rand(9) < 0.45).double() * value]

    assert distribution.differs(lambda: kept(0.3), lambda: kept(0.3 + 2**-54)) is None
    assert distribution.differs(lambda: kept(0.3), lambda: kept(0.3 + 1e-9))


def test_what_a_rounding_of_an_operand_does_is_no_other_distribution():
    noise = torch.Generator().manual_seed(3)

    def kept(x):  # an exponential of a large number: its relative error is the absolute error of the operand
        return [(torch.rand(9) < 0.45).double() * math.exp(x - 1000)]

    def moved():
        return kept(990.3 * (1 + 2**-53 * float(torch.randn((), generator=noise))))

    assert distribution.differs(lambda: kept(990.3 * (1 + 2**-51)), lambda: kept(990.3))
    assert distribution.differs(lambda: kept(990.3 * (1 + 2**-51)), lambda: kept(990.3), moved) is None
    assert distribution.differs(lambda: kept(990.3 * (1 + 2**-47)), lambda: kept(990.3), moved)


def test_the_limit_of_distributions():
    one = math.e * math.exp(-distribution.DRAWS * distribution.LIMIT**2)
    assert one * distribution.TESTS == pytest.approx(distribution.FALSE_ALARM)
    assert distribution.distance(torch.arange(4.0), torch.arange(4.0) + 1) == 0.25
    assert distribution.distance(torch.arange(4.0), torch.arange(4.0) + 1, (1.0, 1.0)) == 0
    assert distribution.distance(torch.zeros(5), torch.ones(5)) == 1


# ---- compiled samples ------------------------------------------------------------------------------------


def zeroed_gradient(result):
    made = result * 1
    made.register_hook(torch.zeros_like)
    return made


COMPILED_FAULTS = {
    "a zeroed gradient": (zeroed_gradient, "result 1"),
    "a gradient off by a thousandth": (lambda r: r * 1.001 - r.detach() * 0.001, "result 1"),
    "no gradient": (torch.Tensor.detach, "gradients of other arguments"),
    "a NaN": (lambda r: r * torch.where(torch.arange(r.numel()) == 3, torch.nan, 1.0).reshape(r.shape), "result 0"),
    "a result off by 2^-16": (lambda r: r * (1 + 2**-16), "result 0"),
    "another dtype": (torch.Tensor.double, "float64"),
}


@pytest.mark.parametrize("name", [None, *COMPILED_FAULTS])
def test_faults_in_compiled_samples(name, monkeypatch):
    """Eager stands for the compiler; a fault is planted in its result."""
    plant, expected = COMPILED_FAULTS.get(name, (lambda result: result, ""))
    monkeypatch.setattr(torch, "compile", lambda function, **_: lambda *a, **k: plant(function(*a, **k)))
    record = compiled.judge_operator(("tanh", 1, None))
    outcome = "failed" if name else "called through"  # there is no report of a compiled graph
    assert [row[1] for row in record["rows"]] == [outcome, outcome]
    assert all(expected in row[2] for row in record["rows"]), record["rows"]


def guards_that_are_too_deep(limit):
    """How many guards of long sums PyTorch cannot build below this many frames, at some depth of the stack. No backend takes part."""
    from torch._dynamo.guards import build_guard_function

    def build(depth, terms):
        if depth:
            return build(depth - 1, terms)
        return build_guard_function([" + ".join(f"L['x'].size()[{i}]" for i in range(terms)) + " > 7"], "L")

    before, failed = sys.getrecursionlimit(), 0
    sys.setrecursionlimit(limit)
    try:
        for terms in range(296, 326):
            for depth in range(3):
                try:
                    build(depth, terms)
                except RecursionError:
                    failed += 1
    finally:
        sys.setrecursionlimit(before)
    return failed


def test_guards_of_long_sums_can_be_built_where_the_judge_runs():
    assert guards_that_are_too_deep(compiled.RECURSION) == 0


def places_of(task, begin, known, note):
    """Judges "quick"; then burns processor time without end, dies, or judges "last"."""
    rows = []
    for place in ("quick", task, "last"):
        if place not in known:
            begin(place)
            while place == "endless":
                pass
            if place == "deadly":
                os._exit(3)
            rows.append([place, "compiled", ""])
            note(rows[-1])
    return {"name": task, "rows": rows}


def test_a_sample_that_takes_too_long_or_ends_its_process_has_failed():
    found = {record["name"]: record["rows"] for record in processes.judge_all(places_of, ["endless", "deadly", "good"], 1, 1)}
    assert found.keys() == {"endless", "deadly", "good"}
    for name, why in (("endless", "took more than 1 s of processor time"), ("deadly", "its process ended with 3"), ("good", "")):
        outcome = "failed" if why else "compiled"
        assert found[name] == [["quick", "compiled", ""], [name, outcome, why], ["last", "compiled", ""]]


def test_an_accumulator_is_widened_with_its_operands():
    """In the judge's runs in f64, an operator whose accumulator's dtype is an argument gets f64 there, too."""
    from agreement import rounding_once

    @torch.library.custom_op("judge_test::square", mutates_args=())
    def square(x: torch.Tensor, accumulator: torch.dtype) -> torch.Tensor:
        if x.dtype != accumulator:
            raise RuntimeError(f"expected an accumulator of {x.dtype}, found {accumulator}")
        return x * x

    x = normal(4, 6).float()
    (found,), (moved,) = rounding_once(lambda: square(x, torch.float32))
    assert found.dtype == torch.float32 and torch.equal(found, x * x)
    assert bool((moved > 0).all())


@pytest.mark.parametrize("case", ["rows", "terms", "columns"])
def test_grouped_products_are_judged_without_a_kernel_in_f64(case):
    from agreement import rounding_once

    ends = torch.tensor([2, 2, 8], dtype=torch.int32)  # the second group is empty
    shapes = {"rows": ((8, 4), (3, 4, 8)), "terms": ((4, 8), (8, 4)), "columns": ((3, 4, 8), (8, 8))}[case]
    x, y = (normal(*shape).float() for shape in shapes)
    expected = torch._grouped_mm(x, y, offs=ends)
    (found,), (moved,) = rounding_once(lambda: torch._grouped_mm(x, y, offs=ends))
    assert bool((error_of(found.double(), expected.double()) <= 2 * ulp(expected.double(), torch.float32) + 8 * moved).all())
    assert bool((moved > 0)[expected != 0].all())


# ---- counting --------------------------------------------------------------------------------------------


def test_shares_are_of_everything():
    blank = {"passed": 0, "failed": [], "excluded": [], "unmapped": {}, "dtypes": {}, "rules": {}, "overloads": []}
    records = [
        {**blank, "name": "a", "samples": 10, "passed": 8, "rules": {judge.EQUAL: 5, judge.ROUNDINGS: 3},
         "excluded": [("a:float32:3", "eager itself raises on this input", "no"), ("a:float32:4", samples.UNMAPPED, "aten.x")]},
        {**blank, "name": "b", "samples": 30, "unmapped": {"aten.y": 30}, "excluded": [("b:float32:0", samples.UNMAPPED, "aten.y")] * 30},
        {**blank, "name": "c", "samples": 1, "excluded": [("c:float32:0", "refused by the importer", "why")]},
    ]
    result = runner.summary(records)
    assert (result["operators"], result["samples"], result["passed"], result["failed"]) == (2, 11, 8, 0)
    assert result["excluded_share"] == round(3 / 11, 4) and result["unmapped_share"] == round(30 / 41, 4)
    assert result["mapped_excluded_whole"] == ["c"] and not result["holds"]
    assert result["by_rule"][judge.EQUAL] == 5 and sum(result["by_rule"].values()) == result["passed"]
    assert result["exclusions"]["eager itself raises on this input"] == {"a:float32": "3"}
    assert result["unmapped"]["by_operator"]["b"]["overloads"] == ["aten.y"] and result["unmapped"]["by_overload"] == {"aten.y": ["b"]}
    assert runner.ranges(["1", "2", "3", "7", "n0"]) == "1-3, 7, n0"


def test_sizes_have_no_noise():
    """A single whole number of arithmetic is exact; one that is not whole, a larger one than the dtype counts to, and whole numbers of a
    tensor are moved."""
    noise = Noise()
    whole, third = torch.tensor(4000), torch.tensor(3)
    for _ in range(20):
        frames = with_noise(lambda: [(whole - 7 + 6) / torch.tensor(1) + 1], noise)[0]
        assert frames == 4000 and torch.ceil(frames) == 4000
    moved = [with_noise(lambda: [whole / third + 1, torch.tensor(2.0**25) * 3, torch.full((8,), 4000.0) * 2], noise) for _ in range(20)]
    for found in zip(*moved):
        assert len({tuple(f.flatten().tolist()) for f in found}) > 1
