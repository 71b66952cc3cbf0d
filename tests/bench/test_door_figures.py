# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figures `recompiles`, `door-faults` and `warm-start`: what is wrong turns them red."""

import json
import sys
from pathlib import Path
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import door_faults
import faults
import measure
import torch
import verdict
from figures import door_faults as faults_figure
from figures import recompiles, warm_start
from plants import raising

# ---- recompiles -----------------------------------------------------------------------------------------------


def spoilt(change, after=0, **more):
    """torch.compile whose functions change their results from a call on. `more`: other options for the backend."""
    original = torch.compile

    def compile(model, **options):
        function, calls = original(model, **options | {"options": options["options"] | more}), []

        def called(*arguments):
            calls.append(1)
            return change(function(*arguments)) if len(calls) > after else function(*arguments)

        return called

    return mock.patch.object(torch, "compile", compile)


def in_the_middle(value):
    def change(out):
        out = out.clone()
        out.view(-1)[out.numel() // 2 : out.numel() // 2 + 1] = value
        return out

    return change


PLANTS = {
    "NaN": (in_the_middle(float("nan")), "NaN stands at"),
    "zeroed": (lambda out: out * 0, "differs by"),
    "another shape": (lambda out: out[..., :-1], "expected torch.float32"),
    "another dtype": (lambda out: out.double(), "expected torch.float32"),
}


@pytest.fixture
def few_shapes(monkeypatch):
    monkeypatch.setattr(recompiles, "SHAPES", [(3, 5), (4, 7), (1, 5), (0, 3)])


def test_a_good_network_recompiles_once(few_shapes):
    result = recompiles.measure(["norm"])
    assert verdict.problems(result) == [] and result["recompiles"] == 1 and "size mismatch" in result["networks"]["norm"]["why"][0]


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("plant", PLANTS)
def test_wrong_results_are_found(plant, after, few_shapes):
    change, why = PLANTS[plant]
    with spoilt(change, after):
        found = verdict.problems(recompiles.measure(["norm"]))
    assert any(why in problem for problem in found), found


def test_wrong_gradients_are_found(few_shapes):
    with spoilt(lambda out: out * 1.01):
        found = verdict.problems(recompiles.measure(["training"]))
    assert any("differs by" in problem for problem in found), found


def test_more_recompiles_are_found(few_shapes):
    with spoilt(lambda out: out, any_size=False):
        found = verdict.problems(recompiles.measure(["norm"]))
    assert any("3 recompiles, expected at most 1" in problem for problem in found), found


def test_a_network_in_eager_is_found(few_shapes):
    with mock.patch.object(torch, "compile", lambda model, **_: model):
        found = verdict.problems(recompiles.measure(["norm"]))
    assert any("no program was compiled" in problem for problem in found), found


def test_recompiles_without_a_reason_are_found(few_shapes, monkeypatch):
    monkeypatch.setattr("torch_mortise.sizes.recompile_reason", lambda: None)
    found = verdict.problems(recompiles.measure(["norm"]))
    assert any("gives no reason" in problem for problem in found), found


# ---- door-faults ----------------------------------------------------------------------------------------------


def test_the_page_is_fresh():
    assert (measure.ROOT / "docs" / "door-faults.md").read_text() == door_faults.page() + "\n"


def test_there_are_enough_faults():
    assert len(door_faults.FAULTS) >= faults_figure.LEAST
    assert all(one.words for one in door_faults.FAULTS.values())


def outcome(monkeypatch, capsys, run):
    monkeypatch.setattr(faults, "COUNTS", {"planted": 0, "compared": 0})
    monkeypatch.setattr(faults, "SAID", [])
    tried = faults.Faults(tried=faults.Fault("tried", "tests", run, ()))
    assert faults.main(tried, "tried") == 0
    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return faults.verdict(found)


def unplanted():
    faults.equal(torch.ones(3), torch.ones(3))


def wrong(change):
    def run():
        faults.planted(True, "")
        with spoilt(change):
            model = door_faults.small()
            faults.same(door_faults.compiled(model), model, faults.data())

    return run


def not_applied():
    faults.planted(False, "nothing was damaged")


def uncompared():
    faults.planted(True, "")


def unclear():
    faults.planted(True, "")
    faults.says(lambda: raising(), "what was expected")


def silent():
    faults.planted(True, "")
    faults.says(lambda: 3, "what was expected")


def good():
    """What is tried."""
    faults.planted(True, "")
    faults.says(lambda: raising(), "planted")


@pytest.mark.parametrize("run, why", [
    (good, ""), (unplanted, "the fault was not planted"), (not_applied, "nothing was damaged"), (uncompared, "nothing was compared"),
    (wrong(PLANTS["NaN"][0]), "NaN stands at"), (wrong(PLANTS["zeroed"][0]), "differs by"), (unclear, "expected an error with"),
    (silent, "found the result 3")])
def test_a_fault_that_does_not_end_well_fails(run, why, monkeypatch, capsys):
    found = outcome(monkeypatch, capsys, run)
    assert why in found and bool(found) == bool(why)


@pytest.mark.parametrize("line, why", [
    ("import os; os.abort()", "it ended with -6"), ("import time; time.sleep(60)", "did not end within 1 s"), ("print('{}')", "no result"),
    ("print('right')", "no result"), ("pass", "no result")])
def test_processes_that_end_otherwise_fail(line, why, tmp_path):
    script = tmp_path / "some_faults.py"
    script.write_text(line)
    fault = faults.Fault("tried", "tests", good, seconds=1 if "sleep" in line else 30)
    assert why in faults.attempt(script, fault)["problem"]


def test_few_faults_fail(monkeypatch):
    monkeypatch.setattr(faults, "attempt", lambda script, fault: {"what": "", "said": [], "problem": ""})
    monkeypatch.setattr(measure, "make", lambda target: None)
    assert verdict.problems(faults_figure.measure([])) == []
    monkeypatch.setattr(door_faults, "FAULTS", dict(list(door_faults.FAULTS.items())[:5]))
    assert any("expected at least" in problem for problem in verdict.problems(faults_figure.measure([])))


# ---- warm-start -----------------------------------------------------------------------------------------------

GOOD = {"seconds": 1.0, "load_s": 0.5, "call_s": 0.5, "problem": "", "traced": 0, "kernels": ["hit", "hit"], "packing_s": 0.1}
BAD = {
    "differs by": {"problem": "differs by 1"},
    "it traced 1 graphs": {"traced": 1},
    "from the disk only": {"kernels": ["hit", "there is no entry"]},
    "found []": {"kernels": []},
    "Inductor 1.000": {"seconds": 3.0},
}


def starts(monkeypatch, **ours):
    def in_fresh_process(code, what, name, backend, file, env):
        Path(file).write_bytes(b"saved")
        return GOOD | (ours if backend == "mortise" and what == "load" else {})

    monkeypatch.setattr(measure, "in_fresh_process", in_fresh_process)
    return verdict.problems(warm_start.measure([]))


def test_a_good_start_passes(monkeypatch):
    assert starts(monkeypatch) == []


@pytest.mark.parametrize("why", BAD)
def test_a_start_that_is_not_warm_fails(why, monkeypatch):
    found = starts(monkeypatch, **BAD[why])
    assert any(why in problem for problem in found), found


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(file.read_bytes()[:1000]), lambda file: file.write_bytes(b"")])
def test_a_damaged_file_fails(damage, monkeypatch):
    """Through the real processes, with a network of four layers."""
    from plants import register

    register()
    original = measure.in_fresh_process

    def in_fresh_process(code, *arguments, env=None):
        if arguments[2] == "inductor":
            Path(arguments[3]).write_bytes(b"saved")
            return GOOD | {"kernels": []}
        result = original("import plants; plants.register()\n" + code, *arguments, env=env)
        if arguments[0] == "save":
            damage(Path(arguments[3]))
        return result

    monkeypatch.setattr(measure, "in_fresh_process", in_fresh_process)
    with pytest.raises(RuntimeError, match="a measuring process failed with code 1"):
        warm_start.measure(["tiny"])
