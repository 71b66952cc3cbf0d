# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One trace for sizes 0 and 1, too (decision 0069). PyTorch traces anew for them, because some operators do something else there
(`squeeze`, broadcasting, reductions of nothing), and graphs without such operators pay for it. Dynamo traces for this backend under
PyTorch's `backed_size_oblivious`: the range of a size begins at 0, and operators take it to be neither 0 nor 1. `settle` then guards what
that may be wrong for: every size that an operator outside of PLAIN and ALONG reads has to be 2 or more, as in PyTorch's ordinary traces. A
trace that fails that way is made again in the ordinary way."""

import contextlib
import functools
from unittest import mock

import torch
import torch._functorch.config as functorch
import torch.fx.experimental._config as experimental
from torch._dynamo import convert_frame, exc
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.utils import get_metrics_context
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from .facts import QUOTIENTS, REMAINDERS

aten = torch.ops.aten

# Operators besides the pointwise ones (torch.Tag.pointwise) that do the same for every size: no size decides which elements they read, and
# eager accepts sizes 0 and 1 wherever it accepts others.
PLAIN = {
    *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.alias.default, aten.detach.default, aten.clone.default),
    *(aten.expand.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.unsqueeze.default, aten.cat.default),
    *(aten.stack.default, aten.lift_fresh_copy.default, aten.contiguous.default, aten.copy.default, aten.copy_.default),
    *(aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default, aten.cumsum.default, aten._softmax.default),
    *(aten._log_softmax.default, aten._softmax_backward_data.default, aten._log_softmax_backward_data.default),
    *(aten.native_layer_norm.default, aten.native_layer_norm_backward.default, aten._fused_rms_norm.default),
    *(aten._native_batch_norm_legit_no_training.default, aten.convolution.default, aten.convolution_backward.default),
    *(aten.full.default, aten.full_like.default, aten.new_full.default, aten.scalar_tensor.default, aten.empty_strided.default),
    *(aten.zeros.default, aten.ones.default, aten.zeros_like.default, aten.ones_like.default, aten.arange.default, aten.arange.start),
    *(aten.arange.start_step, torch.ops.prims.iota.default, torch.ops.prims.convert_element_type.default, aten._to_copy.default),
    *(aten.embedding.default, aten.embedding_dense_backward.default, aten.mm.default, aten.addmm.default, aten.bmm.default),
    *(aten.baddbmm.default, aten.linear.default, aten._scaled_dot_product_flash_attention_for_cpu.default),
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    *(aten.sym_size.int, aten.sym_numel.default, aten.sym_stride.int, aten.sym_storage_offset.default),
}
# Operators for which only the size of some dimensions matters: overload -> (position of the dimensions among the arguments, default).
ALONG = {
    aten.select.int: (1, None),
    aten.slice.Tensor: (1, 0),
    aten.split.Tensor: (2, 0),
    aten.split_with_sizes.default: (2, 0),
    aten.unbind.int: (1, 0),
    aten.squeeze.dim: (1, None),
    aten.squeeze.dims: (1, None),
    aten.flip.default: (1, None),
    aten.amax.default: (1, []),
    aten.amin.default: (1, []),
    aten.argmax.default: (1, None),
    aten.argmin.default: (1, None),
    aten.var.correction: (1, None),
    aten.var_mean.correction: (1, None),
    aten.index_select.default: (1, None),
    aten.gather.default: (1, None),
    aten.select_scatter.default: (2, None),
    aten.slice_scatter.default: (2, 0),
}


class SizesMatter(Exception):
    """The trace for every size is wrong for a size of the arguments that it was made with."""


def settle(nodes):
    """Adds guards to the trace that is under way, so that what was traced for every size is right for each size that the guards admit."""
    if not experimental.backed_size_oblivious:
        return
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and free_unbacked_symbols(value.storage_offset()):
            # Where a slice begins depends on whether its start is 0, below it or beyond the end.
            raise SizesMatter(f"{node} lies at an offset that no size gives")
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            for size in sizes_that_matter(node):
                require(size, 2)
            if node.target is aten.convolution.default:
                require_windows(node)
    placeholders = [size for node in nodes if node.op == "placeholder" for size in extents(node)]
    if placeholders:
        environment = placeholders[0].node.shape_env
        divided = {s for e in environment.divisible for s in e.free_symbols}
        for guard in environment.guards:
            if guard.expr.has(*QUOTIENTS, *REMAINDERS):
                divided |= guard.expr.free_symbols
        for size in placeholders:
            if size.node.expr in divided:  # facts.py derives divisors for sizes above 0
                require(size, 2)


def require(size, least):
    """Guards that the size is at least `least`, and of the symbols in it, that none is 0, nor 1 if `least` is more. PyTorch's expressions
    take symbols to be positive, so that a comparison with 1 would be no guard; the bounds of their ranges are guards."""
    environment = size.node.shape_env
    for symbol in size.node.expr.free_symbols:
        bound = least if symbol == size.node.expr else min(least, 2)
        if environment.backed_var_to_val.get(symbol, 0) < bound:  # 0: it depends on data
            raise SizesMatter(f"{symbol} may be less than {bound}")
        environment._update_var_to_range(symbol, ValueRanges(bound, int_oo))
    if not size >= least:
        raise SizesMatter(f"{size} is less than {least}")


def require_windows(node):
    """Eager refuses images that are smaller, with their padding, than the window."""
    image, window, _, _, padding, dilation = node.args[:6]
    for number, extent in enumerate(image.meta["val"].shape[2:]):
        if isinstance(extent, torch.SymInt):
            taken = dilation[number % len(dilation)] * (window.meta["val"].shape[2 + number] - 1) + 1
            if (least := taken - 2 * padding[number % len(padding)]) > 0:
                require(extent, least)


def sizes_that_matter(node):
    """The symbolic sizes among operands and results, for which the operator may do something else when they are 0 or 1."""
    target = node.target
    if target in PLAIN or torch.Tag.pointwise in target.tags or target.namespace == "mortise":
        return []
    if target not in ALONG:
        return [size for value in (node, *node.all_input_nodes) for size in extents(value)]
    position, default = ALONG[target]
    dims = node.args[position] if len(node.args) > position else node.kwargs.get("dim", default)
    shape = node.args[0].meta["val"].shape
    dims = range(len(shape)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return [shape[dim] for dim in dims if shape and isinstance(shape[dim], torch.SymInt)]


def extents(node):
    """The symbolic sizes of a node's value."""
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [size for v in values if isinstance(v, torch.Tensor) for size in v.shape if isinstance(size, torch.SymInt)]


def had_symbols(error):
    """Whether the trace that ended with `error` had symbols. Forgets its graph, as Dynamo does between two attempts."""
    tracer = getattr(error, "_torch_dynamo_tracer_output", None)
    graph = getattr(tracer, "output_graph_for_cleanup", None)
    if graph is None or not graph.shape_env.var_to_range:
        return False
    tracer._cleanup_output_graph()
    return True


def is_wanted(compiler, backend):
    """Whether Dynamo traces for `backend`, without the option any_size = false."""
    compiler = innermost_backend(compiler)
    if isinstance(compiler, functools.partial):
        return compiler.func is backend and wants(compiler.keywords)
    return getattr(compiler, "compiler_fn", compiler) is backend and wants(getattr(compiler, "kwargs", {}))


def wants(keywords):
    return str((keywords.get("options") or {}).get("any_size", True)).lower() == "true"


def install(backend):
    """Makes Dynamo trace for `backend` with sizes of every kind. Dynamo has no hook for one backend's traces, so that its function for the
    trace of one frame is wrapped; where a release of PyTorch has no such function, everything stays as PyTorch does it."""
    original = getattr(convert_frame, "compile_frame", None)
    if original is None or not hasattr(experimental, "backed_size_oblivious"):
        return

    @functools.wraps(original)
    def compile_frame(code, globals, locals, builtins, closure, compiler_fn, *rest, **more):
        def trace():
            return original(code, globals, locals, builtins, closure, compiler_fn, *rest, **more)

        if more.get("export") or not is_wanted(compiler_fn, backend):
            return trace()
        try:
            with experimental.patch(backed_size_oblivious=True), backward_graphs_at_once(), convolutions_of_any_batch():
                return trace()
        except exc.SkipFrame:
            raise
        except Exception as error:
            if not had_symbols(error):  # an ordinary trace would have been the same
                raise
        return trace()

    convert_frame.compile_frame = compile_frame


def backward_graphs_at_once():
    """Compiles backward graphs while Dynamo traces, so that `settle` may add guards for them, and its errors end the trace. By default
    PyTorch compiles some of them at the first backward pass, and passes over errors until then."""
    if not hasattr(functorch, "force_non_lazy_backward_lowering"):
        return contextlib.nullcontext()
    return functorch.patch(force_non_lazy_backward_lowering=True)


@contextlib.contextmanager
def convolutions_of_any_batch():
    """PyTorch asks which library computes a convolution in order to know the strides of its result. For 4 dimensions these do not depend on
    the batch, but the question does, and would leave guards (a batch of 16 or more): it is asked for a batch of 64."""
    original = torch._C._select_conv_backend

    def select(*arguments, **more):  # PyTorch 2.11 names the image, 2.13 does not
        image = arguments[0] if arguments else more["input"]
        if isinstance(image.shape[0], torch.SymInt) and image.dim() == 4:
            last = image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous()
            order = torch.channels_last if last else torch.contiguous_format
            image = torch.empty((64, *image.shape[1:]), dtype=image.dtype, device=image.device).to(memory_format=order)
        return original(image, *arguments[1:], **more) if arguments else original(**more | {"input": image})

    with mock.patch.object(torch._C, "_select_conv_backend", select):
        yield


def recompile_reason():
    """Why Dynamo traces a function anew that it has traced before: the guard that failed, "0/0: ... at line ..."; None otherwise."""
    context = get_metrics_context()
    return getattr(context, "_metrics", {}).get("recompile_reason") if context.in_progress() else None
