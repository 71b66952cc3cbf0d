# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judging many operators in worker processes, and counting."""

import collections
import multiprocessing
import time

from . import samples


def work(arguments):
    name, dtype, index = arguments
    import torch

    torch.set_num_threads(1)
    started = time.perf_counter()
    wanted = [getattr(torch, dtype)] if dtype else None
    only = (lambda _, i: str(i) == index) if index else None
    record = samples.judge_operator(name, samples.database()[name], wanted, only)
    record["seconds"] = time.perf_counter() - started
    record["overloads"] = sorted(record["overloads"])
    return record


def judge_all(tasks, workers):
    if workers == 1:
        yield from map(work, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(work, tasks)


def summary(records):
    """The figure's keys."""
    result = {k: 0 for k in ("operators", "samples", "passed", "failed", "excluded")}
    reasons, unmapped = collections.Counter(), collections.Counter()
    dtypes = collections.defaultdict(lambda: [0, 0])
    for record in records:
        result["operators"] += 1
        result["samples"] += record["samples"]
        result["passed"] += record["passed"]
        result["failed"] += len(record["failed"])
        result["excluded"] += len(record["excluded"])
        reasons.update(kind for _, kind, _ in record["excluded"])
        unmapped.update(record["unmapped"])
        for dtype, (tried, passed) in record["dtypes"].items():
            dtypes[dtype][0] += tried
            dtypes[dtype][1] += passed
    result["reasons"] = dict(reasons.most_common())
    result["unmapped"] = dict(unmapped.most_common())
    result["dtypes"] = {d: {"samples": a, "passed": b} for d, (a, b) in dtypes.items()}
    return result
