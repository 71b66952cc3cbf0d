# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/saboteur.py: `mortise plugin check` on the saboteur with some of its faults. The script tries all of them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))
import saboteur

pytestmark = pytest.mark.skipif(not saboteur.LIBRARY.exists(), reason="this build has no saboteur")


def test_the_table():
    rows = saboteur.faults()
    assert len(rows) >= 60
    assert {group for group, _, _ in rows.values()} == {"Arithmetic", "Memory", "Concurrency", "Lifecycle", "Lying"}


@pytest.mark.parametrize("device", ["saboteur", "saboteur-queue"])
def test_without_a_fault_nothing_is_wrong(device):
    assert saboteur.plugin_check("none", "--device", device, "--ops", "mortise.add,mortise.softmax,mortise.reduce_sum") == ("", "")


@pytest.mark.parametrize("fault, ops, words", [("mean-by-one-less", "mortise.mean", "mortise.mean"),
                                               ("input-written", "mortise.softmax", "it writes to input 0"),
                                               ("read-past-end", "mortise.neg", "SIGSEGV"),
                                               ("proposes-and-cannot", "mortise.tan,mortise.sin", "the manifest claims mortise.tan"),
                                               ("leak-kernel", "mortise.neg", "not given back")])
def test_finds(fault, ops, words):
    found, line = saboteur.plugin_check(fault, "--device", "saboteur", "--ops", ops)
    assert found and words in line
