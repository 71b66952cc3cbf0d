# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every ATen overload tagged core is decided, those that are said to run do run, and docs/aten.md lists what the importer emits."""

import pathlib

import pytest
import torch
from opinfo import coverage, overloads

NAMES = list(overloads.core_overloads())
RUNNING = [name for name in NAMES if overloads.core_overloads()[name] not in coverage.NEVER_REASONS]


@pytest.mark.parametrize("name", RUNNING)
def test_runs(name):
    assert overloads.run(name) is None


def test_enough_run():
    assert len(RUNNING) >= 0.95 * len(NAMES)


def test_all_are_decided():
    undecided = [name for name, found in coverage.decisions().items() if found.way == coverage.UNDECIDED]
    assert not undecided, "give each a handler and a case in opinfo/overloads.py, or say why never (opinfo/coverage.py)"


def test_page_is_fresh():
    root = pathlib.Path(__file__).resolve().parents[3]
    if (made_with := (root / "tools/setup/torch.txt").read_text().split("==")[1].strip()) not in torch.__version__:
        pytest.skip(f"the page is made with PyTorch {made_with}, this is {torch.__version__}")
    page = root / "docs/aten.md"
    assert page.read_text() == coverage.page(), "./dev docs writes it anew"


def test_what_is_recorded_is_what_was_emitted(monkeypatch):
    """A handler that emits other ops changes the record."""
    aten = coverage.aten
    assert coverage.record("sin.default") == coverage.Decision(coverage.CORE, "", ("sin",))
    monkeypatch.setitem(coverage.HANDLERS, aten.sin.default, lambda e, x: e.op("cos", e.op("tan", x)))
    found = coverage.record("sin.default")
    assert found.way == coverage.OURS and found.ops == ("cos", "tan")
    monkeypatch.setitem(coverage.HANDLERS, aten.sin.default, lambda e, x: e.op("gelu", x, approximate="none"))
    assert coverage.record("sin.default") == coverage.Decision(coverage.COMPOSITE, "", ("gelu",))
    monkeypatch.delitem(coverage.HANDLERS, aten.sin.default)
    with pytest.raises(Exception, match="sin"):
        coverage.record("sin.default")
