# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of other ages on today's host: golden binaries of every revision and synthetic older and newer ones; and today's `hello` on hosts
that present older revisions (abi_matrix.py). Each loads, downgrades or refuses as docs/abi.md says. Two controls have to fail: a host that
takes every plugin, and a golden whose bytes changed."""

MEASURES = "plugins and hosts of other ABI revisions: each loads, downgrades or refuses as documented: passed, failed"
NEEDS = "cpu"
MINUTES = 1


def measure(arguments: list[str]) -> dict:
    import tempfile
    from pathlib import Path

    import abi_matrix as matrix
    from measure import progress

    found = {}

    def add(name: str, section: str, action: str, problem: str) -> None:
        found[name] = {"section": section, "action": action, "passed": not problem} | ({"problem": problem} if problem else {})
        progress(f"{name}: {problem or action}")

    def inside(attempt) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return attempt(Path(folder))

    add("goldens are as recorded", "Growth", "unchanged", "; ".join(matrix.golden.problems()))
    for row in matrix.rows():
        add(row.name, row.section, row.action, inside(lambda folder, row=row: matrix.attempt(row, folder, matrix.program(row))[0]))
    for row in matrix.hosts():
        add(row.name, row.section, "refuses" if row.status else "loads", inside(lambda folder, row=row: matrix.attempt_host(row, folder)))
    for name, plant in matrix.PLANTS.items():
        add(f"control: {name}", "", "is seen", "" if inside(plant) else "it passed")
    passed = sum(row["passed"] for row in found.values())
    return {"rows": found, "passed": passed, "failed": len(found) - passed}
