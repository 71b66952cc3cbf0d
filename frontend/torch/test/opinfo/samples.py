# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs and judges OpInfo's samples one by one."""

import copy
import itertools
import random
import typing
import warnings

import numpy
import torch
from torch._decomp import decomposition_table
from torch.testing._internal import common_utils
from torch.utils import _pytree as pytree

from error_bounds import MORE_RUNS, RUNS, unit_roundoff
from torch_mortise import dtypes
from torch_mortise.dynamo import decompositions
from torch_mortise.importer.core import DECOMPOSITIONS

from . import distribution, judge
from .judge import Verdict
from .trace import Excluded, MortiseError, Unmapped, Unsupported, called, compile_graph, trace

DTYPES = [d for d in dtypes.TO_TORCH.values()]
SEED = 1234
UNMAPPED = "an overload that is not mapped"
aten = torch.ops.aten
# Their elements may have any value, so only shape and dtype are judged.
UNINITIALISED = {aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default, aten.new_empty_strided.default,
                 aten.empty_strided.default, aten.empty_permuted.default}

# The types of arguments whose repr identifies their value.
VALUES = {type(None), bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format}
KEPT = 1024  # programs kept
TIES = {aten.sort, aten.topk, aten.kthvalue, aten.median, aten.nanmedian, aten.mode}


def database():
    from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def named(names):
    """The database, if it has entries of all these names."""
    found = database()
    if unknown := [name for name in names if name not in found]:
        raise ValueError(f"expected names of OpInfo entries, found {', '.join(unknown)}")
    return found


def seeded(seed=SEED):
    """Does what torch.manual_seed does for CPU, without keeping a stack trace for every absent device."""
    torch.default_generator.manual_seed(seed)


def all_seeded(seed=SEED):
    seeded(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def samples(op, dtype):
    """(index, sample): OpInfo's own samples, then the first ones again with inputs that are not contiguous."""
    common_utils.set_rng_seed = all_seeded  # called before each sample
    all_seeded()
    made = []
    for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        yield index, sample
        if len(made) < 2:
            made.append(sample)
    for offset, sample in enumerate(made):
        try:
            changed = sample.noncontiguous()
        except Exception:  # not every sample has a noncontiguous form
            continue
        yield f"n{offset}", changed


class Sample:
    """A call of an operator, with its tensors extracted."""

    def __init__(self, op, sample):
        self.take(op.op, ((sample.input, *sample.args), sample.kwargs))

    def take(self, function, arguments):
        self.op, self.views = function, None
        leaves, self.spec = pytree.tree_flatten(arguments)
        self.leaves = leaves
        self.positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i] for i in self.positions]
        for tensor in self.tensors:
            self.check_tensor(tensor, "an input")
        if any(isinstance(leaf, (complex, torch.Generator)) for leaf in leaves):
            raise Excluded("complex numbers" if any(isinstance(v, complex) for v in leaves) else "a generator as argument")
        if any(leaf in (torch.complex64, torch.complex128, torch.complex32) for leaf in leaves if isinstance(leaf, torch.dtype)):
            raise Excluded("complex numbers")

    @staticmethod
    def check_tensor(tensor, what):
        if tensor.layout is not torch.strided:
            raise Excluded("sparse tensors", f"{what} of layout {tensor.layout}")
        if tensor.is_complex():
            raise Excluded("complex numbers", f"{what} of {tensor.dtype}")
        if tensor.dtype not in DTYPES:
            raise Excluded("a dtype that the language has not", f"{what} of {tensor.dtype}")

    def __call__(self, *tensors):
        """The tensors among the results of a call with these tensors."""
        leaves = list(self.leaves)
        for position, tensor, view in zip(self.positions, tensors, self.views or itertools.repeat(None)):
            leaves[position] = tensor if view is None else tensor.as_strided(*view)
        arguments, keywords = pytree.tree_unflatten(leaves, self.spec)
        return [v for v in pytree.tree_leaves(self.op(*arguments, **keywords)) if isinstance(v, torch.Tensor)]

    def on_memory(self):
        """The same call on the whole memory behind each tensor, because as_strided reads beyond the tensor."""
        other = copy.copy(self)
        other.views = [(t.shape, t.stride(), t.storage_offset()) for t in self.tensors]
        other.tensors = [t.new_empty(0).set_(t.untyped_storage()) for t in self.tensors]
        return other

    def widened(self, tensors):
        """The same call with f64 for every float, including its dtype arguments."""
        other = copy.copy(self)
        other.leaves = [torch.float64 if isinstance(v, torch.dtype) and v.is_floating_point else v for v in self.leaves]
        return other, [t.double() if t.is_floating_point() else t for t in tensors]


class Memory:
    """Traces of one operator, by everything that a trace can depend on: samples that differ only in the tensors' numbers share their
    program, and f16, bf16 and f32 share their graph in f64."""

    def __init__(self):
        self.traces = {}

    @staticmethod
    def key(call, tensors):
        """A hashable key for the call, or None if the value of an argument cannot be compared."""
        storages, parts = {}, [call.spec, call.views and tuple(call.views)]
        for tensor in tensors:
            storage = storages.setdefault(tensor.untyped_storage()._cdata, len(storages))
            parts.append((tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), storage, tensor.is_neg()))
        for leaf in call.leaves:
            if type(leaf) in VALUES:
                parts.append((type(leaf), repr(leaf)))
            elif not isinstance(leaf, torch.Tensor):
                return None
            else:
                parts.append(None)
        return tuple(parts)

    def traced(self, kind, call, tensors, make):
        """The result of make(), or the exception that it raises, as a value."""
        key = self.key(call, tensors)
        made = self.traces.get((kind, key)) if key is not None else None
        if made is None:
            try:
                made = make()
            except Exception as error:
                made = error
            if key is not None:
                if len(self.traces) >= KEPT:
                    self.traces.pop(next(iter(self.traces)))
                self.traces[kind, key] = made
        return made

    def program(self, call, tensors):
        """(graph, program), or the exception raised while making them."""

        def make():
            module = trace(call, tensors)
            return module, compile_graph(module, call.tensors)

        return self.traced("program", call, tensors, make)

    def graph(self, call, tensors, table=None):
        """Only the graph, with `table` instead of the backend's decompositions."""
        made = self.traced("theirs" if table else "graph", call, tensors, lambda: trace(call, tensors, table))
        if isinstance(made, Exception):
            raise made
        return made


class Computed(typing.NamedTuple):
    call: Sample
    inputs: list  # of the program, as they were before anything ran; without the seeds
    kept: list  # the arguments, likewise
    module: object  # the traced graph
    program: object
    found: list
    eager: list


def run(op, sample, record, memory):
    """Returns a Verdict, or raises Excluded or Unmapped."""
    try:
        of = computed(op, sample, record, memory)
    except MortiseError as error:
        return Verdict(f"import: {error.message}")
    return judged(of, memory)


def computed(op, sample, record, memory):
    """What the interpreter and eager give. Raises Excluded, Unmapped, or the import's MortiseError."""
    if op.name.startswith("jiterator"):
        raise Excluded("an operator of PyTorch's other devices, which raises on CPU")
    call = Sample(op, sample)
    kept = [t.detach().clone() for t in call.tensors]  # some calls write into their arguments
    inputs = [t.detach() for t in call.tensors]
    try:
        traced = memory.program(call, inputs)
        if isinstance(traced, Unsupported) and "another's memory" in str(traced):
            whole = call.on_memory()
            inputs = [t.detach() for t in whole.tensors]
            traced = memory.program(whole, inputs)
        given = [t.clone() for t in inputs]
        if not isinstance(traced, Exception):
            (module, program), traced = traced, None
            record |= {str(t) for t in called(module)}
            seeded()
            found = program.run(inputs)
    except Exception as error:  # counts only if eager does not raise too
        traced = error
    try:
        eager = call(*call.tensors)
    except Exception as error:
        raise Excluded("eager itself raises on this input", " ".join(str(error).split())[:160]) from None
    for value in eager:
        call.check_tensor(value, "a result")
    if not eager:
        raise Excluded("no tensor among the results")
    if isinstance(traced, Unsupported):
        raise Excluded("refused by the importer", traced)
    if traced is not None:
        raise traced
    return Computed(call, given, kept, module, program, found, eager)


def judged(of, memory):
    """Returns a Verdict, or raises Excluded."""
    if of.program.seeds:
        return random_verdict(of.call, of.program, of.kept, [t.clone() for t in of.inputs], of.found, of.eager)
    if of.call.op is torch._scaled_mm and any(map(saturates_alone, of.found, of.eager)):
        raise Excluded("products beyond f8E4M3FN, of which eager makes NaN or the largest number, as its kernel for the processor does")
    unset = {output for output, node in enumerate(outputs(of.module)) if node.target in UNINITIALISED}
    made = verdict(of.call, of.kept, of.module, of.found, of.eager, unset, memory)
    if made.why and theirs_agrees(of.call, of.kept, of.found):
        raise Excluded("PyTorch's kernel differs from its own decomposition, which the result equals", made.why)
    return made


def saturates_alone(found, eager):
    """Whether results of f8E4M3FN, which has no infinity, differ by the largest number where eager has NaN, and nowhere else."""
    if found.dtype != torch.float8_e4m3fn or found.dtype != eager.dtype or found.shape != eager.shape:
        return False
    found, eager = found.float(), eager.float()
    differ = (found != eager) & ~(found.isnan() & eager.isnan())
    return bool(differ.any()) and bool((eager.isnan() & (found.abs() == torch.finfo(torch.float8_e4m3fn).max))[differ].all())


def theirs_agrees(call, tensors, found):
    """Whether eager agrees with `found` when it runs PyTorch's decompositions without ours."""
    module = trace(call, tensors, {op: f for op, f in decompositions().items() if not f.__module__.startswith("torch_mortise")})
    if any(n.target in DECOMPOSITIONS for n in module.graph.nodes):
        return False
    results = module(*tensors)
    return len(results) == len(found) and all(judge.mismatch(f, r) is None and judge.close(f, r) for f, r in zip(found, results))


def outputs(module):
    return next(n for n in module.graph.nodes if n.op == "output").args[0]


def random_verdict(call, program, kept, inputs, found, eager):
    """Judges random results, whose bits differ from eager's: equal types, bits determined by the seed, and eager's distribution."""
    for f, e in zip(found, eager):
        if why := judge.mismatch(f, e):
            return Verdict(why)
    seeded()
    for f, again in zip(found, program.run(inputs)):
        if not torch.equal(f.nan_to_num() if f.is_floating_point() else f, again.nan_to_num() if f.is_floating_point() else again):
            return Verdict("the same seed gave other bits")
    seeded()
    ours = lambda: program.run(inputs)  # noqa: E731
    theirs = lambda: call(*[t.clone() for t in kept])  # noqa: E731
    generator = torch.Generator().manual_seed(SEED)  # its own, so that the draws stay the same

    def moved(t):
        noise = torch.randn(t.shape, generator=generator, dtype=torch.float64)
        return (t.double() * (1 + unit_roundoff(t.dtype) * noise)).to(t.dtype) if t.is_floating_point() else t.clone()

    return Verdict(distribution.differs(ours, theirs, lambda: call(*map(moved, kept))), judge.DISTRIBUTION)


def same_elements(x, found, expected):
    """Whether two tensors of indices along some axis of x choose equal elements; eager leaves the order of equal elements open."""
    for axis in range(x.dim()):
        places = [i.unsqueeze(axis) if i.dim() == x.dim() - 1 else i for i in (found, expected)]
        fits = all(i.dim() == x.dim() and all(n <= m for k, (n, m) in enumerate(zip(i.shape, x.shape)) if k != axis) for i in places)
        if fits and all(i.numel() and 0 <= int(i.min()) and int(i.max()) < x.shape[axis] for i in places):
            chosen = [x.gather(axis, i).double() for i in places]
            if torch.equal(chosen[0].nan_to_num(7.0), chosen[1].nan_to_num(7.0)):
                return True
    return False


def verdict(call, tensors, module, found, eager, unset, memory=None):
    """A Verdict on results that are not random. `unset`: the numbers of the uninitialised results."""
    if len(found) != len(eager):
        return Verdict(f"{len(found)} results, expected {len(eager)}")
    for f, e, node in zip(found, eager, outputs(module)):
        why = judge.mismatch(f, e)
        fake = node.meta.get("val")
        if why and isinstance(fake, torch.Tensor) and judge.mismatch(f, fake) is None:
            raise Excluded("PyTorch's fake tensors and its CPU kernel disagree on the result's type", why)
        if why:
            return Verdict(why)
    judged = [i for i in range(len(eager)) if i not in unset]
    found, eager = [found[i] for i in judged], [eager[i] for i in judged]
    rules = [judge.close(f, e) for f, e in zip(found, eager)]
    if None not in rules:
        return Verdict(None, judge.weakest(rules))
    ordered = TIES & {getattr(n.target, "overloadpacket", None) for n in module.graph.nodes}
    for i, (f, e) in enumerate(zip(found, eager)):
        if not e.is_floating_point() and rules[i] is None:
            if not (ordered and e.dtype == torch.int64 and same_elements(tensors[0], f, e)):
                return Verdict(describe(f, e, f != e))
            rules[i] = judge.TIES
    wide, wide_tensors = call.widened(tensors)
    exact = wide(*[t.clone() for t in wide_tensors])
    exact = [exact[i] for i in judged]
    if [tuple(e.shape) for e in exact] != [tuple(e.shape) for e in eager]:
        return Verdict("eager gives another shape in f64")
    left = [i for i, rule in enumerate(rules) if rule is None]
    for i in list(left):
        if bool(judge.within(found[i], eager[i], exact[i]).all()):
            rules[i] = judge.AS_EAGER
            left.remove(i)
    if left:
        narrow = {e.dtype for e in [*eager, *tensors] if e.is_floating_point()}
        for runs in (RUNS, MORE_RUNS):
            moved = roundings(wide, wide_tensors, [exact[i] for i in left], narrow, [judged[i] for i in left], memory or Memory(), runs)
            good = {i: judge.within(found[i], eager[i], exact[i], allowed) for i, allowed in zip(left, moved)}
            left = [i for i in left if not bool(good[i].all())]
            rules = [judge.ROUNDINGS if i in good and i not in left else rule for i, rule in enumerate(rules)]
            if not left:
                break
        if left:
            return Verdict(describe(found[left[0]], eager[left[0]], ~good[left[0]], exact[left[0]]))
    return Verdict(None, judge.weakest(rules))


def roundings(wide, tensors, exact, narrow, wanted, memory, runs):
    """The standard errors of rule 3, measured in `runs` runs."""
    if narrow == {torch.float64}:
        try:
            return judge.spread(memory.graph(wide, tensors, decomposition_table), tensors, exact, narrow, wanted, runs)
        except Exception:  # the decomposition writes in place, or does not support this call: use the backend's
            pass
    return judge.spread(memory.graph(wide, tensors), tensors, exact, narrow, wanted, runs)


def describe(found, expected, wrong, exact=None):
    places = wrong.nonzero()[:3].tolist()
    shown = "; ".join(
        f"at {place}: {found[tuple(place)].item()!r}, eager {expected[tuple(place)].item()!r}"
        + (f", f64 {exact[tuple(place)].item()!r}" if exact is not None else "")
        for place in places
    )
    return f"{int(wrong.sum())} of {found.numel()} {found.dtype} elements differ: {shown}"


def judge_operator(name, op, wanted_dtypes=None, only=None, some=None, limit=None):
    """A record of everything tried for one OpInfo entry. `some`, a random.Random, chooses one dtype and at most five samples; `limit` is
    the number of samples for each dtype."""
    record = {"name": name, "samples": 0, "passed": 0, "failed": [], "excluded": [], "unmapped": {}, "dtypes": {}, "rules": {},
              "overloads": set()}
    supported = [d for d in wanted_dtypes or DTYPES if d in op.supported_dtypes("cpu")]
    if some is not None:
        supported = some.sample(supported, min(1, len(supported)))
    memory = Memory()
    for dtype in supported:
        short = str(dtype).removeprefix("torch.")
        tried = samples(op, dtype)
        if some is not None:
            tried = list(itertools.islice(tried, 400))
            tried = iter(some.sample(tried, min(5, len(tried))))
        if limit is not None:
            tried = list(tried)
            tried = iter(tried[:: max(len(tried) // limit, 1)])
        while True:
            try:
                index, sample = next(tried)
            except StopIteration:
                break
            except Exception as error:
                record["samples"] += 1
                record["excluded"].append((f"{name}:{short}:*", "OpInfo cannot make its samples", str(error)[:200]))
                break
            if only is None or only(short, index):
                judge_sample(record, op, sample, short, f"{name}:{short}:{index}", memory)
    return record


def judge_sample(record, op, sample, dtype, place, memory):
    record["samples"] += 1
    count = record["dtypes"].setdefault(dtype, [0, 0])
    count[0] += 1
    try:
        why, rule = guarded(op, sample, record["overloads"], memory)
    except Unmapped as error:
        for overload in error.overloads:
            record["unmapped"][overload] = record["unmapped"].get(overload, 0) + 1
        record["excluded"].append((place, UNMAPPED, str(error)))
    except Excluded as error:
        record["excluded"].append((place, error.kind, error.detail))
    else:
        if why is None:
            record["passed"] += 1
            record["rules"][rule] = record["rules"].get(rule, 0) + 1
            count[1] += 1
        else:
            record["failed"].append((place, why))


def guarded(op, sample, record, memory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with torch.no_grad():
                return run(op, sample, record, memory)
        except (Excluded, Unmapped):
            raise
        except Exception as error:
            return Verdict(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
