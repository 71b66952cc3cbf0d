# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judging many operators in worker processes, and counting."""

import collections
import logging
import multiprocessing
import time

from . import samples


def work(arguments):
    name, dtype, index, *limit = arguments
    import torch

    torch.set_num_threads(1)
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # what a kernel refuses, it raises too
    started = time.perf_counter()
    wanted = [getattr(torch, dtype)] if dtype else None
    only = (lambda _, i: str(i) == index) if index else None
    record = samples.judge_operator(name, samples.database()[name], wanted, only, limit=limit[0] if limit else None)
    record["seconds"] = time.perf_counter() - started
    record["overloads"] = sorted(record["overloads"])
    return record


def judge_all(tasks, workers):
    if workers == 1:
        yield from map(work, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(work, tasks)


def task(text):
    """(name, dtype, index) of NAME[:DTYPE[:INDEX]]."""
    return tuple((text.split(":") + [None, None])[:3])


def summary(records):
    """The figure's keys. An operator is tried when one of its samples was judged; then every sample of its counts. The others are
    listed with why: the overloads that are not mapped, or what excludes all of their samples."""
    result = {k: 0 for k in ("operators", "samples", "passed", "failed", "excluded")}
    reasons, unmapped, untried = collections.Counter(), collections.Counter(), {}
    dtypes = collections.defaultdict(lambda: [0, 0])
    for record in records:
        if not record["passed"] and not record["failed"]:
            whys = collections.Counter(record["unmapped"]) or collections.Counter(kind for _, kind, _ in record["excluded"])
            untried[record["name"]] = {"samples": record["samples"], "why": [why for why, _ in whys.most_common()]}
            unmapped.update(record["unmapped"])
            continue
        result["operators"] += 1
        result["samples"] += record["samples"]
        result["passed"] += record["passed"]
        result["failed"] += len(record["failed"])
        result["excluded"] += len(record["excluded"])
        reasons.update(kind if kind != samples.UNMAPPED else f"{kind}: {detail}" for _, kind, detail in record["excluded"])
        for dtype, (tried, passed) in record["dtypes"].items():
            dtypes[dtype][0] += tried
            dtypes[dtype][1] += passed
    result["excluded_share"] = round(result["excluded"] / max(result["samples"], 1), 4)
    result["reasons"] = dict(reasons.most_common())
    result["dtypes"] = {d: {"samples": a, "passed": b} for d, (a, b) in dtypes.items()}
    result["database"] = {"operators": len(records), "samples": sum(r["samples"] for r in records)}
    result["not_tried"] = {"operators": len(untried), "samples": sum(u["samples"] for u in untried.values()),
                           "by_operator": untried}
    result["unmapped"] = dict(unmapped.most_common())
    return result
