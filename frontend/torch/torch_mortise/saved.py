# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs in files of `torch.compile(..., fullgraph=True).aot_compile(...)`: a process that loads one traces nothing. The file holds the
graph that AOTAutograd made, from which the process that loads it makes the program; compiled kernels come from the kernel cache."""

import pickle

import torch
from torch._dynamo.aot_compile_types import SerializableCallable
from torch.fx._graph_pickler import GraphPickler, Options

from .errors import UNSUPPORTED, MortiseError

KEPT = ("val", "stack_trace")  # of what a node's `meta` holds


def wanted():
    """Whether aot_compile asks for a graph that can be saved."""
    return torch._functorch.config.bundled_autograd_cache and torch._functorch.config.force_autograd_cache


def without_caches():
    """Around AOTAutograd, whose own cache keeps what Inductor makes of a graph and takes nothing else."""
    return torch._functorch.config.patch(force_autograd_cache=False, bundled_autograd_cache=False, strict_autograd_cache=False)


class SavedGraph(SerializableCallable):
    """`make(module, *own)` makes the entry of a graph; `own` can be pickled."""

    def __init__(self, entry, data, own):
        self.entry, self.data, self.own = entry, data, own

    @classmethod
    def of(cls, entry, module, own):
        if entry is None:
            raise MortiseError(
                UNSUPPORTED,
                "aot_compile: expected a graph of inference without changed inputs and without results that are views; found another; "
                "call it under torch.no_grad(), or use the kernel cache, which keeps compiled kernels for later processes",
            )
        graph = torch.fx.Graph()
        graph.output(graph.graph_copy(module.graph, copied := {}))
        for node, copy in copied.items():
            copy.meta = {key: node.meta[key] for key in KEPT if key in node.meta}
        bare = torch.fx.GraphModule({n.target: getattr(module, n.target) for n in graph.nodes if n.op == "get_attr"}, graph)
        return cls(entry, GraphPickler.dumps(bare, Options(ops_filter=None)), own)

    @classmethod
    def serialize_compile_artifacts(cls, fn):
        return pickle.dumps((fn.data, fn.own))

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        from torch._subclasses import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        from .dynamo import load_inference

        data, own = pickle.loads(data)
        module = GraphPickler.loads(data, FakeTensorMode(shape_env=ShapeEnv()))
        return cls(load_inference(module, *own), data, own)

    def __call__(self, *arguments):
        return self.entry(*arguments)
