# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The SDK's templates of plugins, as a compiler makes them without CMake."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def library_of(template: str, folder: Path) -> Path:
    """The library of sdk/template/TEMPLATE, which needs the SDK's headers alone, with its manifest beside it."""
    source = next((ROOT / "sdk" / "template" / template).glob("plugin.c*"))
    compiler = ["clang++-22", "-std=c++20"] if source.suffix == ".cpp" else ["clang-22"]
    shutil.copy(source.parent / "manifest.toml", folder / "libmortise_acme.toml")
    library = folder / "libmortise_acme.so"
    include = f"-I{ROOT / 'sdk' / 'include'}"
    subprocess.run([*compiler, "-shared", "-fPIC", "-O1", "-fvisibility=hidden", include, source, "-o", library, "-pthread"], check=True)
    return library
