# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What reports say of calls over time, what PyTorch's profiler shows of programs, and what a long compilation tells."""

import io
import json
import sys
import threading
import time

import pytest
import torch
import torch_mortise
from conftest import Small
from torch_mortise.report import Explanation


def profiled(compile_for, model, *inputs):
    compiled = compile_for(model)
    with torch.no_grad():
        compiled(*inputs)
        with torch_mortise.profiling():
            for _ in range(3):
                compiled(*inputs)
    return Explanation(torch_mortise.last_report())


def with_eager(x):
    return torch.special.bessel_j0(x.exp() + 1).relu() * 2


def test_graph_breaks(compile_for):
    """Coverage knows nothing of what Python runs between the graphs."""

    def broken(x):
        y = x.relu()
        print(end="")
        return y + 1

    torch_mortise.reset()
    x = torch.randn(4)
    compile_for(torch.relu)(x)
    report = torch_mortise.last_report()
    assert report["graph_breaks"] == [] and report["frames_in_eager"] == 0
    assert torch.equal(compile_for(broken)(x), x.relu() + 1)
    report = torch_mortise.last_report()
    ((reason, count),) = (entry.values() for entry in report["graph_breaks"])
    assert "print" in reason and "\n" not in reason and "Hint" not in reason and count == 1
    assert report["coverage"] == 1 and report["frames_in_eager"] == 0
    text = str(Explanation(report))
    assert f"broken 1 time, and Python ran a piece in eager: {reason}" in text
    torch_mortise.reset()
    assert torch_mortise.last_report()["graph_breaks"] == []


def test_calls_over_time(compile_for):
    explanation = profiled(compile_for, Small().eval(), torch.randn(64, 8))
    calls = explanation.report["calls"]
    (graph,) = explanation.report["graphs"]
    assert [call["graph"] for call in calls] == [graph["name"]] * 3
    assert all(a["start_s"] + a["s"] <= b["start_s"] for a, b in zip(calls, calls[1:])) and calls[0]["start_s"] >= 0
    assert all(call["s"] > 0 and call["resident_bytes"] > 1 << 20 and call["output_pool_bytes"] >= 0 for call in calls)
    torch_mortise.reset()
    assert torch_mortise.last_report()["calls"] == []


def test_a_trace_for_perfetto(compile_for, tmp_path):
    explanation = profiled(compile_for, Small().eval(), torch.randn(64, 8))
    explanation.save(tmp_path / "x.trace.json")
    events = json.loads((tmp_path / "x.trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    calls, steps = ([e for e in spans if e["tid"] == tid] for tid in (1, 2))
    regions = [region for program in explanation.report["graphs"][0]["programs"] for region in program["placement"]]
    assert len(calls) == 3 and len(steps) == len([s for region in regions for s in region["steps"] if s["ns"]]) > 0
    assert all(e["ts"] >= calls[-1]["ts"] for e in steps)  # of the last call, one after another
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in zip(steps, steps[1:]))
    assert len([e for e in events if e["ph"] == "C"]) == 3


@pytest.mark.parametrize("name, words", [
    ("x.html", ["<h1>", "Calls over", "Memory over time", "<svg", "no handler"]),
    ("x.json", ['"calls"']),
    ("x.txt", ["eager", "no handler"]),
])
def test_reports_in_files(compile_for, tmp_path, name, words):
    profiled(compile_for, with_eager, torch.randn(3, 4)).save(tmp_path / name)
    text = (tmp_path / name).read_text()
    assert all(word in text for word in words)


def test_the_page_says_why_a_function_was_traced_again(compile_for):
    compiled = compile_for(torch.exp)
    with torch.no_grad():
        for n in (3, 4):
            compiled(torch.ones(n))
    page = Explanation(torch_mortise.last_report()).html()
    assert "Traced again, and why" in page and "size mismatch at index 0" in page


@pytest.mark.parametrize("model", [Small().eval(), with_eager], ids=["whole", "with eager"])
def test_regions_in_pytorchs_profiler(compile_for, model):
    """An entry for each program in each call, also after calls that reached it directly, with the lines of the model."""
    compiled, x = compile_for(model), torch.randn(3, 8)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        with torch.profiler.profile() as profile:
            for _ in range(2):
                compiled(x)
        names = [e.name for e in profile.events() if e.name.startswith("mortise ")]
    report = torch_mortise.last_report()
    regions = {p["name"] for g in report["graphs"] for p in g["programs"]}
    assert len(names) == 2 * len(regions) and {name.split()[1] for name in names} == regions
    assert all(".py:" in name for name in names)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_a_long_compilation_shows_its_progress(compile_for, monkeypatch, stream):
    from torch_mortise import progress, region

    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "SILENT", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    specialised = region.Region.specialise
    monkeypatch.setattr(region.Region, "specialise", lambda *arguments: time.sleep(0.1) or specialised(*arguments))
    with torch.no_grad():
        compile_for(with_eager)(torch.randn(3, 4))
    shown = stream.getvalue()
    if not stream.isatty():
        assert "programs" not in shown
        return
    (graph,) = torch_mortise.last_report()["graphs"]
    assert f"mortise: {graph['name']} [....................] 0 of 2 programs, 0 s" in shown
    assert "[##########..........] 1 of 2 programs" in shown
    assert shown.rindex("\r\x1b[K") > shown.rindex("programs")  # the line is gone
    assert not any("mortise progress" in thread.name for thread in threading.enumerate())
