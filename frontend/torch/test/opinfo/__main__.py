# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m opinfo [--only NAME[:DTYPE[:INDEX]]] [--workers 2]: everything, or what the argument names; see ../README.md."""

import argparse
import json
import sys
import time

from . import samples
from .runner import judge_all, summary


def main():
    parser = argparse.ArgumentParser(prog="opinfo")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save")
    arguments = parser.parse_args()
    started = time.perf_counter()
    if arguments.only:
        tasks = [tuple((one.split(":") + [None, None])[:3]) for one in arguments.only]
    else:
        tasks = [(name, None, None) for name in samples.database()]
    records = []
    for record in judge_all(tasks, 1 if len(tasks) == 1 else arguments.workers):
        records.append(record)
        for place, why in record["failed"][: 20 if arguments.only else 2]:
            print("FAILED", place, why, f"({len(record['failed'])} of {record['samples']})", flush=True)
        if arguments.only:
            for place, kind, detail in record["excluded"][:20]:
                print("excluded", place, kind, detail)
    result = summary(records)
    result["seconds"] = round(time.perf_counter() - started, 1)
    if arguments.save:
        with open(arguments.save, "w") as file:
            json.dump({"summary": result, "records": records}, file)
    print(json.dumps(result))
    return bool(result["failed"])


if __name__ == "__main__":
    sys.exit(main())
