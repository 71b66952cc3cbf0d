# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figure `training-curves`: curves of a small training are judged right, and planted faults turn it red."""

import functools
import math
import statistics
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import verdict
from figures import training_curves
from training import data, judge, runs

STEPS = 20
SMALL = {"gpt2": {"batch": 2, "length": 32, "layers": 2, "width": 32}, "resnet": {"batch": 4, "extent": 32, "widths": (8, 16)}}
ROWS = ["gpt2-f32", "gpt2-bf16", "resnet-f32"]


def losses(row, side, perturbed=0, **faults):
    run = runs.Run(row, side, perturbed, **faults, **SMALL[row.partition("-")[0]])
    return [run.step() for _ in range(STEPS)]


@functools.cache
def eager(row):
    return [losses(row, "traced", seed) for seed in range(training_curves.RUNS)]


@pytest.mark.parametrize("row", ROWS)
def test_a_compiled_training_is_right(row):
    assert judge.disagreement([losses(row, "mortise", seed) for seed in range(training_curves.RUNS)], eager(row)) == ""
    assert runs.compiled_share() == 1.0


@pytest.mark.parametrize("row", ROWS)
def test_another_rounding_is_right(row):
    assert judge.disagreement([losses(row, "traced", 11)], eager(row)) == ""
    assert judge.disagreement([losses(row, "traced", seed) for seed in (12, 13, 14, 15)], eager(row)) == ""


def updated(compiler=None, steps=5):
    """How far AdamW has moved a weight of zeros with gradients of ones, in f64."""
    weight = torch.nn.Parameter(torch.zeros(4))
    optimiser = torch.optim.AdamW([weight], lr=1e-3)
    update = torch.compile(optimiser.step, backend=compiler) if compiler else optimiser.step
    for _ in range(steps):
        weight.grad = torch.ones(4)
        update()
    return weight.detach().double().mean().item()


def test_the_trace_of_an_optimiser_is_another_one():
    """By far more than a rounding (6e-8), and Mortise computes what the trace says: why curves are compared with it."""
    traced = updated("eager")
    assert 2e-6 < abs(updated() / traced - 1) < 2e-5
    assert abs(updated("mortise") / traced - 1) < 5e-7


def without(name):
    def plant(module):
        gradient = dict(module.named_parameters())[name].grad
        gradient.zero_()

    return plant


@pytest.mark.parametrize("row, name", [
    ("gpt2-f32", "transformer.h.0.attn.c_attn.bias"), ("gpt2-f32", "transformer.ln_f.weight"),
    ("gpt2-bf16", "transformer.h.1.mlp.c_fc.weight"),
    ("resnet-f32", "classifier.1.bias"), ("resnet-f32", "resnet.embedder.embedder.convolution.weight"),
])  # fmt: skip
def test_a_gradient_that_is_zero_is_seen(row, name):
    wrong = [losses(row, "traced", seed, wrong=without(name)) for seed in range(training_curves.RUNS)]
    assert "standard errors away" in judge.disagreement(wrong, eager(row))


def test_a_gradient_that_is_a_little_wrong_is_seen():
    def plant(module):
        next(module.parameters()).grad.mul_(1.01)

    wrong = [losses("resnet-f32", "traced", seed, wrong=plant) for seed in range(training_curves.RUNS)]
    assert "standard errors away" in judge.disagreement(wrong, eager("resnet-f32"))


# ---- curves that are none ----------------------------------------------------------------------------------------


def falling(steps=training_curves.STEPS, shift=0.0):
    return [4 * math.exp(-at / 200) + 0.01 * math.sin(at) + shift for at in range(steps)]


def side(shift=0.0, steps=training_curves.STEPS):
    return [falling(steps, shift + noise) for noise in (0.0, 1e-4, -1e-4, 2e-4)]


def row(**changes):
    return training_curves.compared({"eager": side(), "mortise": side(5e-5)} | changes, training_curves.STEPS)


def test_curves_within_the_noise_are_right():
    assert row()["curve"] == "" and row()["distance"] < 1


@pytest.mark.parametrize("changes, why", [
    ({"mortise": [*side()[:3], [*falling()[:-1], math.nan]]}, "mortise: the loss of step 499 is not finite"),
    ({"eager": [*side()[:3], [math.inf, *falling()[1:]]]}, "eager: the loss of step 0 is not finite"),
    ({"mortise": side(steps=400)}, "expected 500 losses, found 400"),
    ({"mortise": side(1e-3)}, "standard errors away"),
    ({"mortise": [[*a[:300], *b[300:]] for a, b in zip(side(), side(0.01))]}, "standard errors away"),
    ({"mortise": [[4.0] * 500] * 4}, "nothing was learnt"),
    ({"mortise": [falling(shift=noise) for noise in (0, 2e-3, -2e-3, 1e-3)]}, "our runs differ"),
    ({"mortise": [falling(shift=5e-5)] * 4}, "are the same"),
    ({"eager": [falling()] * 4}, "three runs of eager or more that differ"),
])  # fmt: skip
def test_what_is_no_such_curve_is_red(changes, why):
    assert why in row(**changes)["curve"]


def test_runs_that_have_just_parted_are_as_far_apart_as_they_are():
    """The windows before, where runs were equal but for roundings, say nothing of the noise."""
    parted = [[1.0] * judge.SINGLE + [1.0 + noise] * judge.WINDOW for noise in (0.0, 4e-4, -4e-4, 8e-4)]
    own = statistics.stdev(run[-1] for run in parted)
    assert judge.deviations(parted)[-1] == pytest.approx(own)


EXPECTED = ("gpt2-f32", "mortise", 1, "a")
RUN = {"row": "gpt2-f32", "side": "mortise", "perturbed": 1, "digest": "a", "coverage": 1.0}


@pytest.mark.parametrize(
    "changes", [{"digest": "b"}, {"row": "gpt2-bf16"}, {"side": "eager"}, {"perturbed": 0}, {"coverage": 0.99}, {"coverage": 0.0}]
)
def test_a_run_of_something_else_is_red(changes):
    assert training_curves.not_comparable(EXPECTED, RUN) == ""
    assert training_curves.not_comparable(EXPECTED, RUN | changes)


def test_what_ran_in_eager_has_no_share():
    torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
    assert runs.compiled_share() == 0.0


# ---- times and memory ---------------------------------------------------------------------------------------------


def clock(mortise=7.0, inductor_losses=None):
    first = {side: falling(28) for side in training_curves.SIDES}
    if inductor_losses:
        first["inductor"] = inductor_losses
    step = {"eager": [10.0, 30.0, 10.0], "fused": [9.5] * 3, "inductor": [9.0] * 3, "mortise": [mortise] * 3}
    return training_curves.ratios({"times": step, "losses": first, "digests": dict.fromkeys(step, "a")}, [*side(), *side(5e-5)])


def test_times():
    assert clock()["step_ratio"]["eager"] == pytest.approx(0.7) and clock()["clock"] == ""
    assert "of eager's time" in clock(mortise=8.5)["clock"] and "of inductor's time" in clock(mortise=7.5)["clock"]
    wrong = clock(inductor_losses=falling(28, shift=0.1))
    assert "inductor while clocked" in wrong["clock"] and wrong["step_ratio"]["eager"] is None


def memory(mortise=(90, 90, 91), held=5, state=7):
    return training_curves.peaks({"eager": {"rounds": [100, 100, 100], "held": 0, "state": 7, "digest": "a"},
                                  "mortise": {"rounds": list(mortise), "held": held, "state": state, "digest": "a"}})


def test_memory():
    assert memory()["memory"] == "" and memory()["peak_ratio"] == pytest.approx(0.95)
    assert "at most 1 is due" in memory(held=15)["memory"]
    assert "do not repeat" in memory(mortise=(10, 50, 90))["memory"]
    assert "different networks" in memory(state=8)["memory"]


@pytest.mark.parametrize("part, why", [("curve", "nothing was learnt"), ("clock", "too slow"), ("memory", "too much")])
def test_a_wrong_row_makes_the_figure_red(monkeypatch, tmp_path, part, why):
    good = {"final_loss": {"eager": 1.0, "mortise": 1.0}, "step_ratio": {"eager": 0.5}, "peak_ratio": 0.9}
    monkeypatch.setattr(training_curves, "trained", lambda *_: ({"eager": [[1.0]], "mortise": [[1.0]]}, []))
    for function, key in (("compared", "curve"), ("clocked", "clock"), ("remembered", "memory")):
        monkeypatch.setattr(training_curves, function, lambda *_, key=key: good | {key: why if key == part else ""})
    monkeypatch.setattr("measure.ROOT", tmp_path)
    monkeypatch.setattr("training.picture.draw", lambda *_: None)
    (tmp_path / "build" / "reports").mkdir(parents=True)
    result = training_curves.measure(["gpt2-f32"])
    assert any(why in problem for problem in verdict.problems(result)) and result["partial"]


@pytest.mark.parametrize("wrong", ["gpt3-f32", "steps=x", "steps=0", "steps="])
def test_arguments(wrong):
    with pytest.raises(ValueError, match=f"expected rows of .* found '{wrong}'"):
        training_curves.measure(["gpt2-f32", wrong])


# ---- data -----------------------------------------------------------------------------------------------------------


def test_batches_are_real_and_the_same_for_all():
    text, images = data.text_batches(2, 16), data.image_batches(2, 32)
    for batches in (text, images):
        assert all(torch.equal(a, b) for a, b in zip(batches(3), batches(3))) and not torch.equal(batches(3)[0], batches(4)[0])
    ids, following = text(0)
    assert torch.equal(ids[:, 1:], following[:, :-1]) and len(data.tokens().unique()) > 1500
    pixels, digits = images(0)
    assert pixels.shape == (2, 1, 32, 32) and pixels.min() >= -1 and pixels.max() <= 1 and digits.dtype is torch.int64


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    from training import picture

    picture.draw({"gpt2-f32": {"eager": side(), "mortise": side(5e-5)}}, tmp_path / "new" / "curves.svg")
    assert "gpt2-f32" in (text := (tmp_path / "new" / "curves.svg").read_text()) or "<svg" in text
