# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The decompositions that run before the import: PyTorch's core set, the ones of PyTorch that are listed here, and our own (`decomposes`).
Operators with a handler are never decomposed."""

import functools

import torch
from torch._decomp import _core_aten_decompositions_post_autograd, get_decompositions

from .core import DECOMPOSITIONS, HANDLERS

aten = torch.ops.aten

LISTED = (
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
    aten.addmv.default,
    aten.as_strided_copy.default,
    aten.grid_sampler_2d.default,
    aten.ldexp.Tensor,
    aten.narrow_copy.default,
    aten.native_batch_norm.default,
    aten.permute_copy.default,
    aten.tril_indices.default,
    aten.triu_indices.default,
    aten.unbind_copy.int,
    aten.upsample_bicubic2d.default,
    aten.upsample_bicubic2d.vec,
    aten.upsample_bilinear2d.default,
    aten.upsample_bilinear2d.vec,
    aten.upsample_linear1d.default,
    aten.upsample_linear1d.vec,
    aten.upsample_nearest1d.default,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest2d.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest3d.default,
    aten.upsample_nearest3d.vec,
    aten.upsample_trilinear3d.default,
    aten.upsample_trilinear3d.vec,
    aten.view_copy.default,
)


@functools.cache
def table(fallback_random=False):
    """{overload: its decomposition}, without the overloads that have a handler, nor, with `fallback_random`, those that draw."""
    # Without operators that are compositions in every mode: PyTorch takes them apart before it asks, and to list them takes long.
    theirs = {**_core_aten_decompositions_post_autograd(), **get_decompositions(LISTED)}
    return {
        op: f
        for op, f in {**theirs, **DECOMPOSITIONS}.items()
        if op not in HANDLERS and not (fallback_random and torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()))
    }
