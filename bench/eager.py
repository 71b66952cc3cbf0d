# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch eager under the judge (outside.py)."""

from __future__ import annotations

import outside
import torch
import torch.nn.functional as F
from outside import Refused

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32,
          "i16": torch.int16, "i8": torch.int8, "ui8": torch.uint8, "i1": torch.bool}
# Elementwise functions of the same name in both languages.
SAME = ["exp", "expm1", "log", "log1p", "rsqrt", "sin", "cos", "tanh", "erf", "erfc", "tan", "asin", "acos", "atan", "sinh", "cosh",
        "asinh", "acosh", "atanh", "log2", "log10", "exp2", "pow", "atan2"]


def _once(function):
    """Several ops of PyTorch stand for one of ours, so narrow types are computed in f32 and rounded once."""
    def compute(n, *operands):
        dtype = operands[0].dtype
        if dtype not in (torch.float16, torch.bfloat16):
            return function(n, *operands)
        return function(n, *(None if operand is None else operand.float() for operand in operands)).to(dtype)

    return compute


def _padded(n, x):
    low, high = n["low"], n["high"]
    return F.pad(x, [edge for pair in zip(reversed(low), reversed(high), strict=True) for edge in pair])


def _convolution(n, x, weight):
    convolve = [F.conv1d, F.conv2d, F.conv3d][x.dim() - 3]
    return convolve(_padded(n, x), weight, stride=n["strides"], dilation=n["dilations"], groups=n["groups"])


def _fused(n, x, weight, scale, bias):
    wide = [1, -1] + [1] * (x.dim() - 2)
    y = _convolution(n, x, weight)
    y = y if scale is None else y * scale.reshape(wide)
    y = y if bias is None else y + bias.reshape(wide)
    return {"none": lambda v: v, "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda v: F.gelu(v, approximate="tanh")}[
        n["activation"]](y)


def _sum_pool(n, x):
    if any(dilation != 1 for dilation in n["dilations"]) or x.dim() > 5:
        raise Refused("pools with dilation")
    if x.dim() == 3:
        raise Refused("one dimension has no divisor")
    return [F.avg_pool2d, F.avg_pool3d][x.dim() - 4](_padded(n, x), n["window"], n["strides"], divisor_override=1)


def _norm(n, x, scale, bias=None):
    shape = x.shape[n["axis"]:]
    return F.layer_norm(x, shape, scale, bias, n["epsilon"])


def _rms_norm(n, x, scale):
    return F.rms_norm(x, x.shape[n["axis"]:], scale, n["epsilon"])


def _cross_entropy(n, logits, targets):
    classes = logits.shape[-1]
    if ((targets != n["ignore_index"]) & ((targets < 0) | (targets >= classes))).any():
        raise Refused("PyTorch refuses such a target")
    loss = F.cross_entropy(logits.reshape(-1, classes), targets.reshape(-1).long(), ignore_index=n["ignore_index"],
                           label_smoothing=n["label_smoothing"], reduction=n["reduction"])
    return loss.reshape(targets.shape) if n["reduction"] == "none" else loss


def _rope(n, x, cos, sin):
    if n["interleaved"]:
        turned = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    else:
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * cos + turned * sin


def _attention(n, q, k, v, mask):
    if mask is not None and mask.dtype == torch.bool and not mask.any(-1).all():
        raise Refused("rows that see no key")
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=bool(n["causal"]), scale=n["scale"],
                                          enable_gqa=q.shape[1] != k.shape[1])


def _put(n, x, indices, updates):
    extent = x.shape[n["axis"]]
    if n["mode"] != "add" or ((indices < -extent) | (indices >= extent)).any():
        raise Refused("updates other than additions, or targets outside")
    return x.index_add(n["axis"], indices.reshape(-1).long() % max(extent, 1), updates)


COMPUTE = {name: (lambda n, *operands, name=name: getattr(torch, name)(*operands)) for name in SAME} | {
    "logistic": lambda n, x: torch.sigmoid(x), "silu": lambda n, x: F.silu(x), "swiglu": _once(lambda n, gate, up: F.silu(gate) * up),
    "gelu": lambda n, x: F.gelu(x, approximate=n["approximate"]),
    "dot": lambda n, a, b: torch.einsum(outside.equation(n, a.dim(), b.dim()), a, b),
    "linear": lambda n, x, w, bias: F.linear(x, w.t() if n["weight_transposed"] else w, bias), "convolution": _convolution,
    "fused_convolution": _once(_fused), "sum_pool": _sum_pool,
    "reduce_sum": lambda n, x: x.sum(n["axes"]) if n["axes"] else x.clone(),
    "mean": lambda n, x: x.mean(n["axes"]) if n["axes"] else x.clone(),
    "cumsum": lambda n, x: x.cumsum(n["axis"]), "cumprod": lambda n, x: x.cumprod(n["axis"]),
    "cumlogsumexp": lambda n, x: x.logcumsumexp(n["axis"]), "softmax": lambda n, x: F.softmax(x, n["axis"]),
    "log_softmax": lambda n, x: F.log_softmax(x, n["axis"]), "layer_norm": _norm, "rms_norm": _rms_norm,
    "group_norm": lambda n, x, scale, bias: F.group_norm(x, n["groups"], scale, bias, n["epsilon"]),
    "batch_norm": lambda n, x, scale, bias, mean, variance: F.batch_norm(x, mean, variance, scale, bias, eps=n["epsilon"]),
    "cross_entropy": _cross_entropy, "rope": _once(_rope), "attention": _attention, "put": _put,
    "reduce_prod": lambda n, x: _products(n["axes"], x)}


def _products(axes, x):
    for axis in reversed(axes):
        x = x.prod(axis)
    if len(axes) > 1 and x.dtype in (torch.float16, torch.bfloat16):
        raise Refused("one axis at a time rounds in between")
    return x


def _tensor(type, data):
    if type["dtype"] not in DTYPES:
        raise Refused(f"no {type['dtype']}")
    if not type["bytes"]:
        return torch.empty(type["dims"], dtype=DTYPES[type["dtype"]])
    return torch.frombuffer(data, dtype=DTYPES[type["dtype"]]).reshape(type["dims"]).clone()


def compute(case: dict, data: list[bytearray | None]) -> torch.Tensor:
    name = case["op"].partition(".")[2]
    if name not in COMPUTE:
        raise Refused("no such op")
    operands = [None if type is None else _tensor(type, of) for type, of in zip(case["operands"], data, strict=True)]
    try:
        made = COMPUTE[name](case["attributes"], *operands)
    except (RuntimeError, ValueError, IndexError, NotImplementedError) as error:
        raise Refused(str(error).splitlines()[0]) from error
    result = case["result"]
    if list(made.shape) != result["dims"] or made.dtype != DTYPES.get(result["dtype"]):
        raise Refused(f"it gives {made.dtype} {list(made.shape)}")
    return made


def answer(case: dict, data: list[bytearray | None]) -> bytes:
    result = compute(case, data)
    dense = torch.empty(result.numel(), dtype=result.dtype)  # one element may keep a stride, which no view of bytes takes
    dense.copy_(result.reshape(-1))
    return dense.view(torch.uint8).numpy().tobytes()


def judge(*arguments) -> list[dict]:
    """The verdicts on what compute() gives for the cases that the arguments choose."""
    return outside.judge(answer, COMPUTE, *arguments)
