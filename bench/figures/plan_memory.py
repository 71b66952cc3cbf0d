# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of a warm call, ours beside eager's, by exact accounting.

Each side runs in its own process, with two threads, weights loaded, and a preloaded allocator (alloc_count.c) that knows at each moment how
many bytes are allocated, whoever asked for them. A whole use of the network runs (Llama: prefill and decoding, whose cache both sides keep
in the module); outputs are released once a call has returned them.

    call    the most bytes allocated at one time during a use, beyond those allocated before it: outputs and everything
            temporary, including that of libraries
    held    memory that our programs keep between calls to work in: arenas, workspaces included, which all programs of the process
            share (decision 0056), as reported by the runtime. The pool of large results (decision 0023) releases its memory
            before each round, so that memory which a use takes from it counts in `call`
    eager   eager's `call`

`ratio` is (call + held) / eager. Copies of weights in a library's layout (`packed`), machine code and memory for compilation do not belong
to the plan; packed bytes are reported beside it.

Libraries cache freed temporary buffers for the next call: MKL by itself, oneDNN through our cpu plugin (decision 0005). Cached memory is
allocated before a use and would count on neither side, so both are told to cache nothing: MKL by MKL_DISABLE_FAST_MM, the plugin because it
finds a heap that it does not recognise (ALLOC_COUNT_PADDING). `outside_libraries` is the same comparison with both caching, so that
temporary buffers count on neither side.

Resolution: blocks of the heap, as the heap rounds them (16 bytes; whole pages from 128 KiB on), and Python's own objects, some KB on both
sides. Three checks are part of the result: the counter sees a block of known size; a call takes at least the bytes of the outputs that it
returns; rounds repeat within 5 %, or within 128 KiB if that is more, because Python maps a pool of small objects now and then.

Why the ratio used to differ between machines (Llama: 1.45 on one with AVX2, 0.98 on one with AVX-512): the figure was made from resident
pages (high-water mark minus what was resident after malloc_trim). When a machine with AVX-512 was restricted to AVX2
(ONEDNN_MAX_CPU_ISA=AVX2 and similar settings), our use of Llama again raised resident pages by 3.08 to 3.23 MB in each of nine rounds, of
which 1.27 MB stayed resident afterwards, although the outputs are 2.05 MB. Counted exactly, the bytes allocated at one time do not depend
on the instruction set: 2,052,008 beside arenas of 35,840 (AVX2) and 38,144 (AVX-512). So the difference is not memory that a use holds at
one time; most likely it is pages of small blocks that malloc_trim had released and the use touched again. Resident pages are also batched
counters: MiniLM's call was measured as 0 bytes, ViT's as 2 pages."""

MEASURES = "bytes that warm calls allocate, ours (arenas and workspaces included, packed weights beside) over eager's"
NEEDS = "cpu, Linux"
MINUTES = 4

# Libraries either return the memory that they free, or cache it as in ordinary runs.
RETURNING = {"ALLOC_COUNT_PADDING": "32", "MKL_DISABLE_FAST_MM": "1"}
KEEPING = {"ALLOC_COUNT_PADDING": "0"}
WARM, ROUNDS = 5, 7
SPREAD, POOL = 0.05, 128 << 10

CHILD = """
import json, sys, torch, networks
from counter import Counter
from figures.plan_memory import use
torch.set_num_threads(2)
print(json.dumps(use(networks.make(sys.argv[1]), sys.argv[2], Counter(sys.argv[3]))))
"""


def use(network, side: str, counter) -> dict:
    """The bytes that a use of the network takes, in a process with the counting allocator."""
    import gc

    import torch

    function, outputs_bytes, release = network.module, 0, lambda: None
    if side == "ours":
        import torch_mortise

        release = torch_mortise.release_memory

        function = torch.compile(network.module, backend="mortise", options={"device": "cpu"})

    def letting_go(*inputs):
        # Returns nothing in place of each output, because uses of several calls concatenate the outputs.
        nonlocal outputs_bytes
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        storages = {output.untyped_storage().data_ptr(): output.untyped_storage().nbytes() for output in outputs}
        outputs_bytes = max(outputs_bytes, sum(storages.values()))
        return tuple(output.new_empty((*output.shape[:1], 0, *output.shape[2:])) for output in outputs)

    with torch.no_grad():
        for _ in range(WARM):
            network.run(letting_go, network.module)
        rounds = []
        for _ in range(ROUNDS):
            gc.collect()
            release()
            rounds.append(counter.growth(lambda: network.run(letting_go, network.module)))
    result = {"rounds": rounds, "outputs": outputs_bytes}
    return result | (held(torch_mortise.last_report()) if side == "ours" else {})


def held(report: dict) -> dict:
    """The bytes that our programs keep: the process's arenas (with workspaces) and packed weights."""
    programs = [program for graph in report["graphs"] for program in graph["programs"]]
    if not programs:
        raise RuntimeError("nothing was compiled: expected a program in the report")
    return {"arena": programs[0]["process_arena_bytes"],
            "packed": sum(program["packed_bytes"] for program in programs)}


def call_bytes(side: str, run: dict) -> tuple[int, list[str]]:
    """The bytes that a use takes, and reasons not to believe them."""
    from measure import median

    call, problems = int(median(run["rounds"])), []
    if run["outputs"] <= 0:
        problems.append(f"{side}: the use returned no bytes")
    if min(run["rounds"]) < run["outputs"]:
        problems.append(f"{side}: a use took {min(run['rounds'])} bytes, less than the {run['outputs']} bytes of outputs that a call "
                        "returned")
    if sum(abs(one - call) > max(SPREAD * call, POOL) for one in run["rounds"]) > ROUNDS // 2:
        problems.append(f"{side}: rounds do not repeat: {run['rounds']}")
    return call, problems


def compared(name: str, environment: dict) -> tuple[dict, list[str]]:
    """The bytes of one network under one setting of the libraries."""
    from measure import built, in_fresh_process

    counter = str(built("lib/liballoc_count.so"))
    runs = {side: in_fresh_process(CHILD, name, side, counter, env={"LD_PRELOAD": counter, **environment})
            for side in ("ours", "eager")}
    calls = {side: call_bytes(side, run) for side, run in runs.items()}
    row = {"call_mb": calls["ours"][0] / 1e6, "held_mb": runs["ours"]["arena"] / 1e6, "packed_mb": runs["ours"]["packed"] / 1e6,
           "eager_mb": calls["eager"][0] / 1e6, "outputs_mb": runs["ours"]["outputs"] / 1e6}
    row["ratio"] = (row["call_mb"] + row["held_mb"]) / row["eager_mb"] if row["eager_mb"] > 0 else None
    problems = calls["ours"][1] + calls["eager"][1]
    if runs["ours"]["outputs"] != runs["eager"]["outputs"]:
        problems.append(f"the sides returned {runs['ours']['outputs']} and {runs['eager']['outputs']} bytes")
    return row, problems


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import progress

    rows = {}
    for name in arguments or networks.MAKERS:
        networks.check(name)
        row, problems = compared(name, RETURNING)
        row["outside_libraries"], more = compared(name, KEEPING)
        row["problem"] = "; ".join(dict.fromkeys(problems + more))
        row["passed"] = not row["problem"] and row["ratio"] <= 1.0
        rows[name] = row
        progress(f"{name:9} call {row['call_mb']:.3f} + held {row['held_mb']:.3f} MB, eager {row['eager_mb']:.3f} MB: "
                 f"{row['ratio'] or 0:.3f} (outside libraries {row['outside_libraries']['ratio'] or 0:.3f}; packed weights "
                 f"{row['packed_mb']:.1f} MB) {row['problem']}")
    return {"ratio": {name: row["ratio"] for name, row in rows.items()}, "rows": rows,
            "passed": bool(rows) and all(row["passed"] for row in rows.values())}
