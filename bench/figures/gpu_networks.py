# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Six networks on a GPU through torch.compile, in f32 and bf16: distance from f64 beside eager's, and the share of operators that we take.

    err_vs_f64, eager_err_vs_f64   greatest difference from the same network in f64 on the same device, relative to the output's scale
    coverage                       share of operators that the device took (1.0 is due)

A row passes when our error is at most twice eager's, or 2e-5 in f32, and coverage is 1."""

MEASURES = "six networks in f32 and bf16 on a GPU: error against f64 beside eager's, coverage"
NEEDS = "gpu; PyTorch with CUDA; transformers"
MINUTES = 3

NETWORKS = ("bert", "resnet50", "vit", "gpt2", "llama", "mobilenetv2")


def measure(arguments: list[str]) -> dict:
    import networks
    import torch
    from measure import progress

    for name in arguments:
        networks.check(name)
    if not torch.cuda.is_available():
        return {"error": "expected a GPU of NVIDIA's and PyTorch with CUDA, found none", "passed": False}
    rows = {}
    for name in arguments or NETWORKS:
        for dtype in ("float32", "bfloat16"):
            try:
                rows[f"{name} {dtype}"] = row(name, getattr(torch, dtype))
            except Exception as error:
                rows[f"{name} {dtype}"] = {"error": f"{type(error).__name__}: {str(error)[:300]}", "passed": False}
            progress(f"{name:12} {dtype:9} {rows[f'{name} {dtype}']}")
    return {"device": torch.cuda.get_device_name(), "rows": rows, "passed": sum(one["passed"] for one in rows.values()),
            "failed": sum(not one["passed"] for one in rows.values())}


def on_device(network, dtype):
    """The network and its inputs on the GPU, numbers in `dtype`."""
    import torch

    network.module.to("cuda", dtype).requires_grad_(False)
    network.inputs = tuple(x.to("cuda", dtype) if torch.is_floating_point(x) else x.to("cuda") for x in network.inputs)
    return network


def row(name: str, dtype) -> dict:
    import networks
    import torch
    import torch_mortise
    from measure import compare

    torch.compiler.reset()
    network = on_device(networks.make(name), dtype)
    with torch.no_grad():
        exact = network.double()
        expected = [t.cpu() for t in exact.run(exact.module)]
        eager = network.run(network.module)
        compiled = torch.compile(network.module, backend="mortise", options={"device": "cuda"})
        found = network.run(compiled, network.module)
        torch.cuda.synchronize()
        report = torch_mortise.last_report()
    like = [t.cpu() for t in eager]
    outputs = {"err_vs_f64": found, "eager_err_vs_f64": eager}
    errors = {key: compare([t.cpu() for t in tensors], expected, like=like) for key, tensors in outputs.items()}
    result: dict = {key: agreement.error for key, agreement in errors.items()}
    result |= {"device": "cuda", "dtype": str(dtype)[6:], "coverage": report["coverage"]}
    if problem := errors["err_vs_f64"].problem:
        result["problem"] = problem
    limit = max(2 * result["eager_err_vs_f64"], 2e-5 if dtype == torch.float32 else 0)
    result["passed"] = bool(result["err_vs_f64"] <= limit and result["coverage"] == 1.0)
    if result["coverage"] < 1.0:
        result["eager"] = [str(entry)[:120] for graph in report["graphs"] for entry in graph["eager"]][:4]
    return result
