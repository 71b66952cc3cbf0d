# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the figures of an NVIDIA GPU share: rows by name, each made afresh, and the device time of calls."""

from collections.abc import Callable

from figures import ArgumentError


def measured(cases: dict, arguments: list[str], row: Callable) -> dict:
    """The rows of these cases, or of those that the arguments name: `row(name, case)` gives a dictionary with "passed"."""
    import torch
    from measure import progress

    for name in arguments:
        if name not in cases:
            raise ArgumentError(f"expected rows among {', '.join(cases)}; found {name!r}")
    if not torch.cuda.is_available():
        return {"error": "expected a GPU of NVIDIA's and PyTorch with CUDA, found none", "passed": False}
    rows = {}
    for name in arguments or cases:
        torch.compiler.reset()
        torch.cuda.empty_cache()
        torch.manual_seed(7)
        rows[name] = row(name, cases[name])
        shown = {key: round(value) if key.endswith("gbps") else value for key, value in rows[name].items()}
        progress(f"{name:40} " + "  ".join(f"{key} {value}" for key, value in shown.items()))
    return {"device": torch.cuda.get_device_name(), "rows": rows, "passed": all(one["passed"] for one in rows.values())}


def timed(call: Callable, sets: list[tuple], count: int) -> float:
    """Seconds of one call, over `count` of them back to back, with these sets of inputs by turns."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for i in range(count):
        call(*sets[i % len(sets)])
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


def medians(calls: dict[str, Callable], sets: list[tuple], rounds: int, count: int, warm: int) -> dict[str, float]:
    """Seconds of one call of each, in interleaved rounds."""
    times: dict = {name: [] for name in calls}
    for call in calls.values():
        timed(call, sets, warm)
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(timed(call, sets, count))
    return {name: sorted(times[name])[rounds // 2] for name in calls}
