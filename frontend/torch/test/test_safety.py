# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What goes wrong ends in eager's answer or in an error: `verify`, indices out of range, memory that was given back, weights written
unseen, faults of the importer; kernels and graphs from files. `./dev figure door-faults` has more, a process each."""

import gc
import importlib
import inspect
import logging
import math
import random

import pytest
import torch
import torch_mortise
from conftest import Small
from torch import nn
from torch_mortise import verify
from torch_mortise.importer import HANDLERS
from torch_mortise.importer.core import Value

OPTIONS = {"device": "cpu"}


def compiled(model, **options):
    return torch.compile(model, backend="mortise", options=OPTIONS | options)


def notes():
    return [note for graph in torch_mortise.last_report()["graphs"] for note in graph["notes"]]


def eager():
    return {entry["op"]: entry["reason"] for graph in torch_mortise.last_report()["graphs"] for entry in graph["eager"]}


# ---- verify ---------------------------------------------------------------------------------------------------


@pytest.fixture
def wrong_tanh(monkeypatch):
    """tanh is imported as sin."""
    monkeypatch.setitem(HANDLERS, torch.ops.aten.tanh.default, lambda e, x: e.op("sin", x))


def model(x):
    return torch.tanh(x) * 2


@pytest.mark.parametrize("share", ["first", 1.0])
def test_a_wrong_graph_is_rolled_back(share, wrong_tanh):
    x = torch.randn(7, 5)
    assert not torch.allclose(compiled(model)(x), model(x), atol=1e-2)
    torch._dynamo.reset()
    torch_mortise.reset()
    call = compiled(model, verify=share)
    for _ in range(3):
        assert torch.equal(call(x), model(x))
    (note,) = notes()
    assert "verify found a wrong result: result 0 differs from eager's by" in note
    assert "verify" in eager()["aten.tanh.default"]


def test_a_wrong_state_is_rolled_back(wrong_tanh):
    def update(x, state):
        state.add_(torch.tanh(x))
        return state * 2

    call, x = compiled(update, verify="first"), torch.randn(5)
    first, second = torch.ones(5), torch.ones(5)
    for _ in range(2):
        assert torch.equal(call(x, first), update(x, second)) and torch.equal(first, second)
    assert notes()


def test_gradients_are_verified(wrong_tanh):
    call = compiled(model, verify="first")
    x = torch.randn(5, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    call(x).sum().backward()
    model(y).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("share", ["first", 0.5, "1"])
def test_right_graphs_stay(share):
    network, x = Small().eval(), torch.randn(3, 8)
    call = compiled(network, verify=share)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(call(x), network(x))
    assert notes() == [] and torch_mortise.last_report()["coverage"] == 1.0


@pytest.mark.parametrize("draw", [lambda x: torch.nn.functional.dropout(x, 0.5), lambda x: (x.exp() + 1).multinomial(3) + 1])
def test_random_graphs_are_left_out(draw):
    call = compiled(draw, verify="first")
    call(torch.randn(100))
    assert any("random numbers" in note for note in notes())


def attend(x, q, rate=0.0):
    """Beside what may be wrong, attention, which PyTorch tags as an operator that draws."""
    return torch.tanh(x) * 2, torch.nn.functional.scaled_dot_product_attention(q, q + 1, q, dropout_p=rate)


@pytest.mark.parametrize("is_handled", [True, False])
def test_a_wrong_graph_with_attention_is_rolled_back(is_handled, wrong_tanh, monkeypatch):
    if not is_handled:
        monkeypatch.delitem(HANDLERS, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
    x, q = torch.randn(7, 5), torch.randn(1, 2, 6, 8)
    for found, expected in zip(compiled(attend, verify="first")(x, q), attend(x, q), strict=True):
        assert torch.equal(found, expected)
    assert "verify found a wrong result: result 0 differs from eager's by" in notes()[0]


def test_gradients_through_attention_are_verified(wrong_tanh):
    def step(function):
        x, q = (torch.linspace(-2, 2, size.numel()).view(size).requires_grad_() for size in (torch.Size([7, 5]), torch.Size([1, 2, 6, 8])))
        sum(result.square().sum() for result in function(x, q)).backward()
        return x.grad, q.grad

    torch.testing.assert_close(step(compiled(attend, verify="first")), step(attend))
    assert "verify found a wrong result" in notes()[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_handled", [True, False])
def test_right_graphs_with_attention_stay(dtype, is_handled, monkeypatch):
    if not is_handled:
        monkeypatch.delitem(HANDLERS, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
    q = torch.randn(1, 2, 6, 8, dtype=dtype, requires_grad=True)
    for result in compiled(attend, verify="first")(q, q):
        result.sum().backward(retain_graph=True)
    assert notes() == []


def test_attention_with_dropout_is_left_out():
    compiled(attend, verify="first")(torch.randn(5), torch.randn(1, 2, 6, 8), 0.5)
    assert any("random numbers" in note for note in notes())


def test_what_attention_in_eager_leaves_to_its_backward_operator_is_not_compared():
    """On GPUs it has keys of random numbers, which are not set without dropout; here its second result is another one in each call."""
    made, calls = torch.library.Library("mortise_test", "FRAGMENT"), []
    made.define("attention(Tensor x, float dropout_p=0.0) -> (Tensor, Tensor)", tags=(torch.Tag.nondeterministic_seeded,))

    def attention(x, dropout_p=0.0):
        calls.append(x)
        return x * 2, torch.full_like(x, len(calls))

    made.impl("attention", attention, "CPU")
    torch.library.register_fake("mortise_test::attention", lambda x, dropout_p=0.0: (torch.empty_like(x), torch.empty_like(x)), lib=made)
    compiled(lambda x: torch.ops.mortise_test.attention(x.exp()), verify="first")(torch.randn(5))
    assert len(calls) == 2 and notes() == []


def test_gradients_that_are_0_but_for_roundings_are_right():
    """That of the keys' bias, which adds the same to all scores of a query."""
    keys, x = nn.Linear(32, 32), torch.randn(2, 9, 32)

    def step(x):
        heads = [y.view(2, 9, 4, 8).transpose(1, 2) for y in (x, keys(x), x)]
        return nn.functional.scaled_dot_product_attention(*heads)

    compiled(step, verify="first")(x).square().sum().backward()
    assert keys.bias.grad.abs().max() < 1e-4 and notes() == []


def test_roundings_explain_no_faults(wrong_tanh):
    """Not even beside a result that consists of roundings alone."""
    def cancel(x):
        return (x.exp() + 1).log().softmax(-1).sum(-1) - 1, torch.tanh(x)

    x = torch.randn(40, 70)
    for found, expected in zip(compiled(cancel, verify="first")(x), cancel(x), strict=True):
        assert torch.equal(found, expected)
    assert "result 1 differs" in notes()[0]


@pytest.mark.parametrize(("branch", "draws"), [(lambda x: torch.nn.functional.dropout(x, 0.5), True), (torch.sin, False)])
def test_branches_that_draw_leave_their_graph_out(branch, draws):
    call = compiled(lambda x: torch.cond(x.sum() > 0, branch, torch.cos, (x.exp(),)), verify="first")
    found = call(torch.ones(100))
    assert 20 < (found == 0).sum() < 80 if draws else (found != 0).all()
    assert any("random numbers" in note for note in notes()) == draws
    assert not any("rolled back" in note for note in notes())


def test_choosing_calls_leaves_the_programs_random_numbers_alone():
    random.seed(3)
    expected = random.random()
    random.seed(3)
    call = compiled(lambda x: x.tanh(), verify="0.5")
    for _ in range(5):
        call(torch.randn(4))
    assert random.random() == expected


@pytest.mark.parametrize("value", ["sometimes", "2", "-0.1", "nan"])
def test_values_of_verify(value):
    with pytest.raises(torch_mortise.MortiseError, match="expected off, first or a number from 0 to 1"):
        verify.share(value)


@pytest.mark.parametrize("found, words", [
    (torch.tensor([1.0, float("nan")]), "NaN or infinities in 1 places"), (torch.zeros(2), "differs from eager's by 2"),
    (torch.zeros(3), "eager's is"), (torch.zeros(2, dtype=torch.float64), "eager's is"), (torch.tensor([1.0, float("inf")]), "NaN or inf")])
def test_differences(found, words):
    assert words in verify.difference("result 0", found, torch.tensor([1.0, 2.0]))
    assert verify.difference("result 0", torch.tensor([1.0, 2.0 + 1e-6]), torch.tensor([1.0, 2.0])) == ""
    assert verify.difference("result 0", torch.tensor([1, 3]), torch.tensor([1, 2]))


@pytest.mark.parametrize("moved, found, explained", [(1.1, 1.3, True), (1.1, 1.5, False), (1.0, 1.1, False), (math.inf, math.inf, False),
                                                     (math.nan, math.nan, False), (math.inf, 1.1, True)])
def test_what_roundings_explain(moved, found, explained):
    assert verify.explains(*(torch.tensor([2.0, number]) for number in (moved, found, 1.0))) == explained


# ---- arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function, least, end", [
    (lambda table, i: torch.nn.functional.embedding(i, table), 0, 6), (lambda table, i: table.index_select(0, i.view(-1)), 0, 6),
    (lambda table, i: table[i], -6, 6), (lambda table, i: table.gather(0, i.view(-1, 1)), 0, 6)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_indices_out_of_range_are_errors(function, least, end, dtype):
    table, call = torch.randn(6, 3), compiled(function)
    try:
        function(table, torch.zeros(4, dtype=dtype))
    except RuntimeError:
        pytest.skip("eager wants other indices")
    good = torch.tensor([least, 0, 3, end - 1], dtype=dtype)
    for _ in range(2):
        assert torch.equal(call(table, good), function(table, good))
        for bad in (least - 1, end, 2**31 - 1):
            with pytest.raises((IndexError, RuntimeError)):
                function(table, torch.tensor([0, 1, bad, 2], dtype=dtype))
            with pytest.raises(IndexError, match=f"expected indices from {least} to {end - 1}, found {bad}"):
                call(table, torch.tensor([0, 1, bad, 2], dtype=dtype))


def test_indices_of_another_use_are_free():
    call = compiled(lambda table, i: torch.nn.functional.embedding(i.clamp(0, 5), table) * i[:, None])
    table, i = torch.randn(6, 3), torch.tensor([-7, 9, 100])
    assert torch.equal(call(table, i), table[i.clamp(0, 5)] * i[:, None])


def test_memory_that_was_given_back():
    network, x = Small().eval(), torch.randn(3, 8)
    call = compiled(network)
    weight = network.first.weight
    with torch.no_grad():
        expected = call(x)
        for tensor in (x, weight):
            kept = tensor.detach().clone()
            tensor.untyped_storage().resize_(0)
            with pytest.raises(torch_mortise.MortiseError, match="whose memory was given back"):
                call(x)
            tensor.untyped_storage().resize_(kept.nbytes)
            tensor.data.copy_(kept)
            torch.testing.assert_close(call(x), expected)


@pytest.mark.parametrize("write", [lambda w: w.mul_(2), lambda w: w.copy_(torch.randn_like(w)), lambda w: w.zero_(), lambda w: w.add_(1)])
def test_weights_that_are_written_as_a_whole_through_data(write):
    network, x = Small().eval(), torch.randn(3, 8)
    call = compiled(network)
    with torch.no_grad():
        call(x)
        write(network.first.weight.data)
        torch.testing.assert_close(call(x), network(x))


# ---- our own faults -------------------------------------------------------------------------------------------


def test_a_handler_that_raises_costs_no_result(monkeypatch, caplog):
    def broken(e, x: Value):
        raise KeyError("planted")

    monkeypatch.setitem(HANDLERS, torch.ops.aten.tanh.default, broken)
    x = torch.randn(5)
    with caplog.at_level(logging.ERROR, "torch_mortise"):
        assert torch.equal(compiled(model)(x), model(x))
    assert "its import raised KeyError: 'planted'" in eager()["aten.tanh.default"] and "please report" in caplog.text


def test_kernels_are_found_whatever_was_compiled_before(tmp_path):
    network, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).eval(), torch.randn(3, 8)
    cache = {"kernel_cache": str(tmp_path / "kernels")}
    states = []
    with torch.no_grad():
        for _ in range(2):
            compiled(network, **cache)(x)
            programs = [program for graph in torch_mortise.last_report()["graphs"] for program in graph["programs"]]
            states.append([part["kernel_cache"] for program in programs for part in program["placement"]])
            torch._dynamo.reset()
            torch_mortise.reset()
    assert states == [["there is no entry"], ["hit"]]


def test_artifacts_of_pytorchs_caches_have_the_kernels(tmp_path, monkeypatch):
    """Bytes of torch.compiler.save_cache_artifacts fill an empty kernel cache, so that a compilation finds its kernels."""
    from torch_mortise import caches

    here, there = tmp_path / "here", tmp_path / "there"
    monkeypatch.setattr(caches, "folder", lambda options=(), real=caches.folder: real(options) if options else str(there))
    network, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).eval(), torch.randn(3, 8)

    def states(path):
        torch._dynamo.reset()
        torch_mortise.reset()
        with torch.no_grad():
            torch.testing.assert_close(compiled(network, kernel_cache=str(path))(x), network(x))
        return [part["kernel_cache"] for graph in torch_mortise.last_report()["graphs"] for part in graph["program"]["placement"]]

    assert states(here) == ["there is no entry"]
    saved, info = torch.compiler.save_cache_artifacts()
    assert info.mortise_artifacts and saved.count(b".kernel") >= len(list(here.iterdir())) > 0
    assert torch.compiler.load_cache_artifacts(saved).mortise_artifacts
    assert sorted(f.name for f in there.iterdir()) >= sorted(f.name for f in here.iterdir())
    assert states(there) == ["hit"]


def test_many_compilations_leave_nothing_behind(monkeypatch):
    """Neither calls that wrap calls, nor graphs: processes that live long compile thousands."""
    region, graph = (importlib.import_module(f"torch_mortise.{name}") for name in ("region", "graph"))
    depths, made = [], graph.CompiledGraph.__init__

    def counted(*arguments):
        depths.append(len(inspect.stack(0)))
        return made(*arguments)

    monkeypatch.setattr(graph.CompiledGraph, "__init__", counted)
    alive = []
    for number in range(10):
        torch._dynamo.reset()
        x = torch.randn(3 + number % 3, 4, requires_grad=True)
        torch.compile(lambda v: v.relu() + 1, backend="mortise", dynamic=True, options=dict(OPTIONS))(x).sum().backward()
        if number in (1, 9):
            gc.collect()
            alive.append(len(region.regions))
    assert len(depths) == 20 and set(depths[2:4]) == set(depths[-2:])
    assert alive[1] <= alive[0]


# ---- graphs in files ------------------------------------------------------------------------------------------


def run(module, x):
    return module(x)


def saved(network, x, path):
    with torch._dynamo.config.patch(enable_aot_compile=True):  # PyTorch 2.11's default is False
        function = torch.compile(run, fullgraph=True, backend="mortise", options=dict(OPTIONS)).aot_compile(((network, x), {}))
    function.save_compiled_function(str(path))
    with open(path, "rb") as file:
        return torch.compiler.load_compiled_function(file)


def test_a_saved_graph_gives_eagers_results(tmp_path):
    network, x = Small().eval(), torch.randn(3, 8)
    with torch.no_grad():
        loaded = saved(network, x, tmp_path / "graph")
        torch._dynamo.utils.counters.clear()
        for _ in range(2):
            torch.testing.assert_close(loaded(network, x), network(x))
            network.first.weight.mul_(2)
        assert not torch._dynamo.utils.counters["stats"]["unique_graphs"]
        with pytest.raises(RuntimeError, match="GuardManager check failed"):
            loaded(network, x.double())


def test_a_saved_graph_with_operators_in_eager(tmp_path):
    network = nn.Sequential(nn.Linear(8, 8), Bessel(), nn.Linear(8, 8)).eval()
    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(saved(network, x, tmp_path / "graph")(network, x), network(x))


class Bessel(nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


def test_graphs_of_training_cannot_be_saved(tmp_path):
    with pytest.raises(torch_mortise.MortiseError, match=r"torch.no_grad\(\)"):
        saved(Small(), torch.randn(3, 8), tmp_path / "graph")
