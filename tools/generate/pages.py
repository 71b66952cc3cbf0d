# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pages that are generated from other files.

README.md: the table of figures, from bench/results/; all other text is written by hand.
docs/ops.md: every op, from ir/families/*.td.
docs/aten.md: every ATen overload tagged core, recorded from what the importer of a build emits (about 6 s).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from dialect import FAMILIES, ROOT, dtypes, op_records, records

HEAD = """# Ops

Generated from `ir/families/*.td` by `./dev docs`. A core op has a meaning of its own; a composite op stands for core ops that it
decomposes into, and a backend may take either. `since` is the operation set that introduced the op. `x?` is optional, `x*` any number.
Behind each operand and result stand the element types that it may have: float is {floats}; integer {integers};
number both; element those and i1. Which of several types go together the op says.
"""


def listed(*kinds: str) -> str:
    names = [row["name"] for row in dtypes() if row["kind"] in kinds]
    return ", ".join(names[:-1]) + " and " + names[-1]


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# Shortens the summaries of constraints for readers.
PLAIN = ((r"tensor of known extents of | values$|variadic of ", ""), (r" attribute( that is)?\b", ""), (r"string one of", "one of"),
         (r"(\d+)-bit signless integer", r"i\1"), (r"(\d+)-bit unsigned integer", r"ui\1"), (r"64-bit float", "f64"),
         (r"i64 dense array", "i64s"), (r"constant vector/tensor", "literal"))


def slots(known: dict, arguments: dict, kinds: tuple[str, ...]) -> list[str]:
    """`name: permitted types or values`, for the arguments whose constraint has one of these classes."""
    named = []
    for argument, name in arguments["args"]:
        constraint = known[argument["def"]]
        classes = constraint["!superclasses"]
        if any(kind in classes for kind in kinds):
            what = constraint["summary"]
            for lengthy, plain in PLAIN:
                what = re.sub(lengthy, plain, what)
            mark = "?" if "Optional" in classes else "*" if "Variadic" in classes else ""
            named.append(f"`{name}{mark}`: {cell(what)}")
    return named


def dialect_rules() -> str:
    """The rules for all ops: the dialect's description."""
    known = records(ROOT / "ir/include/mortise/ir/dialect.td")
    paragraphs = known["Mortise_Dialect"]["description"].strip().split("\n\n")
    return "\n".join("\n" + " ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


def intro(family: Path) -> list[str]:
    """The rules for a family: the comment at the head of its file. Indented lines are code."""
    lines = []
    for line in family.read_text().splitlines()[1:]:
        if not line.startswith("//"):
            break
        text = line[2:].removeprefix(" ")
        if text.startswith("    "):
            lines += [] if lines and lines[-1].startswith("    ") else [""]
            lines.append(text)
        elif lines and not lines[-1]:
            lines += [text] if text else []
        elif not text or not lines or lines[-1].startswith("    "):
            lines += ["", text] if text else [""]
        else:
            lines[-1] += " " + text
    return lines


def described(text: str) -> str:
    """The text as Markdown: paragraphs, and lists whose entries begin with a star."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        entries = re.split(r"\n\s*\* ", paragraph)
        paragraphs.append("\n* ".join(" ".join(entry.split()) for entry in entries).replace("\n", "\n\n", 1))
    return "\n\n".join(paragraphs)


def family_page(family: Path) -> list[str]:
    known = records(family)
    lines = ["", f"## {family.stem.replace('_', ' ').capitalize()}", *intro(family)]
    lines += ["", "| op | operands | attributes | results | since | what |", "|---|---|---|---|---|---|"] if op_records(family) else []
    details = []
    for op in op_records(family):
        tensors, named = ("Type", "TypeConstraint"), ("Attr",)
        columns = [f"`{op['opName']}`{' (composite)' if op['composite'] else ''}", "; ".join(slots(known, op["arguments"], tensors)),
                   "; ".join(slots(known, op["arguments"], named)), "; ".join(slots(known, op["results"], tensors)), str(op["since"]),
                   cell(op["summary"])]
        lines.append(f"| {' | '.join(columns)} |")
        if op["description"].strip():
            details += ["", f"**{op['opName']}**: {described(op['description'])}"]
    return lines + details


def ops_page() -> str:
    head = HEAD.format(floats=listed("FLOAT"), integers=listed("SIGNED", "UNSIGNED"))
    return head + dialect_rules() + "\n".join(line for family in FAMILIES for line in family_page(family)) + "\n"


def aten_page() -> str:
    packages = [ROOT / "build" / preset / "python" for preset in ("dev", "release")]
    extensions = {p / "torch_mortise/_native.abi3.so": p for p in packages}
    times = {extension.stat().st_mtime: package for extension, package in extensions.items() if extension.exists()}
    if not times:
        sys.exit("docs/aten.md: expected a build of torch_mortise under build/dev or build/release, found none; run ./dev build")
    built = times[max(times)]  # an older one may not be of these sources
    module = [sys.executable, "-W", "ignore", "-m", "opinfo.coverage"]
    environment = {**os.environ, "PYTHONPATH": f"{built}{os.pathsep}{ROOT / 'frontend/torch/test'}"}
    return subprocess.run(module, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout



def readme() -> str:
    """README.md with the table of the runs that are kept in bench/results/."""
    sys.path.insert(0, str(ROOT / "bench"))
    import kept

    return kept.with_table((ROOT / "README.md").read_text(), ROOT)
