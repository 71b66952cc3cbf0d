# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libraries.py BUILD [--shared-llvm] PLUGIN...: checks what the shared libraries of a build link and export.

A plugin (BUILD/lib/mortise/plugins) links no library of ours, exports one function and has a manifest beside it; each PLUGIN must exist.
libmortise.so and libmortise-runtime.so export the C API, and the Python extension exports its module's entry point. LLVM is hidden inside
all of them; --shared-llvm allows libLLVM and libMLIR, which development builds link, but not in libmortise-runtime.so, which has no
compiler."""

import re
import subprocess
import sys
from pathlib import Path


def needed(library: Path) -> list[str]:
    lines = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def exported(library: Path) -> list[str]:
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1].split("@")[0] for line in lines.splitlines() if line]


def breaches(library: Path, exports: str, shared_llvm: bool, plugin: bool):
    """`exports`: a pattern that every exported name must match; a plugin must export exactly one name."""
    for name in needed(library):
        if plugin and name.startswith("libmortise"):
            yield f"{library.name}: links {name}; a plugin links nothing of ours"
        if name.startswith(("libLLVM", "libMLIR")) and not shared_llvm:
            yield f"{library.name}: links {name}; outside dev builds LLVM is inside and hidden"
    found = exported(library)
    if plugin and found != [exports]:
        yield f"{library.name}: expected the one export {exports}, found {len(found)}: {', '.join(found[:5])}"
    if others := [name for name in found if not re.fullmatch(exports, name)]:
        yield f"{library.name}: expected exports {exports} alone, found {len(others)} others: {', '.join(others[:5])}"
    if not found:
        yield f"{library.name}: exports nothing, expected {exports}"
    if plugin and not library.with_suffix(".toml").exists():
        yield f"{library.name}: no manifest {library.with_suffix('.toml').name} beside it"


def main() -> int:
    build, *names = sys.argv[1:]
    shared_llvm = "--shared-llvm" in names
    folder, runtime = Path(build, "lib", "mortise", "plugins"), Path(build, "lib", "libmortise-runtime.so")
    host = {Path(build, "lib", "libmortise.so"): r"mortise_\w+", runtime: r"mortise_\w+"}
    host |= {module: r"PyInit_\w+" for module in Path(build, "python", "torch_mortise").glob("*.so")}
    plugins = sorted(folder.glob("*.so"))
    found = [breach for library in plugins for breach in breaches(library, "mortise_plugin", shared_llvm, True)]
    for library, exports in host.items():
        allowed = shared_llvm and library != runtime
        found += breaches(library, exports, allowed, False) if library.exists() else [f"{library}: expected, not found"]
    for name in names:
        if not name.startswith("--") and folder / f"libmortise_{name}.so" not in plugins:
            found.append(f"libmortise_{name}.so: expected in {folder}, not found")
    print(*found, sep="\n")
    print(f"libraries: {len(plugins) + len(host)} looked at, {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
