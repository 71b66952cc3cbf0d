# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Six networks through torch.compile on each GPU that there is, in f32 and bf16, compiled for one shape and for all: distance from
f64 beside eager's, and the share of operators that we take.

    err_vs_f64, eager_err_vs_f64   greatest difference from the same network in f64, relative to the output's scale
    coverage                       share of operators that the device took (1.0 is due)

Places: cuda, vulkan and rocm, those of them that are installed here; lavapipe, which is Vulkan on the CPU, and stand-in, which is the rocm
plugin on tests/hip-stand-in. The last two get all layers on little data. Eager runs where the tensors are: on the GPU for cuda, else on
the CPU. A row passes when our error is at most twice eager's, or 2e-5 in f32, and coverage is 1.
Arguments: names of networks or places, and kept runs of other places (FILE.json), made from the same sources on other machines. Each
place but rocm is due, and one without rows (`lacking`) counts as failed."""

import os

from figures import ArgumentError

MEASURES = "six networks in f32 and bf16 on each GPU that there is: error against f64 beside eager's, coverage"
NEEDS = "gpu, Mesa's lavapipe or a build with the stand-in for HIP; PyTorch; transformers"
MINUTES = 25

NETWORKS = ("bert", "resnet50", "vit", "gpt2", "llama", "mobilenetv2")
DUE = ("cuda", "vulkan", "lavapipe", "stand-in")
PLACES = {"cuda": "cuda", "vulkan": "vulkan", "lavapipe": "vulkan", "rocm": "rocm", "stand-in": "rocm"}  # {place: device}
# What decides about the figure.
SOURCES = ("CMakeLists.txt", "bench/figures/gpu_networks.py", "bench/networks.py", "cmake", "frontend", "ir", "passes", "plugins",
           "runtime", "sdk", "tests/hip-stand-in")


def measure(arguments: list[str]) -> dict:
    from concurrent.futures import ThreadPoolExecutor

    import networks
    from kept import digest, merged, parts_given
    from measure import ROOT, machine

    sources = digest(ROOT, SOURCES)
    parts, given = parts_given(arguments, "gpu-networks", sources)
    asked = [argument for argument in given if argument in PLACES]
    names = [argument for argument in given if argument not in PLACES]
    for name in names:
        networks.check(name)
    here = places()
    there = {place: here[place] for place in asked or here if place in here and place not in parts}
    if lacking := [place for place in asked if place not in here | parts]:
        raise ArgumentError(f"expected places that are here ({', '.join(here)}), found {', '.join(lacking)}")
    if not there and not parts:
        return {"error": "expected a GPU, lavapipe or a build with the stand-in for HIP, found none", "passed": False}
    tasks = [(place, name) for name in names or NETWORKS for place in there]
    with ThreadPoolExecutor(max((os.cpu_count() or 1) // 2, 1)) as pool:
        made = list(pool.map(lambda task: rows_in_a_process(*task), tasks))
    for place, hardware in there.items():
        rows = {key: row for (where, _), found in zip(tasks, made, strict=True) if where == place for key, row in found.items()}
        parts[place] = {"hardware": hardware, "machine": machine(), "rows": rows}
    result = {"sources": sources} | merged(parts, DUE)
    if names:
        result["partial"] = "some networks"
    return result


def places() -> dict[str, str]:
    """{place: hardware} of this machine."""
    import torch
    import torch_mortise
    from figures import rocm_stand_in

    there = {one["kind"]: one["hardware"] for one in torch_mortise.devices()}
    found = {}
    if "cuda" in there and torch.cuda.is_available():
        found["cuda"] = there["cuda"]
    if "vulkan" in there:
        found["lavapipe" if "llvmpipe" in there["vulkan"] else "vulkan"] = there["vulkan"]
    if "rocm" in there:
        found["rocm"] = there["rocm"]
    if rocm_stand_in.can_be_made():
        found["stand-in"] = "stand-in for HIP, gfx942"
    return found


ROWS = "import json, sys; from figures import gpu_networks; print(json.dumps(gpu_networks.rows(*sys.argv[1:])))"


def rows_in_a_process(place: str, name: str) -> dict:
    """A place has an environment of its own, and one that ends its process loses the others nothing."""
    from figures import rocm_stand_in
    from measure import in_fresh_process, progress

    stand_in = place == "stand-in"
    environment = rocm_stand_in.environment(MORTISE_TEST_HIP_STAND_IN="arch=gfx942 devices=1 calls=0") if stand_in else dict(os.environ)
    if stand_in:
        rocm_stand_in.build()
    try:
        found = in_fresh_process(ROWS, place, name, env=environment)
    except RuntimeError as error:
        found = {name: {"error": str(error)[-600:], "passed": False}}
    for key, one in found.items():
        progress(f"{f'{key} {place}':40} {one}")
    return found


def rows(place: str, name: str) -> dict:
    import torch

    torch.set_num_threads(2)
    found = {}
    for dtype in ("float32", "bfloat16"):
        for dynamic in (False, True):
            try:
                one = row(name, PLACES[place], getattr(torch, dtype), dynamic, small=place in ("lavapipe", "stand-in"))
            except Exception as error:
                one = {"error": f"{type(error).__name__}: {str(error)[:300]}", "passed": False}
            found[f"{name} {dtype}{' symbolic' if dynamic else ''}"] = one
    return found


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
        compiled = torch.compile(network.module, backend="mortise", fullgraph=True, dynamic=dynamic, options={"device": device})
        found = network.run(compiled, network.module)
        report = torch_mortise.last_report()
    like = [t.cpu() for t in eager]
    outputs = {"err_vs_f64": found, "eager_err_vs_f64": eager}
    errors = {key: compare([t.cpu() for t in tensors], expected, like=like) for key, tensors in outputs.items()}
    result: dict = {key: agreement.error for key, agreement in errors.items()}
    result |= {"device": device, "dtype": str(dtype)[6:], "coverage": report["coverage"]}
    if problem := errors["err_vs_f64"].problem:
        result["problem"] = problem
    if result["coverage"] < 1.0:
        result["eager"] = [str(entry)[:120] for graph in report["graphs"] for entry in graph["eager"]][:4]
    return result | {"passed": judged(result)}


def judged(row: dict) -> bool:
    limit = max(2 * row["eager_err_vs_f64"], 2e-5 if row["dtype"] == "float32" else 0)
    return bool(row["err_vs_f64"] <= limit and row["coverage"] == 1.0 and "problem" not in row)
