# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modes and options: those of torch.compile and of Inductor that mean something here, random numbers of eager, compilations that fail or
take long."""

import threading

import pytest
import torch
import torch.nn.functional as F
import torch_mortise
from agreement import assert_same
from conftest import Small, check
from torch import nn
from torch_mortise import options as door_options
from torch_mortise.graph import CompiledGraph


def error_of(**arguments):
    with pytest.raises(Exception) as caught:
        torch.compile(lambda x: x + 1, backend="mortise", **arguments)(torch.ones(3))
    error = caught.value
    while error is not None and not isinstance(error, torch_mortise.MortiseError):
        error = error.__cause__ or getattr(error, "inner_exception", None)
    return error.message


def session(mode=None, **options):
    return dict(door_options.read(mode, options).session)


# ---- modes, Inductor's options -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode):
    model, x = Small().eval(), torch.randn(3, 8)
    for arguments in ({"mode": mode}, {"options": {"device": "cpu", "mode": mode}}):  # PyTorch takes one of both
        check(torch.compile(model, backend="mortise", **arguments), model, x, coverage=None)
    config = {entry["key"]: entry["value"] for entry in torch_mortise.describe(mode=mode)["config"]}
    assert config["mode"] == mode


@pytest.mark.parametrize("given, mode, expected", [
    ({"max_autotune": True}, None, "max-autotune-no-cudagraphs"),
    ({"triton.cudagraphs": True}, None, "reduce-overhead"),
    ({"max_autotune": True, "triton.cudagraphs": True}, None, "max-autotune"),
    ({"triton.cudagraphs": False}, "max-autotune", "max-autotune-no-cudagraphs"),
    ({"max_autotune": False}, None, "default"),
    ({"epilogue_fusion": True, "freezing": True}, None, None),
], ids=str)
def test_options_of_inductor_that_mean_the_same(given, mode, expected):
    assert session(mode, **given).get("mode") == expected


@pytest.mark.parametrize("name, value, words", [
    ("epilogue_fusion", False, "cpu.fuse_activations"),
    ("coordinate_descent_tuning", True, "max-autotune"),
    ("trace.enabled", True, "save_graphs"),
    ("max_autotune", "perhaps", "true or false"),
    ("fallback_randon", True, "fallback_random"),
    ("on_failure", "ignore", "raise or eager"),
    ("compile_timeout", "soon", "seconds"),
    ("compile_timeout", -1, "seconds"),
])
def test_options_that_do_not_exist_here(name, value, words):
    message = error_of(options={name: value})
    assert name in message and words in message


def test_every_name_of_inductors_is_one_that_inductor_has():
    import torch._inductor as inductor

    known = set(inductor.list_options())
    assert {*door_options.INDUCTORS_MODES, *door_options.INDUCTORS_HABITS, *door_options.INSTEAD_OF_INDUCTORS} <= known


def test_deterministic_algorithms(compile_for):
    """PyTorch's switch reaches the plugins, and a graph that was compiled without it is not used with it."""
    def f(x, index, source):
        return x.index_add(0, index, source).relu()

    arguments = torch.randn(5, 4), torch.tensor([0, 0, 3]), torch.randn(3, 4)
    compiled = compile_for(f)
    check(compiled, f, *arguments)
    torch.use_deterministic_algorithms(True)
    try:
        assert session()["deterministic"] == "true" and session(deterministic=False)["deterministic"] == "false"
        check(compiled, f, *arguments)
        assert len(torch_mortise.last_report()["graphs"]) == 2
    finally:
        torch.use_deterministic_algorithms(False)
    assert "deterministic" not in session()


# ---- random numbers of eager -------------------------------------------------------------------------


class Dropping(Small):
    def forward(self, x):
        noisy = super().forward(F.dropout(x, 0.3)) + torch.rand_like(x)
        return F.dropout(noisy * torch.randn(x.shape), 0.5) + torch.randint(5, x.shape)


@pytest.mark.parametrize("dynamic", [False, True])
def test_random_numbers_of_eager(compile_for, dynamic):
    model, x = Dropping(), torch.randn(6, 8)
    compiled, found = compile_for(model, dynamic=dynamic, fallback_random=True), []
    for run in (model, compiled, compiled):
        torch.manual_seed(7)
        found.append([*torch.autograd.grad(run(x).square().sum(), list(model.parameters())), torch.rand(3)])
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
    report = torch_mortise.last_report()
    assert 0.5 < report["coverage"] < 1
    assert all("fallback_random" in e["reason"] for graph in report["graphs"] for e in graph["eager"])


def test_eager_draws_in_the_order_of_the_graph(compile_for):
    """The second draw waits for a program, and the third for nothing."""
    def f(x):
        return torch.rand(3), torch.bernoulli((x @ x).sigmoid()), torch.rand(4), torch.randperm(5)

    x, results = torch.randn(4, 4), []
    for run in (f, compile_for(f, fallback_random=True)):
        torch.manual_seed(3)
        with torch.no_grad():
            results.append(list(run(x)))
    assert_same(results[1], results[0])


# ---- compilations that fail, or take long ------------------------------------------------------------


class Stuck:
    """A compilation that waits for `go`, and fails if `error` is set."""

    def __init__(self, monkeypatch, error=None):
        self.go, self.error, prepare = threading.Event(), error, CompiledGraph.prepare

        def waiting(graph):
            if not any(graph.reasons.values()):
                assert self.go.wait(60)
                if self.error:
                    raise self.error
            return prepare(graph)

        monkeypatch.setattr(CompiledGraph, "prepare", waiting)


def settled():
    """Waits for the compilations that are under way."""
    from torch_mortise import threads

    threads.compiler().submit(int).result(60)


class Counting(Small):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x):
        self.count.add_(x.sum(0))
        return super().forward(x) + self.count, x.t()


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_first_call_is_answered_at_once(compile_for, monkeypatch, dynamic):
    stuck = Stuck(monkeypatch)
    model = Counting().eval()
    twin = Counting().eval()
    twin.load_state_dict(model.state_dict())
    compiled = compile_for(model, dynamic=dynamic, compile_timeout=0, on_failure="eager")
    with torch.no_grad():
        for number in range(6):
            if number == 3:
                (graph,) = torch_mortise.last_report()["graphs"]
                assert graph["pending"] and not graph["programs"]
                stuck.go.set()
                settled()
            x = torch.randn(3 + number * dynamic, 8)
            assert_same(list(compiled(x)), list(twin(x)))
            assert_same(model.count, twin.count)
    (graph,) = torch_mortise.last_report()["graphs"]
    assert not graph["pending"] and len(graph["programs"]) == 1 and graph["coverage"] == 1.0 and graph["binds"] >= 1


def test_training_while_it_is_compiled(compile_for):
    model, x = Small(), torch.randn(4, 8)
    compiled = compile_for(model, compile_timeout=0, on_failure="eager")
    for _ in range(3):
        found, wanted = [torch.autograd.grad(run(x).square().mean(0)[3], list(model.parameters())) for run in (compiled, model)]
        assert_same(list(found), list(wanted))
        settled()
    assert [graph["coverage"] for graph in torch_mortise.last_report()["graphs"]] == [1.0, 1.0]


def test_a_compilation_that_takes_too_long_is_an_error(compile_for, monkeypatch):
    stuck = Stuck(monkeypatch)
    try:
        with pytest.raises(Exception, match="compile_timeout = 0.05 s; allow it more"):
            compile_for(lambda x: x.exp() + 1, compile_timeout=0.05)(torch.ones(3))
    finally:
        stuck.go.set()
        settled()


@pytest.mark.parametrize("timeout", [None, 0, 30])
def test_a_compilation_that_fails(compile_for, monkeypatch, caplog, timeout):
    options = {} if timeout is None else {"compile_timeout": timeout}
    stuck = Stuck(monkeypatch, KeyError("planted"))
    stuck.go.set()
    f, x = lambda x: x.exp() + 1, torch.randn(3)  # noqa: E731
    with caplog.at_level("WARNING", "torch_mortise"):
        for _ in range(2):
            assert_same(compile_for(f, on_failure="eager", **options)(x), f(x))
            settled()
        compiled = compile_for(f, on_failure="eager", **options)
        assert_same(compiled(x), f(x))
    for graph in torch_mortise.last_report()["graphs"]:
        assert graph["coverage"] == 0 and "the compilation failed: KeyError: 'planted'" in graph["notes"][-1]
    assert any("planted" in record.getMessage() for record in caplog.records)
    torch._dynamo.reset()
    if timeout != 0:
        with pytest.raises(Exception, match="planted"):
            compile_for(f, **options)(x)


def test_a_failure_of_the_compiler(compile_for, monkeypatch):
    from torch_mortise import _library, errors

    class Failing:
        def __init__(self, *arguments):
            self.inner = builder(*arguments)

        def compile(self, _):
            raise errors.MortiseError(errors.INTERNAL, "planted")

        def __getattr__(self, name):
            return getattr(self.inner, name)

    native, f, x = _library.native(), lambda x: x.exp() + 1, torch.randn(3)
    builder = native.Builder
    monkeypatch.setattr(native, "Builder", Failing)
    with torch.no_grad():
        assert_same(compile_for(f, on_failure="eager")(x), f(x))
        (graph,) = torch_mortise.last_report()["graphs"]
        assert graph["eager"] and all("planted" in e["reason"] for e in graph["eager"])
        torch._dynamo.reset()
        with pytest.raises(Exception, match="planted"):
            compile_for(f)(x)
        torch._dynamo.reset()
        with pytest.raises(Exception, match="planted"):
            compile_for(f, on_failure="eager", require="100% on cpu")(x)


def test_modules_keep_their_training_mode():
    """A compiled module that is switched to evaluation draws no masks."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    compiled, x = torch.compile(model, backend="mortise", options={"device": "cpu"}), torch.randn(3, 8)
    compiled.train()
    with torch.no_grad():
        assert (compiled(x) == 0).any()
        compiled.eval()
        assert_same(compiled(x), model.eval()(x))
