# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tidy.py BUILD FILE...: clang-tidy-22 over those of FILE that BUILD (or a plugin's build inside it) compiles."""

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A precompiled header was made by the compiler, with other options than clang-tidy's: the sources include what they need.
PRECOMPILED = re.compile(r"(-Xclang -emit-pch|-Xclang -include-pch -Xclang \S+|-Xclang -include -Xclang \S+cmake_pch\S*"
                         r"|-include \S+cmake_pch\S*|-Xclang -fno-pch-timestamp|-Winvalid-pch)")


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
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "compile_commands.json").write_text(json.dumps([known[name] for name in files]))

        def tidy(name: str) -> bool:
            run = subprocess.run(["clang-tidy-22", "--quiet", "-p", folder, name], capture_output=True, text=True, check=False)
            lines = [line for line in run.stdout.splitlines() if line.strip()]
            if run.returncode:
                print("\n".join(lines + ([] if lines else run.stderr.splitlines()[-20:])), flush=True)
            return run.returncode == 0

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = list(pool.map(tidy, files))
    print(f"clang-tidy: {len(files)} files, {results.count(False)} with findings", file=sys.stderr)
    return 0 if all(results) else 1


sys.exit(main())
