# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""saboteur.py [--json FILE] [NAME...]: which faults of the saboteur (conformance/saboteur) the command `mortise plugin check` finds.
Checks both devices of the plugin with each fault, and without one, two at a time, and lists what was missed by group. A fault is found
when the command says so, crashes included; that the plugin without a fault is found is a false alarm."""

import argparse
import json
import os
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
SECONDS = 300  # for one fault


def faults() -> dict[str, tuple[str, str, str]]:
    """By name: the group, what it does, and what it shows on."""
    rows = {name: rest for name, *rest in ROW.findall(TABLE.read_text())}
    listed = tomllib.loads(LIBRARY.with_suffix(".toml").read_text())["options"]["fault"]["values"]
    assert listed == ["none", *rows], "the manifest of the build lists other faults than faults.def; build it again"
    return rows


def check(fault: str, *options) -> tuple[bool, str]:
    """Whether `mortise plugin check` finds something wrong, and its first line of it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")}
    environment |= {"MORTISE_SABOTEUR_FAULT": fault, "MORTISE_KERNEL_CACHE": "off", "OMP_NUM_THREADS": "2"}
    command = [measure.build_folder() / "bin" / "mortise", "plugin", "check", LIBRARY, *options]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True, f"no answer in {SECONDS} s"
    wrong = [line for line in ran.stdout.splitlines() if line.startswith("BAD")]
    if ran.returncode and not wrong:
        wrong = [f"exit status {ran.returncode}: {ran.stderr.strip()[-200:]}"]
    return ran.returncode != 0, wrong[0] if wrong else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="writes the answers to this file")
    parser.add_argument("names", nargs="*", help="faults; all by default")
    asked = parser.parse_args()
    rows, answers, begin = faults(), {}, time.time()
    if unknown := [name for name in asked.names if name not in rows]:
        parser.error(f"expected names of {TABLE.relative_to(measure.ROOT)}, found {' '.join(unknown)}")
    names = ["none", *(asked.names or rows)]
    with ThreadPoolExecutor(2) as pool:
        for name, (found, line) in zip(names, pool.map(check, names), strict=True):
            answers[name] = {"group": rows[name][0] if name in rows else "", "found": found, "words": line}
            print(f"{'found ' if found else 'missed'} {name:28} {line[:150]}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(answers, indent=1))
    alarm = answers.pop("none")["found"]
    missed = [name for name, answer in answers.items() if not answer["found"]]
    for group in sorted({answer["group"] for answer in answers.values()}):
        of = [name for name, answer in answers.items() if answer["group"] == group]
        less = [name for name in of if name in missed]
        print(f"{group}: {len(of) - len(less)} of {len(of)} found; missed: {', '.join(less) or 'nothing'}")
    print(f"{len(answers) - len(missed)} of {len(answers)} found, {int(alarm)} false alarms, {time.time() - begin:.0f} s")
    return int(alarm)


if __name__ == "__main__":
    sys.exit(main())
