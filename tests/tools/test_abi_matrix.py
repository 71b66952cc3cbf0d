# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins and hosts of other ABI revisions (bench/abi_matrix.py), and the golden binaries of sdk/abi/golden/."""

import shutil
import sys
from pathlib import Path

import measure
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import abi_matrix as matrix

MORTISE = measure.build_folder() / "bin" / "mortise"
needs_mortise = pytest.mark.skipif(not MORTISE.exists(), reason="this build has no command mortise")


@needs_mortise
@pytest.mark.parametrize("row", matrix.rows(), ids=lambda row: row.name)
def test_plugin(row, tmp_path):
    assert matrix.attempt(row, tmp_path, matrix.program(row))[0] == ""


@pytest.mark.parametrize("row", matrix.hosts(), ids=lambda row: row.name)
def test_host(row, tmp_path):
    assert matrix.attempt_host(row, tmp_path) == ""


@pytest.mark.parametrize("name", matrix.PLANTS)
def test_a_planted_fault_is_seen(name, tmp_path):
    assert matrix.PLANTS[name](tmp_path)


def test_goldens_are_as_recorded():
    assert list(matrix.golden.problems()) == []


@pytest.fixture
def abi(tmp_path):
    """A copy of sdk/abi, and of the header at its side."""
    shutil.copytree(matrix.ROOT / "sdk" / "abi", tmp_path / "abi")
    shutil.copy(matrix.HEADER, tmp_path / "plugin.h")
    return tmp_path


def test_a_revision_without_a_golden(abi):
    (abi / "plugin.h").write_text(matrix.next_revision(matrix.HEADER.read_text()))
    shutil.copy(abi / "abi/revision-3.txt", abi / "abi/revision-4.txt")
    assert "expected a golden binary of revision 4" in "; ".join(matrix.golden.problems(abi / "abi/golden", abi / "plugin.h"))


def test_a_revision_that_moves_a_member(abi):
    (abi / "plugin.h").write_text(matrix.next_revision(matrix.HEADER.read_text()))
    dump = (abi / "abi/revision-3.txt").read_text()
    (abi / "abi/revision-4.txt").write_text(matrix.replaced("MortiseExtension.kind at 16", "MortiseExtension.kind at 24")(dump))
    assert "MortiseExtension.kind at 16" in "; ".join(matrix.golden.problems(abi / "abi/golden", abi / "plugin.h"))
