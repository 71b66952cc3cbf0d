# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The picture of the figure `training-curves`: for each row the losses, and below them how far the sides are apart, and may be."""

from __future__ import annotations

from pathlib import Path

from . import judge


def draw(curves: dict[str, dict[str, list[list[float]]]], file: Path) -> None:
    """`curves`: {row: {side: the losses of its runs}}. Writes an SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    figure, axes = pyplot.subplots(2, len(curves), figsize=(4.5 * len(curves), 6), squeeze=False, height_ratios=(3, 2),
                                   layout="constrained")
    for (row, found), (upper, lower) in zip(curves.items(), axes.T):
        middle = [(begin + end - 1) / 2 + 1 for begin, end in judge.windows(len(found["eager"][0]))]
        for (side, runs), colour in zip(found.items(), ("tab:blue", "tab:orange")):
            for number, losses in enumerate(runs):
                upper.plot(middle, judge.means(losses), label="" if number else side, linewidth=0.7, color=colour)
        sides = (found["mortise"], found["eager"])
        lower.plot(middle, [judge.LIMIT * error for error in judge.errors(*sides)], label=f"{judge.LIMIT:g} standard errors", linewidth=1)
        lower.plot(middle, [max(one, judge.LEAST) for one in judge.apart(*sides)], label="means of mortise to eager", linewidth=1)
        upper.set(title=row, xscale="log", yscale="log", ylabel="loss")
        lower.set(xscale="log", yscale="log", xlabel="step", ylabel="distance")
        upper.legend()
        lower.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    pyplot.close(figure)
