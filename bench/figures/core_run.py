# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The whole level `core` of the conformance kit on the cpu plugin, with two workers. A run has a verdict on each case of the table; the
plugin refuses some, with a reason, so runs with new seeds follow until it has computed LEAST_CASES. `cases`: in the table; `executed`:
cases that the plugin computed, `refused` the others, both in all runs; `seconds`: all runs. `unproven`: claimed triples of op, element
type and shape class that no case proves. `quick_seconds`: a run with --quick, for CI. Seeds are new each time, and named in the result;
arguments are seeds instead."""

MEASURES = "the conformance kit's whole level core on the cpu plugin: seconds, cases, pairs covered; and --quick"
NEEDS = "cpu"
MINUTES = 5

LEAST_CASES, MOST_SECONDS, MOST_QUICK_SECONDS = 40_000, 600, 60


def measure(arguments: list[str]) -> dict:
    import secrets
    import time

    import kit
    from measure import progress

    seeds = [int(argument) for argument in arguments]
    runs, failures, unproven, unexpected, seconds, cases, executed, refused = {}, [], set(), set(), 0.0, 0, 0, 0
    while seeds or (not arguments and executed < LEAST_CASES):
        seed = seeds.pop(0) if seeds else secrets.randbits(32)
        begin = time.perf_counter()
        report = kit.run(kit.CPU, "--level", "core", "--seed", seed, "--expectations", kit.CPU_EXPECTATIONS)
        took = time.perf_counter() - begin
        seconds += took
        cases = len(report["cases"])
        if kit.executed(report) == 0:
            raise RuntimeError(f"the plugin computed none of {cases} cases: {report['result']}")
        executed += kit.executed(report)
        refused += report["totals"]["refused"]
        failures += kit.failures(report)
        unproven |= set(report["unproven"])
        unexpected |= set(report["unexpected"]) | {report[key] for key in ("shrunken", "broken") if report[key]}
        runs[str(seed)] = {"seconds": took, "cases": cases, "executed": kit.executed(report), "result": report["result"]}
        progress(f"seed {seed}: {runs[str(seed)]}")
    begin = time.perf_counter()
    quick = kit.run(kit.CPU, "--level", "core", "--quick", "--expectations", kit.CPU_EXPECTATIONS)
    quick_seconds = time.perf_counter() - begin
    failures += kit.failures(quick)
    coverage = report["coverage"]
    why = failures[:1] + [f"no case proves {claim}" for claim in sorted(unproven)[:1]] + sorted(unexpected)[:1]
    if executed < LEAST_CASES:
        why.append(f"expected {LEAST_CASES} computed cases, found {executed}")
    if seconds >= MOST_SECONDS or quick_seconds >= MOST_QUICK_SECONDS:
        why.append(f"expected less than {MOST_SECONDS} s, and {MOST_QUICK_SECONDS} s for --quick; found {seconds:.0f} and "
                   f"{quick_seconds:.0f}")
    if coverage["covered"] != coverage["possible"]:
        why.append(f"expected all {coverage['possible']} pairs, found {coverage['covered']}")
    return {"seconds": seconds, "cases": cases, "executed": executed, "refused": refused, "failed": len(failures), "runs": runs,
            "cases_per_second": cases * len(runs) / seconds, "executed_per_second": executed / seconds,
            "quick_seconds": quick_seconds, "quick_cases": len(quick["cases"]), "pairs": coverage["possible"],
            "pairs_covered": coverage["covered"], "proven_pairs": report["proven_pairs"], "unproven": sorted(unproven),
            "unexpected": sorted(unexpected), "failures": failures[:40],
            "verdict": {"problem": "; ".join(why)}, "passed": not why}
