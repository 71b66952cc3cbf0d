# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figures of the conformance kit: what is wrong is never counted as passed. `honest` has the faults of the figure `bounds`."""

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import deviations
import eager
import figure
import kit
import measure
import mutants
import numpy
import onnx_runtime
import outside
import saboteur
import verdict
from figures import bounds, core_run, kill_rate


def report(**changes):
    cases = [{"case": f"add/f32/prime/dense/random/#{i}", "outcome": "passed"} for i in range(3)]
    made = {"cases": cases, "totals": {"passed": core_run.LEAST_CASES, "failed": 0, "refused": 5}, "unproven": [], "unexpected": [],
            "shrunken": "", "broken": "", "result": "good", "proven_pairs": 1, "coverage": {"possible": 9, "covered": 9}}
    return made | changes


FAILED = {"case": "add/f32/prime/dense/random/#4", "outcome": "failed", "why": "element 0"}
WRONG = {
    "element 0": {"cases": [FAILED]},
    "no case proves mortise.add": {"unproven": ["mortise.add in f32"]},
    "fits no case": {"unexpected": ["never sub/*: fits no case"]},
    "expected 3 cases, found 2": {"shrunken": "expected 3 cases, found 2"},
    "a worker ended": {"broken": "a worker ended"},
    "expected all 9 pairs, found 8": {"coverage": {"possible": 9, "covered": 8}},
    "expected 40000 computed cases, found 7": {"totals": {"passed": 7, "refused": 9}},
    "the plugin computed none": {"totals": {"passed": 0, "refused": 9}},
}


def test_a_good_core_run_passes(monkeypatch):
    monkeypatch.setattr(kit, "run", lambda *_, **__: report())
    assert verdict.problems(core_run.measure([])) == []


@pytest.mark.parametrize("why", WRONG)
def test_a_bad_core_run_fails(why, monkeypatch):
    monkeypatch.setattr(kit, "run", lambda *_, **__: report(**WRONG[why]))
    try:
        found = verdict.problems(core_run.measure(["1"]))
    except RuntimeError as error:
        found = [str(error)]
    assert any(why in problem for problem in found), found


def test_expected_failures_are_no_failures(monkeypatch):
    monkeypatch.setattr(kit, "run", lambda *_, **__: report(cases=[FAILED | {"expected": True}]))
    assert verdict.problems(core_run.measure([])) == []


def test_shares_become_rows():
    ops, beyond = {}, {}
    line = {"case": "dot/f32/large/dense/random/plain/#1", "outcome": "passed", "share": 0.25, "bound": 12}
    lines = [line, line | {"case": "dot/f32/one/dense/random/plain/#1", "share": 0.5, "bound": 2}, line | {"outcome": "failed", "why": "w"},
             line | {"outcome": "refused"}, line | {"case": "dot/f64/large/dense/random/plain/#1"}]
    assert bounds.add(ops, beyond, "cpu", lines, ("f32",)) == 2
    assert ops == {"dot/f32": {"share": 0.5, "bound": 2, "by": "cpu", "long_share": 0.25}}
    assert beyond == {"cpu": ["dot/f32/large/dense/random/plain/#1: w"]}


def test_the_reference_in_f32_computes_no_f64():
    """It would be no witness for the bounds of f64, whatever the element type that a case is named by."""
    measure.make("mortise_plugin_reference_f32")
    cases = kit.run(bounds.in_f32(), "--op", "dequantize,exp", "--level", "core,quantised", "--quick", "--seed", 1)["cases"]
    wide = [line for line in cases if "f64" in line["case"]]
    assert any("f64 has more bits" in line["why"] for line in wide) and {line["outcome"] for line in wide} == {"refused"}
    assert {line["case"].split("/")[0] for line in cases if line["outcome"] == "passed"} == {"dequantize", "exp"}


def test_reasons_are_read_from_the_page():
    loose, eager = kit.bound_tables()
    assert eager and all(why for why in eager.values())
    assert kit.explained(eager, "logistic/f32") and not kit.explained(eager, "exp/f32")
    assert all("/" in pattern for pattern in (loose | eager))


@pytest.mark.parametrize("entry", deviations.DEVIATIONS, ids=lambda entry: f"{entry.cases} {entry.why}")
def test_deviations_hold(entry):
    assert entry.holds()


def test_a_deviation_that_is_no_more_fails(monkeypatch):
    """A framework that gives exact results, whatever it is asked: none of the entries holds."""
    for entry in deviations.DEVIATIONS:
        exact = entry.exact.astype(entry.operands[0].dtype) if entry.ulps else entry.exact
        monkeypatch.setattr(onnx_runtime, "compute", lambda *_, exact=exact: exact)
        assert not entry.holds(), entry
    monkeypatch.undo()
    monkeypatch.setattr(deviations.Deviation, "holds", lambda self: not self.cases.startswith("relu/"))
    [problem] = kill_rate.of_deviations()
    assert "relu/*: ONNX Runtime gives the exact result by now" in problem


def test_deviations_are_no_alarms(monkeypatch):
    """What an entry is about is counted; something else in the same cases is an alarm."""
    zero = {"case": "max/f32/rank4/dense/zeros/#1", "outcome": "failed",
            "why": "element 6: expected 0, found -0, which differs in its sign; 5 of 135 elements of f32[5, 3, 3, 3] are wrong"}
    lines = [zero, zero | {"why": "element 6: expected 0, found 3"}, zero | {"outcome": "passed"}, zero | {"outcome": "refused"}]
    monkeypatch.setattr(onnx_runtime, "judge", lambda *_: lines)
    computed, counted = Counter(), Counter()
    alarms = kill_rate.of_onnx_runtime(5, computed, counted)
    assert alarms == ["ONNX Runtime, seed 5: max/f32/rank4/dense/zeros/#1: element 6: expected 0, found 3"] and computed == {"max": 3}
    assert counted == {"max/*: of two zeros the first or the second": 1}


# What the kit may say of a plugin without a fault: its script, and the alarm.
SAID = {
    "all pass": ("echo 3 passed", None),
    "one fails": ("echo add: element 0; echo 1 failed; exit 1", "add: element 0"),
    "unusable": ("echo expected other variables >&2; exit 3", "exit status 3: expected other variables"),
    "silent": ("exit 1", "exit status 1: "),
    "told of no fault": ("! env | grep MORTISE_SABOTEUR_FAULT", None),
}


@pytest.mark.parametrize("script, alarm", SAID.values(), ids=SAID)
def test_sound_plugins_are_really_judged(script, alarm, monkeypatch, tmp_path):
    """Each run in which the kit does not pass the plugin is an alarm, and plugins but the saboteur are told of no fault."""
    said = tmp_path / "bin" / "mortise-conformance"
    said.parent.mkdir()
    said.write_text(f"#!/bin/bash\n{script}\n")
    said.chmod(0o755)
    monkeypatch.setattr(saboteur.measure, "build_folder", lambda: tmp_path)
    alarms, runs = saboteur.false_alarms([5])
    assert runs == sum(len(devices) for _, devices, _ in saboteur.SOUND)
    assert [line.split("seed 5: ")[1] for line in alarms] == [alarm] * (runs if alarm is not None else 0)


def test_a_framework_that_refuses_an_op_fails(monkeypatch):
    """An op that a wrapper has and computes no case of is a fault of the wrapper."""
    def judged(names):
        return lambda *_: [{"case": f"{name}/f32/one", "outcome": "refused" if name == "exp" else "passed"} for name in names]

    monkeypatch.setattr(eager, "judge", judged(eager.COMPUTE))
    monkeypatch.setattr(onnx_runtime, "judge", judged(onnx_runtime.NAMES))
    result = kill_rate.of_frameworks(1)
    assert result["problems"] == [f"{name} computed no case of exp" for name in ("PyTorch eager", "ONNX Runtime")]
    assert not result["alarms"] and result["onnx_runtime_cases"] == 5 * (len(onnx_runtime.NAMES) - 1)


GOOD_PARTS = {
    "frameworks": {"alarms": [], "problems": []},
    "sound": {"sound_runs": 30, "alarms": [], "problems": []},
    "mutants": {"mutants": 300, "killed": 295, "problems": []},
    "saboteur": {"planted": 122, "caught": 122, "problems": [], "faults": dict.fromkeys(saboteur.faults())},
}


def test_parts_of_one_source_make_the_figure(tmp_path, monkeypatch):
    """Kept parts count where the sources are the same, and what is wrong in one of them is wrong in the whole."""
    monkeypatch.setattr(kill_rate, "digest_of_sources", lambda: "now")
    monkeypatch.setattr(measure, "make", lambda *_: None)

    def kept(name, **changes):
        result = kill_rate.together({name: GOOD_PARTS[name] | changes}) | {"sources": "now"}
        figure.save(name, [], result, tmp_path)
        return str(tmp_path / f"{name}.json")

    files = [kept(name) for name in kill_rate.PARTS]
    result = kill_rate.measure(files)
    assert verdict.problems(result) == []
    assert [result[key] for key in ("planted", "caught", "mutants", "mutants_killed", "false_alarms")] == [122, 122, 300, 295, 0]
    assert all(part["machine"] for part in result["parts"].values())

    kept("sound", alarms=["cpu: element 0"], problems=["cpu: element 0"])
    result = kill_rate.measure(files)
    assert result["false_alarms"] == 1 and any("cpu: element 0" in problem for problem in result["problems"])
    assert verdict.problems(result)

    files = [kept("sound"), kept("saboteur", faults={"tail-off-by-one": {}})]
    with pytest.raises(ValueError, match="expected a run of all faults, found one without"):
        kill_rate.measure(files)

    monkeypatch.setattr(kill_rate, "digest_of_sources", lambda: "later")
    with pytest.raises(ValueError, match="expected a run of the sources later, found one of now"):
        kill_rate.measure(files)
    for text in ("{}", "[]", "no JSON"):
        (tmp_path / "sound.json").write_text(text)
        with pytest.raises(ValueError, match="expected a kept run of kill-rate"):
            kill_rate.measure(files[:1])


def test_mutants_of_a_run_that_was_ended_go_on(tmp_path, monkeypatch):
    """With its seed, and only from the same sources."""
    monkeypatch.setattr(kill_rate, "digest_of_sources", lambda: "now")
    monkeypatch.setattr(measure, "make", lambda *_: None)
    asked = []
    monkeypatch.setattr(mutants, "run", lambda *arguments, **more: asked.append((arguments, more)) or {"mutants": 300, "killed": 300})
    (ended := tmp_path / "mutants.json").write_text('{"seed": 5, "sources": "now", "all": []}')
    assert kill_rate.measure(["mutants", str(ended)])["mutants_killed"] == 300
    [((count, seed), more)] = asked
    assert (count, seed) == (kill_rate.MUTANTS, 5) and more["ended"]["seed"] == 5 and more["facts"] == {"sources": "now"}
    ended.write_text('{"seed": 5, "sources": "before", "all": []}')
    with pytest.raises(ValueError, match="expected a run of the sources now, found one of before"):
        kill_rate.measure(["mutants", str(ended)])


def test_sources_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text("")
    (tmp_path / "conformance").mkdir()
    digests = set()
    for name, text in (("a", "x"), ("a", "y"), ("b", "y")):
        (tmp_path / "conformance" / name).write_text(text)
        digests.add(kill_rate.digest_of_sources())
    assert len(digests) == 3


FRAMEWORKS = {eager: "exp,dot,layer_norm", onnx_runtime: "exp,dot,add,take,convolution"}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda module: module.__name__)
def test_frameworks_are_judged(framework, monkeypatch):
    """Right results pass, those of another function do not."""
    def judged():
        return framework.judge("--level", "core,composite", "--quick", "--seed", 7, "--op", FRAMEWORKS[framework])

    outcomes = [line["outcome"] for line in judged()]
    assert outcomes.count("passed") > 100 and not outcomes.count("failed")
    compute = framework.compute

    def doubled(case, data):
        made = compute(case, data)
        return made * 2 if case["result"]["dtype"] == "f32" else made

    monkeypatch.setattr(framework, "compute", doubled)
    wrong = [line for line in judged() if line["outcome"] == "failed"]
    assert len({line["case"].split("/")[0] for line in wrong}) == len(FRAMEWORKS[framework].split(","))


def test_a_framework_that_dies_is_an_error(monkeypatch):
    with pytest.raises(RuntimeError, match="exit status"):
        outside.judge(lambda *_: b"", ["exp"], "--seed", 1, "--level", "nonsense")


def test_onnx_leaves_some_cases_open():
    """What ONNX does not define is refused."""
    case = {"op": "mortise.div", "attributes": {}, "operands": [{"dtype": "i32", "dims": [1]}] * 2, "result": {"dtype": "i32", "dims": [1]}}
    seven, zero = (bytearray(numpy.int32(number).tobytes()) for number in (7, 0))
    assert onnx_runtime.compute(case, [seven, seven]).tolist() == [1]
    with pytest.raises(outside.Refused, match="divided by 0"):
        onnx_runtime.compute(case, [seven, zero])
    with pytest.raises(outside.Refused, match="no such op"):
        onnx_runtime.compute(case | {"op": "mortise.erfc"}, [seven])
