# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults under models that are compiled with backend="mortise" (bench/door_faults.py, docs/door-faults.md): each has to end in a right
answer or in an error that says what was expected, what was found or what to do. Each runs in a process of its own: a crash, a hang, a
wrong result, an unclear error and a fault that was not planted are failures. Arguments: parts of names; only those faults are tried."""

from figures import ArgumentError

MEASURES = "faults under compiled models (operators, options, plugins, caches, weights, inputs, threads, processes): right or a clear error"
NEEDS = "cpu, the product build; builds two plugins for tests"
MINUTES = 8

WORKERS, LEAST = 2, 30


def measure(arguments: list[str]) -> dict:
    from concurrent.futures import ThreadPoolExecutor

    from door_faults import FAULTS
    from faults import attempt
    from measure import ROOT, make, progress

    script = ROOT / "bench" / "door_faults.py"
    wanted = [name for name in FAULTS if not arguments or any(part in name for part in arguments)]
    if not wanted:
        raise ArgumentError(f"expected parts of names such as 'cache', found {' '.join(arguments)}")
    for target in dict.fromkeys(target for name in wanted for target in FAULTS[name].programs):
        make(target)
    rows = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        for name, row in zip(wanted, pool.map(lambda name: attempt(script, FAULTS[name]), wanted)):
            rows[name] = row
            progress(f"{name}: {row['problem'] and 'FAILED: ' + row['problem'] or '; '.join(row['said']) or 'right'}")
    failed = [name for name, row in rows.items() if row["problem"]]
    result = {"passed": len(rows) - len(failed), "failed": len(failed), "faults": len(rows), "rows": rows}
    if not arguments and len(rows) < LEAST:
        result["error"] = f"expected at least {LEAST} faults, found {len(rows)}"
    return result
