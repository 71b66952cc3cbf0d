# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the nodes of a traced graph stand for: the values in their `meta`, and which of these a program can have."""

import contextlib
import operator

import torch
from torch._guards import detect_fake_mode

from . import dtypes, places

DTYPES = frozenset(dtypes.TO_TORCH.values())


def give_values(nodes):
    """PyTorch's partition wraps operators that draw random numbers inside checkpoints, and gives these nodes no values."""
    lacking = [n for n in nodes if n.op == "call_function" and isinstance(n.target, torch._ops.HigherOrderOperator) and "val" not in n.meta]
    if not lacking:
        return
    with detect_fake_mode([n.meta.get("val") for n in nodes]) or contextlib.nullcontext():
        for node in lacking:
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
            node.meta["val"] = node.target(*arguments[0], **arguments[1])


def symbolic_extents(node):
    """The symbolic extents of a node's value."""
    value = node.meta.get("val")
    return {size.node.expr for size in value.shape if isinstance(size, torch.SymInt)} if isinstance(value, torch.Tensor) else set()


def taken_results(node):
    """What a node returns, without what nobody takes: attention on GPUs returns the state of random numbers, of uint64, too."""
    values = node.meta.get("val")
    if not isinstance(values, (tuple, list)):
        return [values]
    if any(user.target is not operator.getitem for user in node.users):
        return values
    taken = {user.args[1] for user in node.users}
    return [value for number, value in enumerate(values) if number in taken]


def refusal(value, options):
    """Why programs take no value like this: tensors on devices that are not installed, or with other layouts or dtypes; "" when they do."""
    if isinstance(value, (tuple, list)):
        return next(filter(None, (refusal(each, options) for each in value)), "")
    if not isinstance(value, torch.Tensor):
        return ""
    if device := places.refusal(value.device, options):
        return f"a tensor on {device}"
    if value.layout is not torch.strided:
        return f"a tensor of layout {value.layout}"
    return "" if value.dtype in DTYPES else f"a tensor of dtype {str(value.dtype).removeprefix('torch.')}"


def is_real(tensor):
    """Whether the tensor has memory of its own: no fake tensor or other subclass."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
