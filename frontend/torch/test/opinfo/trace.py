# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One call -> an ATen graph (the backend's decompositions, fake tensors, no mutations) -> a mortise program on one device."""

import contextlib
import inspect
import operator

import torch
import torch.fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer, get_proxy_slot, track_tensor_tree
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode

from torch_mortise import _library, dtypes
from torch_mortise.dynamo import decompositions
from torch_mortise.errors import MortiseError, Unsupported
from torch_mortise.importer import HANDLERS, Emitter, Value
from torch_mortise.indices import NONE
from torch_mortise.layout import dense_strides
from torch_mortise.places import HOST

DEVICE = "reference"
SEED = torch.ops.mortise.seed.default
CHECK = torch.ops.aten._linalg_check_errors.default


class Excluded(Exception):
    """The sample cannot be judged: (kind, detail)."""

    def __init__(self, kind, detail=""):
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, str(detail)


class Unmapped(Exception):
    """The trace contains overloads without a handler."""

    def __init__(self, overloads):
        super().__init__(", ".join(sorted(overloads)))
        self.overloads = overloads


class Traced:
    """An FX graph with the constants that it reads as attributes."""

    def __init__(self, root, graph):
        self.root, self.graph = root, graph

    def __getattr__(self, name):
        return getattr(self.root, name)

    def __call__(self, *tensors):
        return torch.fx.GraphModule(self.root, self.graph)(*tensors)


class Unchecked(TorchDispatchMode):
    """Leaves out LAPACK's error checks, which have no result; eager reports their errors for a sample."""

    def __torch_dispatch__(self, overload, types, arguments=(), keywords=None):
        return None if overload is CHECK else overload(*arguments, **(keywords or {}))


@contextlib.contextmanager
def recording(tracer, table):
    """Within it, calls are written down by `tracer`, decomposed by `table`."""
    if "decomposition_table" in inspect.signature(ProxyTorchDispatchMode).parameters:
        with ProxyTorchDispatchMode(tracer, "fake", decomposition_table=table):
            yield
    else:  # before PyTorch 2.13 the table was set for the process
        with proxy_tensor.decompose(table), ProxyTorchDispatchMode(tracer, "fake"):
            yield


def capture(function, tensors, table, mode=None):
    """Records what make_fx(tracing_mode="fake") records, without the parts that take most of its time and matter only for modules that are
    traced or printed: patched nn.Module methods, names of torch functions, generated Python code."""
    fake = FakeTensorMode(allow_fallback_kernels=True, static_shapes=True)  # no symbols: a shape that depends on data raises
    tracer = PythonKeyTracer()
    tracer.root, tracer.graph, tracer.tensor_attrs = torch.nn.Module(), torch.fx.Graph(), {}
    inputs = [fake.from_tensor(t) for t in tensors]
    for number, tensor in enumerate(inputs):
        proxy = tracer.create_proxy("placeholder", f"arg{number}", (), {})
        track_tensor_tree(tensor, proxy, constant=None, tracer=tracer)
    functional = dispatch_functionalize(function, FunctionalTensorMode())
    with fake, recording(tracer, table), mode or contextlib.nullcontext():
        results = functional(*inputs)
    results = [get_proxy_slot(r, tracer, r, lambda slot: slot.proxy) for r in results]
    tracer.create_node("output", "output", (tracer.create_arg(results),), {})
    return Traced(tracer.root, tracer.graph)


def trace(function, tensors, decomposed=None):
    """The graph of function(*tensors) -> list of tensors, in the form that AOTAutograd would hand over."""
    table = decompositions() if decomposed is None else decomposed
    try:
        try:
            module = capture(function, tensors, table)
        except AssertionError as error:  # from ops with effects; CHECK is the only one that tensor functions call
            if "Could not find a token for effect" not in str(error):
                raise
            module = capture(function, tensors, table, Unchecked())
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise Unmapped({str(error.func)}) from None
    except GuardOnDataDependentSymNode:
        raise Unmapped({"aten._local_scalar_dense.default"}) from None
    except RuntimeError as error:
        if "its data is not allocated yet" in str(error):  # C++ code read a tensor's numbers
            raise Unmapped({"aten._local_scalar_dense.default"}) from None
        raise
    remove_unused(module.graph)
    return module


def writes(target):
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def remove_unused(graph):
    """Removes nodes that no result depends on, which is correct without mutations. Placeholders stay."""
    mutating = {str(n.target) for n in graph.nodes if n.op == "call_function" and writes(n.target)}
    if mutating:  # made by a decomposition
        raise Unmapped(mutating)
    for node in reversed(graph.nodes):
        if node.op in ("call_function", "get_attr") and not node.users:
            graph.erase_node(node)


def called(module):
    """The overloads that a graph calls."""
    return {n.target for n in module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem}


class GraphImporter(Emitter):
    """Imports a whole FX graph with static shapes."""

    def __init__(self, builder, names=None):
        super().__init__(builder, lambda value: value)
        self.names = set() if names is None else names  # of the emitted ops
        self.seeds = 0

    def op(self, name, *operands, **attributes):
        self.names.add(name)
        return super().op(name, *operands, **attributes)

    def is_constant(self, node):
        return False

    def lookup(self, node):
        return self.environment[node]

    def run(self, module, tensors):
        """Returns the output Values and the program's inputs."""
        inputs, tensors = [], iter(tensors)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                tensor = next(tensors)
                dtype, shape = dtypes.number(tensor.dtype), tuple(tensor.shape)
                self.environment[node] = Value(*self.builder.input(node.name, dtype, shape, 0))
                inputs.append((len(inputs), 0, dtype, shape, dense_strides(shape), shape, HOST, *NONE))
            elif node.op == "get_attr":
                tensor = getattr(module, node.target)
                node.meta.setdefault("val", tensor)
                self.environment[node] = self.tensor_literal(tensor)
            elif node.target is SEED:  # it runs in eager and becomes an input of the program
                self.environment[node] = Value(*self.builder.input(node.name, dtypes.I64, (2,), 0))
                inputs.append((len(inputs), 0, dtypes.I64, (2,), (1,), (2,), HOST, *NONE))
                self.seeds += 1
            elif node.op == "call_function":
                self.import_node(node)
            elif node.op == "output":
                return [self.environment[n] for n in node.args[0]], inputs
        raise AssertionError("a graph without an output")

    def import_node(self, node):
        self.node, self.location = node, node.name
        if node.target is operator.getitem:
            self.environment[node] = self.environment[node.args[0]][node.args[1]]
            return
        arguments = torch.fx.node.map_arg(node.args, self.lookup)
        keywords = torch.fx.node.map_arg(node.kwargs, self.lookup)
        self.environment[node] = HANDLERS[node.target](self, *arguments, **keywords)


class Compiled:
    """A program and the seeds of its random numbers, which are drawn anew at each run."""

    def __init__(self, program, seeds):
        self.program, self.seeds = program, seeds

    def run(self, tensors):
        return self.program.run([*tensors, *[SEED(device="cpu") for _ in range(self.seeds)]])


def compile_graph(module, tensors, device=DEVICE, names=None, name="sample", folder=""):
    """Returns a Compiled, or raises Unmapped, Unsupported or MortiseError. `names` collects the names of the ops. With a folder, the graph
    is saved as FOLDER/NAME.mrtg."""
    missing = {str(t) for t in called(module) if t not in HANDLERS and t is not SEED}
    if missing:
        raise Unmapped(missing)
    builder = _library.native().Builder(_library.session((("device", device), ("save_graphs", str(folder)))), name)
    importer = GraphImporter(builder, names)
    values, inputs = importer.run(module, tensors)
    outputs, results = [], []
    for number, value in enumerate(values):
        builder.output(value.id, -1)
        keywords = {"dtype": dtypes.TO_TORCH[value.dtype]}
        outputs.append((-1, value.dtype, value.shape, HOST, (value.shape, dense_strides(value.shape)), keywords))
        results.append((0, number, None, None, None, None))
    program = builder.compile(())
    program = program.signature(tuple(inputs), tuple(outputs), tuple(results), ())
    none = [None] * len(inputs)
    program.bind(none, none, none, (0,) * len(inputs))
    return Compiled(program, importer.seeds)


__all__ = ["Excluded", "MortiseError", "Unmapped", "Unsupported", "called", "compile_graph", "trace"]
