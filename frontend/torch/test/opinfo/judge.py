# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When is the interpreter right? It is compared with eager PyTorch elementwise, by the first of these rules that holds:

1. Integers and booleans: equal. Floats: NaN where eager has NaN, the same infinities, else within 2 ULP of the dtype. The
   interpreter rounds once per op; eager, whose library functions are good to about 1 ULP, is within 2 ULP of it on single ops.
2. Against eager on the same inputs in f64 ("exact"): the interpreter errs by at most 2 ULP, or at most twice as much as eager in
   this dtype errs at the worst element of the tensor, relative to the tensor's scale. This serves dtypes whose eager kernel overflows
   inside (f16 sums) or accumulates in bf16. A NaN or infinity must be eager's, or the one that the rounded exact result has.
3. What rounding once per op costs: the graph runs in f64 with the result of each op multiplied by 1 + u * normal (u: the dtype's
   unit roundoff; the CESTAC method of Vignes), which measures the graph's condition instead of counting ops. The interpreter
   adds in f64, so the operands of a sum of k terms move only by sqrt(k) * 2^-53, whatever the dtype (Higham and Mary's probabilistic
   bound; ../error_bounds.py has both rules and takes k from the operands of the call). The root mean square of the runs' shifts is
   each element's standard error; the interpreter may be off by CONFIDENCE standard errors and 2 ULP. A result that is further off
   is measured again in MORE_RUNS runs, because few runs may make one element's standard error too small by chance. Ops that only
   move or choose values do not round, nor do results that are integers. In f64, where eager itself is the measure, the graph is
   PyTorch's own full decomposition, because eager's kernels round inside as the decomposition does.

Two more rules serve where these cannot. Ties: indices of equal elements, whose order eager leaves open. Distribution: random numbers differ
from eager's in their bits, and ./distribution.py compares many draws with eager's. Uninitialised results are judged by their type.
"""

import typing

import torch

from error_bounds import CONFIDENCE, RUNS, Noise, error_of, root_mean_square, ulp, unit_roundoff

# Why results pass, the strongest reason first. A sample counts for the weakest that one of its results needs.
RULES = EQUAL, NEAR_EAGER, AS_EAGER, ROUNDINGS, TIES, DISTRIBUTION, TYPES = (
    "equal to eager's", "1: within 2 ULP of eager", "2: errs as eager does", "3: what roundings cost", "ties", "distribution",
    "uninitialised: dtype and shape alone")


class Verdict(typing.NamedTuple):
    why: str | None  # why the results are wrong; None when they are right
    rule: str | None = None  # the rule by which they are right


def weakest(rules):
    return max(rules, key=RULES.index, default=TYPES)


def rounded(exact, dtype):
    return exact.to(dtype).double()


def mismatch(found, expected):
    """Why the two differ before any tolerance, in dtype or shape; None when they do not."""
    if not isinstance(expected, torch.Tensor):
        return "eager gives no tensor here"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    return None


def close(found, expected):
    """EQUAL, NEAR_EAGER (rule 1), or None."""
    if not expected.is_floating_point():
        return EQUAL if torch.equal(found, expected) else None
    dtype = expected.dtype
    found, expected = found.detach().double(), expected.detach().double()
    error = error_of(found, expected)
    if not bool(error.any()):
        return EQUAL
    return NEAR_EAGER if bool((error <= 2 * ulp(expected, dtype)).all()) else None


def bound(eager, exact, allowed=None):
    """How far each element may be from the rounded `exact`, by rule 2 and, with the standard errors `allowed`, rule 3."""
    dtype = eager.dtype
    theirs, target = eager.double(), rounded(exact, dtype)
    other = error_of(theirs, target)
    size = target.abs().nan_to_num(0, 0, 0)
    least = 2 * ulp(size, dtype)
    # eager's worst error, absolute and relative, so that small elements keep small errors
    floor = size.max() * torch.finfo(dtype).eps + ulp(torch.zeros((), dtype=torch.float64), dtype)
    absolute = other[other.isfinite()].max() if bool(other.isfinite().any()) else 0.0
    share = other / torch.maximum(size, floor)
    relative = share[share.isfinite()].max() if bool(share.isfinite().any()) else 0.0
    most = torch.minimum(torch.full_like(size, 2 * absolute), 2 * relative * torch.maximum(size, floor))
    most = torch.maximum(least, most)
    return most if allowed is None else torch.maximum(most, CONFIDENCE * allowed + least)


def within(found, eager, exact, allowed=None):
    """A boolean per element: within `bound`, or within 2 ULP of eager."""
    dtype = eager.dtype
    if not eager.numel():
        return torch.ones(eager.shape, dtype=torch.bool)
    ours, theirs = found.double(), eager.double()
    mine = error_of(ours, rounded(exact, dtype))
    return (mine <= bound(eager, exact, allowed)) | (error_of(ours, theirs) <= 2 * ulp(theirs.nan_to_num(0, 0, 0), dtype))


def perturbed(module, tensors, noise):
    """The graph's results with every op's floating results moved by one rounding."""
    environment = {}
    inputs = iter(tensors)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            environment[node] = next(inputs)
        elif node.op == "get_attr":
            environment[node] = getattr(module, node.target)
        elif node.op == "output":
            return [environment[n] for n in node.args[0]]
        else:
            arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), environment.__getitem__)
            environment[node] = noise.call(node.target, arguments, keywords)
    raise AssertionError("a graph without an output")


def spread(module, tensors, exact, dtypes, wanted, runs=RUNS):
    """How far one rounding per op moves each result, measured in `runs` runs: a list parallel to `exact`."""
    unit = max((unit_roundoff(d) for d in dtypes), default=unit_roundoff(torch.float64))
    noise = Noise(unit=unit, accumulator=unit_roundoff(torch.float64))
    shifts = [[torch.zeros(e.shape, dtype=torch.float64)] for e in exact]
    for _ in range(runs):
        values = perturbed(module, tensors, noise)
        for i, value in enumerate(values[w] for w in wanted):
            if value.shape == exact[i].shape:
                shifts[i].append(error_of(value.double(), exact[i].double()).nan_to_num(0, 0, 0))
    return [root_mean_square(s[1:] or s) for s in shifts]
