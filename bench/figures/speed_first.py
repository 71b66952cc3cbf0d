# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Latency of whole networks beside eager PyTorch and Inductor, in interleaved rounds of one process."""

MEASURES = "median latency of networks on 2 threads beside eager and Inductor"
NEEDS = "cpu; g++ for Inductor"
MINUTES = 3

SPEEDUP_GOAL = 1.5  # over eager
DEFAULT = ("minilm", "bert")


def measure(arguments: list[str]) -> dict:
    import networks
    import torch
    from measure import has_compiler, interleaved, median, p95, progress, scaled_error

    rows = {}
    for name in arguments or DEFAULT:
        network = networks.make(name)
        rivals = {"eager": network.module, "mortise": torch.compile(network.module, backend="mortise")}
        if has_compiler():
            rivals["inductor"] = torch.compile(network.module, backend="inductor")
        with torch.no_grad():
            outputs = {rival: network.run(function, network.module) for rival, function in rivals.items()}
            left_out = {rival: f"disagrees with eager by {scaled_error(out, outputs['eager']):.1e} of the scale"
                        for rival, out in outputs.items() if scaled_error(out, outputs["eager"]) > 1e-4}
            times = interleaved({rival: lambda function=function: network.run(function, network.module)
                                 for rival, function in rivals.items() if rival not in left_out})
        row = {f"{rival}_ms": median(values) for rival, values in times.items()}
        row |= {f"{rival}_p95_ms": p95(values) for rival, values in times.items()}
        row |= {"left_out": left_out} if left_out else {}
        if "mortise_ms" in row:
            row["speedup"] = row["eager_ms"] / row["mortise_ms"]
        rows[name] = row
        progress(f"{name:9} " + "  ".join(f"{rival} {median(values):.2f} ms" for rival, values in times.items()))
    return {"rows": rows, "passed": all(row.get("speedup", 0) >= SPEEDUP_GOAL for row in rows.values())}
