# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a curve of losses lies where rounding could have put eager's.

Two runs of the same training that round differently part company: their weights differ by roundings first, and training may make
small differences larger. How fast depends on the network and the data, so that it is measured. A product that is rounded is the
exact product by weights that are some units in the last place away from the given ones (backward error), so eager runs once as it
is, and twice with weights that are moved at random by up to one unit for the loss and the gradients of each step. The unit is that
of the dtype in which products are computed.

The steps are divided into windows: the first ten steps one by one, while the noise is small enough to show a single wrong
gradient, then tens of steps. In each the noise is the largest distance between the means of two of eager's runs there or in the
two windows beside it on each side, and at least LEAST. The curve is right if its distance
from eager's own run is nowhere more than FACTOR times the noise.

FACTOR: of three normal numbers with deviation s the largest distance is 1.69 s in the mean, and the curve in question differs
from one of them with deviation 1.41 s. With five windows to take the noise from, 3 times the noise is about 7 s, of which a part is
for roundings outside products, which moved weights do not show."""

from __future__ import annotations

import math
from collections.abc import Sequence

SINGLE, WINDOW, BESIDE, FACTOR = 10, 10, 2, 3.0
LEARNT = 0.7  # of the first loss, at most, has to be left in the last window
LEAST = 4 * 2.0**-23  # of the loss: what a mean of logarithms in f32 is exact to


def windows(steps: int) -> list[tuple[int, int]]:
    single = min(SINGLE, steps)
    return [(at, at + 1) for at in range(single)] + [(at, min(at + WINDOW, steps)) for at in range(single, steps, WINDOW)]


def means(losses: Sequence[float]) -> list[float]:
    return [sum(losses[begin:end]) / (end - begin) for begin, end in windows(len(losses))]


def noise(eager: Sequence[Sequence[float]]) -> list[float]:
    """Of each window, from several runs of eager of one length."""
    runs = [means(losses) for losses in eager]
    apart = [max(at) - min(at) for at in zip(*runs)]
    return [max(*apart[max(at - BESIDE, 0) : at + BESIDE + 1], LEAST * abs(runs[0][at])) for at in range(len(apart))]


def problem_of(losses: Sequence[float], steps: int) -> str:
    """Why a run is no training at all; empty if it is one."""
    if len(losses) != steps:
        return f"expected {steps} losses, found {len(losses)}"
    if not all(map(math.isfinite, losses)):
        return f"the loss of step {next(at for at, loss in enumerate(losses) if not math.isfinite(loss))} is not finite"
    if (left := means(losses)[-1] / losses[0]) > LEARNT:
        return f"nothing was learnt: {left:.2f} of the first loss is left, at most {LEARNT} may be"
    return ""


def distance(losses: Sequence[float], eager: Sequence[Sequence[float]]) -> tuple[float, tuple[int, int]]:
    """How far the curve is from eager's first run, in units of the noise, and the steps where that is most."""
    ours, theirs = means(losses), means(eager[0])
    apart = [abs(a - b) / unit for a, b, unit in zip(ours, theirs, noise(eager), strict=True)]
    worst = max(range(len(apart)), key=apart.__getitem__)
    return apart[worst], windows(len(losses))[worst]


def disagreement(losses: Sequence[float], eager: Sequence[Sequence[float]]) -> str:
    """Why the curve is not one of eager's; empty if it could be. The runs of eager are as long as the curve, or longer."""
    if len(eager) < 3 or eager[0] in eager[1:]:
        return "expected three runs of eager that differ, so that there is noise to compare with"
    if not losses or not all(map(math.isfinite, losses)):
        return "expected losses that are finite"
    far, (begin, end) = distance(losses, [run[: len(losses)] for run in eager])
    if far > FACTOR:
        return f"steps {begin} to {end - 1} are {far:.1f} times the noise away from eager, {FACTOR:g} times is allowed"
    return ""
