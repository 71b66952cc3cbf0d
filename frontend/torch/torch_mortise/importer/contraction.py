# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products. A product with a weight becomes `linear`, whose weight plugins can pack."""

import torch

from .core import broadcast_shapes, handles, is_node
from .elementwise import binary
from ..dtypes import F32, is_float, is_narrow_float

aten = torch.ops.aten


def transposed(node):
    """x if `node` is the transpose of x, of rank 2; else None."""
    if is_node(node, aten.t.default):
        source = node.args[0]
    elif is_node(node, aten.transpose.int) and sorted(a % 2 for a in node.args[1:3]) == [0, 1]:
        source = node.args[0]
    elif is_node(node, aten.permute.default) and [a % 2 for a in node.args[1]] == [1, 0]:
        source = node.args[0]
    else:
        return None
    return source if source.meta["val"].dim() == 2 else None


def product(e, x, weight, weight_node, bias=None):
    """x [M, K] @ weight [K, N], plus bias [N]."""
    source = transposed(weight_node)
    before = e.value_of(source) if source is not None else None  # None as well where another region transposed it
    if is_float(x.dtype):
        if before is not None:
            return e.op("linear", x, before, bias, weight_transposed=False)
        if bias is not None or e.is_constant(weight_node):
            return e.op("linear", x, weight, bias, weight_transposed=True)
    rhs, contract = (before, 1) if before is not None else (weight, 0)
    return e.op("dot", x, rhs, lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(contract,))


@handles(aten.mm.default)
def mm(e, x, weight):
    return product(e, x, weight, e.node.args[1])


@handles(aten._int_mm.default)
def int_mm(e, x, weight):
    """Of int8, added in int32: widened here, so that a plugin that multiplies int8 sees operands and product in one place."""
    x, weight = (e.op("convert", value, dtype="i32") for value in (x, weight))
    return e.op("dot", x, weight, lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(0,))


@handles(aten._weight_int8pack_mm.default)
def weight_int8pack_mm(e, x, weight, scales):
    """x [M, K] by int8 weights [N, K], whose sums are scaled by [N]. On the CPU nothing is packed."""
    return e.op("quantized_linear", x, weight, scales, None, None, weight_transposed=False)


@handles(aten.addmm.default)
def addmm(e, bias, x, weight, beta=1, alpha=1):
    dtype = e.dtype
    if beta == 1 and alpha == 1 and is_float(dtype) and bias.shape == (weight.shape[1],):
        return product(e, x, weight, e.node.args[2], bias)
    result = scale(e, product(e, x, weight, e.node.args[2]), alpha, dtype)
    return result if beta == 0 else e.op("add", e.broadcast(scale(e, bias, beta, dtype), result.shape), result)


def scale(e, value, factor, dtype):
    return value if factor == 1 else binary(e, "mul", value, factor, dtype)


@handles(aten.bmm.default)
def bmm(e, x, y):
    return e.op("dot", x, y, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(2,), rhs_contract=(1,))


@handles(aten.baddbmm.default)
def baddbmm(e, bias, x, y, beta=1, alpha=1):
    dtype = e.dtype
    result = scale(e, bmm(e, x, y), alpha, dtype)
    return result if beta == 0 else e.op("add", e.broadcast(scale(e, bias, beta, dtype), result.shape), result)


@handles(aten.dot.default)
def dot(e, x, y):
    return e.op("dot", x, y, lhs_batch=(), rhs_batch=(), lhs_contract=(0,), rhs_contract=(0,))


@handles(aten.mv.default)
def mv(e, x, y):
    return e.op("dot", x, y, lhs_batch=(), rhs_batch=(), lhs_contract=(1,), rhs_contract=(0,))


@handles(aten.linear.default)
def linear(e, x, weight, bias=None):
    return e.op("linear", x, weight, bias, weight_transposed=False)


@handles(aten.addbmm.default)
def addbmm(e, bias, x, y, beta=1, alpha=1):
    dtype = e.dtype
    result = e.op("dot", x, y, lhs_batch=(), rhs_batch=(), lhs_contract=(0, 2), rhs_contract=(0, 1))
    result = scale(e, result, alpha, dtype)
    return result if beta == 0 else e.op("add", e.broadcast(scale(e, bias, beta, dtype), result.shape), result)


@handles(aten._trilinear.default)
def trilinear(e, x, y, z, expand_x, expand_y, expand_z, summed, unroll_dim=1):
    """The product of all three, each with dimensions of extent 1 inserted at its `expand` axes, summed over `summed`."""
    dtype = e.dtype
    rank = len(expand_x) + x.rank

    def put_in(value, axes):
        shape = iter(value.shape)
        return e.reshape(value, [1 if i in axes else next(shape) for i in range(rank)])

    values = [put_in(v, axes) for v, axes in ((x, expand_x), (y, expand_y), (z, expand_z))]
    shape = broadcast_shapes(*[v.shape for v in values])
    values = [e.broadcast(e.convert(v, F32 if is_narrow_float(dtype) else dtype), shape) for v in values]
    product = e.op("mul", e.op("mul", values[0], values[2]), values[1])
    return e.convert(e.op("reduce_sum", product, axes=tuple(sorted(summed))), dtype)
