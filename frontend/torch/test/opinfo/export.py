# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m opinfo.export FOLDER [--only NAME[:DTYPE[:INDEX]]] [--limit 4] [--workers 2]: OpInfo's samples as cases for any plugin, which
`mortise-conformance --plugin LIBRARY --graph FOLDER` judges without PyTorch: NAME.mrtg, NAME.inputs, and NAME.expected (the format is in
conformance/networks/given.hpp).

What a sample is expected to give is eager's result, or its result in f64 where eager's own is coarse, within what ./judge.py grants the
interpreter. Samples have no expected results when they are random, uninitialised or indices of equal elements; the interpreter alone
judges these."""

import argparse
import collections
import json
import logging
import multiprocessing
import re
import sys
import warnings
from pathlib import Path

import torch
from error_bounds import RUNS, error_of, ulp

from . import judge, runner, samples
from .trace import SEED, Excluded, Unmapped, compile_graph

# Rules by which results are numbers that are known.
DETERMINED = (judge.EQUAL, judge.NEAR_EAGER, judge.AS_EAGER, judge.ROUNDINGS)


def raw(tensor):
    """The elements' bytes in row-major order."""
    dense = torch.empty(tensor.numel(), dtype=tensor.dtype)
    dense.copy_(tensor.resolve_neg().reshape(-1))
    return dense.view(torch.uint8).numpy().tobytes()


def near(eager):
    """(results, bounds) of a float, in f64, by rule 1."""
    theirs = eager.double()
    return theirs, 2 * ulp(theirs.nan_to_num(0, 0, 0), eager.dtype)


def near_exact(eager, exact, moved):
    """The same by rules 2 and 3. Where eager alone, or its f64 alone, is not finite, nothing is known."""
    theirs, least = near(eager)
    target = judge.rounded(exact, eager.dtype)
    if not eager.numel():
        return target, least
    between = error_of(theirs, target)
    bounds = torch.maximum(judge.bound(eager, exact, moved), between + least)
    return target, torch.where(between.isfinite(), bounds, torch.inf)


def expected(of, rule, memory):
    """The bytes of NAME.expected."""
    floats = [i for i, result in enumerate(of.eager) if result.is_floating_point()]
    if rule in (judge.EQUAL, judge.NEAR_EAGER):
        numbers = {i: near(of.eager[i]) for i in floats}
    else:
        wide, tensors = of.call.widened(of.kept)
        exact = wide(*[t.clone() for t in tensors])
        moved = [None] * len(floats)
        if rule == judge.ROUNDINGS:
            narrow = {t.dtype for t in [*of.eager, *of.kept] if t.is_floating_point()}
            moved = samples.roundings(wide, tensors, [exact[i] for i in floats], narrow, floats, memory, RUNS)
        numbers = {i: near_exact(of.eager[i], exact[i], shift) for i, shift in zip(floats, moved, strict=True)}
    return b"".join(raw(part) for i, result in enumerate(of.eager) for part in numbers.get(i, [result]))


def write(of, rule, name, folder, memory):
    """Writes a sample's files. Returns how it was taken: "expected", or "inputs" alone."""
    path = Path(folder) / name
    for extension in (".mrtg", ".expected"):
        path.with_suffix(extension).unlink(missing_ok=True)  # a graph is not written where there is one
    seeds = compile_graph(of.module, of.inputs, name=name, folder=folder).seeds
    samples.seeded()
    path.with_suffix(".inputs").write_bytes(b"".join(map(raw, [*of.inputs, *[SEED(device="cpu") for _ in range(seeds)]])))
    if rule not in DETERMINED:
        return "inputs"
    path.with_suffix(".expected").write_bytes(expected(of, rule, memory))
    return "expected"


def empty_record():
    """How many samples were written and why others were not; what fails, and what differs from eager where that is no failure."""
    return {"written": collections.Counter(), "excluded": collections.Counter(), "failed": [], "differing": []}


def export(record, op, sample, place, folder, memory, strict=True):
    """Writes a sample, into a record too. `strict`: what ./judge.py cannot judge, or does not accept, is a failure; or else the sample is
    written without expected results."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            of = samples.computed(op, sample, set(), memory)
            try:
                verdict = samples.judged(of, memory)
            except Exception as error:
                if strict:
                    raise
                verdict = judge.Verdict(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
            if verdict.why and strict:
                raise AssertionError(verdict.why)
            if verdict.why:
                record["differing"].append(f"{place}: {verdict.why}")
            record["written"][write(of, verdict.rule, re.sub(r"[^A-Za-z0-9_-]", "_", place), folder, memory)] += 1
    except (Excluded, Unmapped) as error:
        record["excluded"][getattr(error, "kind", samples.UNMAPPED)] += 1
    except Exception as error:
        record["failed"].append(f"{place}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")


def show(record, **more):
    """Prints a record, the counts as one line of JSON at the end. Returns the exit status."""
    for kind in ("failed", "differing"):
        for line in record[kind]:
            print(kind, line)
    print(json.dumps({**more, **{name: found if isinstance(found, dict) else len(found) for name, found in record.items()}}))
    return int(bool(record["failed"]))


def export_operator(arguments):
    """The record of an operator's samples."""
    (name, wanted, only), limit, folder = arguments
    torch.set_num_threads(1)
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    op, memory = samples.database()[name], samples.Memory()
    record = empty_record()
    for dtype in samples.DTYPES:
        short = str(dtype).removeprefix("torch.")
        if dtype not in op.supported_dtypes("cpu") or wanted not in (None, short):
            continue
        try:
            tried = list(samples.samples(op, dtype))
        except Exception:
            record["excluded"]["OpInfo cannot make its samples"] += 1
            continue
        for index, sample in tried[:: max(len(tried) // limit, 1)] if only is None else tried:
            if only not in (None, str(index)):
                continue
            export(record, op, sample, f"{name}-{short}-{index}", folder, memory)
    return record


def export_all(names, limit, folder, workers):
    """The sum of the records. `names`: (name, dtype or None, index or None)."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    total = empty_record()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for record in pool.imap_unordered(export_operator, [(name, limit, str(folder)) for name in names]):
            for kind, found in record.items():
                total[kind] += found
    return total


def main():
    parser = argparse.ArgumentParser(prog="opinfo.export")
    parser.add_argument("folder")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--limit", type=int, default=4, help="about so many samples of each operator and dtype")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    names = [runner.task(one) for one in arguments.only] or [(name, None, None) for name in samples.database()]
    samples.named([name for name, _, _ in names])
    return show(export_all(names, arguments.limit, arguments.folder, arguments.workers))


if __name__ == "__main__":
    sys.exit(main())
