# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of `mortise-conformance` for figures: its report, and its exit statuses (conformance/kit/options.hpp)."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from fnmatch import fnmatch
from pathlib import Path

import measure

GOOD, FAILED, UNUSABLE = 0, 1, 3
ALL = {GOOD, FAILED, 4, 5, 6, 7}  # of runs that have a report

KIT = measure.build_folder() / "bin" / "mortise-conformance"
PLUGINS = measure.build_folder() / "lib" / "mortise" / "plugins"
CPU = PLUGINS / "libmortise_cpu.so"
CPU_EXPECTATIONS = measure.ROOT / "plugins" / "cpu" / "expectations.toml"


def run(
    plugin: Path, *arguments, kit: Path = KIT, folder: Path | None = None, environment: dict | None = None, statuses=ALL, jobs: int = 2
) -> dict:
    """Judges a plugin with so many workers, and returns the report."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(folder or scratch) / "out"
        command = [kit, "--plugin", plugin, "--report", out, "--jobs", jobs, *arguments]
        ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder or scratch, env=environment)
        if ran.returncode not in statuses:
            raise RuntimeError(f"{' '.join(map(str, command))}: exit status {ran.returncode}: {(ran.stdout + ran.stderr)[-2000:]}")
        return json.loads((out / "report.json").read_text())


def executed(report: dict) -> int:
    """How many cases the plugin computed."""
    return sum(count for outcome, count in report["totals"].items() if outcome != "refused")


def failures(report: dict) -> list[str]:
    return [f"{line['case']}: {line.get('why', line['outcome'])}" for line in report["cases"]
            if line["outcome"] not in ("passed", "refused") and not line.get("expected")]


def bound_tables() -> tuple[dict, dict]:
    """{pattern of op/dtype: reason}, of ratios and of eager's results, from docs/conformance/error-bounds.md."""
    text = (measure.ROOT / "docs" / "conformance" / "error-bounds.md").read_text()
    found = []
    for name in ("loose", "eager"):
        part = text.partition(f"<!-- {name} -->")[2].partition("<!-- end -->")[0]
        rows = re.findall(r"^\| (`.*?`) \| (.+?) \|$", part, re.MULTILINE)
        found.append({pattern.strip("`"): why for patterns, why in rows for pattern in patterns.split(", ")})
    return found[0], found[1]


def explained(table: dict, name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in table)
