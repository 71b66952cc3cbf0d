# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m opinfo [--only NAME[:DTYPE[:INDEX]]] [--workers 2]: judges everything, or what the argument names; see ../README.md."""

import argparse
import json
import sys
import time

from . import samples
from .runner import judge_all, summary, task


def show(record, arguments):
    limit = 1 if arguments.brief else 20 if arguments.only else 2
    for place, why in record["failed"][:limit]:
        print("FAILED", place, why, f"({len(record['failed'])} of {record['samples']})", flush=True)
    if arguments.only:
        kinds = {}
        for place, kind, detail in record["excluded"]:
            kinds.setdefault((kind, detail) if arguments.brief else place, []).append((place, kind, detail))
        for places in kinds.values():
            print("excluded", len(places), *places[0])


def main():
    parser = argparse.ArgumentParser(prog="opinfo")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--limit", type=int, help="about so many samples of each operator and dtype")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--save", help="a file for every record")
    parser.add_argument("--brief", action="store_true", help="one line per operator and kind of failure")
    arguments = parser.parse_args()
    started = time.perf_counter()
    if arguments.only:
        tasks = [task(one) for one in arguments.only]
    else:
        tasks = [(name, None, None) for name in samples.database()]
    tasks = [(*one, arguments.limit) for one in tasks]
    records = []
    for record in judge_all(tasks, 1 if len(tasks) == 1 else arguments.workers):
        records.append(record)
        show(record, arguments)
    result = summary(records)
    result["seconds"] = round(time.perf_counter() - started, 1)
    if arguments.save:
        with open(arguments.save, "w") as file:
            json.dump({"summary": result, "records": records}, file)
    print(json.dumps(result))
    return bool(result["failed"])


if __name__ == "__main__":
    sys.exit(main())
