# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory-bound kernels of the vulkan plugin on a GPU beside a copy, all on tensors that lie there, queued back to back.

    gbps, copy_gbps   bytes (each input read once, each output written once) over the host's time, medians of interleaved rounds of a
                      device that has been kept busy; of the copy the better of two, the driver's (driver_copy_gbps) and a kernel's
    device_gbps       the same of single calls by the device's clock
    spread, rounds    what seven rounds in a row differed by, relative to their median, and how many it took until they agreed
    error             greatest distance of three rows from f64, in units in the last place at their largest number

A row passes with at least `LEAST` of the copy, rounds that agree within `SPREAD`, and an error of at most `MOST` (a result is rounded
once)."""

from figures import ArgumentError

MEASURES = "GB/s of five memory-bound kernels through Vulkan on a GPU, beside a copy"
NEEDS = "gpu with Vulkan"
MINUTES = 3

LEAST = 0.7
SPREAD = 0.1
MOST = {"bf16": 0.75, "f32": 4.0}
MEBIBYTES = 512


def judged(line: dict) -> dict:
    """A line of mortise_device_speed as a row."""
    dtype = line["name"].split()[-1]
    right = line["error"] is not None and line["error"] <= MOST[dtype]
    fast = line["gbps"] >= LEAST * line["copy_gbps"] and line["spread"] <= SPREAD
    return line | {"share": line["gbps"] / line["copy_gbps"], "passed": bool(right and fast)}


def measure(arguments: list[str]) -> dict:
    import json
    import subprocess

    import measure
    import torch_mortise

    if arguments:
        raise ArgumentError(f"expected no arguments, found {' '.join(arguments)}")
    hardware = {one["kind"]: one["hardware"] for one in torch_mortise.devices()}.get("vulkan")
    if hardware is None or "llvmpipe" in hardware:
        return {"error": f"expected a GPU with Vulkan, found {hardware or 'none'}", "passed": False}
    rows = {}
    command = [str(measure.make("mortise_device_speed")), "vulkan", str(MEBIBYTES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout:
            line = json.loads(text)
            rows[line["name"]] = judged(line)
            measure.progress(f"{line['name']:40} {rows[line['name']]}")
    complete = process.returncode == 0 and len(rows) > 0
    return {"device": hardware, "exit": process.returncode, "rows": rows, "passed": sum(row["passed"] for row in rows.values()),
            "failed": sum(not row["passed"] for row in rows.values()) + (not complete)}
