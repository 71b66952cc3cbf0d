# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The comparison shared by figures, demo and tests detects every way in which an answer can be wrong."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import measure
from measure import ERROR_LIMIT, Agreement, compare
from verdict import printable, problems

EXPECTED = (torch.linspace(-2, 3, 24).reshape(4, 6), torch.tensor([[1.0, -4.0]]), torch.arange(5))


def changed(output, change):
    """EXPECTED, with one output replaced by change(a copy of it)."""
    outputs = [tensor.clone() for tensor in EXPECTED]
    outputs[output] = change(outputs[output])
    return tuple(outputs)


def put(value, place=(1, 2)):
    def change(tensor):
        tensor[place] = value
        return tensor

    return change


WRONG = {
    "NaN": (changed(0, put(math.nan)), "NaN stands at 1 places"),
    "only NaN": (changed(0, lambda t: t * math.nan), "NaN stands at 24 places"),
    "infinity": (changed(0, put(math.inf)), r"\+inf stands at 1"),
    "minus infinity": (changed(0, put(-math.inf)), "-inf stands at 1"),
    "shape": (changed(0, lambda t: t.reshape(6, 4)), r"expected shape \(4, 6\), found \(6, 4\)"),
    "a shape that broadcasts": (changed(0, lambda t: t[:1]), r"found \(1, 6\)"),
    "dtype": (changed(0, lambda t: t.double()), "expected torch.float32, found torch.float64"),
    "narrow dtype": (changed(0, lambda t: t.half()), "found torch.float16"),
    "zeroed": (changed(0, torch.zeros_like), "differs by 1.0e"),
    "zeroed second output": (changed(1, torch.zeros_like), "differs by 1.0e"),
    "zeroed row": (changed(0, put(0.0, 3)), "differs by 1.0e"),
    "scaled": (changed(0, lambda t: t * 1.001), "differs by 1.0e-03"),
    "integer": (changed(2, put(7, 0)), "1 of 5 integers differ"),
    "missing output": (EXPECTED[:2], "expected 3 outputs, found 2"),
    "another output": ((*EXPECTED, EXPECTED[0]), "expected 3 outputs, found 4"),
    "no output": ((), "expected 3 outputs, found 0"),
    "emptied": (changed(0, lambda t: t[:0]), r"found \(0, 6\)"),
    "no tensor": (changed(0, lambda t: None), "found NoneType"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_seen(name):
    found, why = WRONG[name]
    agreement = compare(found, EXPECTED)
    assert not agreement.within(ERROR_LIMIT)
    assert re.search(why, agreement.why_not(ERROR_LIMIT)), agreement


@pytest.mark.parametrize("name", [name for name in WRONG if name not in ("dtype", "narrow dtype", "zeroed", "zeroed row",
                                                                      "zeroed second output", "scaled")])
def test_what_cannot_be_compared_meets_no_bound(name):
    agreement = compare(WRONG[name][0], EXPECTED)
    assert agreement.problem and agreement.error == math.inf and agreement.cosine == -1
    assert not agreement.within(math.inf)


def test_the_same_agrees():
    agreement = compare(changed(0, lambda t: t), EXPECTED)
    assert agreement.error == 0 and agreement.cosine == pytest.approx(1) and agreement.within(0.0)
    assert compare(changed(0, lambda t: t * (1 + 1e-6)), EXPECTED).within(ERROR_LIMIT)


def test_error_is_relative_to_each_outputs_own_scale():
    found = changed(0, put(EXPECTED[0][1, 2] + 0.3))
    assert compare(found, EXPECTED).error == pytest.approx(0.1)  # the largest magnitude is 3


def test_infinities_that_are_expected_have_a_sign_and_a_place():
    expected = torch.tensor([[1.0, math.inf, -math.inf, math.nan]])
    assert compare(expected.clone(), expected).within(0.0)
    for found in ([1.0, -math.inf, math.inf, math.nan], [math.inf, 1.0, -math.inf, math.nan], [1.0, math.inf, -math.inf, 2.0],
                  [1.0, 3e38, -math.inf, math.nan], [math.nan, math.inf, -math.inf, math.nan]):
        assert compare(torch.tensor([found]), expected).problem


def test_a_reference_more_exact_than_the_answer():
    exact = tuple(t.double() if t.is_floating_point() else t for t in EXPECTED)
    assert compare(EXPECTED, exact).problem.endswith("expected torch.float64, found torch.float32")
    assert compare(EXPECTED, exact, like=EXPECTED).within(ERROR_LIMIT)
    assert "found torch.float64" in compare(exact, exact, like=EXPECTED).problem
    overflown = torch.tensor([[1.0, math.inf]])
    assert compare(overflown, torch.tensor([[1.0, 1e39]], dtype=torch.float64), like=overflown).problem


@pytest.mark.parametrize("nothing", [(), (torch.empty(0, 3),), (torch.full((2, 2), math.nan),), (torch.full((2,), math.inf),)])
def test_comparing_nothing_is_no_agreement(nothing):
    assert "nothing to compare" in compare(nothing, nothing).problem


def test_an_empty_output_beside_others_is_no_problem():
    outputs = (torch.empty(0, 3), torch.ones(2, 2), torch.empty(2, 0))
    assert compare(outputs, outputs).within(0.0)


def test_small_numbers_have_a_direction():
    tiny = torch.tensor([[1e-30, 2e-30], [1.0, 0.0]])
    assert compare(tiny, tiny).cosine == pytest.approx(1)
    assert compare(tiny * torch.tensor([[-1.0], [1.0]]), tiny).cosine == pytest.approx(-1)
    assert compare(tiny * torch.tensor([[0.0], [1.0]]), tiny).cosine == pytest.approx(0)


def test_complex_and_boolean_outputs():
    numbers = torch.tensor([1 + 2j, 3 - 1j])
    assert compare(numbers, numbers.clone()).within(0.0)
    assert not compare(numbers.conj().resolve_conj(), numbers).within(ERROR_LIMIT)
    flags = torch.tensor([True, False])
    assert compare(flags, flags).within(0.0) and compare(~flags, flags).problem


def test_a_nan_error_is_not_within_anything():
    assert not Agreement(math.nan, 1.0).within(math.inf)


BELIEVED = [{"passed": True, "rows": {"a": {"passed": True, "ms": 1.0}}}, {"passed": 3, "failed": 0}, {"holds": True},
            {"passed": 3, "failed": 0, "holds": True}, {"passed": True, "left_out": {}, "failing": {}}]
RED = [
    ({}, "empty"), (None, "empty"), ({"rows": {"a": {"ms": 1.0}}}, "no verdict"), ({"passed": None}, "no verdict"),
    ({"passed": False}, "passed is false"), ({"passed": True, "rows": {}}, "rows is empty"),
    ({"passed": True, "networks": {}}, "networks is empty"), ({"passed": 0, "failed": 0}, "passed is 0"),
    ({"passed": 3}, "`failed`"), ({"passed": 3, "failed": 1}, "1 failed"), ({"passed": 3, "failed": 0, "holds": False}, "holds"),
    ({"passed": True, "rows": {"a": {"passed": False}}}, "rows.a did not pass"),
    ({"passed": True, "rows": {"a": {"ms": math.nan}}}, "rows.a.ms is nan"),
    ({"passed": True, "rows": [{"ms": math.inf}]}, r"rows[0].ms is inf"),
    ({"passed": True, "rows": {"a": {"problem": "NaN"}}}, "rows.a: NaN"), ({"error": "it broke", "passed": True}, "it broke"),
]


@pytest.mark.parametrize("result", BELIEVED)
def test_a_pass_is_believed(result):
    assert problems(result) == []


@pytest.mark.parametrize("result, why", RED)
def test_what_is_no_pass_is_red(result, why):
    assert any(why in problem for problem in problems(result)), problems(result)


def test_printable_has_no_numbers_that_json_lacks():
    assert printable({"a": [1.0, math.nan, {"b": math.inf}], "c": "text"}) == {"a": [1.0, None, {"b": None}], "c": "text"}


def test_a_bundle_names_its_commit(tmp_path):
    def git(folder, *arguments):
        return subprocess.run(["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True,
                              capture_output=True, text=True).stdout.strip()

    def bundled(folder):
        command = ["bash", "-c", f"source {ROOT}/tools/dev/gpu.sh && bundle_commit"]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout

    here, there = tmp_path / "here", tmp_path / "there"
    (here / "bench/results").mkdir(parents=True)
    for name, text in (("kernel.cpp", "old"), ("README.md", "page"), ("bench/results/kept.json", "1"), (".gitignore", "/.gpu/\n")):
        (here / name).write_text(text)
    git(here, "init", "-q")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "first")
    git(tmp_path, "clone", "-q", str(here), str(there))
    (here / "kernel.cpp").write_text("new")
    git(here, "commit", "-qam", "second")
    commit = git(here, "rev-parse", "--short=12", "HEAD")
    assert measure.sources(here) == {"commit": commit, "clean": True}
    made = bundled(here)
    (there / ".gpu").mkdir()
    (there / ".gpu/commit").write_text(made)
    (there / ".gpu/unpacked").write_text("")
    assert measure.sources(there) == {"commit": commit, "clean": False}  # its files are older
    (there / "kernel.cpp").write_text("new")
    (there / "bench/results/kept.json").write_text("2")
    assert measure.sources(there) == {"commit": commit, "clean": True}
    (there / "kernel.cpp").write_text("newer")
    assert measure.sources(there) == {"commit": commit, "clean": False}
    (here / "kernel.cpp").write_text("newer")
    made = bundled(here)
    assert made.split() == [commit, "changed"]
