# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A vendor's folder with the SDK in it."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))
import measure
from vendors import Vendor


@pytest.fixture(scope="session")
def sdk(tmp_path_factory):
    """The SDK as its tarball has it."""
    folder = tmp_path_factory.mktemp("sdk") / "mortise-sdk"
    for component in ("abi", "codegen", "tools"):
        subprocess.run(["cmake", "--install", measure.build_folder(), "--prefix", folder, "--component", component], check=True,
                       stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture
def vendor(sdk, tmp_path):
    (tmp_path / "mortise-sdk").symlink_to(sdk)
    return Vendor(tmp_path)
