# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A vendor: an empty folder with the SDK's tarball, and an environment without any setting."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def tarball(folder: Path) -> Path:
    """The SDK of this build, as `./dev sdk` packs it."""
    root = Path(__file__).resolve().parent.parent
    subprocess.run([root / "dev", "sdk", folder / "mortise-sdk"], check=True, stdout=subprocess.DEVNULL)
    return folder / "mortise-sdk.tar.gz"


def lines_of(source) -> int:
    """Lines of code of a C or C++ file: neither blank nor all comment."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), source.read_text(), flags=re.DOTALL)
    return sum(1 for line in text.splitlines() if line.split("//")[0].strip())


class Vendor:
    """A folder with nothing but the tarball, and an environment without any setting."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"PATH": f"{folder / 'mortise-sdk' / 'bin'}:/usr/bin:/bin", "HOME": str(folder)}

    def run(self, *command, status=0) -> str:
        ran = subprocess.run([str(word) for word in command], cwd=self.folder, env=self.environment, text=True, timeout=600, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode != status:
            what = " ".join(map(str, command))
            raise RuntimeError(f"{what}: expected exit status {status}, found {ran.returncode}: {ran.stdout[-2000:]}")
        return ran.stdout

    def build(self, name: str) -> None:
        self.run("cmake", "-S", name, "-B", f"{name}/build")
        self.run("cmake", "--build", f"{name}/build")

    def plugins(self, name: str):
        return self.folder / name / "build" / "lib" / "mortise" / "plugins"

    def check(self, name: str, *options, status: int = 0) -> str:
        return self.run("mortise", "plugin", "check", self.plugins(name) / f"libmortise_{name}.so", *options, status=status)
