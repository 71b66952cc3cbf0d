# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference interpreter on PyTorch's OpInfo database: every operator's sample inputs in every dtype of the language, through the
importer, judged by frontend/torch/test/opinfo/judge.py. Runs all of the database's samples, and each operator's first ones again with
inputs that are not contiguous. `excluded_share` is relative to the samples of mapped operators, `unmapped_share` to the whole database.
`exclusions` and `unmapped` name every sample that is not judged; `by_rule` counts passes by the judge's rule. `holds`: none failed, no
mapped operator is excluded whole, and at most 5 % of the samples of mapped operators are excluded, within 15 minutes. Arguments:
NAME[:DTYPE[:INDEX]], to repeat a part of it."""

import sys
import time

MEASURES = "OpInfo's samples on the reference interpreter against eager: passed by rule, failed, excluded and unmapped with names"
NEEDS = "reference"
MINUTES = 10

WORKERS, SECONDS = 2, 900


def measure(arguments: list[str]) -> dict:
    from measure import ROOT, progress

    sys.path.insert(0, str(ROOT / "frontend" / "torch" / "test"))
    from opinfo import runner, samples

    started = time.perf_counter()
    database = samples.named(a.split(":")[0] for a in arguments)
    tasks = [runner.task(a) for a in arguments] or [(name, None, None) for name in database]
    records, told = [], 0.0
    for record in runner.judge_all(tasks, WORKERS):
        records.append(record)
        for place, why in record["failed"][:3]:
            progress(f"{place}: {why}; repeat: ./dev figure opinfo-reference {place}")
        if time.perf_counter() - told > 30:
            told = time.perf_counter()
            progress(f"{len(records)} of {len(tasks)} operators, {sum(r['samples'] for r in records)} samples")
    result = runner.summary(records)
    result["seconds"] = round(time.perf_counter() - started, 1)
    result["holds"] = result["holds"] and result["seconds"] <= SECONDS
    return result
