# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile(model, backend="mortise", options={...}) or mode=..."""

import contextlib
import functools
import itertools
import json
import time

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import SubclassCreationMeta
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

from . import _library, donation, region, report, saved, sizes, values
from . import options as door_options
from .graph import CompiledGraph
from .importer.decompositions import table as decompositions
from .threads import binder

_names = itertools.count()


def divide(joint, *arguments, **keywords):
    """Divides the graph of a training step into forward and backward as PyTorch does, but lets the backward pass compute again what a
    product or a convolution in it reads, too, where that is cheap (decision 0055). Keys of random numbers are saved, also inside
    checkpoints, whose backward pass then draws the same numbers in its program; PyTorch would save the generator's state, and set it
    around a piece in eager."""
    for node in joint.graph.find_nodes(op="call_function", target=torch.ops.mortise.seed.default):
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    with torch._functorch.config.patch(ban_recompute_materialized_backward=False):
        return min_cut_rematerialization_partition(joint, *arguments, **keywords)


def compile_training(own, name, is_backward, module, _):
    """A forward or backward graph. Nothing in it is constant: optimisers change the weights between calls."""
    started = time.perf_counter()
    context = torch._guards.TracingContext.try_get() if is_backward else None
    graph = CompiledGraph(module, name, (), own, donation.take(context.fw_metadata) if context else ())
    report.compiled(graph)
    graph.wall_s = time.perf_counter() - started
    return graph.entry()


# What AOTAutograd's runtime wrapper acts on in the metadata of an inference graph (torch/_functorch/_aot_autograd/runtime_wrappers.py).
# The program itself increments the versions of what it mutates in place.
WRAPPER_DUTIES = (
    "num_mutated_inp_runtime_indices",
    "num_outputs_aliased",
    "num_intermediate_bases",
    "dynamic_outputs",
    "tokens",
    "num_graphsafe_rng_states",
    "is_rng_op_functionalized",
)


def stands_alone(metadata, graph, traced):
    """Whether Dynamo can call the graph's entry without AOTAutograd's runtime wrapper, because the wrapper would do no more than switch
    autograd and autocast off: no results alias, no inputs are changed outside the graph, merged (arguments that are one tensor, or views
    of one) or added, and no tensors are subclasses. `traced`: the arguments that Dynamo traced with."""
    if metadata is None or len(graph.placeholders) != len(traced):
        return False
    if any(getattr(metadata, duty, True) for duty in WRAPPER_DUTIES) or getattr(metadata, "grad_enabled_mutation", True) is not None:
        return False
    kinds = (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
    return not any(isinstance(kind, SubclassCreationMeta) for kind in kinds) and all(
        values.is_real(value) or isinstance(value, (int, torch.SymInt)) for value in traced
    )


def is_sharded(module):
    """Whether a graph of Dynamo reads parameters of FSDP. They are gathered for each call, into memory that may have the address of the
    last call's, and with the same version, so that nothing tells them from those of another step: they cannot be constants."""
    sources = (getattr(node, "_dynamo_source", None) for node in module.graph.find_nodes(op="placeholder"))
    kinds = [source.guard_source for source in sources if source is not None]
    return any((kind() if callable(kind) else kind).is_fsdp_module() for kind in kinds)  # a method in earlier releases of PyTorch


def compile_inference(own, name, traced, opened_s, entries, is_saved, sharded, module, _):
    """`own`: the Options. `traced`: the tensors that Dynamo traced with. `opened_s`: the time that the backend
    spent on this graph before PyTorch traced it. `entries`: gets the graph's entry if Dynamo may call it, or None. With `is_saved` that
    is a SavedGraph. `sharded`: is_sharded."""
    started = time.perf_counter()
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    static = metadata.static_input_indices if metadata is not None and not sharded else []
    graph = CompiledGraph(module, name, static, own)
    report.compiled(graph)
    graph.bind_ahead(traced)
    alone = stands_alone(metadata, graph, traced)
    entry = graph.entry(alone)
    if is_saved:
        entry = saved.SavedGraph.of(entry if alone else None, module, (name, static, own))
    entries.append(entry if alone else None)
    graph.wall_s = opened_s + time.perf_counter() - started
    return entry


def load_inference(module, name, static, own):
    """The entry of a graph that was saved, and called without AOTAutograd's wrapper."""
    started = time.perf_counter()
    graph = CompiledGraph(module, name, static, own)
    report.compiled(graph)
    graph.wall_s = time.perf_counter() - started
    return graph.entry(alone=True)


def backend(module, inputs, *, mode=None, options=None):
    """The backend, registered through the entry point group torch_dynamo_backends. Raises MortiseError for an unknown mode, option or
    device. Returns a callable of the graph's arguments."""
    started = time.perf_counter()
    own = door_options.read(mode, options)
    _library.session(own.session)  # an unknown mode, option or device is an error here, before any tracing
    binder()
    table = decompositions(own.fallback_random)
    name = f"graph_{next(_names)}"
    entries = []
    is_saved, sharded = saved.wanted(), is_sharded(module)
    compiler = aot_autograd(
        fw_compiler=functools.partial(compile_training, own, f"{name}_forward", False),
        bw_compiler=functools.partial(compile_training, own, f"{name}_backward", True),
        inference_compiler=functools.partial(
            compile_inference, own, name, inputs, time.perf_counter() - started, entries, is_saved, sharded
        ),
        partition_fn=divide,
        decompositions=table,
        keep_inference_input_mutations=True,
    )
    with saved.without_caches() if is_saved else contextlib.nullcontext():
        wrapped = compiler(module, inputs)
    if is_saved and not entries:
        saved.SavedGraph.of(None, module, ())  # a graph of training
    return entries[0] if len(entries) == 1 and entries[0] else wrapped


sizes.install(backend)


def describe(**options):
    """What is installed and configured, as mortise_session_describe (mortise.h) documents it: {"plugins", "devices", "rejected": [{"path",
    "code", "reason"}], "config": [{"key", "value", "source"}]}. `options`: as for torch.compile."""
    return json.loads(_library.session(door_options.read(None, options).session).describe())


def devices(**options):
    """The installed devices: [{"name", "kind", "plugin", ...}]. `options`: as for torch.compile."""
    return describe(**options)["devices"]


def refresh(model=None):
    """Makes the next call bind the weights of `model` (of all models, when None) again. Needed only after writes that change neither a
    tensor's address nor its version, such as writes through `tensor.data`. May be called from any thread."""
    wanted = None
    if model is not None:
        tensors = itertools.chain(model.parameters(), model.buffers())
        wanted = {t.untyped_storage().data_ptr() for t in tensors}
    for one in list(region.regions):
        if wanted is None or one.reads_any(wanted):
            one.invalidate()
