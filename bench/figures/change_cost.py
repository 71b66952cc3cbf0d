# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many files are edited by hand to add an elementwise op, and to add a dtype, counted from the two commits that docs/add-an-op.md
follows. Fails above the limits."""

import subprocess
import sys

from figures import ArgumentError

MEASURES = "files touched by hand in the commits that added an elementwise op and a dtype"
NEEDS = "cpu, git"
MINUTES = 1

# The beginning of each commit's subject (a rebase changes hashes, not subjects), what it added, and how many files it may change by hand.
# docs/add-an-op.md explains both.
COMMITS = {"op": ("copysign: the sign bit of another", "copysign", 5), "dtype": ("ui16: unsigned integers of 16 bits", "ui16", 8)}


def git(*arguments: str) -> str:
    from measure import ROOT

    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout


def commit_of(subject: str) -> str:
    found = git("log", "--format=%h", f"--grep=^{subject}").split()
    if len(found) != 1:
        raise ValueError(f"expected one commit whose subject begins with '{subject}', found {len(found)}; fetch the whole history")
    return found[0]


def touched(commit: str, generated: set[str]) -> list[str]:
    """The files of a commit that were edited by hand."""
    names = git("show", "--format=", "--name-only", "--no-renames", commit).splitlines()
    return sorted(name for name in names if name and name not in generated)


def measure(arguments: list[str]) -> dict:
    from measure import ROOT

    if arguments:
        raise ArgumentError(f"expected no arguments, found {' '.join(arguments)}")
    listed = subprocess.run([sys.executable, ROOT / "tools" / "generate", "--list"], check=True, capture_output=True, text=True)
    generated = set(listed.stdout.split())
    result = {}
    for kind, (subject, name, limit) in COMMITS.items():
        commit = commit_of(subject)
        files = touched(commit, generated)
        if not files:
            raise ValueError(f"expected files in the commit {commit}, found none")
        result |= {kind: len(files), f"{kind}_added": name, f"{kind}_commit": commit, f"{kind}_files": files}
        result["passed"] = result.get("passed", True) and len(files) <= limit
    return result
