# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When is the interpreter right? Against eager PyTorch, elementwise, by the first of these that holds:

1. Integers and booleans: equal. Floats: NaN where eager has NaN, the same infinities, else within 2 ULP of the dtype. The
   interpreter rounds once per op; eager, whose library functions are good to about 1 ULP, stands within 2 ULP of it on single ops.
2. Against eager on the same inputs in f64 ("exact"): the interpreter errs by at most 2 ULP, or at most twice as much as eager in
   this dtype errs at the worst element of the tensor, relative to the tensor's scale. A dtype whose eager kernel overflows inside
   (f16 sums) or accumulates in bf16 is judged so; a NaN or infinity must be that of eager or the one that rounding the exact
   result gives.
3. What rounding once per op must cost: the graph runs in f64 with the result of each op multiplied by 1 + u at random (u: normal,
   with the dtype's unit roundoff as deviation, the CESTAC method of Vignes), and with the operands of ops that accumulate (all but
   the pointwise ones, and sums with a factor) too, by u times the square root of how many numbers make one result, which stands for
   the order of their sums. The root mean square of `RUNS` such runs' shifts is each element's standard error; the interpreter may
   be `SPREAD` of them and 2 ULP away. It measures the graph's condition, not an op count. Ops that only move or choose values round
   nothing, nor do results that are integers. In f64, where eager itself is what the interpreter is held against, the graph is
   PyTorch's own full decomposition, because eager's kernels round inside as that does.
"""

import math

import torch

RUNS, SPREAD = 6, 8.0
_MANTISSA = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8,
             torch.float8_e4m3fn: 4, torch.float8_e5m2: 3}
_LOWEST = {torch.float64: -1022, torch.float32: -126, torch.float16: -14, torch.bfloat16: -126,
           torch.float8_e4m3fn: -6, torch.float8_e5m2: -14}


def ulp(values, dtype):
    """The distance of neighbours in `dtype` at the magnitude of f64 `values`."""
    _, exponent = torch.frexp(values.abs())
    exponent = torch.where(values == 0, torch.full_like(exponent, _LOWEST[dtype]), exponent - 1)
    exponent = exponent.clamp(min=_LOWEST[dtype])
    return torch.ldexp(torch.ones_like(values), exponent - (_MANTISSA[dtype] - 1))


def same_kind(found, expected):
    """Where both are finite, or the same NaN or infinity."""
    return (found.isnan() & expected.isnan()) | (found == expected) | (found.isfinite() & expected.isfinite())


def error_of(found, expected):
    """|found - expected| where both are finite; 0 for equal infinities and NaNs, inf for others."""
    difference = (found - expected).abs()
    difference = torch.where((found == expected) | (found.isnan() & expected.isnan()), 0.0, difference)
    return torch.where(difference.isnan(), math.inf, difference)


def rounded(exact, dtype):
    return exact.to(dtype).double()


def mismatch(found, expected):
    """Why the two differ before any tolerance: dtype, shape; None when they do not."""
    if not isinstance(expected, torch.Tensor):
        return "eager gives no tensor here"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    return None


def close(found, expected):
    """Rule 1."""
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    if found.numel() == 0:
        return True
    dtype = expected.dtype
    found, expected = found.detach().double(), expected.detach().double()
    return bool((error_of(found, expected) <= 2 * ulp(expected, dtype)).all())


def within(found, eager, exact, allowed=None):
    """Rule 2, and rule 3 with what the roundings allow: a boolean per element."""
    dtype = eager.dtype
    if not eager.numel():
        return torch.ones(eager.shape, dtype=torch.bool)
    ours, theirs, target = found.double(), eager.double(), rounded(exact, dtype)
    mine, other = error_of(ours, target), error_of(theirs, target)
    size = target.abs().nan_to_num(0, 0, 0)
    least = 2 * ulp(size, dtype)
    # eager's worst error, absolute and relative: small elements keep small errors
    floor = size.max() * torch.finfo(dtype).eps + ulp(torch.zeros((), dtype=torch.float64), dtype)
    absolute = other[other.isfinite()].max() if bool(other.isfinite().any()) else 0.0
    share = other / torch.maximum(size, floor)
    relative = share[share.isfinite()].max() if bool(share.isfinite().any()) else 0.0
    bound = torch.minimum(torch.full_like(size, 2 * absolute), 2 * relative * torch.maximum(size, floor))
    bound = torch.maximum(least, bound)
    if allowed is not None:
        bound = torch.maximum(bound, SPREAD * allowed + least)
    return (mine <= bound) | (error_of(ours, theirs) <= 2 * ulp(theirs.nan_to_num(0, 0, 0), dtype))


# Ops that give values of their operands, or exact ones.
EXACT = set(
    """abs alias amax amin arange argmax argmin as_strided broadcast_in_dim cat ceil clamp clamp_max clamp_min clone collapse_view
    constant_pad_nd convert_element_type copy cummax cummin detach diagonal diagonal_scatter embedding expand fill flip floor fmax fmin
    full full_like gather index index_copy index_select iota kthvalue lift_fresh_copy masked_fill masked_scatter max max_pool2d_with_indices
    max_pool3d_with_indices maximum median min minimum neg new_full new_zeros new_ones ones ones_like permute put reflection_pad1d
    reflection_pad2d reflection_pad3d relu repeat replication_pad1d replication_pad2d replication_pad3d reshape roll round
    scalar_tensor select select_scatter sign slice slice_scatter sort split split_dim split_with_sizes squeeze stack t take topk
    transpose transpose_copy tril triu trunc unbind unfold unsqueeze upsample_nearest1d upsample_nearest2d upsample_nearest3d view
    view_of where zeros zeros_like _reshape_alias _to_copy _unsafe_index _unsafe_view""".split()
)


def is_exact(node):
    target, value = node.target, node.meta.get("val")
    if isinstance(value, torch.Tensor) and not value.is_floating_point():
        return True
    return not isinstance(target, torch._ops.OpOverload) or target._schema.name.split("::")[1] in EXACT


def accumulates(node):
    return not is_exact(node) and isinstance(node.target, torch._ops.OpOverload) and (
        torch.Tag.pointwise not in node.target.tags or "alpha" in node.kwargs)


def terms(node):
    """About how many numbers make one element of an accumulating op's result."""
    value = node.meta.get("val")
    value = value[0] if isinstance(value, (tuple, list)) and value else value
    operands = [n.meta["val"].numel() for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    if not isinstance(value, torch.Tensor) or not operands or not value.numel():
        return 1
    return max(1, math.prod(sorted(operands)[-2:]) / value.numel() ** min(len(operands), 1), max(operands) / value.numel())


def perturbed(module, tensors, unit, generator):
    """The graph's results with every op's floating results off by one rounding."""
    environment = {}
    inputs = iter(tensors)

    def off(value, times=1.0):
        if isinstance(value, (tuple, list)):
            return [off(v, times) for v in value]
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        moved = (value * (1 + unit * times * noise)).to(value.dtype)
        return torch.where(value == value.round(), value, moved) if times == 1 else moved

    def read(node):
        value = environment[node]
        return off(value, terms(reader) ** 0.5) if accumulates(reader) and isinstance(value, torch.Tensor) else value

    for node in module.graph.nodes:
        reader = node
        if node.op == "placeholder":
            environment[node] = next(inputs)
        elif node.op == "get_attr":
            environment[node] = getattr(module, node.target)
        elif node.op == "output":
            return [environment[n] for n in node.args[0]]
        else:
            arguments = torch.fx.node.map_arg(node.args, read)
            keywords = torch.fx.node.map_arg(node.kwargs, read)
            value = node.target(*arguments, **keywords)
            environment[node] = value if is_exact(node) else off(value)
    raise AssertionError("a graph without an output")


def spread(module, tensors, exact, dtypes, wanted):
    """How far one rounding per op moves each result: a list beside `exact`."""
    generator = torch.Generator().manual_seed(0)
    unit = max((2.0 ** -_MANTISSA[d] for d in dtypes if d in _MANTISSA), default=2.0**-53)
    moved = [torch.zeros(e.shape, dtype=torch.float64) for e in exact]
    for _ in range(RUNS):
        values = perturbed(module, tensors, unit, generator)
        for i, value in enumerate(values[w] for w in wanted):
            if value.shape == exact[i].shape:
                off = error_of(value.double(), exact[i].double())
                moved[i] = moved[i].hypot(off.nan_to_num(0, 0, 0))  # squares of small numbers would be 0
    return [m / RUNS**0.5 for m in moved]
