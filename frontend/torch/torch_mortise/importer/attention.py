# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot product attention, imported as one composite op."""

import math

import torch

from ..dtypes import F32, I1, I64, Unsupported, is_narrow_float
from .core import handles, is_node

aten = torch.ops.aten


def repeated_heads(node):
    """x [B, G, S, D] if `node` repeats each of its heads consecutively (grouped-query attention), else None."""
    shape = node.meta["val"].shape
    while is_node(node, aten.view.default, aten._unsafe_view.default, aten.clone.default, aten.reshape.default):
        node = node.args[0]
    if not is_node(node, aten.expand.default) or not is_node(node.args[0], aten.unsqueeze.default):
        return None
    source, axis = node.args[0].args[:2]
    inner, wide = source.meta["val"].shape, node.meta["val"].shape
    if len(inner) != 4 or len(wide) != 5 or axis not in (2, -3) or tuple(wide[:2]) + tuple(wide[3:]) != tuple(inner):
        return None
    expected = (inner[0], wide[1] * wide[2], inner[2], inner[3])
    return source if tuple(shape) == expected else None


# What PyTorch adds to scores for cuDNN where a boolean mask hides a key: -inf would give NaN there for a query that sees none.
HIDDEN_BY_CUDNN = -65504.0


def boolean_mask(e, mask):
    """The boolean mask that a float mask was made from, in a shape that broadcasts to it, or None. PyTorch makes float masks for kernels
    on GPUs, pads their rows to a multiple of eight, takes the padding off again by a slice, and expands them to all heads."""
    hides = {-math.inf, HIDDEN_BY_CUDNN} if is_node(e.node, aten._scaled_dot_product_cudnn_attention.default) else {-math.inf}
    node = next((node for node in e.node.all_input_nodes if e.value_of(node) is mask), None)
    while node is not None:
        value = e.value_of(node)
        if value is not None and value.id in e.boolean_masks:
            predicate, hidden = e.boolean_masks[value.id]
            return e.convert(predicate, I1) if hidden in hides else None
        node = node.args[0] if is_node(node, aten.expand.default) else padded_source(node)
    return None


def padded_source(node):
    """What `node` pads at the end of its rows and slices to its old size, or None."""
    if not is_node(node, aten.slice.Tensor) or not is_node(node.args[0], aten.constant_pad_nd.default):
        return None
    source, amounts = node.args[0].args[:2]
    start, step = (*node.args[2:3], 0)[0], (*node.args[4:], 1)[0]
    whole = len(amounts) == 2 and amounts[0] == 0 and not start and step == 1
    return source if whole and node.meta["val"].shape == source.meta["val"].shape else None


def mask_operand(e, mask, q, k):
    """The mask in four dimensions. A float mask made from a boolean mask gives the boolean one."""
    if mask is None:
        return None
    mask = boolean_mask(e, mask) or mask
    if mask.rank > 4:
        raise Unsupported(f"a mask of {mask.rank} dimensions")
    return e.reshape(mask, (1,) * (4 - mask.rank) + mask.shape)


@handles(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(e, q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    if dropout:
        raise Unsupported("attention with dropout")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    sums = logarithms_of_sums(e, scores(e, q, k, attn_mask, causal, scale)) if e.uses(1) else None
    sources = repeated_heads(e.node.args[1]), repeated_heads(e.node.args[2])
    before = [e.value_of(source) for source in sources if source is not None]  # None where another region repeated them
    if len(before) == 2 and None not in before:
        k, v = before
    return e.op("attention", q, k, v, mask_operand(e, attn_mask, q, k), scale=scale, causal=bool(causal)), sums


# What PyTorch chooses on GPUs. Their other results are for their own backward ops and have forms of their own.

@handles(aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default)
def gpu_attention(e, q, k, v, attn_bias, compute_log_sumexp, dropout=0.0, causal=False, return_debug_mask=False, scale=None):
    return for_inference(e, q, k, v, dropout, causal, attn_bias, scale)


@handles(aten._scaled_dot_product_flash_attention.default)
def flash_attention(e, q, k, v, dropout=0.0, causal=False, return_debug_mask=False, scale=None):
    return for_inference(e, q, k, v, dropout, causal, None, scale)


def for_inference(e, *arguments):
    others = len(e.node.meta["val"]) - 1
    if any(e.uses(number) for number in range(1, 1 + others)):
        raise Unsupported("attention on a GPU in training")
    return (attention(e, *arguments)[0], *[None] * others)


# ---- training: the scores again, as PyTorch's kernels do it ---------------------------------------------------------

def product(e, x, y, x_axis, y_axis):
    """Of x and y [B, H, ., .], for each of B and H: the sum over these axes, in the type of both."""
    return e.op("dot", x, y, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contract=(x_axis,), rhs_contract=(y_axis,))


def wide(e, value):
    return e.convert(value, F32 if is_narrow_float(value.dtype) else value.dtype)


def grouped(e, x, k):
    """x [B, H, Q, .] with the queries of all heads that share a head of k [B, G, ., .] in one row: [B, G, H / G * Q, .]."""
    batch, heads, queries, last = x.shape
    return e.reshape(x, (batch, k.shape[1], heads // k.shape[1] * queries, last))


def scores(e, q, k, mask, causal, scale):
    """scale * q k^T + mask, [B, H, Q, K], in f32 or wider."""
    shape = (*q.shape[:3], k.shape[2])
    found = e.reshape(product(e, grouped(e, wide(e, q), k), wide(e, k), 3, 3), shape)
    dtype = found.dtype
    found = e.op("mul", found, e.constant(scale, dtype, shape))
    hidden = e.constant(-math.inf, dtype, shape)
    if mask is not None and mask.dtype == I1:
        found = e.select(e.broadcast(mask, shape), found, hidden)
    elif mask is not None:
        found = e.op("add", found, e.tensor(mask, dtype, shape))
    if causal:
        index = [e.broadcast(e.iota((shape[axis],), I64), shape, (axis,)) for axis in (2, 3)]
        found = e.select(e.compare(*index, "ge"), found, hidden)
    return found


def logarithms_of_sums(e, found):
    """log(sum(exp(scores))) over the keys, [B, H, Q], and 0 where a query sees no key, as PyTorch's kernel has it."""
    shape, dtype = found.shape, found.dtype
    largest = e.op("reduce_max", found, axes=(3,))
    powers = e.op("exp", e.op("sub", found, e.broadcast(largest, shape, (0, 1, 2))))
    sums = e.op("add", largest, e.op("log", e.op("reduce_sum", powers, axes=(3,))))
    blind = e.compare(largest, e.constant(-math.inf, dtype, largest.shape), "eq")
    return e.select(blind, e.constant(0.0, dtype, largest.shape), sums)


@handles(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def attention_backward(e, gradient, q, k, v, result, sums, dropout, causal, *, attn_mask=None, scale=None):
    """Dao et al. (2022), FlashAttention, algorithm 4, without its blocks."""
    if dropout:
        raise Unsupported("attention with dropout")
    types = q.dtype, k.dtype, v.dtype
    gradient, q, k, v, result = (wide(e, value) for value in (gradient, q, k, v, result))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    found = scores(e, q, k, attn_mask, causal, scale)
    shape = found.shape
    rows = (0, 1, 2)
    if wide(e, sums).dtype != found.dtype:  # PyTorch before 2.13 traces the sums of f64 as f32, so the forward graph has rounded them
        sums = logarithms_of_sums(e, found)
    weights = e.op("exp", e.op("sub", found, e.broadcast(wide(e, sums), shape, rows)))
    shares = e.op("reduce_sum", e.op("mul", gradient, result), axes=(3,))
    q, gradient, weights = (grouped(e, value, k) for value in (q, gradient, weights))
    change = e.op("sub", product(e, gradient, v, 3, 3), grouped(e, e.broadcast(shares, shape, rows), k))
    change = e.op("mul", e.op("mul", weights, change), e.constant(scale, found.dtype, change.shape))
    for_q = e.reshape(product(e, change, k, 3, 2), (*shape[:3], k.shape[3]))
    gradients = for_q, product(e, change, q, 2, 2), product(e, weights, gradient, 2, 2)
    return tuple([e.convert(value, dtype) for value, dtype in zip(gradients, types, strict=True)])
