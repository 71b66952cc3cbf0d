# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A second process from saved artifacts: seconds from the file of `torch.compile(..., fullgraph=True).aot_compile(...)` to the first
result, which has to be eager's, beside Inductor's. Importing torch and making the network are not counted; importing torch_mortise is, and
packing weights, which is `packing_s`.

One process per backend saves, with the caches that it has on disk. Then fresh processes load, in rounds in which the backends take turns;
the numbers are medians. A process that traces a graph, or compiles a kernel, has not started warm and fails. `cold_s` is the time of the
process that saved, from the network to its first result. Guards on tensors alone are saved, on both sides, because PyTorch cannot write
those on modules of transformers."""

from figures import ArgumentError

MEASURES = "seconds from a saved artifact to the first result in a fresh process (aot_compile), beside Inductor's"
NEEDS = "cpu, the product build; g++ for Inductor"
MINUTES = 3

ROUNDS, BACKENDS = 5, ("mortise", "inductor")

CHILD = """
import json, sys, time, torch, networks
torch.set_num_threads(2)
what, name, backend, file = sys.argv[1:]
network = networks.make(name)
def run(module, ids): return module(ids)
def run_with_mask(module, ids, mask): return module(ids, mask)
function = run if len(network.inputs) == 1 else run_with_mask
began = time.perf_counter()
with torch.no_grad():
    if what == "save":
        options = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe} | ({"device": "cpu"} if backend == "mortise" else {})
        compiled = torch.compile(function, fullgraph=True, backend=backend, options=options)
        compiled = compiled.aot_compile(((network.module, *network.inputs), {}))
    else:
        with open(file, "rb") as opened:
            compiled = torch.compiler.load_compiled_function(opened)
    loaded = time.perf_counter()
    out = compiled(network.module, *network.inputs)
    ended = time.perf_counter()
    if what == "save":
        compiled.save_compiled_function(file)
    from measure import ERROR_LIMIT, compare
    problem = compare(out, network.module(*network.inputs)).why_not(ERROR_LIMIT)
result = {"seconds": ended - began, "load_s": loaded - began, "call_s": ended - loaded, "problem": problem,
          "traced": torch._dynamo.utils.counters["stats"]["unique_graphs"], "kernels": [], "packing_s": 0.0}
if backend == "mortise":
    import torch_mortise
    graphs = torch_mortise.last_report()["graphs"]
    result["kernels"] = [region["kernel_cache"] for g in graphs for p in g["programs"] for region in p["placement"]]
    result["packing_s"] = sum(g["bind_s"] for g in graphs)
print(json.dumps(result))
"""


def problem_of(run: dict, backend: str) -> str:
    """What makes a start no warm one."""
    found = [run["problem"]] if run["problem"] else []
    found += [f"it traced {run['traced']} graphs"] if run["traced"] else []
    if backend == "mortise" and (not run["kernels"] or set(run["kernels"]) != {"hit"}):
        found.append(f"expected kernels from the disk only, found {run['kernels']}")
    return "; ".join(found)


def measure_network(name: str) -> dict:
    import tempfile
    from pathlib import Path

    from measure import in_fresh_process, median, progress

    with tempfile.TemporaryDirectory() as folder:
        environment = {"MORTISE_KERNEL_CACHE": f"{folder}/kernels", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "HF_HUB_OFFLINE": "1"}

        def process(what: str, backend: str) -> dict:
            return in_fresh_process(CHILD, what, name, backend, f"{folder}/{backend}.bin", env=environment)

        cold = {backend: process("save", backend) for backend in BACKENDS}
        bytes_ = {backend: Path(f"{folder}/{backend}.bin").stat().st_size for backend in BACKENDS}
        runs: dict[str, list[dict]] = {backend: [] for backend in BACKENDS}
        for _ in range(ROUNDS):
            for backend in BACKENDS:
                runs[backend].append(process("load", backend))
    row: dict = {"problem": "; ".join(filter(None, (problem_of(run, backend) and f"{backend}: {problem_of(run, backend)}"
                                                    for backend in BACKENDS for run in runs[backend])))}
    for backend in BACKENDS:
        own = {key: median([run[key] for run in runs[backend]]) for key in ("seconds", "load_s", "call_s", "packing_s")}
        row[backend] = own | {"cold_s": cold[backend]["seconds"], "bytes": bytes_[backend],
                              "all_s": [run["seconds"] for run in runs[backend]]}
    ours, theirs = row["mortise"]["seconds"], row["inductor"]["seconds"]
    progress(f"{name}: {ours:.2f} s ({row['mortise']['packing_s']:.2f} of them packing), Inductor {theirs:.2f} {row['problem']}")
    if not row["problem"] and ours > theirs:
        row["problem"] = f"{ours:.3f} s, Inductor {theirs:.3f}"
    return row


def measure(arguments: list[str]) -> dict:
    import networks

    if unknown := [name for name in arguments if name not in networks.MAKERS]:
        raise ArgumentError(f"expected some of {', '.join(networks.MAKERS)}, found {' '.join(unknown)}")
    rows = {name: measure_network(name) for name in arguments or ["minilm"]}
    first = next(iter(rows.values()))
    return {"seconds": first["mortise"]["seconds"], "inductor_seconds": first["inductor"]["seconds"], "rows": rows,
            "passed": not any(row["problem"] for row in rows.values())}
