#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps a plugin binary of every ABI revision in golden/revision-N/, as its vendors shipped it.

golden.py                check: each revision has its files, and they are the ones recorded in golden/golden.json
golden.py --make [--cc]  makes those of plugin.h's newest revision, from examples/hello; refuses where there are some already
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SDK = HERE.parent
FLAGS = ["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-s", "-Wl,-z,now", "-Wl,--build-id=sha1", "-Wl,--no-undefined"]
LIBRARY, MANIFEST = "libmortise_hello.so", "libmortise_hello.toml"
SOURCE = "plugin.c.txt"  # no name that a formatter would rewrite


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def revisions(header: Path) -> tuple[int, int]:
    text = header.read_text()
    return tuple(int(re.search(rf"#define MORTISE_ABI_{name} (\d+)", text)[1]) for name in ("OLDEST", "REVISION"))


def compile_plugin(source: Path, library: Path, compiler: str, include: Path = SDK / "include") -> None:
    """Without debug information a binary does not depend on the folder."""
    subprocess.run([compiler, *FLAGS, f"-I{include}", "-o", library, source.name], cwd=source.parent, check=True)


def recorded(folder: Path) -> dict:
    return json.loads((folder / "golden.json").read_text())


def problems(folder: Path = HERE / "golden", header: Path = SDK / "include/mortise/plugin.h"):
    """What is wrong, as lines."""
    oldest, newest = revisions(header)
    known = recorded(folder)
    for revision in range(oldest, newest + 1):
        if str(revision) not in known:
            yield f"expected a golden binary of revision {revision}, found none; run golden.py --make"
    for revision, record in known.items():
        for name, expected in record["sha256"].items():
            path = folder / f"revision-{revision}" / name
            found = digest(path) if path.exists() else "no file"
            if found != expected:
                yield f"{path.name} of revision {revision}: expected SHA-256 {expected}, found {found}; goldens are never rewritten"
    for revision in range(oldest, newest):
        older, newer = ((folder.parent / f"revision-{n}.txt").read_text().splitlines() for n in (revision, revision + 1))
        for line in older:
            if line.startswith("  ") and "FORCE_INT32" not in line and line not in newer:
                yield f"revision {revision + 1}: expected the layout of revision {revision} to stay, found no line '{line.strip()}'"


def make(compiler: str) -> None:
    revision = revisions(SDK / "include/mortise/plugin.h")[1]
    folder, source = HERE / "golden" / f"revision-{revision}", SDK / "examples" / "hello"
    if folder.exists():
        raise SystemExit(f"golden: expected no golden of revision {revision} yet, found {folder}; goldens are never rewritten")
    folder.mkdir(parents=True)
    compile_plugin(source / "plugin.c", folder / LIBRARY, compiler)
    (folder / MANIFEST).write_bytes((source / "manifest.toml").read_bytes())
    (folder / SOURCE).write_bytes((source / "plugin.c").read_bytes())
    known = recorded(HERE / "golden") if (HERE / "golden" / "golden.json").exists() else {}
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    known[str(revision)] = {"compiler": version, "flags": " ".join(FLAGS), "header_sha256": digest(SDK / "include/mortise/plugin.h"),
                            "sha256": {name: digest(folder / name) for name in (LIBRARY, MANIFEST, SOURCE)}}
    (HERE / "golden" / "golden.json").write_text(json.dumps(known, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--cc", default="clang-22")
    options = parser.parse_args()
    if options.make:
        make(options.cc)
    found = list(problems())
    print(*found, f"golden: {len(recorded(HERE / 'golden'))} revisions, {len(found)} problems", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
