# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every constraint has one label: it stands in the op's description, in the verifier and in a test that breaks it."""
import pathlib
import re
import sys

IR = pathlib.Path(__file__).parent.parent
LABEL = re.compile(r"\b[a-z0-9_]+_c\d+\b")


def labels(paths, pattern=LABEL):
    return {found for path in paths for found in pattern.findall(path.read_text())}


described = labels((IR / "families").glob("*.td"), re.compile(r"(?<!at\(\")\b([a-z0-9_]+_c\d+)\b"))
verified = labels([*(IR / "families").glob("*.cpp"), *(IR / "families").glob("*.td"), *(IR / "lib").glob("*.cpp")],
                  re.compile(r"at\(\"([a-z0-9_]+_c\d+)\"\)"))
tested = labels((IR / "test").glob("*/*.mlir"), re.compile(r"expected-error.*\(([a-z0-9_]+_c\d+)\)"))
failures = [f"{what}: {', '.join(sorted(missing))}" for what, missing in (
    ("described, but no verifier reports it", described - verified),
    ("reported, but no description has it", verified - described),
    ("reported, but no test breaks it", verified - tested)) if missing]
print("\n".join(failures) or f"{len(verified)} constraints")
sys.exit(bool(failures))
