# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""saboteur.py [--plugin-check] [--json FILE] [--seed N] [NAME...]: which faults of the saboteur (conformance/saboteur) are found.

By default by mortise-conformance, which runs each fault in the same steps until one finds it: a quick run of the level abi on each device,
one of the other levels on each, and then a full one of all levels on each. A step ends at its first failure. With --plugin-check by the
command `mortise plugin check`, on both devices at once. As many at a time as there are cores; what was missed is listed by group. That the
plugin without a fault is found is a false alarm."""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import measure

LIBRARY = measure.build_folder() / "lib" / "mortise" / "test-plugins" / "libsaboteur.so"
TABLE = measure.ROOT / "conformance" / "saboteur" / "faults.def"
ROW = re.compile(r'^X\(\w+, "([a-z0-9-]+)", (\w+), "(.*?)", "(.*?)"\)$', re.MULTILINE)
JOBS = max(os.cpu_count() or 2, 2)  # runs at a time; how long one takes does not matter
SECONDS = 300  # of `mortise plugin check` for one fault
OTHERS = "core,composite,quantised,training,models,dynamic,stress"
LEVELS = f"abi,{OTHERS}"
DEVICES = ("saboteur", "saboteur-queue")
EXTENTS = {  # of a step; abi is short, and finds what is wrong with queues and memory
    "abi": ["--quick", "--level", "abi", "--seconds", "0.1"],
    "quick": ["--quick", "--level", OTHERS, "--seconds", "0.1"],
    "full": ["--level", LEVELS, "--seconds", "0.4"],
}
STEPS = [(device, extent) for extent in EXTENTS for device in DEVICES]
STEP_SECONDS = 900
GOOD, USAGE, SHRUNKEN = 0, 2, 5  # exit statuses of the kit (conformance/kit/options.hpp)


def faults() -> dict[str, tuple[str, str, str]]:
    """By name: the group, what it does, and what it shows on."""
    rows = {name: rest for name, *rest in ROW.findall(TABLE.read_text())}
    listed = tomllib.loads(LIBRARY.with_suffix(".toml").read_text())["options"]["fault"]["values"]
    assert listed == ["none", *rows], "the manifest of the build lists other faults than faults.def; build it again"
    return rows


def environment(fault: str | None) -> dict[str, str]:
    """For a run of the saboteur with this fault, or of another plugin (None), which refuses variables that it does not know."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")}
    return kept | ({"MORTISE_SABOTEUR_FAULT": fault} if fault else {}) | {"MORTISE_KERNEL_CACHE": "off", "OMP_NUM_THREADS": "2"}


def plugin_check(fault: str, *options) -> tuple[str, str]:
    """By what `mortise plugin check` finds something wrong ("" when it does not), and its first line of it."""
    command = [measure.build_folder() / "bin" / "mortise", "plugin", "check", LIBRARY, *options]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, env=environment(fault), timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "plugin check", f"no answer in {SECONDS} s"
    wrong = [line for line in ran.stdout.splitlines() if line.startswith("BAD")]
    if ran.returncode and not wrong:
        wrong = [f"exit status {ran.returncode}: {ran.stderr.strip()[-200:]}"]
    return "plugin check" if ran.returncode else "", wrong[0] if wrong else ""


def kit(library: Path, *options, fault: str | None = None, seconds: float = STEP_SECONDS) -> tuple[int, list[str]]:
    """The exit status of mortise-conformance, and what it says, without the lines that repeat a case."""
    command = [measure.build_folder() / "bin" / "mortise-conformance", "--plugin", library, "--jobs", "1", *map(str, options)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment(fault), timeout=seconds)
    if ran.returncode in (USAGE, SHRUNKEN) or ran.returncode < 0:
        raise RuntimeError(f"mortise-conformance on {library.name} with {fault}: {ran.stdout}{ran.stderr}")
    said = [line for line in ran.stdout.splitlines() if not line.startswith("  repeat:")]
    return ran.returncode, said or [f"exit status {ran.returncode}: {ran.stderr.strip()[-200:]}"]


def conformance(fault: str, seed: int, steps=None, ops: str = "*") -> tuple[str, str]:
    """The first of the steps that finds something wrong ("" when none does), and the first line of it. `ops`: as --op has them. A step
    that does not end in its time has found nothing, because the kit has limits of its own for plugins that hang."""
    late = ""
    for device, extent in steps or STEPS:
        options = ["--op", ops, "--device", device, *EXTENTS[extent], "--seed", seed, "--stop"]
        try:
            status, said = kit(LIBRARY, *options, fault=fault)
        except subprocess.TimeoutExpired:
            late = f"{extent} on {device}: no answer in {STEP_SECONDS} s"
            continue
        if status != GOOD:
            return f"{extent} on {device}", said[0]
    return "", late


# Plugins without a fault: library, devices, and what is known of them.
SOUND = [("test-plugins/libsaboteur.so", DEVICES, None),
         ("test-plugins/libstrict.so", ("strict:0", "aloof"), "sdk/examples/strict/expectations.toml"),
         ("plugins/libmortise_reference.so", ("reference",), None),
         ("plugins/libmortise_cpu.so", ("cpu",), "plugins/cpu/expectations.toml")]


def false_alarms(seeds: list[int], extent: str = "quick") -> tuple[list[str], int]:
    """What the kit says against plugins in which nothing is wrong, and how many runs there were."""
    runs = []
    for name, devices, known in SOUND:
        expected = ["--expectations", measure.ROOT / known] if known and (measure.ROOT / known).exists() else []
        for device in devices:
            for seed in seeds:
                options = ["--device", device, "--level", LEVELS, "--seed", seed, "--seconds", 0.2, *expected]
                runs.append((measure.build_folder() / "lib" / "mortise" / name, options + (["--quick"] if extent == "quick" else [])))

    def alarm(run: tuple[Path, list]) -> list[str]:
        library, options = run
        status, said = kit(library, *options)
        print(f"{library.name} {' '.join(map(str, options[:6]))}: {said[-1]}", file=sys.stderr, flush=True)
        if status == GOOD:
            return []
        return [f"{library.name} on {options[1]}, seed {options[5]}: {line}" for line in said[:-1] or said]  # the last one sums up

    with ThreadPoolExecutor(JOBS) as pool:
        return [line for lines in pool.map(alarm, runs) for line in lines], len(runs)


def try_all(names: list[str], find) -> dict[str, dict]:
    """What `find` says of each fault: by which step it is found ("": it is missed), and in which words."""
    rows, answers = faults(), {}

    def timed(name: str) -> tuple[str, str, float]:
        begin = time.time()
        return *find(name), time.time() - begin

    with ThreadPoolExecutor(JOBS) as pool:
        for name, (step, line, seconds) in zip(names, pool.map(timed, names), strict=True):
            answers[name] = {"group": rows[name][0] if name in rows else "", "found": step, "words": line, "seconds": round(seconds, 1)}
            print(f"{step or 'missed':23} {name:28} {seconds:4.0f} s {line[:150]}", file=sys.stderr, flush=True)
    return answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plugin-check", action="store_true", help="by `mortise plugin check`")
    parser.add_argument("--json", type=Path, help="writes the answers to this file")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="of mortise-conformance; otherwise a new one")
    parser.add_argument("names", nargs="*", help="faults; all by default")
    asked = parser.parse_args()
    rows, begin = faults(), time.time()
    if unknown := [name for name in asked.names if name not in rows]:
        parser.error(f"expected names of {TABLE.relative_to(measure.ROOT)}, found {' '.join(unknown)}")
    find = plugin_check if asked.plugin_check else lambda name: conformance(name, asked.seed)
    answers = try_all(["none", *(asked.names or rows)], find)
    if asked.json:
        asked.json.write_text(json.dumps(answers, indent=1))
    alarm = bool(answers.pop("none")["found"])
    missed = [name for name, answer in answers.items() if not answer["found"]]
    for group in sorted({answer["group"] for answer in answers.values()}):
        of = [name for name, answer in answers.items() if answer["group"] == group]
        less = [name for name in of if name in missed]
        print(f"{group}: {len(of) - len(less)} of {len(of)} found; missed: {', '.join(less) or 'nothing'}")
    seed = "" if asked.plugin_check else f", seed {asked.seed}"
    print(f"{len(answers) - len(missed)} of {len(answers)} found, {int(alarm)} false alarms, {time.time() - begin:.0f} s{seed}")
    return int(alarm)


if __name__ == "__main__":
    sys.exit(main())
