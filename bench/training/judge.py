# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether two sides' curves of losses differ by more than rounding makes runs of one side differ.

Two runs of the same training that round differently part company: their weights differ by roundings first, and training may make
small differences larger. How fast depends on the network and the data, and where a single run ends is chance, so that several runs of
each side are compared. A product that is rounded is the exact product by weights that are some units in the last place away from the
given ones (backward error), so run N of both sides has weights that are moved at random, by a generator with seed N, by up to one unit
for the loss and the gradients of each step (run 0: none). The unit is that of the dtype in which products are computed.

The steps are divided into windows: the first ten steps one by one, while runs are close enough to show a single wrong gradient, then
tens of steps. In each the deviation of a run's mean loss is taken from all runs of a side there and in the two windows beside it on each
side, but is not less than in the window alone: runs part within few steps (a thousand times the noise from one window to the next has
been seen), and the windows before would make it too small. The sides agree where the means of their runs are at most LIMIT standard
errors apart (Student's t of two samples), and the deviation of one side is not typically more than SPREAD times the other's, because an
erratic side would otherwise excuse itself.

LIMIT: with four runs of each side, in five windows that hang together, the deviation has 6 to 30 degrees of freedom; with 12, 6
standard errors are passed by chance in one window of 16,000."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

SINGLE, WINDOW, BESIDE, LIMIT, SPREAD = 10, 10, 2, 6.0, 5.0
LEARNT = 0.7  # of the first loss, at most, has to be left in the last window
LEAST = 4 * 2.0**-23  # of the loss: what a mean of logarithms in f32 is exact to

Runs = Sequence[Sequence[float]]  # the losses of each run, all of one length


def windows(steps: int) -> list[tuple[int, int]]:
    single = min(SINGLE, steps)
    return [(at, at + 1) for at in range(single)] + [(at, min(at + WINDOW, steps)) for at in range(single, steps, WINDOW)]


def means(losses: Sequence[float]) -> list[float]:
    return [sum(losses[begin:end]) / (end - begin) for begin, end in windows(len(losses))]


def deviations(runs: Runs) -> list[float]:
    """Of each window, the standard deviation of its mean between runs."""
    variances = [statistics.variance(at) for at in zip(*map(means, runs), strict=True)]
    return [math.sqrt(max(variances[at], statistics.mean(variances[max(at - BESIDE, 0) : at + BESIDE + 1])))
            for at in range(len(variances))]


def errors(ours: Runs, theirs: Runs) -> list[float]:
    """Of each window, the standard error of the difference between the means of two sides. A single run takes theirs."""
    sides = [deviations(side) for side in (ours, theirs) if len(side) > 1]
    scale = math.sqrt(1 / len(ours) + 1 / len(theirs))
    least = [LEAST * abs(mean) for mean in means(theirs[0])]
    return [max(math.sqrt(statistics.mean(one**2 for one in at)) * scale, floor) for at, floor in zip(zip(*sides), least, strict=True)]


def apart(ours: Runs, theirs: Runs) -> list[float]:
    """Of each window, the distance between the means of two sides."""
    both = [[statistics.mean(at) for at in zip(*map(means, side), strict=True)] for side in (ours, theirs)]
    return [abs(a - b) for a, b in zip(*both, strict=True)]


def problem_of(losses: Sequence[float], steps: int) -> str:
    """Why a run is no training at all; empty if it is one."""
    if len(losses) != steps:
        return f"expected {steps} losses, found {len(losses)}"
    if not all(map(math.isfinite, losses)):
        return f"the loss of step {next(at for at, loss in enumerate(losses) if not math.isfinite(loss))} is not finite"
    if (left := means(losses)[-1] / losses[0]) > LEARNT:
        return f"nothing was learnt: {left:.2f} of the first loss is left, at most {LEARNT} may be"
    return ""


def distance(ours: Runs, theirs: Runs) -> tuple[float, tuple[int, int]]:
    """How far the sides are apart in standard errors, and the steps where that is most."""
    found = [one / unit for one, unit in zip(apart(ours, theirs), errors(ours, theirs), strict=True)]
    worst = max(range(len(found)), key=found.__getitem__)
    return found[worst], windows(len(ours[0]))[worst]


def disagreement(ours: Runs, eager: Runs) -> str:
    """Why these are not runs of eager's training; empty if they could be. Runs of eager are as long as ours, or longer."""
    if len(eager) < 3 or any(one in eager[:at] for at, one in enumerate(eager)):
        return "expected three runs of eager or more that differ, so that there is noise to compare with"
    if not ours or not all(losses and all(map(math.isfinite, losses)) for losses in ours):
        return "expected losses that are finite"
    if len(ours) > 1 and any(one in ours[:at] for at, one in enumerate(ours)):
        return "two runs that were moved differently are the same"
    eager = [run[: len(ours[0])] for run in eager]
    far, (begin, end) = distance(ours, eager)
    if far > LIMIT:
        return f"steps {begin} to {end - 1} are {far:.1f} standard errors away from eager, {LIMIT:g} are allowed"
    if len(ours) > 1:
        wider = statistics.median(a / max(b, floor) for a, b, floor in zip(deviations(ours), deviations(eager),
                                                                          [LEAST * abs(mean) for mean in means(eager[0])], strict=True))
        if wider > SPREAD:
            return f"our runs differ {wider:.1f} times as much as eager's, {SPREAD:g} times is allowed"
    return ""
