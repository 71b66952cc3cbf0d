# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults under models that are compiled with backend="mortise" (bench/door_faults.py, docs/door-faults.md): each has to end in a right
answer or in an error that says what was expected, what was found or what to do. Each runs in a process of its own: a crash, a hang, a
wrong result, an unclear error and a fault that was not planted are failures. Arguments: parts of names; only those faults are tried."""

MEASURES = "faults under compiled models (operators, options, plugins, caches, weights, inputs, threads, processes): right or a clear error"
NEEDS = "cpu, the product build; builds two plugins for tests"
MINUTES = 8

WORKERS, LEAST = 2, 30


def attempt(name: str) -> dict:
    """What became of a fault: its row, with `problem` empty if it passed."""
    import json
    import os
    import signal
    import subprocess
    import sys
    import tempfile

    import door_faults
    from measure import ROOT

    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/out", "w+") as out, open(f"{folder}/err", "w+") as err:
        environment = os.environ | {"MORTISE_KERNEL_CACHE": "off", "TMPDIR": folder, "HF_HUB_OFFLINE": "1",
                                    "TORCHINDUCTOR_CACHE_DIR": folder}
        process = subprocess.Popen([sys.executable, str(ROOT / "bench" / "door_faults.py"), name], stdout=out, stderr=err,
                                   env=environment, cwd=folder, start_new_session=True)
        try:
            ended, problem = process.wait(door_faults.SECONDS), ""
        except subprocess.TimeoutExpired:
            ended, problem = None, f"it did not end within {door_faults.SECONDS} s"
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it left running, workers among it
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        err.seek(0)
        printed, last_words = out.read().strip().splitlines(), err.read().strip()[-400:]
    row = {"what": door_faults.FAULTS[name].words, "said": []}
    if problem or ended:
        return row | {"problem": problem or f"it ended with {ended}: {last_words}"}
    try:
        found = json.loads(printed[-1])
        return row | {"said": found["said"], "problem": verdict(found)}
    except (IndexError, KeyError, TypeError, json.JSONDecodeError):
        return row | {"problem": f"it printed no result but {printed[-1:]}: {last_words}"}


def verdict(found: dict) -> str:
    if found["problem"]:
        return found["problem"]
    if not found["planted"]:
        return "the fault was not planted"
    return "" if found["compared"] or found["said"] else "nothing was compared, and no error was raised"


def measure(arguments: list[str]) -> dict:
    from concurrent.futures import ThreadPoolExecutor

    from door_faults import FAULTS
    from measure import make, progress

    wanted = [name for name in FAULTS if not arguments or any(part in name for part in arguments)]
    if not wanted:
        raise ValueError(f"expected parts of names such as 'cache', found {' '.join(arguments)}")
    for target in dict.fromkeys(target for name in wanted for target in FAULTS[name].programs):
        make(target)
    rows = {}
    with ThreadPoolExecutor(WORKERS) as pool:
        for name, row in zip(wanted, pool.map(attempt, wanted)):
            rows[name] = row
            progress(f"{name}: {row['problem'] and 'FAILED: ' + row['problem'] or '; '.join(row['said']) or 'right'}")
    failed = [name for name, row in rows.items() if row["problem"]]
    result = {"passed": len(rows) - len(failed), "failed": len(failed), "faults": len(rows), "rows": rows}
    if not arguments and len(rows) < LEAST:
        result["error"] = f"expected at least {LEAST} faults, found {len(rows)}"
    return result
