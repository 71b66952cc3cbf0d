# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Judges many operators in worker processes, and counts the results."""

import collections
import logging
import multiprocessing
import time

from . import distribution, judge, samples

# These take about a minute each and run first, so that no worker is left with one at the end.
LONGEST = ("nn.functional.max_pool2d", "grid_sampler_3d", "nn.functional.max_pool3d", "max_pool2d_with_indices_backward",
           "logspace.tensor_overload", "nn.functional.multi_head_attention_forward", "unique", "nn.functional.max_pool1d",
           "nn.functional.linear_cross_entropy.chunked", "nn.functional.interpolate.bicubic", "nn.functional.grid_sample",
           "logspace", "histogramdd", "masked.norm", "nn.functional.unfold")
# At most two results per sample for all random operators: distribution.py's rate of false alarms is for that many comparisons.
MOST_RANDOM = distribution.TESTS // (2 * len(distribution.NAMES))
# Reasons for which none of an operator's samples can be judged although the importer refuses nothing: there is nothing to compare.
NOT_OURS = {"complex numbers", "sparse tensors", "a dtype that the language has not", "no tensor among the results",
            "an operator of PyTorch's other devices, which raises on CPU", "OpInfo cannot make its samples",
            "eager itself raises on this input"}


def work(arguments):
    name, dtype, index, *limit = arguments
    import torch

    torch.set_num_threads(1)
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # a kernel's refusal is also raised
    started = time.perf_counter()
    wanted = [getattr(torch, dtype)] if dtype else None
    only = (lambda _, i: str(i) == index) if index else None
    record = samples.judge_operator(name, samples.database()[name], wanted, only, limit=limit[0] if limit else None)
    record["seconds"] = time.perf_counter() - started
    record["overloads"] = sorted(record["overloads"])
    return record


def judge_all(tasks, workers):
    """Yields records as they come. An operator is one task, because its samples share traces; the long tasks run first."""
    if workers == 1:
        yield from map(work, tasks)
        return
    tasks = sorted(tasks, key=lambda t: LONGEST.index(t[0]) if t[0] in LONGEST else len(LONGEST))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(work, tasks)


def task(text):
    """(name, dtype, index) from NAME[:DTYPE[:INDEX]]."""
    return tuple((text.split(":") + [None, None])[:3])


def places(names):
    """{"NAME:DTYPE": "0-3, 7, n0"} for NAME:DTYPE:INDEX strings: short, and it names every sample."""
    groups = collections.defaultdict(list)
    for name in names:
        entry, _, index = name.rpartition(":")
        groups[entry].append(index)
    return {entry: ranges(indices) for entry, indices in sorted(groups.items())}


def ranges(indices):
    numbers = sorted(int(i) for i in indices if i.isdigit())
    runs = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join([str(a) if a == b else f"{a}-{b}" for a, b in runs] + sorted(i for i in indices if not i.isdigit()))


def is_tried(record):
    return bool(record["passed"] or record["failed"])


def reasons_of(record):
    return list(dict.fromkeys(kind for _, kind, _ in record["excluded"]))


def summary(records):
    """The figure's keys. An operator is mapped when one of its samples was judged. Then all its samples count: those not judged are
    excluded, and `excluded_share` is their share. The other operators are unmapped, and `unmapped_share` is the share of their samples in
    the whole database. Each of these has an overload without a handler or a reason of NOT_OURS, or else is in `mapped_excluded_whole`,
    which must be empty. `exclusions` and `unmapped` name every sample."""
    result = {k: 0 for k in ("operators", "samples", "passed", "failed", "excluded")}
    reasons, rules, unmapped, whole = collections.defaultdict(list), collections.Counter(), {}, []
    dtypes = collections.defaultdict(lambda: [0, 0])
    for record in records:
        if not is_tried(record):
            if record["unmapped"] or set(reasons_of(record)) <= NOT_OURS:
                unmapped[record["name"]] = record
                continue
            whole.append(record["name"])
        for key in ("samples", "passed"):
            result[key] += record[key]
        for key in ("failed", "excluded"):
            result[key] += len(record[key])
        result["operators"] += 1
        rules.update(record["rules"])
        for place, kind, detail in record["excluded"]:
            reasons[f"{kind}: {detail}" if kind == samples.UNMAPPED else kind].append((place, detail))
        for dtype, (tried, passed) in record["dtypes"].items():
            dtypes[dtype][0] += tried
            dtypes[dtype][1] += passed
    database = {"operators": len(records), "samples": sum(r["samples"] for r in records)}
    left_out = sum(r["samples"] for r in unmapped.values())
    overloads = collections.defaultdict(list)
    for record in unmapped.values():
        for overload in record["unmapped"]:
            overloads[overload].append(record["name"])
    result["excluded_share"] = round(result["excluded"] / max(result["samples"], 1), 4)
    result["unmapped_share"] = round(left_out / max(database["samples"], 1), 4)
    result["passed_share"] = round(result["passed"] / max(database["samples"], 1), 4)
    result["by_rule"] = {rule: rules[rule] for rule in judge.RULES}
    result["by_reason"] = {why: len(found) for why, found in sorted(reasons.items(), key=lambda item: -len(item[1]))}
    result["mapped_excluded_whole"] = whole
    result["holds"] = (not result["failed"] and not whole and result["excluded_share"] <= 0.05
                       and rules[judge.DISTRIBUTION] <= MOST_RANDOM)
    result["dtypes"] = {d: {"samples": a, "passed": b} for d, (a, b) in dtypes.items()}
    result["database"] = database
    result["exclusions"] = {why: places(place for place, _ in found) for why, found in reasons.items()}
    result["exclusions_in_detail"] = {place: detail for why, found in reasons.items() if not why.startswith(samples.UNMAPPED)
                                      for place, detail in found if detail}
    result["unmapped"] = {
        "operators": len(unmapped), "samples": left_out,
        "by_operator": {name: {"samples": r["samples"], "overloads": sorted(r["unmapped"]),
                               "why": [k for k in reasons_of(r) if k != samples.UNMAPPED] or
                               ([] if r["samples"] else ["OpInfo has no samples of it for these dtypes on CPU"])}
                        for name, r in sorted(unmapped.items())},
        "by_overload": {o: names for o, names in sorted(overloads.items(), key=lambda item: (-len(item[1]), item[0]))}}
    return result
