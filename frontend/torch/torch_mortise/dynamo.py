# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile(model, backend="mortise", mode=..., options={...})."""

import contextlib
import difflib
import functools
import itertools
import json
import time

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import SubclassCreationMeta
from torch._functorch.partitioners import min_cut_rematerialization_partition

from . import _library, region, report, saved, sizes
from .errors import INVALID_ARGUMENT, MortiseError
from .graph import CompiledGraph, binder, is_real
from .importer.decompositions import table as decompositions
from .verify import share

# repeat_layers: whether equal layers are imported once (repeats.py); false helps to find faults in that
# any_size: whether one trace serves sizes 0 and 1, too (sizes.py)
# verify: which calls are compared with eager (verify.py)
OWN_OPTIONS = {"specialize_limit": "64", "repeat_layers": "true", "any_size": "true", "verify": "off"}
_names = itertools.count()


def read_options(mode, options):
    """Returns ((key, value), ...) for the session, and what CompiledGraph takes: specialize_limit, repeat_layers, verify."""
    values = dict(OWN_OPTIONS)
    session = {}
    if mode is not None:
        session["mode"] = str(mode)
    for key, value in (options or {}).items():
        if not isinstance(value, (str, bool, int, float)):
            raise MortiseError(
                INVALID_ARGUMENT, f"option {key}: expected text, a number or a bool, found {type(value).__name__}"
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key in OWN_OPTIONS:
            values[key] = text
            if key == "specialize_limit":  # the runtime has the same limit for the kernels of one program
                session[key] = text
        elif difflib.get_close_matches(key, OWN_OPTIONS, 1, 0.8):
            raise MortiseError(
                INVALID_ARGUMENT,
                f'expected a known option, found "{key}"; the nearest is '
                f'"{difflib.get_close_matches(key, OWN_OPTIONS, 1, 0.8)[0]}"',
            )
        else:
            session[key] = text
    limit = values["specialize_limit"]
    if not limit.isdigit() or int(limit) < 1:
        raise MortiseError(INVALID_ARGUMENT, f'option specialize_limit: expected a positive number, found "{limit}"')
    for key in ("repeat_layers", "any_size"):
        if values[key] not in ("true", "false"):
            raise MortiseError(INVALID_ARGUMENT, f'option {key}: expected true or false, found "{values[key]}"')
    return tuple(sorted(session.items())), int(limit), values["repeat_layers"] == "true", share(values["verify"])


def divide(*args, **kwargs):
    """Divides the graph of a training step into forward and backward as PyTorch does, but lets the backward pass compute again
    what a product or a convolution in it reads, too, where that is cheap (decision 0055)."""
    with torch._functorch.config.patch(ban_recompute_materialized_backward=False):
        return min_cut_rematerialization_partition(*args, **kwargs)


def compile_training(own, name, module, _):
    """A forward or backward graph. Nothing in it is constant: optimisers change the weights between calls."""
    started = time.perf_counter()
    graph = CompiledGraph(module, name, (), *own)
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
        is_real(value) or isinstance(value, (int, torch.SymInt)) for value in traced
    )


def compile_inference(own, name, traced, opened_s, entries, is_saved, module, _):
    """`own`: the options, as read_options has them. `traced`: the tensors that Dynamo traced with. `opened_s`: the time that the backend
    spent on this graph before PyTorch traced it. `entries`: gets the graph's entry if Dynamo may call it, or None. With `is_saved` that
    is a SavedGraph."""
    started = time.perf_counter()
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context else None
    static = metadata.static_input_indices if metadata is not None else []
    graph = CompiledGraph(module, name, static, *own)
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
    graph = CompiledGraph(module, name, static, *own)
    report.compiled(graph)
    graph.wall_s = time.perf_counter() - started
    return graph.entry(alone=True)


def backend(module, inputs, *, mode=None, options=None):
    """The backend, registered through the entry point group torch_dynamo_backends. Raises MortiseError for an unknown mode, option or
    device. Returns a callable of the graph's arguments."""
    started = time.perf_counter()
    own = read_options(mode, options)
    _library.session(own[0])  # an unknown mode, option or device is an error here, before any tracing
    binder()
    table = decompositions()
    name = f"graph_{next(_names)}"
    entries = []
    is_saved = saved.wanted()
    compiler = aot_autograd(
        fw_compiler=functools.partial(compile_training, own, f"{name}_forward"),
        bw_compiler=functools.partial(compile_training, own, f"{name}_backward"),
        inference_compiler=functools.partial(compile_inference, own, name, inputs, time.perf_counter() - started, entries, is_saved),
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
    pairs, *_ = read_options(None, options)
    return json.loads(_library.session(pairs).describe())


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
