# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figure `isa`: what did not run, crashed or was slower is never counted as passed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import measure
import verdict
from figures import isa


def ended(code: int) -> subprocess.CompletedProcess:
    return subprocess.CompletedProcess([], code, "out", "err")


def report(tmp_path, *tests):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"testsuites": [{"name": "Suite", "testsuite": list(tests)}]}))
    return path


GOOD = {"name": "good", "result": "COMPLETED"}
BAD = {"name": "bad", "result": "COMPLETED", "failures": [{"failure": "why"}]}
SKIPPED = {"name": "skipped", "result": "SKIPPED"}


def test_a_report_is_counted_test_by_test(tmp_path):
    counts = {"passed": 0, "failed": 0, "what": []}
    isa.add_report(counts, "suite", report(tmp_path, GOOD, BAD, SKIPPED), ended(1))
    assert counts == {"passed": 1, "failed": 1, "what": ["Suite.bad"]}


@pytest.mark.parametrize("text", [None, "", "{"])
def test_a_process_without_a_report_failed(tmp_path, text):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    counts = {"passed": 0, "failed": 0, "what": []}
    isa.add_report(counts, "suite", path, ended(139))
    assert (counts["passed"], counts["failed"]) == (0, 1) and "139" in counts["what"][0]


def test_a_bad_end_without_a_failed_test_failed(tmp_path):
    counts = {"passed": 0, "failed": 0, "what": []}
    isa.add_report(counts, "suite", report(tmp_path, GOOD), ended(134))
    assert (counts["passed"], counts["failed"]) == (1, 1)


def test_a_level_above_the_machine_did_not_run(monkeypatch):
    monkeypatch.setattr(isa, "lacks", lambda level: "skipped: no avx1024")
    assert isa.run_level("x86-64-v4") == {"passed": 0, "failed": 0, "not_run": "skipped: no avx1024"}


@pytest.mark.parametrize("found, problem", [
    ({"eager_ms": 2.0, "mortise_ms": 1.0, "ort_ms": 0.9, "left_out": {}}, ""),
    ({"eager_ms": 0.9, "mortise_ms": 1.0, "ort_ms": 2.0, "left_out": {}}, "0.90 of eager's speed"),
    ({"eager_ms": 2.0, "mortise_ms": 1.0, "ort_ms": 0.7, "left_out": {}}, "0.70 of ort's speed"),
    ({"eager_ms": 2.0, "mortise_ms": 1.0, "left_out": {"ort": "failed: ImportError"}}, "no times of both mortise and ort"),
    ({"eager_ms": 2.0, "ort_ms": 2.0, "left_out": {"mortise": "NaN stands at 1 place"}}, "NaN stands"),
])
def test_a_row_is_judged_by_its_times(monkeypatch, found, problem):
    monkeypatch.setattr(measure, "in_fresh_process", lambda *arguments, **options: dict(found))
    row = isa.row("minilm", "native", {})
    assert row["passed"] == (not problem) and problem in row["problem"]
    assert bool(verdict.problems({"passed": 1, "failed": 0, "rows": {"minilm": row}})) == bool(problem)
