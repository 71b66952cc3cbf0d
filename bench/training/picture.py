# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The picture of the figure `training-curves`: for each row the losses, and below them the distance from eager beside the noise."""

from __future__ import annotations

from pathlib import Path

from . import judge


def draw(curves: dict[str, dict[str, list[float]]], file: Path) -> None:
    """`curves`: {row: {"eager", "moved 1", ..., "mortise": losses}}. Writes an SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    figure, axes = pyplot.subplots(2, len(curves), figsize=(4.5 * len(curves), 6), squeeze=False, height_ratios=(3, 2),
                                   layout="constrained")
    for (row, found), (upper, lower) in zip(curves.items(), axes.T):
        middle = [(begin + end - 1) / 2 + 1 for begin, end in judge.windows(len(found["eager"]))]
        for name, losses in found.items():
            upper.plot(middle, judge.means(losses), label=name, linewidth=1, linestyle="--" if name == "mortise" else "-")
        eager = [losses for name, losses in found.items() if name != "mortise"]
        apart = [abs(a - b) for a, b in zip(judge.means(found["mortise"]), judge.means(found["eager"]))]
        lower.plot(middle, [judge.FACTOR * unit for unit in judge.noise(eager)], label=f"{judge.FACTOR:g} x noise of eager", linewidth=1)
        lower.plot(middle, [max(one, judge.LEAST) for one in apart], label="mortise to eager", linewidth=1)
        upper.set(title=row, xscale="log", yscale="log", ylabel="loss")
        lower.set(xscale="log", yscale="log", xlabel="step", ylabel="distance")
        upper.legend()
        lower.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    pyplot.close(figure)
