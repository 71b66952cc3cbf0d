# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of every ATen overload tagged core, and whether it runs: each is called by name, imported, executed by the reference
interpreter and compared with eager. Arguments: names of overloads, to run only these."""

import collections
import sys

from figures import ArgumentError

MEASURES = "ATen overloads tagged core: decided, running on the reference interpreter and equal to eager, by way"
NEEDS = "reference"
MINUTES = 1


def measure(arguments: list[str]) -> dict:
    from measure import ROOT, progress

    sys.path.insert(0, str(ROOT / "frontend" / "torch" / "test"))
    from opinfo import coverage, overloads

    decisions = coverage.decisions()
    if unknown := [name for name in arguments if name not in decisions]:
        raise ArgumentError(f"expected names of core overloads, found {', '.join(unknown)}")
    table, by_way = {}, collections.Counter()
    for name, found in decisions.items():
        way, detail = found.way, found.text()
        by_way[way] += 1
        why = detail
        if way not in (coverage.NEVER, coverage.UNDECIDED) and (not arguments or name in arguments):
            why = overloads.run(name)
            if why:
                progress(f"{name}: {why}")
        table[name] = {"way": way, "detail": detail, "runs": way not in (coverage.NEVER, coverage.UNDECIDED) and why is None}
        if why and way not in (coverage.NEVER, coverage.UNDECIDED):
            table[name]["failure"] = why
    total = len(table)
    failing = {name: row["failure"] for name, row in table.items() if "failure" in row}
    return {
        "passed": sum(row["runs"] for row in table.values()),
        "failed": len(failing) + by_way[coverage.UNDECIDED],
        "overloads": total,
        "decided": sum(row["way"] != coverage.UNDECIDED for row in table.values()) / total,
        "running": sum(row["runs"] for row in table.values()) / total,
        "by_way": dict(by_way),
        "never": {name: row["detail"] for name, row in table.items() if row["way"] == coverage.NEVER},
        "failing": failing,
        "table": table,
    }
