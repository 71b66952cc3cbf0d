# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""OpInfo's samples through torch.compile(backend="mortise"): results and gradients against eager's, with static and with dynamic shapes.

Floats are judged as all results of the door's tests are (agreement.assert_same): 2 ULP of eager, or what one rounding for each ATen call
of forward and backward pass explains. The gradients are those of the sum of the results times fixed random numbers."""

import itertools
import logging
import math
import sys
import time
import warnings

import torch
from torch.utils import _pytree as pytree

from . import processes, samples

# Operators whose results are not determined: only shapes and dtypes are compared.
UNDETERMINED = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
SECONDS = 120  # of processor time, for one sample
# Frames, instead of Python's 1000. Sizes of transposed convolutions lead to guards of 300 terms, and PyTorch 2.13 looks for common parts of
# a guard recursively: dynamo/guards.py, build_guard_function, takes a RecursionError while it counts them for an answer, and then replaces
# them one frame deeper without such care. Whether the limit lies between the two depends on how deep the caller is. Inductor raises it too.
RECURSION = 2000


def differentiable(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def weights(result):
    """Numbers for a result, by the place of an element, so that they do not depend on strides."""
    return torch.rand(result.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).add_(0.5).to(result.dtype)


class Call:
    """A sample as a function of its tensors that require a gradient."""

    def __init__(self, op, sample):
        self.op, self.arguments = op, ((sample.input, *sample.args), sample.kwargs)
        self.random = op.name.startswith(UNDETERMINED) or "dropout" in op.name or any(
            hasattr(tag, "name") and tag.name == "nondeterministic_seeded" for tag in tags(op))

    def __call__(self, function):
        """Results, then gradients; None where there is none. Some operators write into their arguments, so each call has copies."""
        leaves, spec = pytree.tree_flatten(self.arguments)
        leaves = [copied(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        positional, keywords = pytree.tree_unflatten(leaves, spec)
        samples.all_seeded()
        results = [v for v in pytree.tree_leaves(function(*positional, **keywords)) if isinstance(v, torch.Tensor)]
        wanted = [t for t in leaves if differentiable(t)]
        sums = [(r * weights(r)).sum() for r in results if differentiable(r)]
        gradients = list(torch.autograd.grad(sum(sums), wanted, allow_unused=True)) if sums and wanted else []
        return [r.detach() for r in results] + gradients


def copied(tensor):
    made = tensor.detach().clone(memory_format=torch.preserve_format)
    return made.requires_grad_(tensor.requires_grad)


def tags(op):
    packet = getattr(torch.ops.aten, op.name.split(".")[-1], None)
    return {tag for name in packet.overloads() for tag in getattr(packet, name).tags} if packet is not None else set()


def difference(call, found, expected):
    """Why the results differ; None if they do not."""
    import agreement

    if [f is None for f in found] != [e is None for e in expected]:
        return "gradients of other arguments than in eager"
    pairs = [(f, e) for f, e in zip(found, expected) if f is not None]
    try:
        if call.random:
            for f, e in pairs:
                assert f.shape == e.shape and f.dtype == e.dtype, f"{f.dtype} {tuple(f.shape)}, expected {e.dtype} {tuple(e.shape)}"
            return None
        again = lambda: [v for v in call(call.op) if v is not None]  # noqa: E731
        agreement.assert_same([f for f, _ in pairs], [e for _, e in pairs], again, strides=False)
    except AssertionError as error:
        return " ".join(str(error).split())[:300] or "types differ"
    return None


def pytorchs_error(call, function, dynamic):
    """The type of error with which Dynamo and AOTAutograd alone refuse the sample, or None."""
    torch._dynamo.reset()
    try:
        call(torch.compile(function, backend="aot_eager", dynamic=dynamic))
    except Exception as error:
        return type(error)
    return None


def judge_sample(op, sample, dynamic):
    """("compiled" | "called through" | "left out" | "failed", why)."""
    import torch_mortise

    call = Call(op, sample)
    for leaf in pytree.tree_leaves(call.arguments):
        if isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided:
            return "left out", "sparse tensors"
    try:
        expected = call(op)
    except Exception as error:
        return "left out", f"eager raises {type(error).__name__}"
    if any(v is not None and v.layout is not torch.strided for v in expected):
        return "left out", "sparse tensors"
    torch._dynamo.reset()
    torch_mortise.reset()

    def function(*positional, **keywords):
        return op(*positional, **keywords)

    try:
        found = call(torch.compile(function, backend="mortise", dynamic=dynamic, options={"device": "cpu"}))
    except Exception as error:
        if pytorchs_error(call, function, dynamic) is type(error):
            return "left out", f"backend aot_eager raises {type(error).__name__} too"
        return "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    try:
        why = difference(call, found, expected)
    except Exception as error:  # one operator's must not end the figure
        why = f"the judge raises {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if why:
        return "failed", why
    report = torch_mortise.last_report()
    eager = sorted({entry["op"] for graph in report["graphs"] for entry in graph["eager"]})
    return ("called through", ", ".join(eager)) if eager or not report["graphs"] else ("compiled", "")


def judge_operator(task, begin=lambda place: None, known=(), note=lambda row: None):
    """A record of an operator: {"name", "rows": [[place, outcome, why]]}. `task`: its name, how many samples, and the number of one sample
    or None. The others: as processes.judge_all calls it."""
    name, most, only = task
    torch.set_num_threads(1)
    sys.setrecursionlimit(max(RECURSION, sys.getrecursionlimit()))
    logging.disable(logging.WARNING)
    op, rows, started = samples.database()[name], [], time.perf_counter()
    if torch.float32 not in op.supported_dtypes("cpu"):
        return {"name": name, "rows": [], "why": "no float32"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples.all_seeded()
        try:
            made = list(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), 400))
        except Exception as error:
            return {"name": name, "rows": [], "why": f"OpInfo cannot make its samples: {type(error).__name__}"}
        chosen = made[:: max(math.ceil(len(made) / most), 1)]
        for number, sample in enumerate(made):
            if (number != only) if only is not None else not any(sample is one for one in chosen):
                continue
            for dynamic in (False, True):
                place = f"{name}:{number}" + (":dynamic" if dynamic else "")
                if place in known:
                    continue
                begin(place)
                rows.append([place, *judge_sample(op, sample, dynamic)])
                note(rows[-1])
    return {"name": name, "rows": rows, "why": "", "seconds": time.perf_counter() - started}


def judge_all(tasks, workers):
    """Yields a record for each task, as they come."""
    return processes.judge_all(judge_operator, tasks, workers, SECONDS)
