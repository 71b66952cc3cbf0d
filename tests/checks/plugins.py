# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""plugins.py FOLDER [--shared-llvm] NAME...: the plugins in FOLDER link nothing of ours and export one function.

Each NAME must be there. --shared-llvm allows libLLVM and libMLIR, as development builds have them.
"""

import subprocess
import sys
from pathlib import Path


def needed(library: Path) -> list[str]:
    lines = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def exported(library: Path) -> list[str]:
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1].split("@")[0] for line in lines.splitlines() if line]


def breaches(library: Path, shared_llvm: bool):
    for name in needed(library):
        if name.startswith("libmortise"):
            yield f"{library.name}: links {name}; a plugin links nothing of ours"
        if name.startswith(("libLLVM", "libMLIR")) and not shared_llvm:
            yield f"{library.name}: links {name}; outside dev builds LLVM is inside and hidden"
    if exported(library) != ["mortise_plugin"]:
        found = exported(library)
        yield f"{library.name}: expected the one export mortise_plugin, found {len(found)}: {', '.join(found[:5])}"
    if not library.with_suffix(".toml").exists():
        yield f"{library.name}: no manifest {library.with_suffix('.toml').name} beside it"


def main() -> int:
    folder, *names = sys.argv[1:]
    shared_llvm = "--shared-llvm" in names
    libraries = sorted(Path(folder).glob("*.so"))
    found = [breach for library in libraries for breach in breaches(library, shared_llvm)]
    for name in names:
        if not name.startswith("--") and Path(folder, f"libmortise_{name}.so") not in libraries:
            found.append(f"libmortise_{name}.so: expected in {folder}, not found")
    print(*found, sep="\n")
    print(f"plugins: {len(libraries)} looked at, {len(found)} breaches")
    return 1 if found else 0


sys.exit(main())
