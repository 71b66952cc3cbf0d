# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every ATen overload tagged core is decided, and those said to run do, as docs/aten.md says."""

import pathlib

import pytest
from opinfo import overloads

from torch_mortise.importer import coverage

DECISIONS = coverage.decisions()
RUNNING = [name for name, found in DECISIONS.items() if found and found[0] != coverage.NEVER]


@pytest.mark.parametrize("name", DECISIONS)
def test_decided(name):
    assert DECISIONS[name], f"{name}: give it a handler, list its decomposition, or say why never (importer/coverage.py)"


@pytest.mark.parametrize("name", RUNNING)
def test_runs(name):
    assert overloads.run(name) is None


def test_enough_run():
    assert len(RUNNING) >= 0.95 * len(DECISIONS)


def test_page_is_fresh():
    page = pathlib.Path(__file__).resolve().parents[3] / "docs/aten.md"
    assert page.read_text() == coverage.page(), "./dev docs writes it anew"
