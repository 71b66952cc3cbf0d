# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives of PyTorch's process groups in a graph (decision 0073): an operator starts one, and `wait_tensor` waits for its result."""

import functools

import torch

REASON = "PyTorch's process group runs it"


@functools.cache
def starts(target):
    """Whether the operator starts a collective. All that do, those of `_dtensor` and `symm_mem` among them, name their group."""
    return isinstance(target, torch._ops.OpOverload) and any(a.name == "group_name" for a in target._schema.arguments)


@functools.cache
def waits(target):
    """Whether the operator waits for the result of a collective."""
    return isinstance(target, torch._ops.OpOverload) and target.name() == "_c10d_functional::wait_tensor"


def is_collective(target):
    """Whether PyTorch's process groups run the operator."""
    return starts(target) or waits(target)
