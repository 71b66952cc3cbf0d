# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figure `ddp`: wrong losses, ranks that drift apart, graphs in eager and peers that fail turn it red."""

import copy
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import verdict
from figures import ddp

LOSSES = [4.0 - step / ddp.STEPS for step in range(ddp.STEPS)]
FOUND = {
    "losses": {"eager": LOSSES, "mortise": [loss * (1 + 1e-7) for loss in LOSSES], "inductor": list(LOSSES)},
    "ms": {"eager": [9.0] * ddp.STEPS, "mortise": [5000.0, *[8.0] * (ddp.STEPS - 1)], "inductor": [10.0] * ddp.STEPS},
    "failed": {},
    "replicas": {"eager": True, "mortise": True, "inductor": True},
    "graphs": [{"name": f"graph_0_{kind}", "operators": 10, "eager": []} for kind in ("forward", "backward")],
    "perturbed": [[loss * (1 + 2e-7) for loss in LOSSES], list(LOSSES), list(LOSSES)],
}


def problems(found):
    row = ddp.judged(found)
    return verdict.problems({"rows": {"ddp": row}, "passed": not row["problem"]})


def planted(*path):
    """FOUND with the last of `path` at the place that the others name."""
    found = copy.deepcopy(FOUND)
    place = found
    for key in path[:-2]:
        place = place[key]
    place[path[-2]] = path[-1]
    return found


FAULTS = {
    "NaN": (("losses", "mortise", 3, float("nan")), "expected 50 finite losses"),
    "infinite": (("losses", "mortise", 49, float("inf")), "expected 50 finite losses"),
    "too few": (("losses", "mortise", LOSSES[:-1]), "expected 50 finite losses, found 49"),
    "none": (("losses", "mortise", []), "expected 50 finite losses, found 0"),
    "wrong": (("losses", "mortise", 20, LOSSES[20] * (1 + 2e-6)), "the loss of step 20"),
    "wrong at once": (("losses", "mortise", 0, LOSSES[0] * (1 + 2e-6)), "the loss of step 0"),
    "a wrong peer": (("losses", "inductor", 20, LOSSES[20] * 1.01), "inductor: the loss of step 20"),
    "a peer that fails": (("failed", {"inductor": "RuntimeError: no compiler"}), "inductor: RuntimeError: no compiler"),
    "replicas": (("replicas", "mortise", False), "mortise: the ranks have different weights"),
    "in eager": (("graphs", 1, "eager", ["aten.add.Tensor: no handler"]), "in eager: aten.add.Tensor"),
    "nothing compiled": (("graphs", []), "expected forward and backward graphs, found []"),
    "no backward graph": (("graphs", FOUND["graphs"][:1]), "expected forward and backward graphs"),
    "nothing learnt": (("losses", {name: [4.0] * ddp.STEPS for name in FOUND["losses"]}), "eager learns nothing"),
    "eager is NaN": (("losses", "eager", [float("nan")] * ddp.STEPS), "expected 50 finite losses"),
    "noise is NaN": (("perturbed", 0, [float("nan")] * ddp.STEPS), "beside which no difference shows"),
    "noise is large": (("perturbed", 0, 30, 3.5), "beside which no difference shows"),
}


def test_a_good_run_passes():
    row = ddp.judged(FOUND)
    assert problems(FOUND) == []
    assert row["ratio_to_eager"] == 8 / 9 and row["mortise_first_step_s"] == 5 and 0.5e-7 < row["loss_diff"] < 2e-7 < 3e-7 > row["noise"]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault):
    path, why = FAULTS[fault]
    found = problems(planted(*path))
    assert any(why in problem for problem in found), found


SMALL = {"STEPS": 6, "WARM": 1, "WIDTH": 32, "DEPTH": 1, "LENGTH": 8, "PERTURBED": 2}
PLANTS = {
    "none": "",
    # One rank steps by its own gradients, not by the mean of both ranks'.
    "not reduced": """
original = ddp.Trainer.step
def step(self, ids, labels):
    if sys.argv[1] == "0" or not hasattr(self.run, "_torchdynamo_orig_callable") and not hasattr(self.run, "_orig_mod"):
        return original(self, ids, labels)
    take = self.optimizer.step
    def step_alone():
        import torch
        for parameter, own in zip(self.parameters, torch.autograd.grad(self.model(ids, labels), self.parameters)):
            parameter.grad = own
        take()
    self.optimizer.step = step_alone
    try:
        return original(self, ids, labels)
    finally:
        del self.optimizer.step
ddp.Trainer.step = step
""",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_two_ranks(plant, monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(ddp, name, value)
    code = f"import sys\nfrom figures import ddp\nvars(ddp).update({SMALL})\n{PLANTS[plant]}\nddp.run_rank(*sys.argv[1:])"
    found = ddp.run_form("ddp", 1, ("mortise",), code)
    row = ddp.judged(found)
    wrong = row["problem"].replace("eager learns nothing, so that its losses show nothing", "").strip("; ")
    assert bool(wrong) == (plant != "none"), row["problem"]
    if plant != "none":
        assert "mortise: the loss of step" in wrong and "mortise: the ranks have different weights" in wrong


def test_a_rank_that_ends_is_an_error():
    with pytest.raises(RuntimeError, match=r"a rank failed; the ranks end with .*\b3\b"):
        ddp.run_form("ddp", 1, (), "import sys, time\nsys.exit(3) if sys.argv[1] == '1' else time.sleep(60)")


def test_a_rank_that_hangs_is_an_error(monkeypatch):
    monkeypatch.setattr(ddp, "SECONDS", 1)
    with pytest.raises(RuntimeError, match="not done after 1 s"):
        ddp.run_form("ddp", 1, (), "import time\ntime.sleep(60)")
