# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products and convolutions on an NVIDIA GPU where neither cuBLASLt nor cuDNN is there (both options are off): the kernels that are
generated for them, through torch.compile, beside eager, which calls those libraries.

    us, eager_us    device time of one call; rounds interleaved, medians
    tflops          of ours, in 10^12 operations a second; a multiplication and an addition are two
    ratio           ours to eager's
    error           of ours: the norm of its difference from f64, relative to that of the result; eager_error likewise
    lowerings       what ours ran

A row passes when no library had a part in it, and its error is at most ALLOWED times eager's or, in f32, what n terms come to that are
added one after the other: n roundings of half a unit in the last place, of sums that grow as the root of their number, are
2^-24 sqrt(n / 2) of the result."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import gpu_rows

MEASURES = "products and convolutions by generated kernels on a GPU, beside eager with cuBLAS and cuDNN: time and error"
NEEDS = "gpu; PyTorch with CUDA"
MINUTES = 2

ROUNDS, CALLS = 7, 20
ALLOWED = 4  # in 16 bits the last rounding is nearly all of an error
SWITCHES = ("MORTISE_CUDA_CUBLASLT", "MORTISE_CUDA_CUDNN")


@dataclass
class Case:
    function: Callable  # of the inputs
    inputs: Callable[[str], tuple]  # on a device
    operations: float
    terms: int  # of a sum


def cases() -> dict[str, Case]:
    import torch
    from torch.nn import functional as F

    kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}

    def product(kind, rows, terms, columns, turned):
        def inputs(device):
            shape = (columns, terms) if turned else (terms, columns)
            x, w = torch.randn(rows, terms, device=device), torch.randn(shape, device=device) / terms**0.5
            return x.to(kinds[kind]), w.to(kinds[kind])

        return Case((lambda x, w: x @ w.t()) if turned else (lambda x, w: x @ w), inputs, 2.0 * rows * terms * columns, terms)

    def convolution(kind, images, channels, extent, results, window, stride, last):
        def inputs(device):
            x = torch.randn(images, channels, extent, extent, device=device).to(kinds[kind])
            w = (torch.randn(results, channels, window, window, device=device) / (channels * window * window)**0.5).to(kinds[kind])
            layout = torch.channels_last if last else torch.contiguous_format
            return x.to(memory_format=layout), w.to(memory_format=layout), torch.randn(results, device=device).to(kinds[kind])

        padding = window // 2
        positions = images * ((extent + 2 * padding - window) // stride + 1)**2
        operations = 2.0 * positions * results * channels * window**2
        return Case(lambda x, w, b: F.relu(F.conv2d(x, w, b, stride, padding)), inputs, operations, channels * window**2)

    found = {}
    for kind in kinds:
        for rows, terms, columns in ((4096, 4096, 4096), (2048, 768, 3072), (128, 2048, 8192), (16, 4096, 4096), (1000, 1001, 999)):
            found[f"product {kind} {rows}x{terms}x{columns}"] = product(kind, rows, terms, columns, False)
    found["linear bf16 2048x768x3072"] = product("bf16", 2048, 768, 3072, True)
    for kind in kinds:
        for shape in ((32, 64, 56, 64, 3, 1), (32, 3, 224, 64, 7, 2), (32, 1024, 14, 256, 1, 1)):
            name = "convolution {} {}x{}x{}x{} {} {}x{}".format(kind, *shape[:3], shape[2], shape[3], shape[4], shape[4])
            found[name] = convolution(kind, *shape, False)
    found["convolution bf16 channels last 32x64x56x56 64 3x3"] = convolution("bf16", 32, 64, 56, 64, 3, 1, True)
    return found


def error(found, expected) -> float:
    """NaN where either is not a number."""
    return float((found.double() - expected).norm() / expected.norm())


def sequential_error(case: Case, kind) -> float:
    import torch

    return 2**-24 * (case.terms / 2)**0.5 if kind == torch.float32 else 0.0


def passes(row: dict) -> bool:
    nan = float("nan")
    is_generated = "cuda.product" in row["lowerings"] and all(name.startswith("cuda.") for name in row["lowerings"])
    return is_generated and row.get("error", nan) <= max(ALLOWED * row.get("eager_error", nan), row.get("sequential_error", 0.0))


def lowerings(report: dict) -> list[str]:
    placed = [region for graph in report["graphs"] for region in graph["program"]["placement"]]
    return sorted({step["lowering"] for region in placed for step in region["steps"]})


def measure(arguments: list[str]) -> dict:
    for name in SWITCHES:  # read when the plugin starts
        os.environ[name] = "off"
    return gpu_rows.measured(cases(), arguments, row)


def row(name: str, case: Case) -> dict:
    import torch
    import torch_mortise

    inputs = case.inputs("cuda")
    ours = torch.compile(case.function, backend="mortise", dynamic=False, options={"device": "cuda"})
    with torch.no_grad():
        expected = case.function(*[x.double() for x in inputs])
        result: dict = {"error": error(ours(*inputs), expected), "eager_error": error(case.function(*inputs), expected)}
        result["sequential_error"] = sequential_error(case, inputs[0].dtype)
        result["lowerings"] = lowerings(torch_mortise.last_report())
        times = gpu_rows.medians({"eager_us": case.function, "us": ours}, [inputs], ROUNDS, CALLS, 5)
    result |= {key: round(seconds * 1e6, 1) for key, seconds in times.items()}
    result["tflops"] = round(case.operations / result["us"] / 1e6, 1)
    result["ratio"] = round(result["us"] / result["eager_us"], 2)
    return result | {"passed": passes(result)}
