# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Allocations of a warm call, counted by a preloaded allocator over all threads, in each network.

    allocations       heap blocks and mappings per call of the network's compiled programs through the C API, with outputs
                      given by the caller: the larger count of one thread and of two threads that share the program.
                      Llama has two programs, prefill and decoding; its cache is restored before each call
    torch_beyond_outputs  tensors (posix_memalign) and mappings per call through torch, minus one for each output

Large results come from PyTorch's allocator here, not from the pool (decision 0023), so that each output is one allocation. The second count
leaves out Python's own small objects, because the interpreter makes some in every call."""

MEASURES = "host allocations per warm call of six networks: through the C API (two threads sharing a plan), and tensors through torch"
NEEDS = "cpu"
MINUTES = 3

CALLS = 100

CHILD = """
import json, sys, torch, networks
from counter import Counter
from figures.steady_state import count
torch.set_num_threads(2)
print(json.dumps(count(networks.make(sys.argv[1]), Counter(sys.argv[2]))))
"""


class Watch:
    """Records the calls of the regions of a compiled model, from its first use on, because later calls may reach their program directly:
    each program once, with the contents of its arguments before the call."""

    def __init__(self):
        self.seen = {}

    def __enter__(self):
        from torch_mortise import region

        self.original = original = region.Region.__call__
        seen = self.seen

        def watched(one, arguments, key, profile=False):
            found = one.specialisation(key)
            fixed = {position for position, role, *_ in found.inputs if role == 1}
            before = [a if i in fixed or not hasattr(a, "clone") else a.clone() for i, a in enumerate(arguments)]
            result = original(one, arguments, key, profile)
            # A call may have bound other weights, or specialised; this is the program that ran.
            found = one.specialisation(key)
            if handle := found.program.handle:
                seen.setdefault(handle, (found, before, result, key))
            return result

        region.Region.__call__ = watched
        return self

    def __exit__(self, *_):
        from torch_mortise import region

        region.Region.__call__ = self.original


class Thread:
    """One thread's arguments for a program, with memory of its own for outputs and state."""

    def __init__(self, found, before, result):
        import torch
        from counter import Arguments, State

        self.inputs, states = [], []
        for position, role, *_ in found.inputs:
            if role == 1:  # a bound constant
                self.inputs.append(None)
                continue
            initial = before[position]
            tensor = initial.clone() if role == 2 else initial
            self.inputs.append(tensor)
            if role == 2:
                states.append(State(tensor.data_ptr(), initial.data_ptr(), tensor.nbytes))
        self.kept = [tensor for tensor in before if isinstance(tensor, torch.Tensor)]
        # The results that are outputs, dense in memory order: the same bytes, whatever their strides.
        results = {index: tensor for (source, index, *_), tensor in zip(found.results, result, strict=True) if source == 0}
        self.expected = {}
        self.outputs = []
        for number, (alias, *_) in enumerate(found.outputs):
            if alias >= 0:
                self.outputs.append(self.inputs[alias])
                continue
            if number not in results:
                raise RuntimeError(f"output {number} is shown as a view only: expected a whole tensor")
            self.expected[number] = results[number]
            self.outputs.append(torch.zeros_like(results[number]))  # preserves dense strides
        self.states = (State * max(len(states), 1))(*states)
        self.pointers = addresses(self.inputs), addresses(self.outputs)
        self.arguments = Arguments(*self.pointers, self.states, len(states))

    def disagreement(self) -> str:
        """How the program's outputs differ from the same program's results through torch; empty if all bits are equal."""
        from measure import compare

        if not self.expected:
            return "the program has no output to compare"
        found = [self.outputs[number] for number in self.expected]
        return compare(found, list(self.expected.values())).why_not(0.0)


def addresses(tensors: list):
    import ctypes

    return (ctypes.c_void_p * max(len(tensors), 1))(*[None if tensor is None else tensor.data_ptr() for tensor in tensors])


def count_program(counter, library, handle, found, before, result, key) -> dict:
    if key:
        raise RuntimeError("expected a program without symbols")
    counts, problem = {}, ""
    for threads in (1, 2):
        given = [Thread(found, before, result) for _ in range(threads)]
        made = counter.calls_of(handle, library.mortise_program_run_pointers, [one.arguments for one in given], CALLS)
        counts[threads] = made / (threads * CALLS)
        problem = problem or next(filter(None, (one.disagreement() for one in given)), "")
    return {"one_thread": counts[1], "two_threads": counts[2], "problem": problem}


def count_torch(counter, network, compiled) -> float:
    """Tensors and mappings, per call, of a use of the network through torch, beyond the outputs."""
    made, calls = 0, 0

    def counted(*inputs):
        nonlocal made, calls
        before = counter.counts()
        outputs = compiled(*inputs)
        after = counter.counts() - before
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        made += after.aligned + after.maps - len({output.untyped_storage().data_ptr() for output in outputs})
        calls += 1
        return outputs

    for _ in range(3):
        network.run(counted, network.module)
    made = calls = 0
    while calls < CALLS // 2:
        network.run(counted, network.module)
    return made / calls


def count(network, counter) -> dict:
    """The counts of one network, in a process with the counting allocator."""
    import ctypes

    import torch

    compiled = torch.compile(network.module, backend="mortise", options={"device": "cpu", "output_pool_bytes": 0})
    with torch.no_grad():
        with Watch() as watch:
            network.run(compiled, network.module)
        library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libmortise.so" in line))
        programs = [count_program(counter, library, handle, *seen) for handle, seen in watch.seen.items()]
        through_torch = count_torch(counter, network, compiled)
    if not programs:
        raise RuntimeError(f"{network.name}: no program ran")
    row = {"allocations": max(max(p["one_thread"], p["two_threads"]) for p in programs), "programs": programs,
           "torch_beyond_outputs": through_torch}
    why = [f"through the C API: {program['problem']}" for program in programs if program["problem"]]
    why += [f"{row['allocations']:g} allocations per call through the C API"] if row["allocations"] else []
    why += [f"{through_torch:g} tensors or mappings per call through torch beyond outputs"] if through_torch else []
    return row | {"problem": "; ".join(why), "passed": not why}


def measure(arguments: list[str]) -> dict:
    import networks
    from measure import built, in_fresh_process, progress

    counter, rows = str(built("lib/liballoc_count.so")), {}
    for name in arguments or networks.MAKERS:
        networks.check(name)
        row = rows[name] = in_fresh_process(CHILD, name, counter, env={"LD_PRELOAD": counter})
        progress(f"{name:9} {row['allocations']:g} allocations a call in {len(row['programs'])} programs, "
                 f"{row['torch_beyond_outputs']:g} through torch beyond outputs")
    return {"networks": rows,
            "allocations_per_call": max((row["allocations"] for row in rows.values()), default=None),
            "torch_allocations_beyond_outputs": max((row["torch_beyond_outputs"] for row in rows.values()), default=None),
            "passed": bool(rows) and all(row["passed"] for row in rows.values())}
