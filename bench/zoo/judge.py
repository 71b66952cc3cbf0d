# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether torch.compile(model, backend="mortise") gives eager's answers for a model of the zoo, forward and in one training step, and how
long a cold compilation takes. A result passes by the first of three rules that takes it:

    1. it is within 64 unit roundoffs of eager's, relative to the largest number of the tensor;
    2. its distance from the same model in f64 (with one rounding for each ATen call, where the model takes no f64) is at most four times
       that of eager's result, or of the median of eager's results (a single number may be exact by luck), and those 64 unit roundoffs, and
       one of the largest number of all results (gradients that are 0 in f64 consist of such roundings);
    3. each element differs by no more than one rounding for each ATen call explains (agreement.assert_same, decision 0015).

Which of equal numbers topk takes is left open by PyTorch: here eager takes the first ones, as the language does.

A rounding may also move a number over a kink, such as relu's at 0 or a router's choice between experts, and then whole gradients differ. A
fault of a program is there for other numbers, too, and a kink is not: a row whose values differ is judged again with other weights and
inputs, and is right if they agree. `retried` says so, and the figure counts such rows.

A function here runs in a process of its own (processes.py) and returns a dictionary."""

from __future__ import annotations

import contextlib
import copy
import logging
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from zoo import families

BACKENDS = {"mortise": {"options": {"device": "cpu"}}, "aot_eager": {}, "inductor": {}}


def prepare() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # the figure has a worker for each processor
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "frontend" / "torch" / "test"))


def tensors(value) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class FirstOfEquals(TorchDispatchMode):
    """Has topk take the first of equal numbers, and give them in order."""

    def __torch_dispatch__(self, op, types, arguments=(), keywords=None):
        if op is not torch.ops.aten.topk.default:
            return op(*arguments, **(keywords or {}))

        def given(x, k, dim=-1, largest=True, sorted=True):
            values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
            return (values.narrow(dim, 0, k), places.narrow(dim, 0, k)) if x.dim() else (values, places)

        return given(*arguments, **(keywords or {}))


def equals_of(function, module: nn.Module):
    """What a call of `function` runs in: FirstOfEquals if it is the module itself, which is eager."""
    return FirstOfEquals() if function is module else contextlib.nullcontext()


def forward(function, model: families.Model, seed: int = 1) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    with torch.no_grad(), equals_of(function, model.module):
        return tensors(function(**model.inputs))


def weighted(results: list[torch.Tensor]) -> torch.Tensor:
    """A loss whose gradient differs from element to element."""
    return sum((r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in results
               if r.is_floating_point() and r.requires_grad)


def step(function, module: nn.Module, model: families.Model, seed: int = 1) -> list[torch.Tensor | None]:
    """The loss (the results, where the model has no loss of its own), the gradient of each parameter (None where there is none) and the
    buffers of one training step."""
    torch.manual_seed(seed)
    with equals_of(function, module):
        results = function(**model.inputs, **model.labels)
    given = [results.loss] if model.labels else tensors(results)
    trained = [p for p in module.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(given[0] if model.labels else weighted(given), trained, allow_unused=True)
    return [*[g.detach() for g in given], *gradients, *[b.clone() for b in module.buffers()]]


NEAR, MASKS, EAGER_FACTOR = 64, 1e30, 4.0  # unit roundoffs; numbers from which on they stand for an infinity


def difference(found: list, expected: list, run, run_in_f64) -> str:
    """Why the results differ; empty if they do not. `run` gives the expected ones again, `run_in_f64` those of the model in f64."""
    import agreement

    if not any(e is not None and e.numel() for e in expected):
        return "nothing to compare"
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    # AOTAutograd gives zeros to a parameter whose gradient eager does not compute.
    lacking = [n for n, (f, e) in enumerate(zip(found, expected)) if f is None and e is not None or e is None and f is not None and f.any()]
    if lacking:
        return f"gradients of other parameters than in eager: {lacking[:5]}"
    found, expected = [f for f, e in zip(found, expected) if e is not None], present(expected)
    for number, (f, e) in enumerate(zip(found, expected)):
        if f.shape != e.shape or f.dtype != e.dtype:
            return f"result {number}: {f.dtype} {list(f.shape)}, expected {e.dtype} {list(e.shape)}"
        if not e.is_floating_point() and not torch.equal(f, e):
            return f"result {number}: {int((f != e).sum())} of {e.numel()} integers differ"
    if all(near(f, e) for f, e in zip(found, expected)):
        return ""
    exact = run_in_f64() or once_rounded(run)
    if len(exact) == len(expected) and all(x.shape == e.shape and x.dtype in (torch.float64, e.dtype) for x, e in zip(exact, expected)):
        floats = [(e, x) for e, x in zip(expected, exact) if e.is_floating_point()]
        usual = statistics.median(distance(e, x) / (magnitude(e) or 1.0) for e, x in floats)
        largest = max(magnitude(e) for e, _ in floats)
        if all(near(f, e, x, usual, largest) for f, e, x in zip(found, expected, exact)):
            return ""
    try:
        agreement.assert_same(found, expected, lambda: present(run()), strides=False)
    except AssertionError as error:
        return " ".join(str(error).split())[:300] or "the values differ"
    except Exception as error:  # it calls eager's kernels in f64, which some lack
        return f"further from eager than the first two rules allow; the third raises {families.brief(error)}"
    return ""


def once_rounded(run) -> list[torch.Tensor]:
    import agreement

    try:
        return agreement.rounded_once(lambda: present(run()))
    except Exception:  # it calls eager's kernels in f64, which some lack
        return []


def present(values: list) -> list[torch.Tensor]:
    return [v for v in values if v is not None]


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Where elements are neither infinite, NaN nor masks."""
    return tensor.abs() < MASKS


def magnitude(tensor: torch.Tensor) -> float:
    return tensor[numbers(tensor)].abs().max().item() if bool(numbers(tensor).any()) else 0.0


def distance(expected: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error among numbers."""
    import error_bounds

    away = error_bounds.error_of(expected.double(), exact.double())[numbers(expected)]
    return away.max().item() if away.numel() else 0.0


def near(found: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor | None = None, usual: float = 0.0,
         largest: float = 0.0) -> bool:
    """The first rule for a floating tensor or, with `exact`, the second; `usual`: the median of eager's errors, `largest`: the
    largest number of all results."""
    import error_bounds

    if not expected.is_floating_point() or torch.equal(found, expected):
        return True  # integers were compared
    size = magnitude(expected)
    allowed, wanted = NEAR * error_bounds.unit_roundoff(expected.dtype) * size, expected.double()
    if exact is not None:
        allowed += EAGER_FACTOR * max(distance(expected, exact), usual * size) + error_bounds.unit_roundoff(expected.dtype) * largest
        wanted = torch.where(numbers(expected), exact.double(), wanted)
    return bool((error_bounds.error_of(found.double(), wanted) <= torch.where(numbers(expected), allowed, 0.0)).all())


def in_f64(call, model: families.Model) -> list[torch.Tensor]:
    """What `call` gives for the model in f64; nothing where the model does not take that."""
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in model.inputs.items()}
    twin = families.Model(copy.deepcopy(model.module).double(), inputs, model.what, model.labels)
    torch.set_default_dtype(torch.float64)
    try:
        return present(call(twin))
    except Exception:
        return []
    finally:
        torch.set_default_dtype(torch.float32)


def without_dropout(module: nn.Module) -> nn.Module:
    """Sets every rate of dropout to 0, because the masks that compiled programs draw are not eager's."""
    for one in module.modules():
        rates = {name for name, value in vars(one).items() if isinstance(value, float) and "drop" in name}
        for name in rates | ({"p"} if isinstance(one, nn.modules.dropout._DropoutNd) else set()):
            setattr(one, name, 0.0)
    return module


def identical(one: list, other: list) -> bool:
    def equal(a, b):
        return a is None and b is None or (a is not None and b is not None and a.shape == b.shape
                                           and bool((a.eq(b) | a.ne(a) & b.ne(b)).all()))

    return len(one) == len(other) and all(map(equal, one, other))


def compiled(module: nn.Module, backend: str):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch.compile(module, backend=backend, **BACKENDS[backend])


def raised_elsewhere(call) -> str:
    """The error of Dynamo and AOTAutograd without us; empty if there is none."""
    try:
        call("aot_eager")
    except Exception as error:
        return families.brief(error)
    return ""


def nodes() -> dict:
    """How many operators were compiled since torch_mortise.reset(), which were called through to eager, and how often Dynamo left the
    graph: what runs in Python between two graphs is not counted."""
    import collections

    import torch_mortise

    report = torch_mortise.last_report()
    eager = collections.Counter(entry["op"] for graph in report["graphs"] for entry in graph["eager"])
    why = {entry["op"]: entry["reason"][:160] for graph in report["graphs"] for entry in graph["eager"]}
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return {"operators": report["operators"], "eager": dict(eager), "why": why, "graphs": len(report["graphs"]), "graph_breaks": breaks}


def judge_forward(model: families.Model) -> dict:
    expected = forward(model.module, model)
    if not identical(expected, forward(model.module, model, seed=2)):
        raise families.Skipped("two eager calls differ: it draws random numbers, or keeps a state")
    if not any(e.is_floating_point() and e.numel() for e in expected):
        raise families.Skipped("eager gives no floating result")

    def of(backend):
        function = compiled(model.module, backend)
        return lambda: forward(function, model)

    exact = lambda: in_f64(lambda twin: forward(twin.module, twin), model)  # noqa: E731
    return judged(of, expected, lambda: forward(model.module, model), exact, calls=2)


def judge_training(model: families.Model) -> dict:
    """{"untrained": why} if the model cannot be trained in eager."""
    without_dropout(model.module.train())

    def of(backend="", seed=1):
        module = copy.deepcopy(model.module)
        function = compiled(module, backend) if backend else module
        return lambda: step(function, module, model, seed)

    try:
        expected = of()()
        if not identical(expected, of(seed=2)()):
            return {"untrained": "two eager steps differ: it draws random numbers"}
    except Exception as error:
        return {"untrained": families.brief(error)}
    if model.labels and not bool(expected[0].isfinite()):
        return {"untrained": "the loss is not finite"}
    exact = lambda: in_f64(lambda twin: step(twin.module, twin.module, twin), model)  # noqa: E731
    return judged(of, expected, lambda: of()(), exact, calls=1)


def judged(of, expected: list, again, run_in_f64, calls: int) -> dict:
    """`of(backend)` compiles, and gives what calls the compiled form. The second call of it runs in used memory."""
    import torch_mortise

    torch_mortise.reset()
    begin = time.perf_counter()
    try:
        call = of("mortise")
        found = [call()]
        seconds = time.perf_counter() - begin
        found += [call() for _ in range(1, calls)]
    except Exception as error:
        counted = nodes()
        if elsewhere := raised_elsewhere(lambda backend: of(backend)()):
            raise families.Skipped(f"torch.compile raises with aot_eager, too: {elsewhere}") from error
        return counted | {"problem": families.brief(error)}
    counted, begin = nodes(), time.perf_counter()
    why = next(filter(None, (difference(one, expected, again, run_in_f64) for one in found)), "")
    if not counted["operators"] and not why:
        why = "nothing was compiled"
    return counted | {"problem": why, "compared": True, "cold_s": round(seconds, 2), "judge_s": round(time.perf_counter() - begin, 1)}


def judge(name: str, seed: int) -> dict:
    """The row of an architecture without its rivals' times, or {"skipped": why}. `retried`: how its values differed with the first seed."""
    prepare()
    row = judge_once(name, seed)
    wrong = [f"{part}: {row[part]['problem']}" for part in ("forward", "training") if row.get(part, {}).get("problem")]
    if wrong and all(row[part].get("compared") for part in ("forward", "training") if row.get(part, {}).get("problem")):
        again = judge_once(name, seed + 1)
        if "forward" in again:
            again["forward"]["cold_s"] = row["forward"].get("cold_s")  # the second compilation is not a cold one
            return again | {"retried": "; ".join(wrong)}
    return row


def judge_once(name: str, seed: int) -> dict:
    try:
        model = families.build(name, seed)
        row = {"what": model.what, "variant": model.variant, "inputs": {key: list(value.shape) for key, value in model.inputs.items()}}
        row["forward"] = judge_forward(model)
    except families.Skipped as reason:
        return {"skipped": str(reason)}
    try:
        row["training"] = judge_training(model)
    except families.Skipped as reason:
        row["training"] = {"untrained": str(reason)}
    return row


def cold(name: str, seed: int, backend: str, variant: str = "") -> dict:
    """{"seconds"} from torch.compile to the first forward result, or {"error"}."""
    prepare()
    model = families.build(name, seed, variant)
    forward(model.module, model)  # so that eager's own first use is not counted
    begin = time.perf_counter()
    try:
        forward(compiled(model.module, backend), model)
    except Exception as error:
        return {"error": families.brief(error)}
    return {"seconds": round(time.perf_counter() - begin, 2)}
