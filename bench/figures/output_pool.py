# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the pool of results saves: memory-bound ops whose result is 64 MiB, with a fresh result in each call.

    eager            PyTorch; allocates its result in each call
    eager_out        PyTorch, writing into a tensor that the caller keeps (out=)
    mortise          ours, with the default pool
    mortise_no_pool  ours, with output_pool_bytes = 0, so that results come from PyTorch's allocator

Each runs once with glibc's default allocator settings and once with raised thresholds (RAISED), with which every rival's freed memory stays
in the process: a difference that remains is not the pool's. The four take turns in one process. `faults` are the minor page faults of a
call (getrusage), which do not depend on how busy the machine is: 16,384 if every page is fresh.
"""

from figures import ArgumentError

MEASURES = "milliseconds and page faults of softmax and layer_norm over 8192 x 2048 f32, with and without the pool of results"
NEEDS = "cpu, Linux with glibc"
MINUTES = 1

RAISED = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "2147483648"}
FAULTS = 200  # a call that reuses its memory has a few from other causes; a fresh result has 16,384

CHILD = """
import json, sys, torch
from figures.output_pool import measure_here
torch.set_num_threads(2)
with torch.no_grad():
    print(json.dumps(measure_here(sys.argv[1])))
"""


def rivals(name: str):
    """(functions by rival, the input)."""
    import torch

    x = torch.randn(8192, 2048)
    weight, bias, out = torch.rand(2048), torch.rand(2048), torch.empty_like(x)
    statistics = torch.empty(8192, 1), torch.empty(8192, 1)
    aten = torch.ops.aten
    if name == "softmax":
        def eager(x):
            return torch.softmax(x, -1)

        def eager_out(x):
            return aten._softmax.out(x, -1, False, out=out)
    else:
        def eager(x):
            return torch.nn.functional.layer_norm(x, (2048,), weight, bias)

        def eager_out(x):
            return aten.native_layer_norm.out(x, [2048], weight, bias, 1e-5, out0=out, out1=statistics[0], out2=statistics[1])[0]

    def compiled(**options):
        return torch.compile(lambda x: eager(x), backend="mortise", options=options)

    return {"eager": eager, "eager_out": eager_out, "mortise": compiled(), "mortise_no_pool": compiled(output_pool_bytes=0)}, x


def measure_here(name: str) -> dict:
    import resource

    import torch_mortise
    from measure import compare, interleaved, median, p95

    functions, x = rivals(name)
    expected = functions["eager"](x)
    left_out = {}
    for rival, function in functions.items():
        if why := compare(function(x), expected).why_not(1e-5):
            left_out[rival] = why
    del expected
    kept = {rival: function for rival, function in functions.items() if rival not in left_out}
    times = interleaved({rival: lambda function=function: function(x) for rival, function in kept.items()})
    row = {f"{rival}_ms": median(values) for rival, values in times.items()}
    row |= {f"{rival}_p95_ms": p95(values) for rival, values in times.items()}
    for rival, function in kept.items():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(10):
            function(x)
        row[f"{rival}_faults"] = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10
    row["memory"] = torch_mortise.last_report()["memory"]
    row["released_bytes"] = torch_mortise.release_memory()
    return row | ({"left_out": left_out} if left_out else {})


def measure(arguments: list[str]) -> dict:
    from measure import in_fresh_process, progress

    names = arguments or ["softmax", "layer_norm"]
    if unknown := [name for name in names if name not in ("softmax", "layer_norm")]:
        raise ArgumentError(f"expected softmax or layer_norm, found {', '.join(unknown)}")
    rows: dict[str, dict] = {name: {} for name in names}
    for name in names:
        for setting, environment in (("default", {}), ("raised", RAISED)):
            row = rows[name][setting] = in_fresh_process(CHILD, name, env=environment)
            progress(f"{name:10} {setting:8}" + "  ".join(
                f"{rival} {row[f'{rival}_ms']:.1f} ms, {row[f'{rival}_faults']:.0f} faults"
                for rival in ("eager", "eager_out", "mortise", "mortise_no_pool") if f"{rival}_ms" in row))
    default = [row["default"] for row in rows.values()]
    return {"rows": rows, "passed": all("left_out" not in row and row["mortise_faults"] <= FAULTS
                                        and row["mortise_ms"] < row["mortise_no_pool_ms"] for row in default)}
