# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of every aten overload that PyTorch tags `core`: the one table behind docs/aten.md and the figure aten-coverage.
`python -m torch_mortise.importer.coverage` prints the page."""

import torch

from .core import HANDLERS
from .decompositions import table

aten = torch.ops.aten
CORE, COMPOSITE, OURS, THEIRS, SHAPE, NEVER = (
    "core op", "composite", "decomposition (ours)", "decomposition (PyTorch's)", "shape", "never")

NEVER_REASONS = {
    aten._fft_c2r.default: "complex numbers: no element type of the language is complex; runs in eager",
    aten._fft_r2c.default: "complex numbers: no element type of the language is complex; runs in eager",
    aten._local_scalar_dense.default: "gives Python a number that depends on data: Dynamo breaks the graph there",
    aten.nonzero.default: "the result's shape depends on data; nonzero_static, whose size is given, has a handler",
}
# Functionalisation, which runs before any decomposition, makes another overload of these.
FUNCTIONAL = {
    aten.atan2.out: aten.atan2.default,
    aten.resize_.default: aten.resize.default,
    aten._native_batch_norm_legit.default: aten._native_batch_norm_legit_functional.default,
}
SHAPES = {aten.sym_size.int, aten.sym_numel.default, aten.sym_stride.int, aten.sym_storage_offset.default,
          aten.sym_is_contiguous.default}
COMPOSITES = {
    aten._log_softmax.default: "log_softmax",
    aten._native_batch_norm_legit_no_training.default: "batch_norm",
    aten._softmax.default: "softmax",
    aten.embedding.default: "embedding",
    aten.gelu.default: "gelu",
    aten.mean.default: "mean",
    aten.mean.dim: "mean",
    aten.native_group_norm.default: "group_norm",
    aten.native_layer_norm.default: "layer_norm",
    aten.relu.default: "relu",
    aten.topk.default: "top_k",
    aten.addmm.default: "linear",
}
# One core op, beside the conversions and broadcasts that PyTorch does implicitly.
CORES = {
    "abs acos acosh asin asinh atan atanh ceil cos cosh cumsum erf exp expm1 floor log log10 log1p log2 "
    "neg round rsqrt sin sinh sort sqrt tan tanh": None,
    "amax": "reduce_max", "amin": "reduce_min", "arange.start_step": "iota", "argmax": "argmax", "argmin": "argmin",
    "as_strided": "reshape or take", "atan2": "atan2", "any": "reduce_max", "bmm": "dot", "cat": "concatenate",
    "constant_pad_nd": "pad", "convolution": "convolution", "expand": "broadcast", "flip": "reverse", "gather": "take_along",
    "index_select": "take", "isnan": "compare", "logical_not": "not", "bitwise_not": "not", "maximum": "max", "minimum": "min",
    "mm": "dot", "permute": "transpose", "prod": "reduce_prod", "reciprocal": "div", "repeat": "broadcast", "scatter_add": "put",
    "select.int": "slice", "sigmoid": "logistic", "slice.Tensor": "slice", "split_with_sizes": "slice", "sum": "reduce_sum",
    "squeeze": "reshape", "unsqueeze": "reshape", "view": "reshape", "where.self": "select", "_to_copy": "convert",
    "add": "add", "sub": "sub", "mul": "mul", "div.Scalar": "div", "div.Tensor": "div", "fmod": "rem", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and", "logical_or": "or", "logical_xor": "xor", "eq": "compare",
    "ne": "compare", "lt": "compare", "le": "compare", "gt": "compare", "ge": "compare", "full": "broadcast",
    "full_like": "broadcast", "fill.Scalar": "broadcast", "empty.memory_format": "broadcast", "empty_strided": "broadcast",
    "scalar_tensor": "constant", "pow.Scalar": "pow", "pow.Tensor_Tensor": "pow", "max_pool2d_with_indices": "max_pool",
    "max_pool3d_with_indices": "max_pool", "clone": "the value itself", "alias": "the value itself", "copy": "convert",
    "index.Tensor": "take or take_nd",
}


def core_overloads():
    """Every overload of torch.ops.aten with the tag, by name. From the schemas: the namespace lists only what was used before."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        packet = getattr(aten, name, None) if namespace == "aten" else None
        op = getattr(packet, schema.overload_name or "default", None)
        if isinstance(op, torch._ops.OpOverload) and torch.Tag.core in op.tags:
            found[str(op).removeprefix("aten.")] = op
    return dict(sorted(found.items()))


def core_op(op):
    name, _, overload = str(op).removeprefix("aten.").partition(".")
    for names, target in CORES.items():
        if f"{name}.{overload}" in names.split() or name in names.split():
            return target or name
    return None


def decision(op):
    """(way, detail), or None for an overload that nobody decided on."""
    if op in NEVER_REASONS:
        return NEVER, NEVER_REASONS[op]
    if op in SHAPES:
        return SHAPE, "a number of the graph, known when it is imported"
    if op in FUNCTIONAL:
        found = decision(FUNCTIONAL[op])
        return found and (THEIRS, f"functionalised to {str(FUNCTIONAL[op]).removeprefix('aten.')}")
    if op in HANDLERS:
        if op in COMPOSITES:
            return COMPOSITE, f"mortise.{COMPOSITES[op]}"
        name = core_op(op)
        if name:
            return CORE, name if " " in name else f"mortise.{name}"
        return OURS, f"torch_mortise/importer/{HANDLERS[op].__module__.rpartition('.')[2]}.py"
    function = table().get(op)
    if function is None:
        return None
    if function.__module__.startswith("torch_mortise"):
        return OURS, f"torch_mortise/importer/{function.__module__.rpartition('.')[2]}.py"
    return THEIRS, function.__module__


def decisions():
    return {name: decision(op) for name, op in core_overloads().items()}


def page():
    """docs/aten.md."""
    found = decisions()
    ways = [way for way, _ in filter(None, found.values())]
    lines = [
        "# ATen",
        "",
        "Generated from `frontend/torch/torch_mortise/importer/coverage.py` by `./dev docs`: for PyTorch "
        f"{torch.__version__.split('+')[0]},",
        f"what becomes of each of the {len(found)} overloads that PyTorch tags `core`. `./dev figure aten-coverage` runs them all.",
        "",
        "* core op: one op of the language, beside the conversions and broadcasts that PyTorch does implicitly",
        "* composite: an op that stands for others, which a device may take whole",
        "* decomposition: several ops, by a handler of ours or by PyTorch's own function before the import",
        "* shape: a number that is known when the graph is imported",
        "* never: runs in eager, for the reason given",
        "",
        "| way | overloads |",
        "|---|---|",
        *(f"| {way} | {ways.count(way)} |" for way in (CORE, COMPOSITE, OURS, THEIRS, SHAPE, NEVER)),
        "",
        "| overload | way | what |",
        "|---|---|---|",
        *(f"| `{name}` | {'**undecided**' if row is None else row[0]} | {'' if row is None else row[1]} |" for name, row in found.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
