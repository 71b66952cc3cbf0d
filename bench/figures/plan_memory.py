# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of a warm call, ours beside eager's.

Each side runs in a process of its own, two threads, weights loaded. After some calls the process gives back what its
allocator hoards (malloc_trim), which leaves its idle size; then the kernel's high-water mark of resident memory is
reset (/proc/self/clear_refs), and a whole use of the network runs several times (Llama: prefill and decoding, whose
cache both sides keep in the module). Outputs are let go once a call has returned them: kept to the end of a use, as
tests keep them to compare, Llama's logits and their concatenation are 6.1 MB on both sides, which hides what calls need
and buries it in the placement of 128,000-byte blocks (the ratio was 0.95 in one pair of processes, 1.03 in another).

    call    high-water mark minus idle size: what a call takes and returns, outputs included
    held    what our programs keep between calls and a call works in: their arenas, workspaces included, as reported by
            the runtime, one execution context each; counted although part of it may never be touched
    eager   eager's `call`

Not counted on either side is what libraries keep between calls, which is in the idle size: MKL's and oneDNN's buffers,
and those of oneDNN's that our cpu plugin keeps for it (plugins/cpu/recycle.cpp).

Both sides run with glibc's initial threshold held fixed (MAPPED): a block from 128 KiB on is a mapping of its own, back
with the system once freed. With the default, which rises, the figure is luck of placement in glibc's heap: Llama's use,
6.1 MB, took 6.1 MB when run once and 6.5 or 9.2 MB when run three times, in one process or another, and 6.2 MB with the
threshold fixed, so no tensor lived longer. The likely mechanism: posix_memalign asks for alignment and header besides,
so the hole that a block leaves is too small for its like. The setting is the same for both sides and changes neither
what they ask for nor when they give it back.

`ratio` is (call + held) / eager. Copies of weights in a library's layout (`packed`), machine code and what compiling
took are not the plan's; packed bytes are reported beside it.
"""

MEASURES = "resident memory that warm calls need, ours (arenas and workspaces included, packed weights beside) over eager's"
NEEDS = "cpu, Linux"
MINUTES = 3

MAPPED = {"MALLOC_MMAP_THRESHOLD_": "131072"}
CHILD = """
import json, sys, torch, networks
from figures.plan_memory import call_bytes, held
torch.set_num_threads(2)
network = networks.make(sys.argv[1])
with torch.no_grad():
    if sys.argv[2] == "ours":
        import torch_mortise
        function = torch.compile(network.module, backend="mortise")
    else:
        function = network.module

    def letting_go(*inputs):
        # Nothing in place of each output: what uses of several calls concatenate.
        outputs = function(*inputs)
        return tuple(output.new_empty((*output.shape[:1], 0, *output.shape[2:]))
                     for output in (outputs if isinstance(outputs, tuple) else (outputs,)))

    run = lambda: network.run(letting_go, network.module)
    result = {"call": call_bytes(run)}
    if sys.argv[2] == "ours":
        result.update(held(torch_mortise.last_report()))
print(json.dumps(result))
"""


def status(name: str) -> int:
    """A field of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def call_bytes(run) -> int:
    """The median, over rounds, of how far calls of `run` push resident memory above what it is between them."""
    import ctypes
    import gc
    import statistics

    trim = ctypes.CDLL(None).malloc_trim
    for _ in range(5):
        run()
    growth = []
    for _ in range(7):
        gc.collect()
        trim(0)
        idle = status("VmRSS")
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        for _ in range(3):
            run()
        growth.append(status("VmHWM") - idle)
    return int(statistics.median(growth))


def held(report: dict) -> dict:
    """Bytes that our programs keep: arenas (with workspaces) and packed weights."""
    programs = [program for graph in report["graphs"] for program in graph.get("programs") or [graph.get("program")]
                if program]
    if not programs:
        raise RuntimeError("nothing was compiled: expected a program in the report")
    return {"arena": sum(program["arena_bytes"] for program in programs),
            "packed": sum(program["packed_bytes"] for program in programs)}


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import in_fresh_process, progress

    rows, ratio = {}, {}
    for name in arguments or networks.MAKERS:
        ours, eager = (in_fresh_process(CHILD, name, side, env=MAPPED) for side in ("ours", "eager"))
        if eager["call"] <= 0:
            raise RuntimeError(f"{name}: eager's calls took no memory, which cannot be")
        ratio[name] = (ours["call"] + ours["arena"]) / eager["call"]
        rows[name] = {"call_mb": ours["call"] / 1e6, "held_mb": ours["arena"] / 1e6, "packed_mb": ours["packed"] / 1e6,
                      "eager_mb": eager["call"] / 1e6, "ratio": ratio[name]}
        progress(f"{name:9} call {ours['call'] / 1e6:.2f} + held {ours['arena'] / 1e6:.2f} MB, eager "
                 f"{eager['call'] / 1e6:.2f} MB: {ratio[name]:.2f}  (packed weights {ours['packed'] / 1e6:.1f} MB)")
    return {"ratio": ratio, "rows": rows, "passed": all(value <= 1.0 for value in ratio.values())}
