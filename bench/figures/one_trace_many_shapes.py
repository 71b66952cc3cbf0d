# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One trace with a symbolic batch and sequence, called with twenty shapes: each result equals eager's, in about the time of a compilation
for that shape alone.

`recompiles` counts all compilations repeated for a later shape: graphs traced by Dynamo, programs imported and compiled, and kernels that
the host had compiled for numbers. The cpu plugin generates no code for further shapes, which tests/cpu checks. The library's primitives
must be made for each shape; `first_ms` is the time of a shape's first call, which includes them."""

MEASURES = "one trace of MiniLM (others by name: bert gpt2) on 20 shapes: recompiles, agreement with eager, time beside a static compile"
NEEDS = "cpu"
MINUTES = 8

SHAPES = [(2, 2), (2, 5), (2, 16), (2, 31), (2, 64), (2, 127), (2, 128), (3, 7), (3, 17), (3, 48), (3, 100), (4, 9), (4, 33),
          (4, 64), (5, 21), (6, 12), (7, 64), (8, 24), (9, 11), (16, 16)]
TIME_LIMIT = 1.15


def arguments_for(network, shape):
    import torch

    generator = torch.Generator().manual_seed(shape[0] * 1000 + shape[1])
    ids = torch.randint(1000, 20000, shape, generator=generator)
    if len(network.inputs) == 1:
        return (ids,)
    mask = torch.ones_like(ids)
    mask[0, max(1, shape[1] // 2):] = 0  # one sentence is shorter than the others
    return ids, mask


def compilations(report) -> dict:
    """The number of compilations so far, by kind."""
    programs = [p for g in report["graphs"] for p in g["programs"]]
    return {"programs": len(programs), "specialised": sum(p["values"]["kernels_specialised"] for p in programs)}


def compiled_for_all(network):
    """The network, compiled by a first call with another shape."""
    import torch

    function = torch.compile(network.module, backend="mortise", options={"device": "cpu"})
    first = arguments_for(network, (3, 19))
    for tensor in first:
        for dimension in (0, 1):
            torch._dynamo.mark_dynamic(tensor, dimension)
    function(*first)
    return function


def agreement(network) -> dict:
    """All shapes through one trace: errors, times of the shapes' first calls, and repeated compilations."""
    import time

    import torch
    import torch_mortise
    from measure import ERROR_LIMIT, clear_compilers, compare
    from reports import coverage

    clear_compilers()
    torch_mortise.reset()
    torch._dynamo.utils.counters.clear()
    function = compiled_for_all(network)
    before, rows = compilations(torch_mortise.last_report()), []
    for shape in SHAPES:
        arguments = arguments_for(network, shape)
        began = time.perf_counter()
        out = function(*arguments)
        first_ms = (time.perf_counter() - began) * 1e3
        agreement = compare(out, network.module(*arguments))
        rows.append({"shape": list(shape), "error": agreement.error, "problem": agreement.why_not(ERROR_LIMIT),
                     "first_ms": first_ms})
    report = torch_mortise.last_report()
    after = compilations(report)
    traced = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return {"rows": rows, "coverage": coverage(report, "cpu"), "traces": traced, "compilations": after,
            "notes": [note for graph in report["graphs"] for note in graph["notes"]],
            "recompiles": traced - 1 + sum(after[kind] - before[kind] for kind in after)}


def time_beside_static(network, row) -> None:
    import torch
    from measure import ERROR_LIMIT, clear_compilers, compare, interleaved, median

    arguments = arguments_for(network, tuple(row["shape"]))
    clear_compilers()  # keeps two entries in Dynamo's cache, because its lookup is part of a call
    dynamic = compiled_for_all(network)
    static = torch.compile(network.module, backend="mortise", options={"device": "cpu"}, dynamic=False)
    static(*arguments)
    times = interleaved({"dynamic": lambda: dynamic(*arguments), "static": lambda: static(*arguments)}, 80, 5)
    row["dynamic_ms"], row["static_ms"] = median(times["dynamic"]), median(times["static"])
    row["ratio"] = row["dynamic_ms"] / row["static_ms"]
    expected = network.module(*arguments)
    for side, function in (("dynamic", dynamic), ("static", static)):  # the timed functions must be right as well
        if why := compare(function(*arguments), expected).why_not(ERROR_LIMIT):
            row["problem"] = "; ".join(filter(None, [row["problem"], f"{side}, after timing: {why}"]))


def measure_network(name: str) -> dict:
    import networks
    import torch
    from measure import progress

    network = networks.make(name)
    with torch.no_grad():
        result = agreement(network)
        for row in result["rows"]:
            time_beside_static(network, row)
            progress(f"{name} {row['shape']}: error {row['error']:.1e}, first call {row['first_ms']:.0f} ms, then "
                     f"{row['dynamic_ms']:.2f}, {row['ratio']:.3f} of the static compile's")
    result["failed"] = [r["shape"] for r in result["rows"]
                        if r["problem"] or not r["ratio"] <= TIME_LIMIT]
    return result


def measure(arguments: list[str]) -> dict:
    result = {"networks": {name: measure_network(name) for name in arguments or ["minilm"]}}
    every = result["networks"].values()
    result["shapes"] = sum(len(n["rows"]) for n in every)
    result["recompiles"] = sum(n["recompiles"] for n in every)
    result["failed"] = sum(len(n["failed"]) for n in every)
    result["coverage"] = min(n["coverage"] for n in every)
    result["passed"] = (result["shapes"] == len(every) * len(SHAPES) > 0 and result["recompiles"] == 0
                        and result["failed"] == 0 and result["coverage"] == 1.0)
    return result
