# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records what becomes of every aten overload that PyTorch tags `core`: each overload's calls (overloads.py) are traced and imported, and
the ops that the importer emits are counted. This is the source of docs/aten.md and of the figure aten-coverage. `python -m opinfo.coverage`
prints the page."""

import collections
import functools
from typing import NamedTuple

import torch

from torch_mortise import _library
from torch_mortise._tables import OPS
from torch_mortise.importer import HANDLERS
from torch_mortise.importer.decompositions import table

from . import overloads
from .trace import DEVICE, SEED, GraphImporter, called, trace

aten = torch.ops.aten
CORE, COMPOSITE, OURS, THEIRS, SHAPE, NEVER, UNDECIDED = (
    "core op", "composite", "decomposition (ours)", "decomposition (PyTorch's)", "shape", "never", "undecided")
# Ops for what PyTorch does implicitly. An operator that emits one other op beside these stands for that op.
IMPLICIT = {"constant", "convert", "broadcast", "reshape", "transpose"}
# These overloads emit nothing, so their reasons are written by hand.
NEVER_REASONS = {
    aten._fft_c2r.default: "complex numbers: no element type of the language is complex; runs in eager",
    aten._fft_r2c.default: "complex numbers: no element type of the language is complex; runs in eager",
    aten._local_scalar_dense.default: "gives Python a number that depends on data: Dynamo breaks the graph there",
    aten.nonzero.default: "the result's shape depends on data; nonzero_static, whose size is given, has a handler",
}


class Recorder(GraphImporter):
    """Imports a graph and counts the ops that it emits."""

    def __init__(self, builder):
        super().__init__(builder)
        self.counts = collections.Counter()

    def op(self, name, *operands, **attributes):
        self.counts[name] += 1
        return super().op(name, *operands, **attributes)


class Decision(NamedTuple):
    way: str
    detail: str  # why never, or the functions and overloads between the overload and the ops
    ops: tuple = ()  # names of the ops that its calls became, without "mortise."

    def text(self):
        names = ", ".join(f"`{name}`" for name in self.ops)
        return f"{self.detail}: {names}" if self.detail and names else self.detail or names or "the operand itself"


def emitted(op, case):
    """(overloads of the traced graph, ops that the importer emitted for it)."""
    call = overloads.direct(op, case)
    module = trace(call, call.tensors)
    recorder = Recorder(_library.native().Builder(_library.session((("device", DEVICE),)), "recorded"))
    recorder.run(module, call.tensors)
    return called(module) - {SEED}, set(recorder.counts)


def short(op):
    return str(op).removeprefix("aten.")


def record(name):
    """The Decision that follows from the calls of one overload."""
    op = overloads.core_overloads()[name]
    if op in NEVER_REASONS:
        return Decision(NEVER, NEVER_REASONS[op])
    if not any("Tensor" in str(result.type) for result in op._schema.returns):
        return Decision(SHAPE, "a number of the graph, known when it is imported")
    graph, ops = set(), set()
    for case in overloads.cases(name):
        became, made = emitted(op, case)
        graph |= became
        ops |= made
    if not graph:
        return Decision(UNDECIDED, "no case for it in test/opinfo/overloads.py")
    named = tuple(sorted(ops - {"constant"} or ops))  # a constant is named only if it is the only op
    if op in graph:
        between = sorted(map(short, graph - {op}))
        principal = ops - IMPLICIT
        if len(principal) > 1:
            return Decision(OURS, f"{HANDLERS[op].__module__.rpartition('.')[2]}.py", named)
        way = COMPOSITE if any("composite" in OPS[name] for name in principal) else CORE
        return Decision(way, f"with {', '.join(between)}" if between else "", named)
    function = table().get(op)
    module = function.__module__ if function else ""
    if module.startswith("torch_mortise"):
        return Decision(OURS, f"{module.rpartition('.')[2]}.py", named)
    return Decision(THEIRS, f"{', '.join(sorted(map(short, graph)))}", named)


@functools.cache
def decisions():
    return {name: record(name) for name in overloads.core_overloads()}


def page():
    """The text of docs/aten.md."""
    found = decisions()
    ways = collections.Counter(decision.way for decision in found.values())
    lines = [
        "# ATen",
        "",
        "Recorded by `./dev docs` (`frontend/torch/test/opinfo/coverage.py`): what became of each of the "
        f"{len(found)} overloads that PyTorch {torch.__version__.partition('+')[0]} tags",
        "`core` when its calls in `overloads.py` beside it were traced and imported. `./dev figure aten-coverage` runs them.",
        "",
        "* core op: one op of the language, beside the conversions, broadcasts, reshapes and transposes that PyTorch does implicitly",
        "* composite: one op that stands for others, which a device may take whole",
        "* decomposition (ours): several ops, made by the file named in `frontend/torch/torch_mortise/importer/`",
        "* decomposition (PyTorch's): PyTorch replaces the overload by those named before the import",
        "* shape: a number that is known when the graph is imported",
        "* never: runs in eager, for the reason given",
        "",
        "| way | overloads |",
        "|---|---|",
        *(f"| {way} | {ways[way]} |" for way in (CORE, COMPOSITE, OURS, THEIRS, SHAPE, NEVER)),
        "",
        "| overload | way | ops emitted |",
        "|---|---|---|",
        *(f"| `{name}` | {decision.way} | {decision.text()} |" for name, decision in found.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with torch.no_grad():
        print(page(), end="")
