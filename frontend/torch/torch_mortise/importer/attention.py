# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot product attention, imported as one composite op."""

import math

import torch

from ..dtypes import F32, I1, Unsupported, is_narrow_float
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


def operands(e, dropout, causal, mask, scale, q, k):
    """The mask in four dimensions, and the attributes of the ops of attention."""
    if dropout:
        raise Unsupported("attention with dropout")
    return mask_operand(e, mask, q, k), {"scale": 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale), "causal": bool(causal)}


@handles(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(e, q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    mask, attributes = operands(e, dropout, causal, attn_mask, scale, q, k)
    sources = repeated_heads(e.node.args[1]), repeated_heads(e.node.args[2])
    before = [e.value_of(source) for source in sources if source is not None]  # None where another region repeated them
    if len(before) == 2 and None not in before:
        k, v = before
    if e.uses(1):
        return e.op("attention_forward", q, k, v, mask, **attributes)
    return e.op("attention", q, k, v, mask, **attributes), None


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


@handles(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def attention_backward(e, gradient, q, k, v, result, sums, dropout, causal, *, attn_mask=None, scale=None):
    mask, attributes = operands(e, dropout, causal, attn_mask, scale, q, k)
    dtype = F32 if is_narrow_float(q.dtype) else q.dtype
    if sums.dtype != dtype:  # PyTorch before 2.13 traces the sums of f64 as f32, so that the forward graph has rounded them
        sums = e.op("attention_forward", q, k, v, mask, **attributes)[1]
    return e.op("attention_gradient", q, k, v, result, sums, gradient, mask, **attributes)
