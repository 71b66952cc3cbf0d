# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How exact compiled networks are: their error beside eager's, both relative to the same network in f64.

The first call of a compiled network and a later one are judged by the same bound; the later one runs in used memory. Shapes and dtypes must
be eager's, and NaN and infinities must be where f64 has them (`measure.compare`)."""

MEASURES = "error of six f32 networks against f64 beside eager's own, coverage, share of time per lowering"
NEEDS = "cpu"
MINUTES = 3

EAGER_FACTOR = 2.0


def judge(found: dict, eager: tuple, exact: tuple) -> dict:
    """The row of one network. `found`: outputs of our calls, by name."""
    from measure import ERROR_LIMIT, compare

    reference = compare(eager, exact, like=eager)
    calls = {name: compare(outputs, exact, like=eager) for name, outputs in found.items()}
    beside = {name: compare(outputs, eager) for name, outputs in found.items()}
    error = max(call.error for call in calls.values())
    limit = min(ERROR_LIMIT, EAGER_FACTOR * reference.error)
    why = [f"eager: {reference.why_not(ERROR_LIMIT)}"] if not reference.within(ERROR_LIMIT) else []
    why += [f"{name}: {call.why_not(limit)}" for name, call in calls.items() if not call.within(limit)]
    return {"max_rel_err": max(call.error for call in beside.values()),
            "min_cosine": min(call.cosine for call in calls.values()),
            "err_vs_f64": error, "eager_err_vs_f64": reference.error, "problem": "; ".join(why)}


def measure(arguments: list[str]) -> dict:
    import networks
    import torch
    import torch_mortise
    from measure import clear_compilers, progress
    from reports import coverage, time_share

    result: dict = {"networks": {}}
    for name in arguments or networks.MAKERS:
        network = networks.make(name)
        with torch.no_grad():
            exact_network = network.double()
            exact = exact_network.run(exact_network.module)
            del exact_network
            eager = network.run(network.module)
            clear_compilers()
            compiled = torch.compile(network.module, backend="mortise", options={"device": "cpu"})
            found = {"first call": network.run(compiled, network.module)}
            with torch_mortise.profiling():
                found["later call"] = network.run(compiled, network.module)
        report = torch_mortise.last_report()
        row = judge(found, eager, exact)
        row |= {"coverage": coverage(report, "cpu"), "time_share": time_share(report)}
        if row["coverage"] != 1.0:
            row["problem"] = "; ".join(filter(None, [row["problem"], f"coverage is {row['coverage']:.3f}, expected 1"]))
        row["passed"] = not row["problem"]
        result["networks"][name] = row
        progress(f"{name:9} error {row['err_vs_f64']:.1e} (eager {row['eager_err_vs_f64']:.1e})  "
                 f"coverage {row['coverage']:.3f}  {'ok' if row['passed'] else 'FAILED: ' + row['problem']}")
    result["passed"] = bool(result["networks"]) and all(row["passed"] for row in result["networks"].values())
    return result
