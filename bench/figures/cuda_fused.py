# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fused memory-bound kernels on an NVIDIA GPU through torch.compile: ours beside eager and Inductor, and the device's own copy.

    gbps          bytes that the tensors have (each input read once, each output written once) over device time
    copy_gbps     a copy of a tensor of the same bytes by the driver, in the same rounds
    eager_gbps, inductor_gbps   the same function there
    error, eager_error          greatest distance from f64, in units in the last place of the result's type at the row's largest magnitude

Three sets of tensors in turn, so that no cache answers; rounds interleaved, medians. A row passes when ours is as near to f64 as eager
is (at most twice its error, or half a unit more), and reaches `LEAST` of the copy; an unusual row, `LEAST_OTHER`."""

import gpu_rows

MEASURES = "GB/s of five fused kernels, and of others of odd sizes and types, on a GPU: ours, eager, Inductor, copy"
NEEDS = "gpu; PyTorch with CUDA"
MINUTES = 4

LEAST, LEAST_OTHER = 0.92, 0.85  # of the copy
SETS = 3
ROUNDS = 7
OTHERS = (("softmax", 65536, 4096, "float32"), ("softmax", 524288, 256, "bfloat16"), ("softmax", 65536, 3000, "bfloat16"),
          ("softmax", 65536, 4097, "bfloat16"), ("softmax", 8192, 32768, "bfloat16"), ("layer_norm_gelu", 65536, 1536, "float16"),
          ("rms_norm_silu", 65536, 1000, "bfloat16"), ("bias_gelu_residual", 65537, 4095, "bfloat16"),
          ("column_sum", 4096, 65536, "float32"), ("column_sum", 262144, 1024, "bfloat16"))


def functions() -> dict:
    import torch
    from torch.nn import functional as F

    def softmax(x):
        return torch.softmax(x, -1)

    def layer_norm_gelu(x):
        return F.gelu(F.layer_norm(x, x.shape[-1:]))

    def rms_norm_silu(x):
        return F.silu(F.rms_norm(x, x.shape[-1:], eps=1e-6))

    def bias_gelu_residual(x, bias, residual):
        return F.gelu(x + bias) + residual

    def column_sum(x):
        return x.sum(0)

    return {f.__name__: f for f in (softmax, layer_norm_gelu, rms_norm_silu, bias_gelu_residual, column_sum)}


# name: (function, rows, length, dtype)
def cases() -> dict:
    found = {name: (name, 65536, 4096, "bfloat16") for name in functions()}
    for name, rows, length, dtype in OTHERS:
        found[f"{name} {rows}x{length} {dtype}"] = (name, rows, length, dtype)
    return found


def measure(arguments: list[str]) -> dict:
    def one(name: str, case: tuple) -> dict:
        function, *shape = case
        return row(functions()[function], *shape, LEAST if name == function else LEAST_OTHER)

    return gpu_rows.measured(cases(), arguments, one)


def row(function, rows: int, length: int, dtype: str, least: float) -> dict:
    import torch

    kind = getattr(torch, dtype)
    count = function.__code__.co_argcount
    torch.manual_seed(rows + length)

    def tensors() -> tuple:
        made = [torch.randn(rows, length, device="cuda", dtype=kind)]
        if count == 3:
            made += [torch.randn(length, device="cuda", dtype=kind), torch.randn(rows, length, device="cuda", dtype=kind)]
        return tuple(made)

    sets = [tensors() for _ in range(SETS)]
    calls = {"eager": function, "inductor": torch.compile(function, dynamic=False),
             "mortise": torch.compile(function, backend="mortise", dynamic=False, options={"device": "cuda", "require": "100% on cuda"})}
    bytes_moved = sum(t.numel() * t.element_size() for t in sets[0]) + (lambda t: t.numel() * t.element_size())(function(*sets[0]))
    result: dict = {}
    errors = {}
    for name in ("eager", "mortise"):
        errors[name] = error(function, calls[name](*sets[0]), sets[0])
    source = torch.empty(bytes_moved // 2, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    calls["copy"] = lambda *_: target.copy_(source)
    for name, median in gpu_rows.medians(calls, sets, ROUNDS, max(SETS, int(2e10 / bytes_moved)), 3).items():
        result["gbps" if name == "mortise" else f"{name}_gbps"] = bytes_moved / median / 1e9
    result |= {"error": errors["mortise"], "eager_error": errors["eager"]}
    exact = errors["mortise"] <= max(2 * errors["eager"], errors["eager"] + 0.5)
    result["passed"] = bool(exact and result["gbps"] >= least * result["copy_gbps"])
    return result


def error(function, found, tensors) -> float:
    """The greatest distance from f64 in ULP, on three places of the rows (all of them for a sum over rows)."""
    import torch

    if not bool(torch.isfinite(found.float()).all()):
        return float("inf")
    whole = found.dim() == 1
    worst = 0.0
    rows = tensors[0].shape[0]
    for first in (0,) if whole else (0, rows // 2, rows - 64):
        part = slice(None) if whole else slice(first, first + 64)
        wide = [t[part].double() if t.dim() == 2 else t.double() for t in tensors] if not whole else None
        if whole:  # in pieces, for want of memory
            expected = sum(function(piece.double()) for piece in tensors[0].split(8192))
        else:
            expected = function(*wide)
        eps = torch.finfo(found.dtype).eps
        scale = torch.exp2(torch.floor(torch.log2(expected.abs().clamp(min=torch.finfo(found.dtype).tiny)))) * eps
        if whole:
            scale = torch.clamp(scale, min=float(scale.median()))
        else:
            scale = torch.clamp(scale, min=float(scale.max()) * 2**-10)
        worst = max(worst, float(((found[part].double() - expected).abs() / scale).max()))
    return round(worst, 3)
