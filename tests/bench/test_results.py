# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results kept in bench/results/ and the table in README.md that quotes them."""

import re
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
