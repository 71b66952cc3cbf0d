# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests share. MORTISE_TEST_DEVICES names the devices to test on; a GPU's driver that is installed adds none by itself."""

import os
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_same
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MORTISE_KERNEL_CACHE", "off")  # a kernel from the disk would hide what its compilation does
torch.set_num_threads(2)


def installed():
    import torch_mortise

    found = [d["kind"] for d in torch_mortise.devices()]
    wanted = os.environ.get("MORTISE_TEST_DEVICES", "cpu,reference").split(",")
    return [d for d in dict.fromkeys(found) if d in wanted]


DEVICES = installed()


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def fresh():
    import torch_mortise

    torch._dynamo.reset()
    torch.manual_seed(0)
    torch_mortise.reset()
    yield


@pytest.fixture
def compile_for(device):
    def compile_for(model, dynamic=False, **options):
        return torch.compile(model, backend="mortise", dynamic=dynamic, options={"device": device, **options})

    return compile_for


def saved_ops(folder, op):
    """The lines of the ops of this name in the one graph that the option save_graphs has put into `folder`."""
    from torch_mortise import _native

    (saved,) = folder.glob("*.mrtg")
    mortise = pathlib.Path(_native.__file__).parents[2] / "bin" / "mortise"
    text = subprocess.run([mortise, "convert", saved, "-"], capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if f" mortise.{op} " in line]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + self.second(F.gelu(self.first(x))))


def check(compiled, model, *inputs, coverage=1.0, **options):
    """Runs both, compares values, dtypes and strides, and requires full coverage."""
    import torch_mortise

    with torch.no_grad():
        expected = model(*inputs)
        found = compiled(*inputs)
        assert_same(found, expected, lambda: model(*inputs), **options)
    report = torch_mortise.last_report()
    if coverage is not None:
        assert report["coverage"] >= coverage, [g["eager"] for g in report["graphs"]]
    return report
