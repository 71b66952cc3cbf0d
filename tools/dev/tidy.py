# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tidy.py BUILD FILE...: runs clang-tidy-22 on those of FILE that BUILD (or a plugin's build inside it) compiles.

A file that passed is checked again only when the file, a header that it includes (system headers aside), its options or the checks
change. BUILD/tidy holds an empty file for each state that passed.
"""

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# clang-tidy cannot read the compiler's precompiled headers; the sources include what they need.
PRECOMPILED = re.compile(r"(-Xclang -emit-pch|-Xclang -include-pch -Xclang \S+|-Xclang -include -Xclang \S+cmake_pch\S*"
                         r"|-include \S+cmake_pch\S*|-Xclang -fno-pch-timestamp|-Winvalid-pch)")

PROGRESS = 25  # files between two lines of progress
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


@functools.cache
def content(file: Path) -> tuple[bytes, list[str]]:
    """The hash of a file, and the names that it includes."""
    data = file.read_bytes()
    return hashlib.sha256(data).digest(), INCLUDE.findall(data.decode(errors="replace"))


def state(entry: dict, version: str) -> str:
    """A hash of everything that the findings in a file depend on."""
    folders = [Path(folder) for folder in re.findall(r"-I\s*(\S+)", entry["command"])]
    source = Path(entry["file"])
    pending, seen = [source, *(folder / ".clang-tidy" for folder in source.parents if (folder / ".clang-tidy").is_file())], set()
    result = hashlib.sha256((version + entry["command"]).encode())
    while pending:
        if (file := pending.pop()) in seen:
            continue
        seen.add(file)
        digest, names = content(file)
        result.update(str(file).encode() + digest)
        places = ((folder / name for folder in [file.parent, *folders] if (folder / name).is_file()) for name in names)
        pending += [Path(os.path.normpath(found)) for found in (next(place, None) for place in places) if found]
    return result.hexdigest()


def commands(build: Path) -> dict[str, dict]:
    found = {}
    for database in [build / "compile_commands.json", *build.glob("plugins/*/compile_commands.json")]:
        for entry in json.loads(database.read_text()):
            if entry["file"].startswith(str(ROOT)) and not entry["file"].startswith(str(build)):
                headers = re.findall(r"(\S+cmake_pch\.hxx)(?!\.pch)", entry["command"])
                entry["command"] = PRECOMPILED.sub("", entry["command"])
                for header in dict.fromkeys(headers[:1]):
                    entry["command"] += f" -include {header}"
                found[entry["file"]] = entry
    return found


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    known = commands(build)
    files = [name for name in (str(ROOT / argument) for argument in sys.argv[2:]) if name in known]
    version = subprocess.run(["clang-tidy-22", "--version"], capture_output=True, text=True, check=True).stdout
    passed = build / "tidy"
    passed.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "compile_commands.json").write_text(json.dumps([known[name] for name in files]))

        def tidy(name: str) -> bool:
            stamp = passed / state(known[name], version)
            if stamp.exists():
                return True
            run = subprocess.run(["clang-tidy-22", "--quiet", "-p", folder, name], capture_output=True, text=True, check=False)
            lines = [line for line in run.stdout.splitlines() if line.strip()]
            if run.returncode:
                print("\n".join(lines + ([] if lines else run.stderr.splitlines()[-20:])), flush=True)
            else:
                stamp.touch()
            return run.returncode == 0

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = []
            for good in pool.map(tidy, files):
                results.append(good)
                if len(results) % PROGRESS == 0:
                    print(f"clang-tidy: {len(results)} of {len(files)} files", file=sys.stderr, flush=True)
    print(f"clang-tidy: {len(files)} files, {results.count(False)} with findings", file=sys.stderr)
    return 0 if all(results) else 1


sys.exit(main())
