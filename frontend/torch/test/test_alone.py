# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inference graphs that Dynamo calls without AOTAutograd's runtime wrapper (dynamo.stands_alone), and graphs that need the wrapper."""

import importlib

import pytest
import torch
import torch_mortise.graph
from agreement import assert_same

aten = torch.ops.aten
dynamo = importlib.import_module("torch_mortise.dynamo")


@pytest.fixture
def decisions(monkeypatch):
    """Whether each graph compiled so far stands alone."""
    found, decide = [], dynamo.stands_alone

    def stands_alone(*arguments):
        found.append(decide(*arguments))
        return found[-1]

    monkeypatch.setattr(dynamo, "stands_alone", stands_alone)
    return found


def plain(x):
    return x * 2, x.sum(0)


def in_place(x):
    x.mul_(2)
    return x + 1


def alias_of_argument(x):
    return x[1:], x + 1


def alias_of_result(x):
    y = x + 1
    return y, y[1:]


def transposed_in_place(x):
    x.t_()
    return x + 1


def two_views(a, b):
    a.mul_(2)
    return a + 1, b + 1


def eager_piece(x):
    with torch.no_grad():
        return torch.special.bessel_j0(x) * 2


def no_result(x):
    x.add_(1)


FUNCTIONS = {
    plain: True,
    in_place: True,
    no_result: True,
    eager_piece: True,
    alias_of_result: True,
    transposed_in_place: True,  # Dynamo transposes the argument itself
    alias_of_argument: False,
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_same_as_eager(compile_for, decisions, function, grad):
    compiled = compile_for(function)
    base = torch.randn(3, 4)
    for _ in range(3):  # cold, and twice warm
        mine, theirs = base.clone(), base.clone()
        with torch.set_grad_enabled(grad):
            version = mine._version
            found, expected = compiled(mine), function(theirs)
            assert torch.is_grad_enabled() == grad
        assert_same([] if found is None else found, [] if expected is None else expected)
        assert (mine.shape, mine.stride()) == (theirs.shape, theirs.stride()) and torch.equal(mine, theirs)
        assert (mine._version > version) == (theirs._version > version)
    assert decisions == [FUNCTIONS[function]]


def test_results_of_weights_without_grad(compile_for, decisions):
    """Autograd is off inside the graph alone, and an operator on a weight that requires a gradient runs in eager."""
    weight = torch.nn.Parameter(torch.randn(3, 4))

    def function(x):
        with torch.no_grad():
            return torch.polygamma(1, weight), x * weight

    x = torch.randn(3, 4)
    compiled = compile_for(function)
    for _ in range(3):
        results = compiled(x)
        assert not any(result.requires_grad for result in results) and torch.is_grad_enabled()
        assert_same(results, function(x))
    assert decisions == [True]


def test_eager_pieces_run_without_autocast(compile_for, decisions, monkeypatch):
    """AOTAutograd writes the casts into the graph. An operator that casts again would round to bf16 here."""
    monkeypatch.delitem(torch_mortise.graph.HANDLERS, aten.mm.default)

    def function(x, y):
        with torch.autocast("cpu", enabled=False):
            return x @ y

    x, y = torch.randn(16, 16), torch.randn(16, 16)
    compiled = compile_for(function)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            assert_same([compiled(x, y)], [function(x, y)])
            assert torch.is_autocast_enabled("cpu")
    assert decisions == [True]
    assert [str(entry["op"]) for entry in torch_mortise.last_report()["graphs"][0]["eager"]] == ["aten.mm.default"]


def test_arguments_that_share_memory(compile_for, decisions):
    """Compiled for views of one tensor, where AOTAutograd passes the tensor itself, and for one tensor passed twice."""
    compiled = compile_for(two_views)
    for pick in (lambda x: (x[:2], x[1:]), lambda x: (x, x)):
        base = torch.randn(3, 4)
        mine, theirs = base.clone(), base.clone()
        with torch.no_grad():
            found, expected = compiled(*pick(mine)), two_views(*pick(theirs))
        assert torch.equal(mine, theirs)
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)
    assert decisions == [False, True]  # Dynamo has one argument where one tensor is passed twice


def test_symbols_are_arguments(compile_for, decisions):
    compiled = compile_for(lambda x, n: x.sum() * n, dynamic=True)
    with torch.no_grad():
        for rows, n in ((3, 2), (5, 7), (4, 9)):
            x = torch.ones(rows, 2)
            assert compiled(x, n).item() == 2 * rows * n
    assert decisions == [True]


def test_a_graph_of_one_argument_and_of_none(compile_for, decisions):
    x = torch.randn(3)
    with torch.no_grad():
        assert torch.equal(compile_for(lambda: torch.ones(3) * 2)(), torch.full((3,), 2.0))
        assert torch.equal(compile_for(lambda x: -x)(x), -x)
    assert decisions == [True, True]


def test_subclasses_keep_the_wrapper(compile_for, decisions):
    from torch.testing._internal.two_tensor import TwoTensor

    x, y = torch.randn(3), torch.randn(3)
    with torch.no_grad():
        result = compile_for(lambda t: t * 2)(TwoTensor(x, y))
    assert isinstance(result, TwoTensor) and torch.equal(result.a, x * 2) and torch.equal(result.b, y * 2)
    assert decisions == [False]
