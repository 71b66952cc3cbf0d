# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The promises of torch.compile(backend="mortise"): strides, dynamic shapes, eager beside programs, errors, threads."""

import copy
import gc
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
import torch_mortise
import torch_mortise.region
from agreement import assert_same
from conftest import Small, check
from torch import nn
from torch_mortise.graph import HANDLERS


# ---- results -------------------------------------------------------------------------------------


def test_strides_equal_eager(compile_for):
    def f(x):
        y = x + 1
        return y.t(), y, y[:, ::2], y[0].expand(3, 6), x[1:], x.t(), y.permute(1, 0)[2], (y * 2).t().contiguous()

    x = torch.randn(4, 6)
    compiled = compile_for(f)
    check(compiled, f, x)
    with torch.no_grad():
        results = compiled(x)
    assert results[4].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()  # it is a view, as in eager


def test_channels_last(compile_for):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval()
    x = torch.randn(2, 3, 9, 9)
    check(compile_for(model), model, x.to(memory_format=torch.channels_last), strides=False)


def test_inputs_that_are_not_dense(compile_for):
    def f(x, y):
        return x @ y

    base = torch.randn(12, 10)
    check(compile_for(f), f, base[::2, 1:6], base[3:8, ::3])
    check(compile_for(f), f, base.t()[:4, :5], base.t()[2:7, 3:5])


# ---- dynamic shapes ----------------------------------------------------------------------------------


def test_one_program_serves_all_shapes(compile_for):
    model = Small().eval()
    compiled = compile_for(model, dynamic=True)
    torch._dynamo.utils.counters.clear()
    for n in (3, 7, 2, 7, 31):
        check(compiled, model, torch.randn(n, 5, 8))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 1
    (graph,) = torch_mortise.last_report()["graphs"]
    assert len(graph["programs"]) == 1 and not graph["notes"]
    assert set(graph["symbols"].values()) == {"0.."}


def test_symbols_that_a_graph_has_twice(compile_for):
    def f(x, y):
        return x @ y.transpose(0, 1), torch.cat([x, y])

    compiled = compile_for(f, dynamic=True)
    for n, m in ((3, 4), (5, 5), (4, 2)):
        check(compiled, f, torch.randn(n, m), torch.randn(n, m))
    assert all(not g["notes"] for g in torch_mortise.last_report()["graphs"])


def test_symbolic_sizes_in_the_graph(compile_for):
    def f(x):
        n, m = x.shape
        positions = torch.arange(m, device=x.device)
        mask = positions[None] <= torch.arange(n)[:, None]
        return torch.where(mask, x, 0).reshape(m, n) * m, x.new_ones(n + 1, 2 * m), x[n // 2 :], x.mean() / n

    compiled = compile_for(f, dynamic=True)
    for shape in ((4, 6), (6, 4), (9, 5)):
        check(compiled, f, torch.randn(shape))


def test_offsets_and_strides_of_inputs_do_not_specialise(compile_for):
    def f(x):
        return x * 2

    compiled, base = compile_for(f, dynamic=True), torch.randn(4, 40)
    for start in range(0, 30, 5):
        check(compiled, f, base[:, start : start + 5], strides=False)
        check(compiled, f, base[:1, start : start + 1], strides=False)
    assert len(torch_mortise.last_report()["graphs"]) <= 3


def test_specialisations_are_limited(compile_for):
    def f(x):  # the trace has the guard that n * m is even, but neither n nor m has a divisor
        return x.reshape(-1, 2).sum(0)

    compiled = compile_for(f, dynamic=True, specialize_limit=2)
    for n in (4, 6, 8, 4):
        check(compiled, f, torch.randn(n, 5))
    graphs = torch_mortise.last_report()["graphs"]
    assert len(graphs) == 2 and any("specialize_limit = 2" in n for n in graphs[0]["notes"])
    assert any("compiled for each shape, not for all" in n for n in graphs[0]["notes"])


# ---- eager beside programs -----------------------------------------------------------------------------


def test_unsupported_operators_run_in_eager_with_a_reason(compile_for):
    def f(x):
        y = torch.special.bessel_j0(x.exp() + 10 * torch.eye(4))
        return y @ x + 1, x.relu() * 2

    report = check(compile_for(f), f, torch.randn(4, 4), coverage=None, strides=False)
    eager = {e["op"]: e["reason"] for g in report["graphs"] for e in g["eager"]}
    assert any("bessel" in op for op in eager) and all(eager.values()) and 0 < report["coverage"] < 1
    assert report["placement"]["eager"] == len([e for g in report["graphs"] for e in g["eager"]])


def test_eager_piece_with_state_and_weights(compile_for):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            self.seen.add_(x.sum(0))
            return self.linear(torch.special.bessel_j0(x.T @ x + torch.eye(4)).relu()) + self.seen

    model = Model().eval()
    twin, compiled = copy.deepcopy(model), compile_for(model)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(3, 4)
            assert_same(compiled(x), twin(x))
    assert_same(model.seen, twin.seen)


@pytest.mark.parametrize("view", ["in the program", "in eager"])
def test_eager_reads_a_view_of_state_that_is_updated(compile_for, view):
    """The operator that reads the view runs behind the program that computes the buffer's new value."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.rand(4, 4) + 2)

        def forward(self, x):
            in_eager = torch.special.bessel_j0(x)
            if view == "in eager":
                powers = torch.pow(torch.view_as_complex(self.seen.view(4, 2, 2)), in_eager.exp()[:, :2])
                result = torch.view_as_real(powers)
            else:
                result = torch.special.zeta(self.seen.T, in_eager.exp())
            self.seen.add_(in_eager.exp())
            return result

    model = Model()
    twin, compiled = copy.deepcopy(model), compile_for(model)
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(4, 4)
            assert_same(compiled(x), twin(x))
    assert_same(model.seen, twin.seen)


def test_attribute_that_no_handler_takes(compile_for):
    def f(x):
        return torch.linalg.inv(x) + 1  # unrolled only for small matrices

    report = check(compile_for(f), f, torch.randn(20, 20) + 20 * torch.eye(20), coverage=None, strides=False)
    assert report["graphs"][0]["eager"][0]["reason"]


def test_what_no_device_takes_runs_in_eager_alone(compile_for, device):
    def f(x, w):
        return F.conv2d(x * 2, w).relu() + 1

    x, w = torch.randn(1, 3, 8, 8).double(), torch.randn(3, 3, 3, 3).double()
    report = check(compile_for(f), f, x, w, coverage=None)
    eager = report["graphs"][0]["eager"]
    if device == "reference":
        assert not eager
    else:  # a device that lacks this convolution refuses only this node
        assert [e["op"] for e in eager] in ([], ["aten.convolution.default"])


def test_requirement_counts_eager(device):
    def f(x):
        return torch.special.bessel_j0(x) + 1

    compiled = torch.compile(f, backend="mortise", options={"device": device, "require": f"90% on {device}"})
    with pytest.raises(Exception, match="required 90% on .*bessel"):
        with torch.no_grad():
            compiled(torch.eye(4))


def test_complex_runs_in_eager(compile_for):
    def f(x):
        return torch.fft.rfft(x * 2).abs() + 1

    report = check(compile_for(f), f, torch.randn(3, 8), coverage=None)
    assert any("complex" in e["reason"] or "handler" in e["reason"] for e in report["graphs"][0]["eager"])


def fallback_lines(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "torch_mortise" and "runs in eager" in r.getMessage()]


def test_each_fallback_is_logged_once(compile_for, caplog):
    def f(x):
        return torch.special.bessel_j0(x + 1) * 2

    compiled = compile_for(f)
    with torch.no_grad(), caplog.at_level("WARNING", "torch_mortise"):
        for rows in (3, 3, 4, 4):  # the second shape is another graph from the same line of code
            compiled(torch.ones(rows, 4))
        (line,) = fallback_lines(caplog)
        for part in ("aten.special_bessel_j0.default", "test_door.py:", "no handler for this operator"):
            assert part in line
        assert "nothing in this graph" not in line
        torch_mortise.reset()
        torch._dynamo.reset()
        compiled(torch.ones(3, 4))
        assert len(fallback_lines(caplog)) == 2
    (entry,) = torch_mortise.last_report()["graphs"][0]["eager"]
    assert entry["op"] == "aten.special_bessel_j0.default" and "test_door.py:" in entry["site"] and entry["reason"] in line


def test_two_reasons_are_two_lines(compile_for, caplog):
    def f(x):
        return torch.fft.rfft(x).abs() + 1  # rfft has no handler; abs has a complex operand

    with torch.no_grad(), caplog.at_level("WARNING", "torch_mortise"):
        for _ in range(2):
            compile_for(f)(torch.randn(4, 8))
    lines = fallback_lines(caplog)
    reasons = {e["reason"] for g in torch_mortise.last_report()["graphs"] for e in g["eager"]}
    assert len(lines) == len(reasons) == 2 and all(any(reason in line for line in lines) for reason in reasons)


def test_a_graph_in_eager_says_why(compile_for, caplog):
    def f(x):
        return torch.special.bessel_j0(x)

    def g(x):
        return x[x > 0] * 2

    x = torch.randn(3, 8)
    with caplog.at_level("WARNING", "torch_mortise"):
        with torch.no_grad():
            compile_for(f)(x)
        (line,) = fallback_lines(caplog)
        assert "no handler" in line and "nothing in this graph is compiled" in line
        caplog.clear()
        with torch.no_grad(), torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            assert_same(compile_for(g)(x), g(x))
        lines = fallback_lines(caplog)
        assert len(lines) == 1 and "depend on data (u0)" in lines[0]  # what comes behind it is compiled


def test_random_numbers_are_no_fallback(compile_for, caplog):
    with torch.no_grad(), caplog.at_level("WARNING", "torch_mortise"):
        compile_for(lambda x: x + torch.rand(4))(torch.ones(4))
    assert not [line for line in fallback_lines(caplog) if "seed" in line]


def test_all_refusals_arrive_at_once(compile_for, device, monkeypatch):
    from torch_mortise import graph

    rounds = []
    monkeypatch.setattr(graph, "Partition", lambda *a, whole=graph.Partition: rounds.append(1) or whole(*a))

    def f(x):
        return [(x * i).logcumsumexp(0) + i for i in range(12)]

    report = check(compile_for(f), f, torch.rand(3, 4), coverage=None)
    eager = report["graphs"][0]["eager"]
    assert len(eager) in (0, 12) and len(rounds) == (2 if eager else 1)
    assert all(e["reason"].startswith(f"{device}") for e in eager)


def test_graphs_that_compute_nothing(compile_for):
    def f(x):
        return x.t(), x

    check(compile_for(f), f, torch.randn(3, 4))


# ---- reports -----------------------------------------------------------------------------------------------


def test_explain(device):
    explanation = torch_mortise.explain(Small().eval(), torch.randn(3, 8), mode="default", options={"device": device})
    assert explanation.report["coverage"] == 1.0 and explanation.report["placement"]
    assert sum(explanation.report["time_share"].values()) == pytest.approx(1)
    assert "coverage 100.0%" in str(explanation) and "<h1>" in explanation.html()
    assert explanation.report["graphs"][0]["import_s"] > 0


def test_explain_has_fields_for_candidates_that_lost():
    explanation = torch_mortise.explain(Small().eval(), torch.randn(3, 8), options={"device": "reference,cpu"})
    programs = [program for graph in explanation.report["graphs"] for program in graph["programs"]]
    lost = [candidate for program in programs for candidate in program["declined"]]
    assert lost and {candidate["reason"] for candidate in lost} == {"cost"} and {"reference"} <= {one["device"] for one in lost}
    for candidate in lost:
        assert candidate["nodes"] and sum(candidate["ops"].values()) == len(candidate["nodes"]) and candidate["predicted_ns"] > 0
        assert f"lost     {candidate['lowering']} by {candidate['plugin']} on {candidate['device']}: " in str(explanation)
    table = explanation.html().split("Candidates that lost or were refused")[1].split("</table>")[0]
    assert table.count("<tr>") == 1 + len(lost)
    assert all(program["copies"] == [] for program in programs)


# ---- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (dict(mode="max-autotun"), "max-autotune"),
        (dict(options={"devise": "cpu"}), "device"),
        (dict(options={"specialise_limit": 3}), "specialize_limit"),
        (dict(options={"specialize_limit": "many"}), "positive"),
        (dict(options={"device": "warp9"}), "warp9"),
    ],
    ids=str,
)
def test_configuration_errors_name_what_is_known(arguments, expected):
    compiled = torch.compile(lambda x: x + 1, backend="mortise", **arguments)
    with pytest.raises(Exception) as caught:
        compiled(torch.randn(3))
    error = caught.value
    while error is not None and not isinstance(error, torch_mortise.MortiseError):
        error = error.__cause__ or getattr(error, "inner_exception", None)
    assert isinstance(error, torch_mortise.MortiseError) and expected in error.message


def test_unknown_backend_arguments():
    session = torch_mortise._library.native().Session
    with pytest.raises(TypeError):
        session([("device", "cpu")])
    with pytest.raises(torch_mortise.MortiseError):
        session((("devise", "cpu"),))


def test_missing_library_is_a_clear_error(tmp_path):
    package = pathlib.Path(torch_mortise.__file__).parent
    shutil.copytree(package, tmp_path / "torch_mortise", ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    script = (
        "import torch_mortise\ntry: torch_mortise.devices()\nexcept torch_mortise.MortiseError as e: print(e.name, e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("NOT_FOUND expected libmortise"), done


# ---- threads and memory ------------------------------------------------------------------------------------------


def test_threads_share_a_program(compile_for):
    model = Small().eval()
    compiled = compile_for(model)
    inputs = [torch.randn(3, 8) for _ in range(8)]
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        compiled(inputs[0])
    failures = []

    def work(first):
        with torch.no_grad():
            for i in range(100):
                n = (first + i) % 8
                if not torch.allclose(compiled(inputs[n]), expected[n], atol=1e-5):
                    failures.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_call_allocates_its_outputs_only(compile_for):
    model, x = Small().eval(), torch.randn(64, 8)
    compiled = compile_for(model)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        with torch.profiler.profile(profile_memory=True) as profile:
            y = compiled(x)
    allocated = sum(e.self_cpu_memory_usage for e in profile.events() if e.self_cpu_memory_usage > 0)
    assert allocated == y.numel() * 4


def test_nothing_leaks(compile_for):
    model, x = Small().eval(), torch.randn(3, 8)
    compiled = compile_for(model)
    with torch.no_grad():
        compiled(x)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(200):
            compiled(x)
        gc.collect()
    assert len(gc.get_objects()) < before + 100


def test_a_composite_that_no_plugin_lowers_is_asked_about_once():
    def gates(x, y):
        for _ in range(3):
            x = torch.nn.functional.silu(x) * y
        return x

    arguments = [torch.randn(5, 8) for _ in range(2)]
    with torch.no_grad():
        result = torch.compile(gates, backend="mortise", options={"device": "cpu"})(*arguments)
        torch.testing.assert_close(result, gates(*arguments))
    program = torch_mortise.last_report()["graphs"][0]["program"]
    refused = [(r["op"], r["reason"], r["node"]) for r in program["refusals"] if r["op"] == "mortise.swiglu"]
    assert refused == [("mortise.swiglu", "op", None)]  # and not one for each of the three
    assert "mortise.silu" in program["placement"][0]["ops"]


def test_results_that_nobody_takes_are_no_reason(monkeypatch):
    """Attention on a GPU returns the state of random numbers, too, of a type that no program has."""

    @torch.library.custom_op("mortise_test::with_state", mutates_args=())
    def with_state(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return -x, torch.zeros(2, dtype=torch.uint64)

    with_state.register_fake(lambda x: (torch.empty_like(x), torch.empty(2, dtype=torch.uint64)))
    monkeypatch.setitem(HANDLERS, torch.ops.mortise_test.with_state.default, lambda e, x: (e.op("neg", x), None))
    x = torch.randn(3, 4)
    compiled = torch.compile(lambda x: with_state(x)[0] * 2, backend="mortise")
    assert compiled(x).equal(-x * 2) and torch_mortise.last_report()["coverage"] == 1
    out, state = torch.compile(lambda x: with_state(x), backend="mortise")(x)
    assert out.equal(-x) and state.equal(torch.zeros(2, dtype=torch.uint64))
    assert [entry["reason"] for graph in torch_mortise.last_report()["graphs"] for entry in graph["eager"]] == ["a tensor of dtype uint64"]
