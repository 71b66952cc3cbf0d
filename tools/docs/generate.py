# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev docs: writes the pages that are made from code. --check: fails when one is stale, and writes nothing.

docs/ops.md: every op, from ir/families/*.td.
docs/aten.md: every ATen overload tagged core, from the importer's table.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLEGEN = "/usr/lib/llvm-22/bin/llvm-tblgen"
INCLUDES = ["-I", ROOT / "ir/include", "-I", "/usr/lib/llvm-22/include"]
HEAD = """# Ops

Generated from `ir/families/*.td` by `./dev docs`. A core op has a meaning of its own; a composite op stands for core ops that it
decomposes into, and a backend may take either. `since` is the operation set that introduced the op. `x?` is optional, `x*` any number.
Behind each operand and result stand the element types that it may have: float is f64, f32, f16, bf16, f8E4M3FN and f8E5M2; integer i64,
i32, i16, i8, i4 and ui8; number both; element those and i1. Which of several types go together the op says.
"""


def records(family: Path) -> dict:
    run = subprocess.run([TABLEGEN, "--dump-json", *INCLUDES, family], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# What a constraint's summary says at greater length than a reader needs.
PLAIN = ((r"tensor of known extents of | values$|variadic of ", ""), (r" attribute( that is)?\b", ""), (r"string one of", "one of"),
         (r"(\d+)-bit signless integer", r"i\1"), (r"(\d+)-bit unsigned integer", r"ui\1"), (r"64-bit float", "f64"),
         (r"i64 dense array", "i64s"), (r"constant vector/tensor", "literal"))


def slots(known: dict, arguments: dict, kinds: tuple[str, ...]) -> list[str]:
    """`name: what it may be`, for the arguments whose constraint is of one of these classes."""
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
    """What holds for all ops: the dialect's description."""
    known = records(ROOT / "ir/include/mortise/ir/dialect.td")
    paragraphs = known["Mortise_Dialect"]["description"].strip().split("\n\n")
    return "\n".join("\n" + " ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


def intro(family: Path) -> list[str]:
    """What holds for the family: the comment that heads its file. Indented lines are code."""
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
    """Paragraphs, and lists whose entries begin with a star."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        entries = re.split(r"\n\s*\* ", paragraph)
        paragraphs.append("\n* ".join(" ".join(entry.split()) for entry in entries).replace("\n", "\n\n", 1))
    return "\n\n".join(paragraphs)


def family_page(family: Path) -> list[str]:
    known = records(family)
    ops = [record for name, record in known.items() if isinstance(record, dict) and "Mortise_Op" in record.get("!superclasses", [])
           and record["!locs"][0].startswith(family.name)]
    lines = ["", f"## {family.stem.replace('_', ' ').capitalize()}", *intro(family), "",
             "| op | operands | attributes | results | since | what |", "|---|---|---|---|---|---|"]
    details = []
    for op in sorted(ops, key=lambda op: int(op["!locs"][0].split(":")[1])):
        tensors, named = ("Type", "TypeConstraint"), ("Attr",)
        columns = [f"`{op['opName']}`{' (composite)' if op['composite'] else ''}", "; ".join(slots(known, op["arguments"], tensors)),
                   "; ".join(slots(known, op["arguments"], named)), "; ".join(slots(known, op["results"], tensors)), str(op["since"]),
                   cell(op["summary"])]
        lines.append(f"| {' | '.join(columns)} |")
        if op["description"].strip():
            details += ["", f"**{op['opName']}**: {described(op['description'])}"]
    return lines + details


def ops_page() -> str:
    families = sorted((ROOT / "ir/families").glob("*.td"))
    return HEAD + dialect_rules() + "\n".join(line for family in families for line in family_page(family)) + "\n"


def aten_page() -> str:
    module = [sys.executable, "-W", "ignore", "-m", "torch_mortise.importer.coverage"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "frontend/torch")}
    return subprocess.run(module, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


PAGES = {"docs/ops.md": ops_page, "docs/aten.md": aten_page}


def main() -> int:
    stale = 0
    for name, make in PAGES.items():
        page, text = ROOT / name, make()
        if "--check" not in sys.argv:
            page.write_text(text)
            print(f"wrote {name}")
        elif not page.exists() or page.read_text() != text:
            print(f"{name} is stale: ./dev docs writes it anew")
            stale = 1
    return stale


sys.exit(main())
