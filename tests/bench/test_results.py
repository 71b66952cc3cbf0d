# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results kept in bench/results/ and the table in README.md that quotes them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import figure
import kept
from figures import honest


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
