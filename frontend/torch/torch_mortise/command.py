# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `mortise` of an installed wheel: the program in bin/, with the plugins of other packages. Needs no PyTorch."""

import os
import pathlib
import sys

from . import packages


def main():
    program = pathlib.Path(__file__).with_name("bin") / "mortise"
    if not program.exists():
        sys.exit(f"mortise: expected the program {program}, found none; install the wheel again, or run the one in a build's bin/")
    if plugins := packages.installed_plugins():
        os.environ[packages.VARIABLE] = plugins
    os.execv(program, [str(program), *sys.argv[1:]])
