# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of torch.library that an installed plugin declares as ops of its own: acme_npu::lookup is acme_npu.lookup. Tensors are its
operands, in order; all other arguments are attributes by the names of the parameters. The types of the results, which PyTorch gets from the
operator's fake implementation, have to be those that the plugin infers."""

import functools

import torch

from .. import _library, dtypes
from ..errors import Unsupported
from .core import SCALAR, Value

PYTORCH = {"aten", "prim", "prims"}  # namespaces of PyTorch's own operators


def name_of(target):
    return f"{target.namespace}.{target._opname}"


@functools.cache
def refusal(target, options):
    """Why an operator does not become the op of a vendor, "" when it does; None for PyTorch's own operators."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace in PYTORCH:
        return None
    if undeclared := _library.session(options).undeclared(name_of(target)):
        return f"no handler for this operator: {undeclared}"
    if target._overloadname != "default":
        return f"an overload, '{target._overloadname}', of an op of a vendor, which has none"
    if target._schema.is_mutable:
        return "it changes its arguments, and ops of vendors are pure"
    if torch.Tag.nondeterministic_seeded in target.tags:
        return "it draws random numbers, and ops of vendors are pure"
    return ""


def arguments_of(schema, arguments, keywords):
    """(name, type, value) of each parameter; the type is that of the schema, without Optional."""
    for place, parameter in enumerate(schema.arguments):
        kind = str(parameter.real_type)
        if place < len(arguments) and not parameter.kwarg_only:
            value = arguments[place]
        else:
            value = keywords.get(parameter.name, parameter.default_value)
        yield parameter.name, kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind, value


def attribute(name, kind, value):
    """A Python value in the builder's form, by the type of its parameter."""
    if value is None:
        raise Unsupported(f"argument '{name}' is None, and an attribute has a value")
    if kind in ("int", "float", "bool"):
        return {"int": int, "float": float, "bool": bool}[kind](value)
    if kind == "str" or (kind == "number" and isinstance(value, SCALAR)):
        return value
    if kind == "List[int]":
        return tuple(value)
    if kind == "List[float]":
        return [float(number) for number in value]
    raise Unsupported(f"argument '{name}' of type {kind}, which no attribute of a vendor's op has")


def described(dtype, shape):
    return f"{dtypes.NAMES[dtype]}[{', '.join(map(str, shape))}]"


def check_results(e, results):
    wanted = e.value if isinstance(e.value, (tuple, list)) else (e.value,)
    if not all(isinstance(value, torch.Tensor) for value in wanted):
        raise Unsupported("a result that is no tensor")
    expected = [(dtypes.number(value.dtype), tuple(e.sizes(value.shape))) for value in wanted]
    found = [(value.dtype, value.shape) for value in results]
    if found != expected:
        texts = [", ".join(described(*one) for one in types) for types in (found, expected)]
        raise Unsupported(f"its plugin infers {texts[0]}, and its fake implementation in PyTorch gives {texts[1]}")


def import_op(e, target, arguments, keywords):
    """Emits the op for the current node. The result is as a handler's."""
    operands, attributes, missing = [], {}, None
    for name, kind, value in arguments_of(target._schema, arguments, keywords):
        tensors = [value] if kind == "Tensor" else value if kind in ("List[Tensor]", "List[Optional[Tensor]]") else None
        if tensors is None:
            attributes[name] = attribute(name, kind, value)
            continue
        for tensor in tensors:
            if tensor is None:
                missing = missing or name
            elif missing:
                raise Unsupported(f"argument '{missing}' is None, and operands of a vendor's op are left out only at the end")
            elif not isinstance(tensor, Value):
                raise Unsupported(f"argument '{name}', expected a tensor")
            else:
                operands.append(tensor)
    results = e.emit(name_of(target), operands, attributes)
    check_results(e, results)
    return tuple(results) if isinstance(e.value, (tuple, list)) else results[0]
