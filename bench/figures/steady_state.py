# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Allocations of a call once everything is warm, counted by a preloaded allocator over all threads."""

MEASURES = "host allocations per call: through the C API (two threads sharing a plan), and tensors through torch"
NEEDS = "cpu"
MINUTES = 1

CALLS = 200

CHILD = """
import ctypes, json, sys, torch, networks, torch_mortise
from figures.steady_state import CALLS, count_program, count_torch
torch.set_num_threads(2)
network = networks.make("minilm")
compiled = torch.compile(network.module, backend="mortise")
with torch.no_grad():
    expected = compiled(*network.inputs)
    counter = ctypes.CDLL(sys.argv[1])
    result = count_program(counter, network, expected)
    result["torch_allocations_beyond_outputs"] = count_torch(counter, compiled, network)
print(json.dumps(result))
"""


def count_program(counter, network, expected) -> dict:
    """Runs the compiled program from one and from two threads through the C API, outputs given by the caller."""
    import ctypes

    import torch
    import torch_mortise

    program = torch_mortise.last_report()["graphs"][-1]
    library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libmortise.so" in line))
    variable = iter(network.inputs)  # the inputs that are not constant, in order
    inputs = [None if entry["constant"] else next(variable) for entry in program["program"]["inputs"]]
    pointers = (ctypes.c_void_p * len(inputs))(*[None if x is None else x.data_ptr() for x in inputs])
    counts = {}
    for threads in (1, 2):
        outputs = [[torch.zeros_like(expected)] for _ in range(threads)]
        arrays = [(ctypes.c_void_p * 1)(out[0].data_ptr()) for out in outputs]
        table = (ctypes.c_void_p * threads)(*[ctypes.addressof(array) for array in arrays])
        counter.alloc_count_program.restype = ctypes.c_int64
        made = counter.alloc_count_program(
            ctypes.cast(library.mortise_program_run_pointers, ctypes.c_void_p), ctypes.c_void_p(program["handle"]),
            pointers, table, threads, CALLS)
        if made < 0:
            raise RuntimeError("a call through the C API failed")
        counts[threads] = made / (threads * CALLS)
        for out in outputs:
            torch.testing.assert_close(out[0], expected, rtol=0, atol=0)
    return {"allocations_per_call": max(counts.values()), "allocations_one_thread": counts[1],
            "allocations_two_threads": counts[2], "equal_results": True}


def count_torch(counter, compiled, network) -> float:
    """Tensor allocations of a call through torch, less one for the output."""
    import ctypes

    counter.alloc_count_aligned.restype = ctypes.c_uint64
    for _ in range(10):
        compiled(*network.inputs)
    before = counter.alloc_count_aligned()
    for _ in range(CALLS):
        compiled(*network.inputs)
    return (counter.alloc_count_aligned() - before) / CALLS - 1


def measure(arguments: list[str]) -> dict:
    from measure import built, in_fresh_process

    counter = built("lib/liballoc_count.so")
    result = in_fresh_process(CHILD, str(counter), env={"LD_PRELOAD": str(counter)})
    result["passed"] = result["allocations_per_call"] == 0 and result["torch_allocations_beyond_outputs"] == 0
    return result
