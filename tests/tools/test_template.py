# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The template's README, done literally: built against the SDK that the build has installed, and given work in the ways that it names."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_mortise

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import measure


@pytest.fixture(scope="module")
def acme(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    sdk = measure.build_folder() / "sdk-installed"
    subprocess.run(["cmake", "-S", ROOT / "sdk" / "template", "-B", folder, f"-DCMAKE_PREFIX_PATH={sdk}"], check=True)
    subprocess.run(["cmake", "--build", folder], check=True)
    return f":{folder / 'lib' / 'mortise' / 'plugins'}"


@pytest.mark.parametrize("options, expected", [
    ({"device": "acme"}, {"acme", "eager"}),
    ({"device": "acme,cpu"}, {"cpu"}),
    ({"device": "acme,cpu", "place": "op=add device=acme; op=mul device=acme"}, {"acme", "cpu"}),
], ids=["alone", "beside_cpu", "by_rule"])
def test_readme(acme, options, expected):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: torch.tanh(x * y + x), backend="mortise", options={"plugin_path": acme} | options)
    x, y = torch.rand(64, 64), torch.rand(64, 64)
    torch.testing.assert_close(compiled(x, y), torch.tanh(x * y + x))
    assert set(torch_mortise.last_report()["placement"]) == expected
