# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each call of each slot of the strict plugin fails once, in calls that wait for their end and in queued calls, over five combinations of
devices, with "out of memory" and "device lost" by turns, under the address and undefined-behaviour sanitizers.

A fault has passed when the error names the plugin and the call that failed, nothing is left behind, and no work was left unordered. A
failure of a slot that ends something, or that only asks, may be survived without an error. A crash, or a report of a sanitizer, ends the
process; all faults of its part count as failed. Arguments: graphs."""

MEASURES = "calls into a device that fail, one by one: errors that name it, without a crash, a leak or a hang"
NEEDS = "cpu; builds a part of the preset asan"
MINUTES = 20
PLACES = 5  # everyPlace, tests/devices/sweeps.hpp


def measure(arguments: list[str]) -> dict:
    import subprocess

    from measure import ROOT, make, progress
    from strict import SANITIZED, in_parts

    graphs, build = int(arguments[0]) if arguments else 3, ROOT / "build" / "asan"
    progress("building strict_sweeps with sanitizers")
    if not (build / "build.ninja").exists():
        subprocess.run(["cmake", "--fresh", "--preset", "asan"], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    program = make("strict_sweeps", build)
    passed, by_slot, missed = 0, {}, []
    parts = [("faults", graph, 1, place) for graph in range(graphs) for place in range(PLACES)]
    for row, why in in_parts(program, parts, env=SANITIZED):
        if row is None:
            missed.append(why)
            continue
        passed += row["planted"] - len(row["missed"])
        missed += row["missed"]
        for slot, number in row["by_slot"].items():
            by_slot[slot] = by_slot.get(slot, 0) + number
        progress(f"{passed} passed, {len(missed)} failed")
    missed += [f"{slot} was never called" for slot in ("kernel_save", "kernel_load") if not by_slot.get(slot)]
    return {"passed": passed, "failed": len(missed), "failures": missed[:40], "by_slot": by_slot, "graphs": graphs}
