# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops whose elements depend on each other's order, on an NVIDIA GPU through torch.compile: sorts, running ops, updates, searches, and
random numbers; ours beside eager and Inductor.

    us, eager_us, inductor_us   device time of one call; rounds interleaved, medians
    ratio       ours to the faster peer's
    wrong       what is wrong with the result; empty when it is right. Sorted values, positions, integers and searches are exact; sums are
                as near to f64 as TOLERANCE times what rounds in them; random numbers are judged by how many are zero

A row passes when its result is right."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpu_rows

MEASURES = "microseconds of sorts, running ops, updates, searches and random numbers on a GPU: ours, eager, Inductor"
NEEDS = "gpu; PyTorch with CUDA"
MINUTES = 2

ROUNDS, CALLS = 7, 20
TOLERANCE = 4  # units in the last place of f32, or of a narrower result, and as many again for each doubling of the terms


@dataclass
class Case:
    """`exact`: what is expected, of inputs of f64 where those are floats; None: random numbers, of which `zeros` are zero."""

    function: Callable
    inputs: Callable[[str], tuple]  # on a device
    exact: Callable | None
    terms: int = 1  # that a result is a sum of, at most
    zeros: float = 0.0


def cases() -> dict[str, Case]:
    import torch
    from torch.nn import functional as F

    f32, bf16 = torch.float32, torch.bfloat16

    def normal(*shape, dtype=f32):
        return lambda device: (torch.randn(shape, device=device).to(dtype),)

    def whole(below, *shape):
        return lambda device: (torch.randint(0, below, shape, device=device),)

    def updates(rows, width, count, dtype, along=False):
        return lambda device: (torch.randn(rows, width, device=device).to(dtype),
                               torch.randint(0, rows, (count, width) if along else (count,), device=device),
                               torch.randn(count, width, device=device).to(dtype))

    def edges(device):
        return torch.randn(4096, device=device).sort()[0], torch.randn(100000, device=device)

    def sort(x):
        return torch.sort(x, dim=-1, stable=True)

    def top(k):
        return lambda x: torch.topk(x, k, -1).values

    def index_add(x, i, u):
        return x.index_add(0, i, u)

    def scatter_add(x, i, u):
        return x.scatter_add(0, i, u)

    return {
        "sort f32 64x4096": Case(sort, normal(64, 4096), sort),
        "sort f32 1x1000000": Case(sort, normal(1, 1000000), sort),
        "sort i64 1x100000": Case(sort, whole(1 << 40, 1, 100000), sort),
        "top 50 f32 8x128256": Case(top(50), normal(8, 128256), top(50)),
        "top 8 bf16 8192x64": Case(top(8), normal(8192, 64, dtype=bf16), top(8)),
        "cumsum f32 4096x4096": Case(lambda x: x.cumsum(-1), normal(4096, 4096), lambda x: x.cumsum(-1), 4096),
        "cumsum i64 1x1000000": Case(lambda x: x.cumsum(-1), whole(5, 1, 1000000), lambda x: x.cumsum(-1)),
        "cumsum i64 8192x64 along 0": Case(lambda x: x.cumsum(0), whole(2, 8192, 64), lambda x: x.cumsum(0)),
        "cummax f32 1024x4096": Case(lambda x: x.cummax(-1), normal(1024, 4096), lambda x: x.cummax(-1)),
        "logcumsumexp f32 1024x4096": Case(lambda x: x.logcumsumexp(-1), normal(1024, 4096), lambda x: x.logcumsumexp(-1), 4096),
        "index_add bf16 32000x1024 8192": Case(index_add, updates(32000, 1024, 8192, bf16), index_add, 16),
        "index_add f32 32000x1024 8192": Case(index_add, updates(32000, 1024, 8192, f32), index_add, 16),
        "scatter_add f32 4096x256 8192": Case(scatter_add, updates(4096, 256, 8192, f32, along=True), scatter_add, 16),
        "searchsorted f32 4096 100000": Case(torch.searchsorted, edges, torch.searchsorted),
        "dropout of gelu bf16 8192x4096": Case(lambda x: F.dropout(F.gelu(x), 0.1, True), normal(8192, 4096, dtype=bf16), None, zeros=0.1),
    }


def wrong(case: Case, found: Any, inputs: tuple) -> str:
    """What is wrong with a result, or nothing. Sums are compared in units in the last place of what their terms come to in size."""
    import torch

    found = (found,) if torch.is_tensor(found) else tuple(found)
    if case.exact is None:
        share = float((found[0] == 0).double().mean())
        spread = 6 * (case.zeros * (1 - case.zeros) / found[0].numel())**0.5 + 1e-4  # some values round to 0
        return "" if abs(share - case.zeros) <= spread else f"expected {case.zeros} of all to be zero, found {share}"
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    expected = case.exact(*wide)
    expected = (expected,) if torch.is_tensor(expected) else tuple(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            return f"result {number}: expected {tuple(other.shape)}, found {tuple(one.shape)}"
        if case.terms == 1 or not one.is_floating_point():
            if not torch.equal(one.double(), other.double()):
                return f"result {number}: {int((one.double() != other.double()).sum())} of {one.numel()} elements are wrong"
            continue
        size = case.exact(*[x.abs() if x.is_floating_point() else x for x in wide])
        unit = torch.finfo(one.dtype).eps * other.abs() + torch.finfo(torch.float32).eps * case.terms.bit_length() * (size.abs() + 1)
        share = ((one.double() - other).abs() / (TOLERANCE * unit)).max()
        if not float(share) <= 1:
            return f"result {number}: {float(share):.3g} of what is allowed"
    return ""


def measure(arguments: list[str]) -> dict:
    return gpu_rows.measured(cases(), arguments, row)


def row(name: str, case: Case) -> dict:
    import torch

    inputs = case.inputs("cuda")
    calls = {"eager_us": case.function, "inductor_us": torch.compile(case.function, dynamic=False),
             "us": torch.compile(case.function, backend="mortise", dynamic=False, options={"device": "cuda"})}
    with torch.no_grad():
        result: dict = {"wrong": wrong(case, calls["us"](*inputs), inputs)}
        times = gpu_rows.medians(calls, [inputs], ROUNDS, CALLS, 5)
    result |= {key: round(seconds * 1e6, 1) for key, seconds in times.items()}
    result["ratio"] = round(result["us"] / min(result["eager_us"], result["inductor_us"]), 2)
    return result | {"passed": not result["wrong"]}
