# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figures of the conformance kit: what is wrong is never counted as passed. `honest` has the faults of the figure `bounds`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import kit
import verdict
from figures import bounds, core_run


def report(**changes):
    cases = [{"case": f"add/f32/prime/dense/random/#{i}", "outcome": "passed"} for i in range(3)]
    made = {"cases": cases, "totals": {"passed": core_run.LEAST_CASES, "failed": 0, "refused": 5}, "unproven": [], "unexpected": [],
            "shrunken": "", "broken": "", "result": "good", "proven_pairs": 1, "coverage": {"possible": 9, "covered": 9}}
    return made | changes


FAILED = {"case": "add/f32/prime/dense/random/#4", "outcome": "failed", "why": "element 0"}
WRONG = {
    "element 0": {"cases": [FAILED]},
    "no case proves mortise.add": {"unproven": ["mortise.add in f32"]},
    "fits no case": {"unexpected": ["never sub/*: fits no case"]},
    "expected 3 cases, found 2": {"shrunken": "expected 3 cases, found 2"},
    "a worker ended": {"broken": "a worker ended"},
    "expected all 9 pairs, found 8": {"coverage": {"possible": 9, "covered": 8}},
    "expected 40000 computed cases, found 7": {"totals": {"passed": 7, "refused": 9}},
    "the plugin computed none": {"totals": {"passed": 0, "refused": 9}},
}


def test_a_good_core_run_passes(monkeypatch):
    monkeypatch.setattr(kit, "run", lambda *_, **__: report())
    assert verdict.problems(core_run.measure([])) == []


@pytest.mark.parametrize("why", WRONG)
def test_a_bad_core_run_fails(why, monkeypatch):
    monkeypatch.setattr(kit, "run", lambda *_, **__: report(**WRONG[why]))
    try:
        found = verdict.problems(core_run.measure(["1"]))
    except RuntimeError as error:
        found = [str(error)]
    assert any(why in problem for problem in found), found


def test_expected_failures_are_no_failures(monkeypatch):
    monkeypatch.setattr(kit, "run", lambda *_, **__: report(cases=[FAILED | {"expected": True}]))
    assert verdict.problems(core_run.measure([])) == []


def test_shares_become_rows():
    ops, beyond = {}, {}
    line = {"case": "dot/f32/large/dense/random/plain/#1", "outcome": "passed", "share": 0.25, "bound": 12}
    lines = [line, line | {"case": "dot/f32/one/dense/random/plain/#1", "share": 0.5, "bound": 2}, line | {"outcome": "failed", "why": "w"},
             line | {"outcome": "refused"}, line | {"case": "dot/f64/large/dense/random/plain/#1"}]
    assert bounds.add(ops, beyond, "cpu", lines, ("f32",)) == 2
    assert ops == {"dot/f32": {"share": 0.5, "bound": 2, "by": "cpu", "long_share": 0.25}}
    assert beyond == {"cpu": ["dot/f32/large/dense/random/plain/#1: w"]}


def test_reasons_are_read_from_the_page():
    loose, eager = kit.bound_tables()
    assert eager and all(why for why in eager.values())
    assert kit.explained(eager, "logistic/f32") and not kit.explained(eager, "exp/f32")
    assert all("/" in pattern for pattern in (loose | eager))
