# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Softmax and the normalisations, each imported as one composite op if one fits."""

import math

import torch
from torch._prims_common import get_computation_dtype

from .. import dtypes
from ..dtypes import F32, is_narrow_float
from .core import axis_of, decomposes, handles

aten = torch.ops.aten


def row_op(name, overload):
    @handles(overload)
    def handler(e, x, axis, half_to_float):
        x = e.convert(x, e.dtype)
        if x.rank == 0:
            return e.reshape(e.op(name, e.reshape(x, (1,)), axis=0), ())
        return e.op(name, x, axis=axis_of(axis, x.rank))


row_op("softmax", aten._softmax.default)
row_op("log_softmax", aten._log_softmax.default)


def parameter(e, value, dtype):
    return None if value is None else e.convert(value, dtype)


def statistics(e, x, axes, epsilon, shape):
    """The mean and 1 / sqrt(variance + epsilon), which training saves."""
    mean = e.op("mean", x, axes=axes)
    centred = e.op("sub", x, e.broadcast(mean, x.shape, tuple(i for i in range(x.rank) if i not in axes)))
    variance = e.op("mean", e.op("mul", centred, centred), axes=axes)
    rstd = e.op("rsqrt", e.op("add", variance, e.constant(epsilon, x.dtype, variance.shape)))
    return e.reshape(mean, shape), e.reshape(rstd, shape)


@handles(aten.native_layer_norm.default)
def layer_norm(e, x, shape, scale, bias, epsilon):
    axis = x.rank - len(shape)
    result = e.op(
        "layer_norm", x, parameter(e, scale, x.dtype), parameter(e, bias, x.dtype), axis=axis, epsilon=float(epsilon)
    )
    if not (e.uses(1) or e.uses(2)):
        return result, None, None
    wide = e.convert(x, F32 if is_narrow_float(x.dtype) else x.dtype)
    kept = x.shape[:axis] + (1,) * len(shape)
    made = statistics(e, wide, tuple(range(axis, x.rank)), epsilon, kept)
    return (result, *(e.convert(v, dtypes.number(e.value[1].dtype)) for v in made))


@handles(aten._fused_rms_norm.default)
def rms_norm(e, x, shape, scale, epsilon):
    if epsilon is None:
        epsilon = torch.finfo(e.value[0].dtype).eps
    axis = x.rank - len(shape)
    result = e.op("rms_norm", x, parameter(e, scale, x.dtype), axis=axis, epsilon=float(epsilon))
    if not e.uses(1):
        return result, None
    wide = e.convert(x, F32 if is_narrow_float(x.dtype) else x.dtype)
    square = e.op("mean", e.op("mul", wide, wide), axes=tuple(range(axis, x.rank)))
    rstd = e.op("rsqrt", e.op("add", square, e.constant(float(epsilon), wide.dtype, square.shape)))
    return result, e.convert(e.reshape(rstd, x.shape[:axis] + (1,) * len(shape)), dtypes.number(e.value[1].dtype))


@handles(aten.native_group_norm.default)
def group_norm(e, x, scale, bias, n, c, hw, groups, epsilon):
    scale_, bias_ = parameter(e, scale, x.dtype), parameter(e, bias, x.dtype)
    result = e.op("group_norm", x, scale_, bias_, groups=groups, epsilon=float(epsilon))
    if not (e.uses(1) or e.uses(2)):
        return result, None, None
    rows = e.reshape(e.convert(x, F32 if is_narrow_float(x.dtype) else x.dtype), (n, groups, (c // groups) * hw))
    saved = statistics(e, rows, (2,), epsilon, (n, groups))
    return (result, *(e.convert(v, dtypes.number(e.value[1].dtype)) for v in saved))


# ---- batches --------------------------------------------------------------------------------------


@handles(aten._native_batch_norm_legit_no_training.default)
def batch_norm(e, x, scale, bias, mean, variance, momentum, epsilon):
    empty = [e.constant(0.0, dtypes.number(e.value[i].dtype), (0,)) if e.uses(i) else None for i in (1, 2)]
    if any(v is not None and v.dtype != x.dtype for v in (scale, bias, mean, variance)):
        dtype = x.dtype  # narrow input and wide statistics are computed wide and rounded once
        wide = [parameter(e, v, F32) for v in (x, scale, bias, mean, variance)]
        return e.convert(e.op("batch_norm", *wide, epsilon=float(epsilon)), dtype), *empty
    return e.op("batch_norm", x, scale, bias, mean, variance, epsilon=float(epsilon)), *empty


# Statistics of the batch are written out in PyTorch's language, before the graph of a training step is divided into forward and
# backward: the backward pass may then compute normalised values again, where it keeps what was normalised anyway.


def by_batch(x, scale, bias, epsilon):
    """x with each channel normalised by its own statistics, and these, wide: mean, variance and 1 / deviation, [channels] each."""
    wide = x.to(get_computation_dtype(x.dtype))
    axes = [axis for axis in range(x.dim()) if axis != 1]
    mean = wide.mean(axes, keepdim=True)
    centred = wide - mean
    variance = (centred * centred).mean(axes, keepdim=True)
    rstd = torch.rsqrt(variance + epsilon)
    result = centred * rstd
    if scale is not None:
        result = result * scale.to(wide.dtype).reshape(mean.shape)
    if bias is not None:
        result = result + bias.to(wide.dtype).reshape(mean.shape)
    return (result.to(x.dtype), *(value.flatten() for value in (mean, variance, rstd)))


def saved(x, parameters, *values):
    """The statistics that the backward pass gets: on the CPU as narrow as x, unless parameters are wider."""
    narrow = x.device.type == "cpu" and all(p is None or p.dtype == x.dtype for p in parameters)
    return [value.to(x.dtype) if narrow else value for value in values]


@decomposes(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(x, scale, bias, training, momentum, epsilon):
    """Batch norm without running statistics; instance norm arrives in this form."""
    result, mean, _, rstd = by_batch(x, scale, bias, epsilon)
    return (result, *saved(x, (scale, bias), mean, rstd))


@decomposes(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(x, scale, bias, running_mean, running_variance, training, momentum, epsilon):
    """Also returns the running statistics after this batch."""
    if not training:
        results = aten._native_batch_norm_legit_no_training(x, scale, bias, running_mean, running_variance, momentum, epsilon)
        return (*results, running_mean, running_variance)
    result, mean, variance, rstd = by_batch(x, scale, bias, epsilon)
    count = x.numel() // x.shape[1] if x.shape[1] else 0
    unbiased = variance * (count / (count - 1) if count > 1 else math.nan)
    running = [
        (old.to(new.dtype) * (1.0 - momentum) + new * momentum).to(old.dtype)
        for old, new in ((running_mean, mean), (running_variance, unbiased))
    ]
    return (result, *saved(x, (scale, bias, running_mean), mean, rstd), *running)


@decomposes(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(x, scale, bias, running_mean, running_variance, momentum, epsilon):
    results = batch_norm_functional(x, scale, bias, running_mean, running_variance, True, momentum, epsilon)
    return (*results[:3], x.new_empty((0,), dtype=torch.uint8), *results[3:])
