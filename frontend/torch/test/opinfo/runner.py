# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judging many operators in worker processes, and counting."""

import collections
import logging
import multiprocessing
import time

from . import samples

# These take a minute or so each and begin, so that no worker is left alone with one at the end.
LONGEST = ("nn.functional.max_pool2d", "grid_sampler_3d", "nn.functional.max_pool3d", "max_pool2d_with_indices_backward",
           "logspace.tensor_overload", "nn.functional.multi_head_attention_forward", "unique", "nn.functional.max_pool1d",
           "nn.functional.linear_cross_entropy.chunked", "nn.functional.interpolate.bicubic", "nn.functional.grid_sample",
           "logspace", "histogramdd", "masked.norm", "nn.functional.unfold")
# Why none of an operator's samples can be judged, though the importer refuses nothing: there is nothing to compare.
NOT_OURS = {"complex numbers", "sparse tensors", "a dtype that the language has not", "no tensor among the results",
            "an operator of PyTorch's other devices, which raises on CPU", "OpInfo cannot make its samples",
            "eager itself raises on this input"}


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
    """Records as they come. An operator's samples share what was traced, so it is one task; the long ones begin."""
    if workers == 1:
        yield from map(work, tasks)
        return
    tasks = sorted(tasks, key=lambda t: LONGEST.index(t[0]) if t[0] in LONGEST else len(LONGEST))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(work, tasks)


def task(text):
    """(name, dtype, index) of NAME[:DTYPE[:INDEX]]."""
    return tuple((text.split(":") + [None, None])[:3])


def summary(records):
    """The figure's keys. An operator is tried when one of its samples was judged; then every sample of its counts. Others are listed
    in `not_tried` when an overload is not mapped or for a reason of NOT_OURS, else in `mapped_excluded_whole`, which has to be empty."""
    result = {k: 0 for k in ("operators", "samples", "passed", "failed", "excluded")}
    reasons, unmapped, untried, whole = collections.Counter(), collections.Counter(), {}, []
    dtypes = collections.defaultdict(lambda: [0, 0])
    for record in records:
        whys = collections.Counter(record["unmapped"]) or collections.Counter(kind for _, kind, _ in record["excluded"])
        if not record["passed"] and not record["failed"]:
            if record["unmapped"] or set(whys) <= NOT_OURS:
                untried[record["name"]] = {"samples": record["samples"], "why": [why for why, _ in whys.most_common()]}
                unmapped.update(record["unmapped"])
                continue
            whole.append(record["name"])
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
    result["by_reason"] = dict(reasons.most_common())
    result["mapped_excluded_whole"] = whole
    result["holds"] = not result["failed"] and not whole and result["excluded_share"] <= 0.05
    result["dtypes"] = {d: {"samples": a, "passed": b} for d, (a, b) in dtypes.items()}
    result["database"] = {"operators": len(records), "samples": sum(r["samples"] for r in records)}
    result["not_tried"] = {"operators": len(untried), "samples": sum(u["samples"] for u in untried.values()),
                           "by_operator": untried}
    result["unmapped"] = dict(unmapped.most_common())
    return result
