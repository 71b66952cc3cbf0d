# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time with empty caches: our backend's own share, the bare trace, and Inductor, each in a fresh process.

`ours_s` is wall clock (`reports.backend_seconds`): the backend's calls, from the arrival of a graph to the return, without PyTorch's own
trace in between, plus the time that the first calls of the compiled graphs wait until weights are packed. Packing (`packing_s`) begins on
another thread when the graph is compiled, beside what PyTorch does before the first call; what PyTorch loses by it is in `first_call_s`.
`stages_s` are clocks inside the backend's calls, and `not_in_stages_s` is the rest. `first_call_s` is the whole first use of the network,
including PyTorch's tracing and the run, so that nothing can be missing from `ours_s` unnoticed.

`first_touch_s` is no part of it: the time in which the same process then touches as much fresh memory as the packed weights take, with
huge pages and on all threads, as binding does. Virtual machines take freed memory back (free page reporting), so that this is
many times slower or faster with what ran before, and `packing_s` with it."""

MEASURES = "wall clock of our backend's calls until kernels and packed weights are ready; bare trace; Inductor's first call"
NEEDS = "cpu; g++ for Inductor"
MINUTES = 6

GOALS = {"minilm": 0.5}  # seconds; GOAL is for the other networks
GOAL = 1.0

FIRST_CALL = """
import json, sys, time, torch, networks
from figures.compile_first import first_call
torch.set_num_threads(2)
print(json.dumps(first_call(networks.make(sys.argv[1]), sys.argv[2])))
"""


def first_call(network, backend: str, options: dict | None = None) -> dict:
    """Seconds of the first use of a network and, for ours, also the report's. The outputs must be right."""
    import time

    import torch
    from measure import ERROR_LIMIT, compare

    with torch.no_grad():
        expected = network.run(network.module)
        compiled = torch.compile(network.module, backend=backend, options=options)
        begin = time.perf_counter()
        found = network.run(compiled, network.module)
        seconds = time.perf_counter() - begin
    result = {"seconds": seconds, "problem": compare(found, expected).why_not(ERROR_LIMIT)}
    if backend == "mortise":
        import torch_mortise
        from reports import backend_seconds, programs

        report = torch_mortise.last_report()
        result["backend"] = backend_seconds(report)
        result["first_touch"] = first_touch(sum(program["packed_bytes"] for program in programs(report)))
    return result


def first_touch(size: int) -> float:
    """Seconds for the first touch of `size` bytes of fresh memory."""
    import mmap
    import time

    import torch

    if not size:
        return 0.0
    memory = mmap.mmap(-1, size)
    memory.madvise(mmap.MADV_HUGEPAGE)
    pages = torch.frombuffer(memory, dtype=torch.uint8)[::mmap.PAGESIZE]
    begin = time.perf_counter()
    pages.fill_(1)
    return time.perf_counter() - begin


def why_not(ours: dict, first: dict) -> str:
    """Contradictions in our clocks."""
    share = ours["total"]
    if not 0 < share < first["seconds"]:
        return f"our share of {share:.3f} s is not within the first call's {first['seconds']:.3f} s"
    if not ours["stages"] or min(ours["stages"].values()) < 0 or ours["not_in_stages"] < -0.01 * share:
        return f"the stages' clocks {ours['stages']} do not fit into {share - ours['parts']['bind']:.3f} s"
    return ""


def measure_network(name: str) -> dict:
    import os
    import tempfile

    from measure import has_compiler, in_fresh_process

    with tempfile.TemporaryDirectory() as cache:
        caches = {"TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"), "XDG_CACHE_HOME": cache, "MORTISE_KERNEL_CACHE": "on"}
        calls = {"ours": "mortise", "trace": "aot_eager"} | ({"inductor": "inductor"} if has_compiler() else {})
        runs = {side: in_fresh_process(FIRST_CALL, name, backend, env=caches) for side, backend in calls.items()}
    ours = runs["ours"]["backend"]
    row = {"ours_s": ours["total"], "parts_s": ours["parts"], "stages_s": ours["stages"],
           "not_in_stages_s": ours["not_in_stages"], "packing_s": ours["packing"], "first_touch_s": runs["ours"]["first_touch"],
           "first_call_s": runs["ours"]["seconds"], "trace_s": runs["trace"]["seconds"]}
    row |= {"inductor_s": runs["inductor"]["seconds"]} if "inductor" in runs else {}
    problems = [f"{side}: {run['problem']}" for side, run in runs.items() if run["problem"]]
    problems += [] if "inductor" in runs else ["inductor: no C++ compiler, so that it could not be measured"]
    row["problem"] = "; ".join(filter(None, [*problems, why_not(ours, runs["ours"])]))
    row["passed"] = not row["problem"] and row["ours_s"] < GOALS.get(name, GOAL)
    return row


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import progress

    rows = {}
    for name in arguments or networks.MAKERS:
        networks.check(name)
        row = rows[name] = measure_network(name)
        progress(f"{name:9} ours {row['ours_s']:.3f} s, {row['not_in_stages_s']:.3f} of it in no stage; first call "
                 f"{row['first_call_s']:.2f} s; trace {row['trace_s']:.2f} s; inductor {row.get('inductor_s', 0):.1f} s")
    return {"rows": rows, "passed": bool(rows) and all(row["passed"] for row in rows.values())}
