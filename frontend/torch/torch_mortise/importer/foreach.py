# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators over lists of tensors (`_foreach_add`), which optimisers use: one call of the plain operator for each tensor."""

import torch

from .core import decomposes

aten = torch.ops.aten
LISTS = ("List[Tensor]", "List[number]")  # types of arguments that are taken apart
PLAIN = {
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "div", "pow", "lerp", "sqrt", "rsqrt", "reciprocal", "neg", "abs")},
    **{name: getattr(torch, name) for name in ("sign", "exp", "log", "sigmoid", "tanh", "clamp_min", "clamp_max")},
    "maximum": torch.clamp_min,  # which takes numbers as well as tensors
    "minimum": torch.clamp_max,
    "addcmul": lambda x, first, second, value=1: torch.addcmul(x, first, second, value=value),
    "addcdiv": lambda x, first, second, value=1: torch.addcdiv(x, first, second, value=value),
    "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
    "copy": aten.copy.default,
}


def over_lists(overload, function):
    """`overload` by calls of `function`, to which arguments that are no lists are passed as they are."""
    listed = [str(argument.type) in LISTS for argument in overload._schema.arguments]

    def each(*args, **kwargs):
        length = next(len(value) for value, is_list in zip(args, listed) if is_list)
        return [
            function(*[value[number] if is_list else value for value, is_list in zip(args, listed)], **kwargs) for number in range(length)
        ]

    return each


def register():
    for name, function in PLAIN.items():
        packet = getattr(aten, f"_foreach_{name}")
        for overload in (getattr(packet, one) for one in packet.overloads()):
            arguments = overload._schema.arguments
            numbers_in_a_tensor = any(one.name == "scalars" and str(one.type) == "Tensor" for one in arguments)
            if not overload._schema.is_mutable and not numbers_in_a_tensor:
                decomposes(overload)(over_lists(overload, function))


register()
