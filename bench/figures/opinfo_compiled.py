# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's OpInfo samples in f32 through torch.compile on cpu: results, and gradients where the operator has any, with static and with
dynamic shapes, against eager (frontend/torch/test/opinfo/compiled.py judges). Every operator of the database is tried, with samples spread
over those that it has.

`compiled`: every operator of forward and backward graph ran in a program; `called_through`: right, with operators in eager; `left_out`:
nothing to compare, by reason. Arguments: how many samples of each operator (4), or NAME[:NUMBER]."""

import sys
import time

from figures import ArgumentError

MEASURES = "OpInfo's samples and their gradients through torch.compile, static and dynamic: compiled, called through to eager, failed"
NEEDS = "cpu"
MINUTES = 14

SAMPLES, WORKERS = 4, 2


def measure(arguments: list[str]) -> dict:
    import collections

    from measure import ROOT, progress

    sys.path.insert(0, str(ROOT / "frontend" / "torch" / "test"))
    from opinfo import compiled, samples

    most = next((int(a) for a in arguments if a.isdigit()), SAMPLES)
    named = [a.partition(":") for a in arguments if not a.isdigit()]
    database = samples.named(name for name, *_ in named)
    if most < 1 or any(number and not number.isdigit() for *_, number in named):
        raise ArgumentError(f"expected a positive number of samples, and NAME:NUMBER, found {' '.join(arguments)}")
    tasks = [(name, most, int(number) if number else None) for name, _, number in named] or [(name, most, None) for name in database]
    counts, left_out, through, failures, none = collections.Counter(), collections.Counter(), collections.Counter(), [], {}
    told = started = time.perf_counter()
    for done, record in enumerate(compiled.judge_all(tasks, WORKERS), 1):
        if not record["rows"]:
            none[record["name"]] = record["why"]
        for place, outcome, why in record["rows"]:
            counts[outcome] += 1
            if outcome == "failed":
                failures.append(f"{place}: {why}")
                progress(f"{place}: {why}; repeat: ./dev figure opinfo-compiled {place.removesuffix(':dynamic')}")
            elif outcome == "left out":
                left_out[why] += 1
            elif outcome == "called through":
                through.update(why.split(", "))
        if time.perf_counter() - told > 30:
            told = time.perf_counter()
            progress(f"{done} of {len(tasks)} operators, {dict(counts)}")
    tried = counts["compiled"] + counts["called through"] + counts["failed"]
    return {"operators": len(tasks), "tried": tried, "compiled": counts["compiled"], "called_through": counts["called through"],
            "failed": counts["failed"], "left_out": dict(left_out.most_common()), "operators_called_through": dict(through.most_common()),
            "without_samples": none, "failures": failures, "seconds": round(time.perf_counter() - started, 1),
            "passed": tried > 0 and not failures}
