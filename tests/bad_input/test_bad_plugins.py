# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each way to be a bad plugin, manifest or configuration of bench/bad_plugins.py ends in a message that says so."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import bad_plugins
import measure

BUILD = measure.build_folder()
pytestmark = pytest.mark.skipif(not (BUILD / "bin" / "mortise").exists(), reason="this build has no command mortise")


@pytest.mark.parametrize("bad", bad_plugins.rows(), ids=lambda bad: bad.name)
def test_says_so(bad, tmp_path):
    if bad.unsanitized and bad_plugins.sanitized(BUILD):
        pytest.skip(bad.unsanitized)
    wrong, message = bad_plugins.attempt(bad, tmp_path, BUILD)
    assert wrong == "" and message


def test_a_good_plugin_is_no_way_to_be_bad(tmp_path):
    wrong, _ = bad_plugins.attempt(bad_plugins.Bad("good", "devices", [], bad_plugins.put), tmp_path, BUILD)
    assert "expected a rejection" in wrong


@pytest.mark.parametrize("command, make", [("config", lambda folder: None), ("check", bad_plugins.put)])
def test_a_good_exit_is_no_message(tmp_path, command, make):
    wrong, _ = bad_plugins.attempt(bad_plugins.Bad("good", command, [], make), tmp_path, BUILD)
    assert "expected exit status" in wrong


def test_a_word_that_is_missing(tmp_path):
    row = bad_plugins.Bad("other words", "devices", ["no such word"], lambda folder: bad_plugins.put(folder, manifest=""))
    assert "no such word" in bad_plugins.attempt(row, tmp_path, BUILD)[0]


def test_enough_ways():
    names = [bad.name for bad in bad_plugins.rows()]
    assert len(names) == len(set(names)) >= 120
