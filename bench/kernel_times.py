# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels of one replayed call of a network of the figure cuda-peers on an NVIDIA GPU, ours and those of reduce-overhead, as PyTorch
sees them: kernel_times.py NETWORK [FOLDER]. Prints them by kind, longest first, and writes all of them in their order to
FOLDER/kernels-NETWORK.json: name, start and duration in microseconds, grid, block and registers.

A kernel that begins before the one in front of it has ended is counted with its wait: the durations come to more than the span."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

COMPILERS = ("reduce_overhead", "mortise_reduce_overhead")
PRINTED = 24


def kernels_of(call) -> list[dict]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(f"{folder}/trace.json").read_text())["traceEvents"]
    work = [event for event in events if event.get("ph") == "X" and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    work.sort(key=lambda event: event["ts"])
    return [{"name": event["name"], "start_us": event["ts"] - work[0]["ts"], "us": event["dur"], "grid": event["args"].get("grid"),
             "block": event["args"].get("block"), "registers": event["args"].get("registers per thread")} for event in work]


def summary(kernels: list[dict]) -> str:
    kinds: dict = {}
    for kernel in kernels:
        kind = kinds.setdefault((kernel["name"][:80], str(kernel["grid"]), str(kernel["block"]), kernel["registers"]), [])
        kind.append(kernel["us"])
    span = max(kernel["start_us"] + kernel["us"] for kernel in kernels)
    lines = [f"{len(kernels)} kernels, {span:.0f} us from the first to the end of the last"]
    for (name, grid, block, registers), times in sorted(kinds.items(), key=lambda one: -sum(one[1]))[:PRINTED]:
        lines.append(f"{sum(times):9.1f} us {len(times):4} x {sum(times) / len(times):8.2f}  {name} {grid} {block} {registers}")
    return "\n".join(lines)


def main(name: str = "", folder: str = "") -> None:
    import torch
    from figures import cuda_peers

    if name not in cuda_peers.makers():
        sys.exit(f"kernel_times.py: expected one of {', '.join(cuda_peers.makers())}, found {name!r}")
    if not torch.cuda.is_available():
        sys.exit("kernel_times.py: expected a GPU of NVIDIA's and PyTorch with CUDA, found none")
    found = {}
    with torch.no_grad():
        case = cuda_peers.makers()[name]()
        for key in COMPILERS:
            torch._dynamo.reset()
            compiled = torch.compile(case.module, dynamic=False, **cuda_peers.COMPILERS[key])
            ms = sorted(cuda_peers.timed(case, compiled, cuda_peers.CALLS) for _ in range(cuda_peers.ROUNDS))[cuda_peers.ROUNDS // 2]
            case.before_round()
            case.before_call()
            torch.cuda.synchronize()

            def call(compiled=compiled):
                torch.compiler.cudagraph_mark_step_begin()
                compiled(*case.inputs)

            found[key] = kernels_of(call)
            print(f"== {name}, {key}: {ms:.4f} ms a call, median of rounds", flush=True)
            print(f"== {name}, {key}: {summary(found[key])}", flush=True)
    if folder:
        Path(folder, f"kernels-{name.replace(' ', '-')}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
