# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the dispatcher decides by true numbers, and decides well.

`networks`: the graphs of each network are cut into pieces of 1, 2, 4, ... nodes and the whole (equal pieces once), each of which the cpu
plugin takes as a region. `predicted_us` is what the dispatcher counts for it; `measured_us` is the median of its steps' time, all pieces
of the network in turns, so that each finds the caches as the others left them. `rank_correlation` is Spearman's over all regions of all
networks; `median_ratio` the median of the larger of predicted/measured and measured/predicted. `worst` lists the largest.

`placements`: random graphs of nine nodes with random costs on three devices, of which two have memory of their own (passes/bench/
placements.cpp). `mean_gap` is the mean of placement cost over the cost of the cheapest placement, less one; the cheapest is found by going
through all. `s_per_10k_ops` is the time to place one such graph of ten thousand nodes."""

MEASURES = "predicted against measured time of regions on cpu; placements against the cheapest ones, and their time"
NEEDS = "cpu"
MINUTES = 4

LEAST_RANK, MOST_RATIO, MOST_GAP, MOST_SECONDS = 0.9, 1.5, 0.02, 1.0
GRAPHS, OPS = 200, 10_000
SHOWN = 10  # of the regions whose prediction is worst


def output_of(program: str, *arguments: str) -> str:
    import subprocess

    from measure import make

    done = subprocess.run([str(make(program)), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def regions_of(network: str) -> list[dict]:
    import json
    import tempfile

    from measure import save_graphs

    with tempfile.TemporaryDirectory() as folder:
        return json.loads(output_of("mortise_region_costs", "cpu", *map(str, save_graphs(network, folder))))


def placements() -> dict:
    import json

    return json.loads(output_of("mortise_placements", str(GRAPHS), str(OPS)))


def ranks(values: list[float]) -> list[float]:
    """From 1; equal values share the mean of their ranks."""
    from bisect import bisect_left, bisect_right

    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values]


def judge(regions: list[dict]) -> dict:
    import statistics

    predicted, measured = ([region[key] for region in regions] for key in ("predicted_us", "measured_us"))
    if len(regions) < 2 or not all(number > 0 for number in [*predicted, *measured]):
        least = min([*predicted, *measured], default=0)
        return {"problem": f"expected regions with times above 0, found {len(regions)}, the least {least}"}
    ratios = [max(p / m, m / p) for p, m in zip(predicted, measured)]
    return {"regions": len(regions), "rank_correlation": statistics.correlation(ranks(predicted), ranks(measured)),
            "median_ratio": statistics.median(ratios)}


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import progress

    rows, every = {}, []
    for name in arguments or networks.MAKERS:
        networks.check(name)
        found = [{"network": name, **region} for region in regions_of(name)]
        row = rows[name] = judge(found)
        every += found
        progress(f"{name:9} " + (row.get("problem") or f"{row['regions']} regions, rank correlation {row['rank_correlation']:.3f}, ratio "
                                 f"{row['median_ratio']:.2f}"))
    result = {"networks": rows} | judge(every)
    placed = placements()
    result |= {"mean_gap": placed["mean_gap"], "s_per_10k_ops": placed["seconds"] * 10_000 / OPS, "placements": placed}
    progress(f"placements: {placed['optimal']} of {placed['graphs']} are the cheapest, mean gap {placed['mean_gap']:.2%}, worst "
             f"{placed['worst_gap']:.0%}; {OPS} nodes in {placed['seconds']:.2f} s")
    limits = {"rank_correlation": (LEAST_RANK, float("inf")), "median_ratio": (1, MOST_RATIO), "mean_gap": (0, MOST_GAP),
              "s_per_10k_ops": (0, MOST_SECONDS)}
    why = [f"{key} is {result.get(key)}, expected {least} to {most}" for key, (least, most) in limits.items()
           if not least <= result.get(key, float("nan")) <= most]
    why += [f"{placed['graphs']} graphs were placed, expected {GRAPHS}"] if placed["graphs"] != GRAPHS else []
    if "regions" in result:
        every.sort(key=lambda region: -max(region["predicted_us"] / region["measured_us"], region["measured_us"] / region["predicted_us"]))
    return result | {"worst": every[:SHOWN], "goals": {"problem": "; ".join(why)}, "passed": not why}
