# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Softmax and the normalisations, kept whole."""

import torch

from ..dtypes import F32, Unsupported, is_narrow_float
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
    """Mean and 1 / sqrt(variance + epsilon), for the results that training saves."""
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
    saved = F32 if is_narrow_float(x.dtype) else x.dtype
    kept = x.shape[:axis] + (1,) * len(shape)
    return (result, *statistics(e, e.convert(x, saved), tuple(range(axis, x.rank)), epsilon, kept))


@handles(aten._fused_rms_norm.default)
def rms_norm(e, x, shape, scale, epsilon):
    if e.uses(1):
        raise Unsupported("rms_norm's saved statistics")
    if epsilon is None:
        epsilon = torch.finfo(e.value[0].dtype).eps
    axis = x.rank - len(shape)
    return e.op("rms_norm", x, parameter(e, scale, x.dtype), axis=axis, epsilon=float(epsilon)), None


@handles(aten.native_group_norm.default)
def group_norm(e, x, scale, bias, n, c, hw, groups, epsilon):
    if e.uses(1) or e.uses(2):
        raise Unsupported("group_norm's saved statistics")
    return (
        e.op(
            "group_norm",
            x,
            parameter(e, scale, x.dtype),
            parameter(e, bias, x.dtype),
            groups=groups,
            epsilon=float(epsilon),
        ),
        None,
        None,
    )


@handles(aten._native_batch_norm_legit_no_training.default)
def batch_norm(e, x, scale, bias, mean, variance, momentum, epsilon):
    if e.uses(1) or e.uses(2):
        raise Unsupported("batch_norm's saved statistics")
    if any(v is not None and v.dtype != x.dtype for v in (scale, bias, mean, variance)):
        dtype = x.dtype  # narrow input, wide statistics: computed wide, rounded once
        wide = [parameter(e, v, F32) for v in (x, scale, bias, mean, variance)]
        return e.convert(e.op("batch_norm", *wide, epsilon=float(epsilon)), dtype), None, None
    return e.op("batch_norm", x, scale, bias, mean, variance, epsilon=float(epsilon)), None, None


@handles(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(e, x, scale, bias, training, momentum, epsilon):
    """Normalises each channel by its own statistics: instance norm arrives so."""
    if e.uses(1) or e.uses(2):
        raise Unsupported("batch_norm's saved statistics")
    dtype = x.dtype
    x = e.convert(x, F32 if is_narrow_float(dtype) else dtype)
    axes = tuple(i for i in range(x.rank) if i != 1)
    mean, rstd = statistics(e, x, axes, epsilon, (x.shape[1],))
    result = e.op("mul", e.op("sub", x, e.broadcast(mean, x.shape, (1,))), e.broadcast(rstd, x.shape, (1,)))
    for name, value in (("mul", scale), ("add", bias)):
        if value is not None:
            result = e.op(name, result, e.broadcast(e.convert(value, x.dtype), x.shape, (1,)))
    return e.convert(result, dtype), None, None
