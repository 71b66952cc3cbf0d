# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figure `model-zoo`: a few families by seed are right, and what is wrong turns a row, or the figure, red."""

import json
import os
import random
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "frontend" / "torch" / "test")]
import figure
import verdict
from figures import model_zoo
from zoo import families, judge, processes, torchvision_absent

FEW, LARGEST = 3, 150_000  # families, parameters


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield


# ---- rows -----------------------------------------------------------------------------------------------------


def test_a_few_families(record_property):
    pytest.importorskip("transformers")
    seed = int(os.environ.get("MORTISE_TEST_SEED", random.getrandbits(32)))
    record_property("seed", seed)
    names = [f"transformers/{name}" for name in families.folders()]
    random.Random(seed).shuffle(names)
    rows = {}
    for name in names:
        try:
            model = families.build(name, seed)
            if sum(p.numel() for p in model.module.parameters()) > LARGEST:
                continue
            rows[name] = {"forward": judge.judge_forward(model), "training": judge.judge_training(model)}
        except families.Skipped:
            continue
        if len(rows) == FEW:
            break
    assert len(rows) == FEW
    for name, row in rows.items():
        assert model_zoo.problem(row) == "", (seed, name)
        assert row["forward"]["operators"] > 20, (seed, name)


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.dropout, self.second = nn.Linear(8, 16), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        return {"out": self.second(self.dropout(self.norm(torch.relu(self.first(x)))))}


def tiny():
    return families.Model(Tiny().eval(), {"x": torch.randn(3, 8)}, "tiny")


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient * 1.001


def spoilt(change):
    """torch.compile with mortise whose functions change their results."""
    original = torch.compile

    def compile(module, backend, **options):
        function = original(module, backend=backend, **options)
        return (lambda **inputs: {"out": change(function(**inputs)["out"])}) if backend == "mortise" else function

    return mock.patch.object(torch, "compile", compile)


def one_element(value):
    def change(out):
        out = out.clone()
        out.view(-1)[out.numel() // 2] = value
        return out

    return change


def raising(_):
    raise IndexError("planted")


def test_a_right_model_passes():
    model = tiny()
    row = {"forward": judge.judge_forward(model), "training": judge.judge_training(model)}
    assert model_zoo.problem(row) == "" and model_zoo.counts(row)[0] == model_zoo.counts(row)[1] > 10


class Chooser(nn.Module):
    """All scores are equal."""

    def __init__(self):
        super().__init__()
        self.score = nn.Parameter(torch.zeros(12, 8))
        self.experts = nn.Parameter(torch.randn(12, 4))

    def forward(self, x):
        scores, chosen = torch.topk(x @ self.score.T, 2, dim=-1)
        return {"out": self.experts[chosen].sum(1) + scores.sum(-1, keepdim=True)}


def test_which_of_equal_numbers_is_taken_is_no_difference():
    model = families.Model(Chooser().eval(), {"x": torch.randn(3, 8)}, "chooser")
    row = {"forward": judge.judge_forward(model), "training": judge.judge_training(model)}
    assert model_zoo.problem(row) == ""
    with judge.FirstOfEquals():
        assert torch.topk(torch.tensor([1.0, 3.0, 3.0, 3.0]), 2).indices.tolist() == [1, 2]
        assert torch.topk(torch.tensor([3.0, 1.0, 1.0, 1.0]), 2, largest=False).indices.tolist() == [1, 2]


def test_weights_of_one_number_are_spread():
    module = Tiny()
    before = module.first.weight.clone()
    families.spread(module)
    assert module.norm.weight.std() > 0 and module.norm.bias.std() > 0 and torch.equal(module.first.weight, before)


FAULTS = {
    "zeroed": (lambda out: out * 0, "elements differ"),
    "NaN": (one_element(float("nan")), "1 of 12 torch.float32 elements differ"),
    "one wrong element": (one_element(3.0), "1 of 12 torch.float32 elements differ"),
    "slightly wrong": (lambda out: out * (1 + 2e-4), "elements differ"),
    "another shape": (lambda out: out[:-1], "expected torch.float32"),
    "another dtype": (lambda out: out.double(), "expected torch.float32"),
    "an exception": (raising, "IndexError: planted"),
}


@pytest.mark.parametrize("change, why", FAULTS.values(), ids=FAULTS)
def test_a_wrong_result_is_found(change, why):
    with spoilt(change):
        row = {"forward": judge.judge_forward(tiny()), "training": {}}
    assert why in model_zoo.problem(row)


def test_a_wrong_gradient_is_found():
    with spoilt(WrongGradient.apply):
        model = tiny()
        row = {"forward": judge.judge_forward(model), "training": judge.judge_training(model)}
    assert model_zoo.problem(row).startswith("training: result ")


def test_a_row_is_judged_again_with_other_numbers(monkeypatch):
    """A fault that is there for the second seed, too, is a failure; an exception is never tried again."""
    seeds = []

    def once(problems, **more):
        def judge_once(name, seed):
            seeds.append(seed)
            return {"forward": {"problem": problems.get(seed, ""), "compared": True} | more, "training": {"problem": ""}}

        return judge_once

    for problems, more, tried, problem in (({7: "a"}, {}, [7, 8], ""), ({7: "a", 8: "b"}, {}, [7, 8], "b"), ({}, {}, [7], ""),
                                           ({7: "a"}, {"compared": False}, [7], "a")):
        seeds.clear()
        monkeypatch.setattr(judge, "judge_once", once(problems, **more))
        monkeypatch.setattr(judge, "prepare", lambda: None)
        row = judge.judge("t", 7)
        assert seeds == tried and row["forward"]["problem"] == problem and ("retried" in row) == (len(tried) == 2)


def test_nothing_compiled_is_found():
    with mock.patch.object(torch, "compile", lambda module, **_: module):
        assert judge.judge_forward(tiny())["problem"] == "nothing was compiled"


def test_lost_results_are_found():
    expected = [torch.ones(2), torch.ones(3)]
    exact = lambda: []  # noqa: E731
    assert judge.difference([], [], lambda: [], exact) == "nothing to compare"
    assert judge.difference(expected[:1], expected, lambda: expected, exact) == "1 results, expected 2"
    assert "gradients of other parameters" in judge.difference([None, expected[1]], expected, lambda: expected, exact)
    assert "gradients of other parameters" in judge.difference(expected, [None, expected[1]], lambda: [None, expected[1]], exact)
    assert judge.difference([torch.zeros(2), expected[1]], [None, expected[1]], lambda: [None, expected[1]], exact) == ""


def test_random_models_have_no_row():
    class Random(Tiny):
        def forward(self, x):
            return {"out": super().forward(x)["out"] + torch.rand(4)}

    with pytest.raises(families.Skipped, match="random"):
        judge.judge_forward(families.Model(Random().eval(), {"x": torch.randn(3, 8)}, "random"))


# ---- processes ------------------------------------------------------------------------------------------------


def test_a_crash_and_a_hang_are_results():
    assert processes.call(len, "four", seconds=60) == 4
    assert "the process ended with 3" in processes.call(os._exit, 3, seconds=60)["error"]
    assert "no result within 1 s" in processes.call(time.sleep, 30, seconds=1)["error"]
    assert processes.call(int, "x", seconds=60)["error"].startswith("ValueError: invalid literal")


def test_torchvision_is_absent():
    made = torchvision_absent.Module("torchvision.ops")
    assert not isinstance(nn.BatchNorm2d(3), made.FrozenBatchNorm2d) and made.Mode.NEAREST is not None
    with pytest.raises(ImportError, match="torchvision.ops.nms is needed"):
        made.nms(1)


# ---- the figure -----------------------------------------------------------------------------------------------

RIGHT = {"forward": {"operators": 40, "eager": {}, "problem": "", "cold_s": 1.0}, "training": {"operators": 60, "eager": {}, "problem": ""}}


def answers(changes):
    """processes.call with prepared rows. `changes`: {family: what its row has in place of the right one's}."""

    def call(function, name, *arguments, seconds):
        if function is judge.cold:
            return changes.get(name, {}).get("cold", {"seconds": 2.0})
        return json.loads(json.dumps(RIGHT | changes.get(name, {})))

    return mock.patch.object(processes, "call", call)


@pytest.fixture
def many(monkeypatch, tmp_path):
    import measure

    names = [f"transformers/t{n}" for n in range(model_zoo.LEAST["transformers"])] + [f"timm/t{n}" for n in range(model_zoo.LEAST["timm"])]
    monkeypatch.setattr(families, "names", lambda: names)
    monkeypatch.setattr(model_zoo, "sources", lambda: "now")
    monkeypatch.setattr(measure, "build_folder", lambda: tmp_path)
    return tmp_path


def test_right_rows_make_the_figure(many, monkeypatch):
    monkeypatch.setattr(model_zoo, "DRAWN", 100)  # all: the seed is drawn, too
    with answers({}):
        result = model_zoo.measure([])
    assert verdict.problems(result) == [] and "partial" not in result
    assert (result["architectures"], result["passed"], result["failed"], result["coverage"]) == (100, 100, 0, 1.0)
    assert result["rows"]["timm/t0"] | {"aot_eager_s": 2.0, "inductor_s": 2.0, "cold_s": 1.0} == result["rows"]["timm/t0"]


def test_inductor_compiles_the_families_that_the_seed_draws(many, monkeypatch):
    monkeypatch.setattr(model_zoo, "DRAWN", 70)
    monkeypatch.setattr(random, "getrandbits", lambda _: 5)
    with answers({}):
        results = [model_zoo.measure([]) for _ in range(2)]
    drawn = [{name for name, row in result["rows"].items() if row["inductor_s"] == 2.0} for result in results]
    assert drawn[0] == drawn[1] and len(drawn[0]) == results[0]["timed"] == 70
    assert all(row["aot_eager_s"] == 2.0 for row in results[0]["rows"].values()) and verdict.problems(results[0]) == []


WRONG = {
    "a wrong result": ({"forward": RIGHT["forward"] | {"problem": "planted"}}, "forward: planted"),
    "a wrong gradient": ({"training": RIGHT["training"] | {"problem": "planted"}}, "training: planted"),
    "a crash": ({"error": "the process ended with -11"}, "the process ended with -11"),
    "no time": ({"forward": RIGHT["forward"] | {"cold_s": None}}, "no time was measured"),
    "too few": ({"skipped": "planted"}, "59 architectures of transformers, 60 are due"),
    "no times of peers": ({"cold": {"error": "planted"}}, "0 rows have the times of all three compilers, 60 are due"),
    "many retried rows": ({"retried": "planted"}, "rows were right with other weights"),
    "low coverage": ({"forward": RIGHT["forward"] | {"operators": 10000, "eager": {"aten.mm.default": 9000}}}, "0.95 is due"),
}


@pytest.mark.parametrize("change, why", WRONG.values(), ids=WRONG)
def test_a_wrong_row_fails_the_figure(many, change, why):
    changed = dict.fromkeys(families.names(), change) if "rows " in why else {"transformers/t3": change}
    with answers(changed):
        assert any(why in problem for problem in verdict.problems(model_zoo.measure([])))


def test_a_part_is_not_kept(many, monkeypatch, capsys):
    monkeypatch.setattr(figure, "save", lambda *_: pytest.fail("kept"))
    for part in (["t1"], ["5"], ["without-peers"]):
        monkeypatch.setattr(sys, "argv", ["figure", "--save", "model-zoo", *part])
        with answers({}):
            assert figure.main() == 0
        assert "not kept" in capsys.readouterr().err
    assert not list(many.iterdir())


def test_a_run_that_was_ended_goes_on(many, monkeypatch):
    with answers({}):
        seed = model_zoo.measure([])["seed"]
    kept = json.loads((file := many / "model-zoo.json").read_text())
    del kept["rows"]["timm/t7"]
    kept["rows"]["timm/t8"]["problem"] = "planted"
    file.write_text(json.dumps(kept))
    with answers({}):
        result = model_zoo.measure([str(file)])
    assert result["seed"] == seed and result["failed"] == 1 and len(result["rows"]) == 100
    for text in ("{}", "[]", "no JSON"):
        file.write_text(text)
        with pytest.raises(ValueError, match="expected a run of model-zoo"):
            model_zoo.measure([str(file)])
    file.write_text(json.dumps(kept | {"sources": "before"}))
    with pytest.raises(ValueError, match="expected a run of the sources now, found one of before"):
        model_zoo.measure([str(file)])
    with pytest.raises(ValueError, match="expected families"):
        model_zoo.measure(["no-family"])
