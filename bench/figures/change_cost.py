# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many files a hand touches to add an elementwise op, and to add a dtype: counted from the two commits that
docs/add-an-op.md follows. Fails above the limits."""

import subprocess
import sys

MEASURES = "files touched by hand in the commits that added an elementwise op and a dtype"
NEEDS = "cpu, git"
MINUTES = 1

# What each commit added, and how many files it may touch. docs/add-an-op.md walks through both.
COMMITS = {"op": ("2bbd04b", "copysign", 5), "dtype": ("980ea1e", "ui16", 8)}


def touched(commit: str, generated: set[str]) -> list[str]:
    """Files of a commit that a hand wrote."""
    from measure import ROOT

    run = subprocess.run(["git", "-C", ROOT, "show", "--format=", "--name-only", "--no-renames", commit], check=False,
                         capture_output=True, text=True)
    if run.returncode:
        raise ValueError(f"expected the commit {commit} in this clone, found: {run.stderr.strip()}; fetch the whole history")
    return sorted(name for name in run.stdout.splitlines() if name and name not in generated)


def measure(arguments: list[str]) -> dict:
    from measure import ROOT

    if arguments:
        raise ValueError(f"expected no arguments, found {' '.join(arguments)}")
    listed = subprocess.run([sys.executable, ROOT / "tools" / "generate", "--list"], check=True, capture_output=True, text=True)
    generated = set(listed.stdout.split())
    result = {}
    for kind, (commit, name, limit) in COMMITS.items():
        files = touched(commit, generated)
        if not files:
            raise ValueError(f"expected files in the commit {commit}, found none")
        result |= {kind: len(files), f"{kind}_added": name, f"{kind}_commit": commit, f"{kind}_files": files}
        if len(files) > limit:
            raise ValueError(f"expected at most {limit} files by hand for {kind} ({name}), found {len(files)}: {', '.join(files)}")
    return result
