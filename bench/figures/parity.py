# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How exact compiled networks are: their error and eager's, both against the same network in f64."""

MEASURES = "error of six f32 networks against f64 beside eager's own, coverage, share of time per lowering"
NEEDS = "cpu"
MINUTES = 3

ERROR_LIMIT = 2e-5  # of the output's scale
EAGER_FACTOR = 2.0


def measure(arguments: list[str]) -> dict:
    import networks
    import torch
    import torch_mortise
    from measure import clear_compilers, min_cosine, progress, scaled_error
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
            found = network.run(compiled, network.module)
            with torch_mortise.profiling():
                network.run(compiled, network.module)
        report = torch_mortise.last_report()
        error, eager_error = scaled_error(found, exact), scaled_error(eager, exact)
        row = {"max_rel_err": scaled_error(found, eager), "min_cosine": min_cosine(found, exact),
               "err_vs_f64": error, "eager_err_vs_f64": eager_error, "coverage": coverage(report, "cpu"),
               "time_share": time_share(report)}
        row["passed"] = (error <= ERROR_LIMIT and error <= EAGER_FACTOR * eager_error and row["coverage"] == 1.0)
        result["networks"][name] = row
        progress(f"{name:9} error {error:.1e} (eager {eager_error:.1e})  coverage {row['coverage']:.3f}  "
                 f"{'ok' if row['passed'] else 'FAILED'}")
    result["passed"] = all(row["passed"] for row in result["networks"].values())
    return result
