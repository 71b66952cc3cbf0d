# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scaled dot product attention, imported as one composite op."""

import math

import torch

from ..dtypes import Unsupported
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


def mask_operand(e, mask, q, k):
    """The mask in four dimensions. A float mask made from a boolean mask gives the boolean one."""
    if mask is None:
        return None
    mask = e.boolean_masks.get(mask.id) or mask
    if mask.rank > 4:
        raise Unsupported(f"a mask of {mask.rank} dimensions")
    return e.reshape(mask, (1,) * (4 - mask.rank) + mask.shape)


@handles(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(e, q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    if dropout:
        raise Unsupported("attention with dropout")
    if e.uses(1):
        raise Unsupported("attention's saved statistics")
    sources = repeated_heads(e.node.args[1]), repeated_heads(e.node.args[2])
    if None not in sources:
        k, v = e.lookup(sources[0]), e.lookup(sources[1])
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    return e.op("attention", q, k, v, mask_operand(e, attn_mask, q, k), scale=scale, causal=bool(causal)), None
