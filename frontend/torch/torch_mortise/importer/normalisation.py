# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Softmax and the normalisations, each imported as one composite op if one fits."""

import math

import torch

from .. import dtypes
from ..dtypes import F32, is_narrow_float
from .core import axis_of, handles

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


def by_batch(e, x, scale, bias, epsilon):
    """x with each channel normalised by its own statistics, and the wide input's mean, variance and 1 / deviation."""
    dtype = x.dtype
    x = e.convert(x, F32 if is_narrow_float(dtype) else dtype)
    axes = tuple(i for i in range(x.rank) if i != 1)
    channels = (x.shape[1],)
    mean = e.op("mean", x, axes=axes)
    centred = e.op("sub", x, e.broadcast(mean, x.shape, (1,)))
    variance = e.op("mean", e.op("mul", centred, centred), axes=axes)
    rstd = e.op("rsqrt", e.op("add", variance, e.constant(epsilon, x.dtype, channels)))
    result = e.op("mul", centred, e.broadcast(rstd, x.shape, (1,)))
    for name, value in (("mul", scale), ("add", bias)):
        if value is not None:
            result = e.op(name, result, e.broadcast(e.convert(value, x.dtype), x.shape, (1,)))
    return e.convert(result, dtype), mean, variance, rstd


def saved(e, *values):
    return tuple(e.convert(v, dtypes.number(e.value[i].dtype)) for i, v in enumerate(values, 1))


@handles(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(e, x, scale, bias, training, momentum, epsilon):
    """Batch norm without running statistics; instance norm arrives in this form."""
    result, mean, _, rstd = by_batch(e, x, scale, bias, epsilon)
    return (result, *saved(e, mean, rstd))


@handles(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(e, x, scale, bias, running_mean, running_variance, training, momentum, epsilon):
    """Also returns the running statistics after this batch."""
    if not training:
        results = batch_norm(e, x, scale, bias, running_mean, running_variance, momentum, epsilon)
        return (*results, running_mean, running_variance)
    result, mean, variance, rstd = by_batch(e, x, scale, bias, epsilon)
    count = x.elements // x.shape[1] if x.shape[1] else 0
    unbiased = e.constant(count / (count - 1) if count > 1 else math.nan, variance.dtype, variance.shape)
    fresh = mean, e.op("mul", variance, unbiased)
    running = [
        moved(e, old, new, momentum) for old, new in zip((running_mean, running_variance), fresh)
    ]
    return (result, *saved(e, mean, rstd), *running)


def moved(e, old, new, momentum):
    wide = e.convert(old, new.dtype)
    kept = e.op("mul", wide, e.constant(1.0 - momentum, new.dtype, new.shape))
    return e.convert(e.op("add", kept, e.op("mul", new, e.constant(momentum, new.dtype, new.shape))), old.dtype)


@handles(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(e, x, scale, bias, running_mean, running_variance, momentum, epsilon):
    results = batch_norm_functional(e, x, scale, bias, running_mean, running_variance, True, momentum, epsilon)
    reserve = e.constant(0, dtypes.number(e.value[3].dtype), tuple(e.value[3].shape)) if e.uses(3) else None
    return (*results[:3], reserve, *results[3:])
