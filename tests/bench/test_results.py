# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results kept in bench/results/ and the table in README.md that quotes them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import figure
import kept
from figures import honest, simt_targets


def test_what_is_kept_can_be_quoted():
    assert kept.problems(ROOT, set(figure.names())) == []


PLANTS = [plant for plant in honest.plants() if plant.of in ("figure", "totals", "kept results")]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.of}: {plant.name}")
def test_a_planted_fault_is_seen(plant):
    reasons = honest.planted(plant)
    assert any(re.search(plant.expected, reason) for reason in reasons), reasons


@pytest.mark.parametrize("of", ["figure", "totals", "kept results"])
def test_without_a_fault_nothing_is_red(of):
    assert honest.controls()[of]() == []


@pytest.mark.parametrize("script, bad", [("bench/figure.py", ["nope"]), ("tools/demo/demo.py", ["--model", "nope"])])
def test_arguments_are_refused_before_anything_is_built(script, bad):
    def check(*arguments):
        command = [sys.executable, ROOT / script, *arguments, "--check-arguments"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    refused = check(*bad)
    assert refused.returncode == 2 and "nope" in refused.stderr
    accepted = check(*(["parity", "minilm"] if "figure" in script else ["--model", "minilm"]))
    assert (accepted.returncode, accepted.stdout) == (0, "")


def test_what_a_figure_does_not_make_is_refused_without_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["figure.py", "simt-targets", "nope"])
    assert figure.main() == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("figure: expected spirv, ") and printed.err.endswith("found nope\n")


def test_a_measurement_that_raises_has_a_result(monkeypatch, capsys):
    """Also where it raises what a wrong argument would be in Python."""
    monkeypatch.setattr(simt_targets, "measure", lambda _: int("no number"))
    monkeypatch.setattr(sys, "argv", ["figure.py", "simt-targets"])
    assert figure.main() == 1
    printed = capsys.readouterr()
    assert "Traceback" in printed.err and json.loads(printed.out)["error"].startswith("ValueError: invalid literal")


def test_what_tools_leave_behind_is_no_source(tmp_path):
    """Parts of a figure come from several machines, on some of which tests have run."""
    (tmp_path / "ir" / "folder").mkdir(parents=True)
    (tmp_path / "ir" / "a.py").write_text("1")
    before = kept.digest(tmp_path, ("ir",))
    for left in ("ir/__pycache__/a.pyc", "ir/folder/.pytest_cache/v/cache/lastfailed", "ir/.ruff_cache/0.1/1"):
        (file := tmp_path / left).parent.mkdir(parents=True)
        file.write_text("left")
    assert kept.digest(tmp_path, ("ir",)) == before
    (tmp_path / "ir" / ".clang-tidy").write_text("Checks:")
    assert kept.digest(tmp_path, ("ir",)) != before
