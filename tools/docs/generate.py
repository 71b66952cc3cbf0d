# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev docs: writes the pages that are made from code. --check: fails when one is stale, and writes nothing.

docs/ops.md: every op, from ir/families/*.td.
docs/aten.md: every ATen overload tagged core, from the importer's table.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLEGEN = "/usr/lib/llvm-22/bin/llvm-tblgen"
INCLUDES = ["-I", ROOT / "ir/include", "-I", "/usr/lib/llvm-22/include"]
HEAD = """# Ops

Generated from `ir/families/*.td` by `./dev docs`. A core op has a meaning of its own; a composite op stands for core ops that it
decomposes into, and a backend may take either. `since` is the operation set that introduced the op. `x?` is optional, `x*` any number.
"""


def records(family: Path) -> dict:
    run = subprocess.run([TABLEGEN, "--dump-json", *INCLUDES, family], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def attributes(known: dict, op: dict) -> list[str]:
    """`name: what it may be`, from the attribute constraints' summaries."""
    named = []
    for argument, name in op["arguments"]["args"]:
        constraint = known.get(argument["def"], {})
        if "Attr" in constraint.get("!superclasses", []):
            named.append(f"`{name}`: {cell(constraint.get('summary') or 'attribute')}")
    return named


def dialect_rules() -> str:
    """What holds for all ops: the dialect's description."""
    known = records(ROOT / "ir/include/mortise/ir/Dialect.td")
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


def family_page(family: Path) -> list[str]:
    known = records(family)
    ops = [record for name, record in known.items() if isinstance(record, dict) and "Mortise_Op" in record.get("!superclasses", [])
           and record["!locs"][0].startswith(family.name)]
    lines = ["", f"## {family.stem}", *intro(family), "", "| op | operands | attributes | since | what |", "|---|---|---|---|---|"]
    details = []
    for op in sorted(ops, key=lambda op: int(op["!locs"][0].split(":")[1])):
        slots = ", ".join(f"`{slot}`" for slot in op["operandSlots"].split(",") if slot)
        kind = " (composite)" if op["composite"] else ""
        lines.append(f"| `{op['opName']}`{kind} | {slots} | {'; '.join(attributes(known, op))} | {op['since']} | {cell(op['summary'])} |")
        if op["description"].strip():
            details += ["", f"**{op['opName']}**: {' '.join(op['description'].split())}"]
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
