# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Latency of whole networks beside eager PyTorch and Inductor, in interleaved rounds of one process.

Every rival's outputs are compared with eager's before the clock starts and after it stops. A rival that cannot be compiled, or disagrees,
has no time: it is listed under `left_out` with the reason, and the figure fails, because the promised comparison has not been made.

The goal depends on the machine's vectors (PyTorch's name for them): it was set on machines with AVX-512. With others it is that of the
figure isa, not slower than eager."""

MEASURES = "median latency of networks on 2 threads beside eager and Inductor"
NEEDS = "cpu; g++ for Inductor"
MINUTES = 3

SPEEDUP_GOALS = {"AVX512": 1.5}  # over eager
SPEEDUP_GOAL = 1.0  # with other vectors
DEFAULT = ("minilm", "bert")
RIVALS = ("eager", "mortise", "inductor")


def measure(arguments: list[str]) -> dict:
    from measure import progress

    rows = {}
    for name in arguments or DEFAULT:
        row = rows[name] = measure_network(name)
        progress(f"{name:9} " + "  ".join(f"{rival} {row[f'{rival}_ms']:.2f} ms" if f"{rival}_ms" in row
                                          else f"{rival} LEFT OUT: {row['left_out'][rival]}" for rival in RIVALS))
    return {"rows": rows, "passed": bool(rows) and all(row["passed"] for row in rows.values())}


def measure_network(name: str) -> dict:
    import networks
    import torch
    from measure import interleaved, median, p95, rivals

    network = networks.make(name)
    with torch.no_grad():
        taken, left_out = rivals(network, {"mortise": {"backend": "mortise"}, "inductor": {"backend": "inductor"}})
        times = interleaved({rival: lambda function=function: network.run(function, network.module)
                             for rival, function in taken.items()})
        expected = network.run(network.module)
        left_out |= disagreeing(network, {rival: f for rival, f in taken.items() if rival != "eager"}, expected)
    times = {rival: values for rival, values in times.items() if rival not in left_out}
    row = {f"{rival}_ms": median(values) for rival, values in times.items()}
    row |= {f"{rival}_p95_ms": p95(values) for rival, values in times.items()}
    row["left_out"] = left_out
    if "mortise_ms" in row and "eager_ms" in row:
        row["speedup"] = row["eager_ms"] / row["mortise_ms"]
    row["problem"] = "; ".join(f"{rival} {why}" for rival, why in left_out.items())
    row["goal"] = SPEEDUP_GOALS.get(torch.backends.cpu.get_cpu_capability(), SPEEDUP_GOAL)
    row["passed"] = not left_out and row.get("speedup", 0.0) >= row["goal"]
    return row


def disagreeing(network, functions: dict, expected) -> dict[str, str]:
    from measure import ERROR_LIMIT, compare

    found = {name: compare(network.run(function, network.module), expected) for name, function in functions.items()}
    return {name: f"{agreement.why_not(ERROR_LIMIT)} (after timing)" for name, agreement in found.items()
            if not agreement.within(ERROR_LIMIT)}
