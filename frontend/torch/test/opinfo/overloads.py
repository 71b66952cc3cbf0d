# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls every core-tagged ATen overload that is said to run, through trace, import and the reference interpreter, and compares with eager.
OpInfo reaches most of them only inside composites; here each overload is called by its own name."""

import functools

import torch
from torch.utils import _pytree as pytree

from . import samples
from .trace import compile_graph, trace

aten = torch.ops.aten


def values(*shape, dtype=torch.float32, low=-2.0, high=2.0):
    generator = torch.Generator().manual_seed(len(shape) * 1000 + sum(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(int(low), int(high) + 1, shape, generator=generator, dtype=dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)


X, Y, POSITIVE = values(3, 4), values(3, 4, low=0.5), values(3, 4, low=0.1)
UNIT, ABOVE = values(3, 4, low=-0.9, high=0.9), values(3, 4, low=1.1, high=4.0)
INT, INT2, BOOL, BOOL2 = (values(3, 4, dtype=torch.int64, low=1, high=9), values(4, dtype=torch.int64, low=1, high=5),
                          values(3, 4, dtype=torch.bool), values(4, dtype=torch.bool))
IMAGE, VOLUME, LINE = values(2, 3, 8, 7), values(1, 2, 6, 7, 8), values(2, 3, 9)
INDEX = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 1]])
CHANNELS = values(3), values(3, low=0.5), values(3), values(3, low=0.5)
POOLED, PLACES = torch.nn.functional.max_pool2d(IMAGE, 2, return_indices=True)
NORMED = aten.native_layer_norm(X, [4], Y[0], X[0], 1e-5)
GROUPED = aten.native_group_norm(IMAGE, CHANNELS[0], CHANNELS[1], 2, 3, 56, 3, 1e-5)

UNARY = """abs asinh atan ceil cos cosh elu erf exp expm1 floor gelu isinf isnan leaky_relu neg relu round sigmoid sign sin sinh tan
tanh trunc"""
CASES = {
    **{f"{name}.default": [(X,)] for name in UNARY.split()},
    **{f"{name}.default": [(POSITIVE,)] for name in "log log10 log1p log2 reciprocal rsqrt sqrt".split()},
    **{f"{name}.default": [(UNIT,)] for name in "acos asin atanh".split()},
    **{f"{name}.Tensor": [(X, Y), (INT, INT2)] for name in "add sub mul eq ne lt le gt ge fmod remainder".split()},
    **{f"{name}.Scalar": [(X, 1.5), (INT, 2)] for name in "add sub mul div eq ne lt le gt ge fmod remainder".split()},
    **{f"bitwise_{name}.Tensor": [(INT, INT2), (BOOL, BOOL2)] for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Scalar": [(INT, 5)] for name in ("and", "or", "xor")},
    **{f"logical_{name}.default": [(X, BOOL2), (BOOL, BOOL2)] for name in ("and", "or", "xor")},
    **{f"{name}.default": [(X, Y), (INT, INT2)] for name in ("maximum", "minimum")},
    "acosh.default": [(ABOVE,)],
    "atan2.default": [(X, Y)],
    "atan2.out": [((X, Y), {"out": torch.empty(3, 4)})],
    "bitwise_not.default": [(INT,), (BOOL,)],
    "logical_not.default": [(X,), (BOOL,)],
    "div.Tensor": [(X, Y)],
    "div.Tensor_mode": [((X, Y), {"rounding_mode": "floor"}), ((INT, INT2), {"rounding_mode": "trunc"})],
    "div.Scalar_mode": [((X, 0.3), {"rounding_mode": "floor"}), ((INT, 3), {"rounding_mode": "trunc"})],
    "pow.Scalar": [(2.5, X)],
    "pow.Tensor_Scalar": [(POSITIVE, 0.3), (X, 3)],
    "pow.Tensor_Tensor": [(POSITIVE, X)],
    "clamp.default": [(X, -0.5, 0.7)],
    "clamp.Tensor": [(X, -Y, Y)],
    "hardtanh.default": [(X,)],
    "where.self": [(BOOL, X, Y)],
    "_to_copy.default": [((X,), {"dtype": torch.float16}), ((X,), {"dtype": torch.int32})],
    "scalar_tensor.default": [((2.5,), {"dtype": torch.float32})],
    # shapes
    "alias.default": [(X,)],
    "clone.default": [(X,)],
    "copy.default": [(X, INT)],
    "as_strided.default": [(X, [2, 3], [4, 1], 1)],
    "resize_.default": [(X.clone(), [2, 3]), (X.clone(), [3, 4])],
    "cat.default": [([X, Y], 1)],
    "constant_pad_nd.default": [(X, [1, 2, 0, -1], 3.0)],
    "diagonal.default": [(VOLUME, 1, 2, 4)],
    "expand.default": [(X[0], [3, 4])],
    "flip.default": [(X, [0, 1])],
    "permute.default": [(VOLUME, [2, 0, 4, 1, 3])],
    "repeat.default": [(X, [2, 1, 3])],
    "select.int": [(X, 1, -1)],
    "select_scatter.default": [(X, Y[0], 0, 1)],
    "slice.Tensor": [(X, 1, 1, 4, 2)],
    "slice_scatter.default": [(X, Y[:, :2], 1, 0, 4, 2)],
    "split_with_sizes.default": [(X, [1, 3], 1)],
    "squeeze.dim": [(VOLUME, 0)],
    "squeeze.dims": [(VOLUME, [0, 1])],
    "unsqueeze.default": [(X, 1)],
    "view.default": [(X, [2, -1])],
    # made from numbers
    "arange.start_step": [((1, 10, 2), {"dtype": torch.float32})],
    "empty.memory_format": [((3, 4),)],
    "empty_strided.default": [((3, 4), (4, 1))],
    "fill.Scalar": [(X, 2.0)],
    "full.default": [((3, 4), 1.5)],
    "full_like.default": [(X, 1.5)],
    # reductions
    **{f"{name}.default": [(X, [1])] for name in ("amax", "amin")},
    **{f"{name}.default": [(X, 1), (INT, None)] for name in ("argmax", "argmin")},
    "any.default": [(BOOL,)],
    "any.dim": [(BOOL, 1)],
    "any.dims": [(BOOL, [0, 1])],
    "cumsum.default": [(X, 1)],
    "max.dim": [(X, 1)],
    "min.dim": [(X, 1)],
    "mean.default": [(X,)],
    "mean.dim": [(X, [0])],
    "prod.default": [(X,)],
    "prod.dim_int": [(X, 1)],
    "sum.dim_IntList": [(X, [0, 1]), (INT, [1])],
    "var.correction": [((X, [1]), {"correction": 1})],
    "var.dim": [(X, [1], True)],
    "sort.default": [(X, 1, True), (INT,)],
    "topk.default": [(X, 2)],
    # products, convolutions, pools
    "addmm.default": [(X[0], X, values(4, 4))],
    "bmm.default": [(values(2, 3, 4), values(2, 4, 5))],
    "mm.default": [(X, values(4, 5))],
    "convolution.default": [(IMAGE, values(6, 3, 3, 3), values(6), [2, 1], [1, 1], [1, 1], False, [0, 0], 1),
                            (IMAGE, values(3, 2, 3, 3), None, [2, 1], [1, 1], [1, 2], True, [1, 0], 3)],
    "convolution_backward.default": [
        (values(2, 6, 4, 7), IMAGE, values(6, 3, 3, 3), [6], [2, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3)],
    "avg_pool1d.default": [(LINE, [3], [2], [1])],
    "avg_pool2d.default": [(IMAGE, [3, 2], [2, 2], [1, 1], True, False)],
    "avg_pool2d_backward.default": [(values(2, 3, 4, 3), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None)],
    "avg_pool3d.default": [(VOLUME, [2, 2, 2])],
    "adaptive_avg_pool1d.default": [(LINE, [4])],
    "_adaptive_avg_pool2d.default": [(IMAGE, [3, 5]), (IMAGE, [4, 7])],
    "_adaptive_avg_pool2d_backward.default": [(values(2, 3, 3, 5), IMAGE)],
    "_adaptive_avg_pool3d.default": [(VOLUME, [4, 2, 3])],
    "max_pool2d_with_indices.default": [(IMAGE, [3, 2], [2, 2], [1, 1])],
    "max_pool2d_with_indices_backward.default": [
        (values(*POOLED.shape), IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, PLACES)],
    "max_pool3d_with_indices.default": [(VOLUME, [2, 3, 2])],
    "col2im.default": [(values(2, 12, 20), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1])],
    "_cdist_forward.default": [(X, values(5, 4), 2.0, None), (X, values(5, 4), 3.0, None)],
    "_pdist_forward.default": [(X, 2.0)],
    # normalisation
    "_softmax.default": [(X, 1, False)],
    "_log_softmax.default": [(X, 1, False)],
    "_native_batch_norm_legit.default": [
        (IMAGE, *CHANNELS[:2], CHANNELS[2].clone(), CHANNELS[3].clone(), True, 0.1, 1e-5)],
    "_native_batch_norm_legit.no_stats": [(IMAGE, *CHANNELS[:2], True, 0.1, 1e-5)],
    "_native_batch_norm_legit_no_training.default": [(IMAGE, *CHANNELS, 0.1, 1e-5)],
    "native_group_norm.default": [(IMAGE, *CHANNELS[:2], 2, 3, 56, 3, 1e-5)],
    "native_group_norm_backward.default": [
        (values(2, 3, 8, 7, high=1.0), IMAGE, *GROUPED[1:], CHANNELS[0], 2, 3, 56, 3, [True] * 3)],
    "native_layer_norm.default": [(X, [4], Y[0], X[0], 1e-5)],
    "native_layer_norm_backward.default": [(Y, X, [4], *NORMED[1:], Y[0], X[0], [True] * 3)],
    # positions
    "embedding.default": [(X, INDEX)],
    "embedding_dense_backward.default": [(values(2, 4, 5), INDEX, 3, -1, False)],
    "_embedding_bag.default": [(X, torch.tensor([0, 2, 1, 1]), torch.tensor([0, 3]))],
    "gather.default": [(X, 0, INDEX)],
    "index.Tensor": [(X, [torch.tensor([0, 2]), torch.tensor([1, 3])]), (X, [None, torch.tensor([-1, 0])])],
    "index_put.default": [(X, [torch.tensor([0, 0])], Y[:2], True)],
    "index_select.default": [(X, 1, torch.tensor([3, 0]))],
    "masked_scatter.default": [(X, BOOL, Y)],
    "scatter.src": [(X, 0, INDEX[:1], Y)],
    "scatter.value": [(X, 0, INDEX, 7.0)],
    "scatter_add.default": [(X, 0, INDEX, Y)],
    "scatter_reduce.two": [((X, 0, INDEX, Y, mode), {"include_self": include})
                           for mode in ("sum", "prod", "mean", "amax", "amin") for include in (True, False)],
    "grid_sampler_2d.default": [(IMAGE, values(2, 4, 5, 2, low=-1.2, high=1.2), 0, 0, False)],
    "reflection_pad1d.default": [(LINE, [2, 1])],
    "reflection_pad2d.default": [(IMAGE, [2, 1, 0, 3])],
    "reflection_pad3d.default": [(VOLUME, [1, 0, 2, 1, 0, 1])],
    "replication_pad2d.default": [(IMAGE, [2, 1, 0, 3])],
    "replication_pad3d.default": [(VOLUME, [1, 0, 2, 1, 0, 1])],
    "upsample_bilinear2d.vec": [(IMAGE, [11, 5], False, None)],
    "upsample_nearest2d.vec": [(IMAGE, [11, 5], None)],
    # random; judged separately
    "native_dropout.default": [(X, 0.25, False)],
}
# The other results, which only training reads, are not imported.
ONE_RESULT = {aten._embedding_bag.default}
SIZES = {"sym_size.int": (1,), "sym_numel.default": (), "sym_stride.int": (0,), "sym_storage_offset.default": (),
         "sym_is_contiguous.default": ()}
RANDOM = {
    "rand.default": (([2000],), {}),
    "randn.default": (([2000],), {}),
    "randperm.default": ((2000,), {}),
    "native_dropout.default": ((torch.ones(2000), 0.25, True), {}),
}


class Direct(samples.Sample):
    def __init__(self, overload, arguments, keywords):
        self.take(overload, (tuple(arguments), dict(keywords)))


def split(case):
    return case if len(case) == 2 and isinstance(case[0], tuple) and isinstance(case[1], dict) else (case, {})


@functools.cache
def core_overloads():
    """Every overload of torch.ops.aten tagged core, by name. Read from the schemas, because the namespace lists only what was used."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        packet = getattr(aten, name, None) if namespace == "aten" else None
        op = getattr(packet, schema.overload_name or "default", None)
        if isinstance(op, torch._ops.OpOverload) and torch.Tag.core in op.tags:
            found[str(op).removeprefix("aten.")] = op
    return dict(sorted(found.items()))


def cases(name):
    """The calls of an overload, as (arguments, keywords)."""
    return [split(case) for case in [*CASES.get(name, ()), *([RANDOM[name]] if name in RANDOM else [])]]


def direct(overload, case):
    function = (lambda *a, **k: overload(*a, **k)[0]) if overload in ONE_RESULT else overload
    return Direct(function, *pytree.tree_map_only(torch.Tensor, torch.clone, split(case)))  # resize_ writes to its operand


def run_case(overload, case):
    """Why the case fails, or None."""
    call = direct(overload, case)
    kept = [t.clone() for t in call.tensors]
    module = trace(call, call.tensors)
    found = compile_graph(module, call.tensors).run(list(call.tensors))
    eager = call(*call.tensors)
    unset = {i for i, node in enumerate(samples.outputs(module)) if node.target in samples.UNINITIALISED}
    return samples.verdict(call, kept, module, found, eager, unset).why


def run_size(name, arguments):
    """Runs a graph that fills a tensor with the number."""
    overload = core_overloads()[name]
    tensor = values(3, 4)
    graph = torch.fx.Graph()
    source = graph.placeholder("x")
    source.meta["val"] = tensor
    number = graph.call_function(overload, (source, *arguments))
    filled = graph.call_function(aten.full.default, ([2], number), {"dtype": torch.int64})
    expected = int(overload(tensor, *arguments))
    filled.meta["val"] = torch.full([2], expected)
    graph.output([filled])
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    found = compile_graph(module, [tensor]).run([tensor])[0]
    return None if found.tolist() == [expected] * 2 else f"gave {found.tolist()}, expected {expected}"


def run_random(name):
    """Checks dtype, shape, range and moments against eager, and that bits are equal for equal seeds and differ for others."""
    overload = core_overloads()[name]
    call = Direct(overload, *RANDOM[name])
    module = trace(call, call.tensors)
    program = compile_graph(module, call.tensors)

    def draw(seed):
        torch.manual_seed(seed)
        return program.run(list(call.tensors))

    first, again, other = draw(1), draw(1), draw(2)
    eager = call(*call.tensors)
    for f, a, o, e in zip(first, again, other, eager):
        if f.dtype != e.dtype or f.shape != e.shape:
            return f"{f.dtype} {tuple(f.shape)}, eager gives {e.dtype} {tuple(e.shape)}"
        if not torch.equal(f, a) or torch.equal(f, o):
            return "the seed does not decide the bits"
    x, n = first[0].double(), first[0].numel()
    if name == "randperm.default":
        return None if torch.equal(first[0].sort().values, torch.arange(n)) else "not a permutation"
    mean, variance = {"rand.default": (0.5, 1 / 12), "randn.default": (0.0, 1.0)}.get(name, (1.0, 1 / 3))
    if abs(float(x.mean()) - mean) > 5 * (variance / n) ** 0.5:
        return f"mean {float(x.mean())}, expected {mean}"
    if abs(float(x.var()) / variance - 1) > 5 * (2 / n) ** 0.5:
        return f"variance {float(x.var())}, expected {variance}"
    if name == "rand.default" and not bool(((x >= 0) & (x < 1)).all()):
        return "outside [0, 1)"
    return None


def run(name):
    """None if the overload runs and is right, else the reason."""
    try:
        with torch.no_grad():
            if name in SIZES:
                return run_size(name, SIZES[name])
            for case in CASES.get(name, ()):
                if why := run_case(core_overloads()[name], case):
                    return why
            if name in RANDOM:
                return run_random(name)
            return None if name in CASES else "no case for it in test/opinfo/overloads.py"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
