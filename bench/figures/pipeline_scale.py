# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How compile time grows with the network: synthetic transformer layers in four parallel towers, written out in small steps (passes/bench).
Each size runs in fresh processes; medians are reported.

`seconds` is the whole pipeline: from a frontend's module to the plan (passes, export, proposals of the cpu plugin, placement, plan
writing). `slope` is the slope of the line fitted to the logarithms at the three sizes; from 10k to 100k ops (`slope_large`) the module also
outgrows the caches.
`layers` compares real networks of 32 layers (transformers' GPT-2, and Llama with a KV cache, 256 features wide) with the same networks of
one layer, through torch.compile, from the FX graph's arrival at our backend until its kernels are ready, in processes that have opened the
devices and loaded the table of decompositions before. From then on weights are packed, on another thread: `packing_s`. `trace_s` is the
time that PyTorch spends inside our call on tracing with decompositions, before the graph exists; `aot_eager_s` is its time for the backend
aot_eager, which compiles nothing.
`made` are the synthetic layers of the first part, 1 and 32 of them with a language model's head, without Python."""

MEASURES = "seconds of the pipeline at 1k, 10k and 100k ops and their slope; compile time of 32 layers over that of one"
NEEDS = "cpu, the product build, transformers"
MINUTES = 12

SIZES = (1_000, 10_000, 100_000)
ROUNDS, MADE_ROUNDS, LAYER_ROUNDS = 5, 15, 9
COUNTS = (1, 32)
RATIO, COMPILER_RATIO = 2.0, 1.5  # limits: with the import; and of passes, placement and kernels alone

# argv: network, layers, backend
LAYERED = """
import json, sys, time, torch, networks
torch.set_num_threads(2)
network, name = networks.layered(sys.argv[1], int(sys.argv[2])), sys.argv[3]
backend, call = torch._dynamo.lookup_backend(name), []
if name == "mortise":  # what a process does once, whatever it compiles, would hide how compile time grows
    import torch_mortise, torch_mortise.importer
    torch_mortise.devices()
    torch_mortise.importer.decompositions.table()
def clocked(module, inputs):
    begin = time.perf_counter()
    try:
        return backend(module, inputs)
    finally:
        call.append(time.perf_counter() - begin)
with torch.no_grad():
    network.run(torch.compile(network.module, backend=clocked), network.module)
row = {"call_s": sum(call)}
if name == "mortise":
    report = torch_mortise.last_report()
    if report["coverage"] < 1 or len(report["graphs"]) != 1:
        sys.exit(f"expected one graph that is covered, found {report['coverage']:.1%} of {len(report['graphs'])} graphs")
    graph = report["graphs"][0]
    row["packing_s"] = graph["compile_s"]["bind"]
    row["ours_s"] = graph["backend_s"] - graph["bind_s"]
    row["compiler_s"] = sum(graph["compile_s"][stage] for stage in ("passes", "place", "kernels"))
    row.update({stage + "_s": graph["compile_s"][stage] for stage in ("passes", "place", "kernels")})
    row["import_s"] = row["ours_s"] - row["compiler_s"]
    row["trace_s"] = row["call_s"] - row["ours_s"]
print(json.dumps(row))
"""


def clock(rounds: int, *cases: list[str]) -> list[dict]:
    """For each case the medians, over fresh processes in turns, of the tool's output, and `compile_s`, the pipeline plus the kernels."""
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


def layers(name: str) -> dict:
    """Medians of fresh processes in turns, for 1 and 32 layers."""
    from measure import in_fresh_process, median, progress

    environment = {"MORTISE_DEVICE": "cpu"}
    runs = {count: [] for count in COUNTS}
    for _ in range(LAYER_ROUNDS):
        for count, rows in runs.items():
            rows.append(in_fresh_process(LAYERED, name, str(count), "mortise", env=environment))
    row = {str(count): {key: median([run[key] for run in rows]) for key in rows[0]} for count, rows in runs.items()}
    for count in COUNTS:
        row[str(count)]["aot_eager_s"] = in_fresh_process(LAYERED, name, str(count), "aot_eager")["call_s"]
    few, many = (row[str(count)] for count in COUNTS)
    row["ratio"] = many["ours_s"] / few["ours_s"]
    row["compiler_ratio"] = many["compiler_s"] / few["compiler_s"]
    progress(f"{name}: 32 layers {many['ours_s'] * 1e3:.0f} ms (import {many['import_s'] * 1e3:.0f}), one "
             f"{few['ours_s'] * 1e3:.0f} ({few['import_s'] * 1e3:.0f}): {row['ratio']:.2f}, compiler {row['compiler_ratio']:.2f}; "
             f"packing {many['packing_s']:.2f} s; trace {many['trace_s']:.2f} s, aot_eager's {many['aot_eager_s']:.2f} s")
    return row


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

    made = dict(zip(map(str, COUNTS), clock(MADE_ROUNDS, *(
        ["--head", "1024", "--hidden", "256", "--kernels", "--layers", str(count)] for count in COUNTS))))
    networks = {name: layers(name) for name in ("gpt2", "llama")}
    result = {
        "seconds": {size: row["pipeline_s"] for size, row in rows.items()},
        "slope": fitted([log(row["ops"]) for row in rows.values()], [log(row["pipeline_s"]) for row in rows.values()]),
        "slope_small": slope(SIZES[0], SIZES[1]),
        "slope_large": slope(SIZES[1], SIZES[2]),
        "layers": {"ratio": max(row["ratio"] for row in networks.values()),
                   "compiler_ratio": max(row["compiler_ratio"] for row in networks.values()),
                   "packing_s": {name: row[str(COUNTS[1])]["packing_s"] for name, row in networks.items()},
                   "networks": networks,
                   "made": {"compile_s": {count: row["compile_s"] for count, row in made.items()},
                            "ratio": made["32"]["compile_s"] / made["1"]["compile_s"]}},
        "rows": rows,
    }
    progress(f"slope {result['slope']:.2f} ({result['slope_small']:.2f} below 10k, {result['slope_large']:.2f} above); layers: "
             f"{result['layers']['ratio']:.2f}, compiler {result['layers']['compiler_ratio']:.2f}, "
             f"made {result['layers']['made']['ratio']:.2f}")
    result["passed"] = (result["seconds"]["100000"] < 10 and result["slope"] <= 1.15
                        and result["layers"]["ratio"] <= RATIO and result["layers"]["compiler_ratio"] <= COMPILER_RATIO)
    return result
