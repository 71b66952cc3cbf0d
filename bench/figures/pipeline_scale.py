# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How compile time grows with the network: made transformer layers in four towers side by side, written out in small
steps (passes/bench), each size in fresh processes, medians.

`seconds` is the whole pipeline: from the module that a frontend built to the plan (passes, export, proposals of the cpu
plugin, placement, plan writing). `slope` is that of the line fitted to the three sizes, logarithm over logarithm; from 10k to
100k ops (`slope_large`) the module also outgrows the caches.
`layers` compares a network of 32 layers with one of one layer, each with the norm and the product that stand behind the
layers of a language model, until kernels are compiled as well, in turns. `layers.bare` is the same without these two: then a
single layer has no norm behind its last sum, and so lacks a kernel that all but the last of 32 have."""

MEASURES = "seconds of the pipeline at 1k, 10k and 100k ops and their slope; compile time of 32 layers over that of one"
NEEDS = "cpu, the product build"
MINUTES = 1

SIZES = (1_000, 10_000, 100_000)
ROUNDS, LAYER_ROUNDS = 5, 25


def clock(rounds: int, *cases: list[str]) -> list[dict]:
    """For each case medians over fresh processes, in turns, of what the tool prints, and `compile_s`, the pipeline and kernels."""
    import json
    import os
    import subprocess

    from measure import build_folder, built, median

    program, plugins = built("bin/mortise_passes_bench"), build_folder() / "lib" / "mortise" / "plugins"
    runs = [[] for _ in cases]
    for _ in range(rounds):
        for case, into in zip(cases, runs):
            done = subprocess.run([str(program), *case], capture_output=True, text=True, check=False,
                                  env=dict(os.environ, MORTISE_PLUGIN_PATH=str(plugins), MORTISE_DEVICE="cpu"))
            if done.returncode:
                raise RuntimeError(f"{program.name} {' '.join(case)} failed: {done.stderr[-2000:]}")
            run = json.loads(done.stdout)
            into.append(run | {"compile_s": run["pipeline_s"] + run["kernels_s"]})
    return [{key: median([run[key] for run in rows]) for key in rows[0]} for rows in runs]


def fitted(x: list[float], y: list[float]) -> float:
    """The slope of the least-squares line."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def measure(arguments: list[str]) -> dict:
    from math import log

    from measure import progress

    rows = {}
    for size in SIZES:
        row = rows[str(size)] = clock(ROUNDS, ["--ops", str(size), "--towers", "4"])[0]
        progress(f"{size:7} ops {row['pipeline_s']:.3f} s (passes {row['passes_s']:.3f}, placement {row['place_s']:.3f}, "
                 f"{row['regions']:.0f} regions)")

    def slope(small: int, large: int) -> float:
        a, b = rows[str(small)], rows[str(large)]
        return log(b["pipeline_s"] / a["pipeline_s"]) / log(b["ops"] / a["ops"])

    counts, common = ("1", "32"), ["--hidden", "256", "--kernels", "--layers"]
    clocked = clock(LAYER_ROUNDS, *([*head, *common, count] for head in (["--head", "1024"], []) for count in counts))
    layers, bare = dict(zip(counts, clocked[:2])), dict(zip(counts, clocked[2:]))
    compile_s = {count: row["compile_s"] for count, row in layers.items()}
    result = {
        "seconds": {size: row["pipeline_s"] for size, row in rows.items()},
        "slope": fitted([log(row["ops"]) for row in rows.values()], [log(row["pipeline_s"]) for row in rows.values()]),
        "slope_small": slope(SIZES[0], SIZES[1]),
        "slope_large": slope(SIZES[1], SIZES[2]),
        "layers": {"compile_s": compile_s, "ratio": compile_s["32"] / compile_s["1"],
                   "bare": {"compile_s": {count: row["compile_s"] for count, row in bare.items()},
                            "ratio": bare["32"]["compile_s"] / bare["1"]["compile_s"]},
                   "stages": {count: {key: row[key] for key in ("pipeline_s", "kernels_s")}
                              for count, row in layers.items()}},
        "rows": rows,
    }
    progress(f"slope {result['slope']:.2f} ({result['slope_small']:.2f} below 10k, {result['slope_large']:.2f} above); 32 layers "
             f"{compile_s['32'] * 1e3:.0f} ms, one {compile_s['1'] * 1e3:.0f} ms: {result['layers']['ratio']:.2f} "
             f"(bare {result['layers']['bare']['ratio']:.2f})")
    result["passed"] = (result["seconds"]["100000"] < 10 and result["slope"] <= 1.15
                        and result["layers"]["ratio"] <= 1.5)
    return result
