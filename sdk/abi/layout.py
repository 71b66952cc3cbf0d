#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps the ABI stable: compares plugin.h with the committed dump of its layout, revision-N.txt.

layout.py [--cc CC]            check: the dump is what a C compiler says today, and its hash stands in plugin.h
layout.py [--cc CC] --update   write both, after a change to a revision that nobody has released yet

A later revision gets a file of its own. Every line of an earlier file must still hold, except for the sizes of structs that have grown.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent / "include/mortise/plugin.h"
INSTALLED = HERE / "../../../../include/mortise/plugin.h"  # from share/mortise/sdk/abi


def declarations(text: str):
    """The structs as (name, [(member, type)]) and the enums as (name, [enumerator]), in the header's order."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.S | re.M)
    for match in re.finditer(r"(?:typedef\s+)?(struct|enum)\s+(\w+)\s*\{(.*?)\}\s*\w*\s*;", text, flags=re.S):
        kind, name, body = match.groups()
        if kind == "enum":
            yield kind, name, [part.split("=")[0].strip() for part in body.split(",") if part.strip()]
            continue
        members = []
        for declaration in filter(None, (" ".join(part.split()) for part in body.split(";"))):
            pointer = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", declaration)
            if pointer:
                members.append((pointer[2], f"{pointer[1].strip()} (*){pointer[3]}"))
                continue
            first, *others = declaration.split(",")
            base, member, extent = re.match(r"(.*?)(\w+)(\[\d+\])?$", first).groups()
            members += [(member, base.strip() + (extent or ""))] + [(other.strip(), base.strip()) for other in others]
        yield kind, name, members


def dump(header: Path, compiler: str) -> str:
    """The compiler's description of each declaration, one line each."""
    lines = []
    for kind, name, members in declarations(header.read_text()):
        if kind == "enum":
            lines.append(f'printf("enum {name} size %zu\\n", sizeof({name}));')
            lines += [f'printf("  {member} = %lld\\n", (long long){member});' for member in members]
        else:
            lines.append(f'printf("struct {name} size %zu align %zu\\n", sizeof(struct {name}), _Alignof(struct {name}));')
            lines += [f'printf("  {name}.{member} at %zu size %zu: %s\\n", offsetof(struct {name}, {member}), '
                      f'sizeof(((struct {name} *)0)->{member}), "{type}");' for member, type in members]
    source = f'#include "{header}"\n#include <stdio.h>\nint main(void) {{\n' + "\n".join(lines) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "layout"
        (Path(folder) / "layout.c").write_text(source)
        subprocess.run([compiler, "-std=c11", "-o", program, f"{program}.c"], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def differences(revision: int, current: int, committed: str, found: str):
    """Differences as lines. The current revision must be equal; all lines of an older revision must still be there, except for sizes."""
    then, now = committed.splitlines(), found.splitlines()
    if revision == current:
        yield from (f"- {line}" for line in then if line not in now)
        yield from (f"+ {line}" for line in now if line not in then)
        if sorted(then) == sorted(now) and then != now:
            yield "the order of declarations differs"
    else:
        kept = set(now)
        yield from (f"- {line}" for line in then if line.startswith("  ") and "FORCE_INT32" not in line and line not in kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="cc", help="a C11 compiler for the target")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    header = HEADER if HEADER.exists() else INSTALLED
    text = header.read_text()
    oldest, current = (int(re.search(rf"#define MORTISE_ABI_{name} (\d+)", text)[1]) for name in ("OLDEST", "REVISION"))
    found = dump(header, options.cc)
    stated = re.compile(rf"(#define MORTISE_ABI_LAYOUT_HASH_{current} UINT64_C\()(\w+)\)")
    if options.update:
        (HERE / f"revision-{current}.txt").write_text(found)
        text = stated.sub(lambda match: f"{match[1]}0x{fnv1a(found):016x})", text)
        header.write_text(text)
    failed = False
    for revision in range(oldest, current + 1):
        committed = (HERE / f"revision-{revision}.txt").read_text()
        changes = list(differences(revision, current, committed, found))
        want = int(re.search(rf"MORTISE_ABI_LAYOUT_HASH_{revision} UINT64_C\((\w+)\)", text)[1], 0)
        if changes:
            print(f"layout: plugin.h differs from revision-{revision}.txt:", *changes, sep="\n")
        if want != fnv1a(committed):
            print(f"layout: expected MORTISE_ABI_LAYOUT_HASH_{revision} 0x{fnv1a(committed):016x} in plugin.h, found 0x{want:016x}")
        failed |= bool(changes) or want != fnv1a(committed)
    if failed:
        print("layout: an unreleased revision may still change (layout.py --update); a released one only grows, in a new revision")
        return 1
    print(f"layout: revision {current} holds, {len(found.splitlines())} facts, hash 0x{fnv1a(found):016x}")
    return 0


sys.exit(main())
