#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""register.py FOLDER: puts FOLDER (a build's python/, or an installed lib/python) on the path of the Python that runs it and registers the
backend "mortise", through a .pth file and a dist-info in site-packages. `register.py --remove` undoes it."""

import pathlib
import sys
import sysconfig

VERSION = "0.1.0"


def main():
    site = pathlib.Path(sysconfig.get_path("purelib"))
    path_file = site / "torch_mortise.pth"
    info = site / f"torch_mortise-{VERSION}.dist-info"
    if sys.argv[1:] == ["--remove"]:
        for file in [path_file, *info.glob("*")]:
            file.unlink(missing_ok=True)
        if info.exists():
            info.rmdir()
        return
    if len(sys.argv) != 2 or not (pathlib.Path(sys.argv[1]) / "torch_mortise" / "__init__.py").exists():
        sys.exit(
            "usage: register.py FOLDER, where FOLDER holds torch_mortise/ (build/dev/python), or register.py --remove"
        )
    info.mkdir(exist_ok=True)
    path_file.write_text(str(pathlib.Path(sys.argv[1]).resolve()) + "\n")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch-mortise\nVersion: {VERSION}\n"
        "Summary: Mortise as a torch.compile backend, of a build\n"
    )
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\nmortise = torch_mortise:backend\n")
    (info / "INSTALLER").write_text("mortise\n")
    (info / "RECORD").write_text(
        "".join(
            f"{name},,\n"
            for name in (
                "torch_mortise.pth",
                *(f"{info.name}/{n}" for n in ("METADATA", "entry_points.txt", "INSTALLER", "RECORD")),
            )
        )
    )
    print(f"torch_mortise from {sys.argv[1]} is registered in {site}")


main()
