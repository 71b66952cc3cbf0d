# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Six networks through torch.compile on each GPU that there is, in f32 and bf16, compiled for one shape and for all: distance from
f64 beside eager's, and the share of operators that we take.

    err_vs_f64, eager_err_vs_f64   greatest difference from the same network in f64, relative to the output's scale
    coverage                       share of operators that the device took (1.0 is due)

Devices: cuda, vulkan and rocm, those of them that are installed here. What a CPU computes (Mesa's lavapipe, the stand-in for HIP) gets all
layers on little data. Eager runs where the tensors are: on the GPU for cuda, else on the CPU.
A row passes when our error is at most twice eager's, or 2e-5 in f32, and coverage is 1. Arguments: names of networks or devices."""

MEASURES = "six networks in f32 and bf16 on each GPU that there is: error against f64 beside eager's, coverage"
NEEDS = "gpu, or Mesa's lavapipe; PyTorch; transformers"
MINUTES = 12

NETWORKS = ("bert", "resnet50", "vit", "gpt2", "llama", "mobilenetv2")
DEVICES = ("cuda", "vulkan", "rocm")
ON_A_CPU = ("llvmpipe", "stand-in")  # in the name of the hardware


def measure(arguments: list[str]) -> dict:
    import networks
    import torch
    import torch_mortise
    from measure import progress

    for name in arguments:
        if name not in DEVICES:
            networks.check(name)
    there = {one["kind"]: one["hardware"] for one in torch_mortise.devices()}
    devices = [device for device in DEVICES if device in there and (device != "cuda" or torch.cuda.is_available())]
    devices = [device for device in devices if device in arguments] if set(arguments) & set(DEVICES) else devices
    if not devices:
        return {"error": f"expected a device among {', '.join(DEVICES)}, found {', '.join(there)}", "passed": False}
    rows = {}
    for device in devices:
        small = any(word in there[device] for word in ON_A_CPU)
        for name in [name for name in arguments if name not in DEVICES] or NETWORKS:
            for dtype in ("float32", "bfloat16"):
                for dynamic in (False, True):
                    key = f"{name} {device} {dtype}{' symbolic' if dynamic else ''}"
                    try:
                        rows[key] = row(name, device, getattr(torch, dtype), dynamic, small)
                    except Exception as error:
                        rows[key] = {"error": f"{type(error).__name__}: {str(error)[:300]}", "passed": False}
                    progress(f"{key:40} {rows[key]}")
    return {"devices": {device: there[device] for device in devices}, "rows": rows, "passed": sum(one["passed"] for one in rows.values()),
            "failed": sum(not one["passed"] for one in rows.values())}


def row(name: str, device: str, dtype, dynamic: bool, small: bool) -> dict:
    import networks
    import torch
    import torch_mortise
    from measure import compare

    torch.compiler.reset()
    torch_mortise.reset()
    place = "cuda" if device == "cuda" else "cpu"
    network = networks.make(name, small=small)
    network.module.to(place, dtype).requires_grad_(False)
    network.inputs = tuple(x.to(place, dtype) if torch.is_floating_point(x) else x.to(place) for x in network.inputs)
    with torch.no_grad():
        exact = network.double()
        expected = [t.cpu() for t in exact.run(exact.module)]
        eager = network.run(network.module)
        compiled = torch.compile(network.module, backend="mortise", dynamic=dynamic, options={"device": device})
        found = network.run(compiled, network.module)
        report = torch_mortise.last_report()
    like = [t.cpu() for t in eager]
    outputs = {"err_vs_f64": found, "eager_err_vs_f64": eager}
    errors = {key: compare([t.cpu() for t in tensors], expected, like=like) for key, tensors in outputs.items()}
    result: dict = {key: agreement.error for key, agreement in errors.items()}
    result |= {"device": device, "dtype": str(dtype)[6:], "coverage": report["coverage"]}
    if problem := errors["err_vs_f64"].problem:
        result["problem"] = problem
    limit = max(2 * result["eager_err_vs_f64"], 2e-5 if dtype == torch.float32 else 0)
    result["passed"] = bool(result["err_vs_f64"] <= limit and result["coverage"] == 1.0)
    if result["coverage"] < 1.0:
        result["eager"] = [str(entry)[:120] for graph in report["graphs"] for entry in graph["eager"]][:4]
    return result
