# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time, caches empty: our backend's own share, the bare trace, and Inductor; each in a fresh process."""

MEASURES = "seconds inside our backend until kernels and packed weights are ready; bare trace; Inductor's first call"
NEEDS = "cpu; g++ for Inductor"
MINUTES = 6

GOALS = {"minilm": 0.5}  # seconds; the others:
GOAL = 1.0

OURS = """
import json, sys, torch, networks, torch_mortise
from reports import backend_seconds
torch.set_num_threads(2)
network = networks.make(sys.argv[1])
with torch.no_grad():
    network.run(torch.compile(network.module, backend="mortise"), network.module)
print(json.dumps(backend_seconds(torch_mortise.last_report())))
"""

FIRST_CALL = """
import json, sys, time, torch, networks
torch.set_num_threads(2)
network = networks.make(sys.argv[1])
compiled = torch.compile(network.module, backend=sys.argv[2])
with torch.no_grad():
    network.run(network.module)
    begin = time.perf_counter()
    network.run(compiled, network.module)
    print(json.dumps({"total": time.perf_counter() - begin}))
"""


def measure(arguments: list[str]) -> dict:
    import tempfile

    import networks
    from measure import has_compiler, in_fresh_process, progress

    rows = {}
    for name in arguments or networks.MAKERS:
        ours = in_fresh_process(OURS, name)
        row = {"ours_s": ours["total"], "stages": ours["stages"],
               "trace_s": in_fresh_process(FIRST_CALL, name, "aot_eager")["total"]}
        if has_compiler():
            with tempfile.TemporaryDirectory() as cache:
                row["inductor_s"] = in_fresh_process(FIRST_CALL, name, "inductor",
                                                     env={"TORCHINDUCTOR_CACHE_DIR": cache})["total"]
        row["passed"] = row["ours_s"] < GOALS.get(name, GOAL)
        rows[name] = row
        progress(f"{name:9} ours {row['ours_s']:.2f} s  trace {row['trace_s']:.2f} s  "
                 f"inductor {row.get('inductor_s', float('nan')):.1f} s")
    return {"rows": rows, "passed": all(row["passed"] for row in rows.values())}
