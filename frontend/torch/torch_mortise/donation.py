# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Saved tensors that a backward program may overwrite (decision 0075): those of which AOTAutograd says that only the backward pass reads
them. Whether anything else holds one in a call (a graph that is kept, a hook, `grad_fn.saved_tensors`) is told by its references."""

import collections
import functools
import sys

import torch
from torch._functorch._aot_autograd.schemas import SubclassCreationMeta
from torch.multiprocessing.reductions import StorageWeakRef

from .pool import pool

LEAST = 64 << 10  # bytes of a tensor whose memory is worth it


def take(metadata):
    """The positions of such arguments of the backward graph. AOTAutograd is told that there are none: it would refuse to keep the graph,
    which only costs their reuse here."""
    listed = getattr(metadata, "bw_donated_idxs", None)
    if not listed:
        return ()
    positions = tuple(listed)
    listed.clear()  # the list itself, which several objects share
    kinds = (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
    return () if any(isinstance(kind, SubclassCreationMeta) for kind in kinds) else positions  # subclasses hold the tensors, too


def worthwhile(placeholders, positions):
    """The nodes among those at `positions` that lie in host memory, are large enough, or of unknown size, and share no memory with other
    arguments, as views of one tensor do."""
    fakes = {node: node.meta.get("val") for node in placeholders}
    fakes = {node: fake for node, fake in fakes.items() if isinstance(fake, torch.Tensor) and fake.layout is torch.strided}
    holders = collections.Counter(StorageWeakRef(fake.untyped_storage()) for fake in fakes.values())

    def is_worthwhile(node):
        fake = fakes.get(node)
        if fake is None or fake.device.type != "cpu" or holders[StorageWeakRef(fake.untyped_storage())] > 1:
            return False
        return fake._has_symbolic_sizes_strides or fake.numel() * fake.itemsize >= LEAST

    return {node for node in map(placeholders.__getitem__, positions) if is_worthwhile(node)}


def shared(arguments, positions):
    """The number, among `positions`, of the first argument whose memory something beside the list `arguments` refers to; -1 if none."""
    alone = _alone()
    for number, position in enumerate(positions):
        if _references(arguments, position) != alone:
            return number
    return -1


def _references(arguments, position):
    """Counts of references: to the tensor's Python object, the tensor, the storage's Python object, and the storage; and whether the memory
    is PyTorch's own, not an array's or a file's that a hook has made a tensor of."""
    tensor = arguments[position]
    storage = tensor.untyped_storage()
    count = torch._C._storage_Use_Count(storage._cdata)
    return sys.getrefcount(tensor), tensor._use_count(), sys.getrefcount(storage) - pool.holds(storage), count, storage.resizable()


@functools.cache
def _alone():
    return _references([torch.empty(1, device="cpu")], 0)
