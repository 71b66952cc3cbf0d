# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the package in a build: MORTISE_BUILD, else build/dev. MORTISE_TEST_DEVICES: which devices to test on."""

import os
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.pop("MORTISE_BUILD", None) or ROOT / "build" / "dev")  # not a configuration key
sys.path.insert(0, str(BUILD / "python"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch.set_num_threads(2)


def installed():
    import torch_mortise

    found = [d["kind"] for d in torch_mortise.devices()]
    wanted = os.environ.get("MORTISE_TEST_DEVICES")
    return [d for d in dict.fromkeys(found) if not wanted or d in wanted.split(",")]


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


TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, (tuple, list)) else [value]


def assert_same(found, expected, tolerance=None, strides=True):
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        assert f.shape == e.shape and f.dtype == e.dtype
        if strides and e.numel():
            assert [s for s, n in zip(f.stride(), f.shape) if n > 1] == [
                s for s, n in zip(e.stride(), e.shape) if n > 1
            ]
        if not e.is_floating_point():
            assert torch.equal(f, e), (f, e)
            continue
        bound = tolerance or TOLERANCE[e.dtype]
        finite = e[e.isfinite()]
        scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
        torch.testing.assert_close(f.double(), e.double(), rtol=bound, atol=bound * scale, equal_nan=True)


def check(compiled, model, *inputs, coverage=1.0, **options):
    """Runs both, compares values, dtypes and strides, and asks for full coverage."""
    import torch_mortise

    with torch.no_grad():
        expected = model(*inputs)
        found = compiled(*inputs)
        assert_same(found, expected, **options)
    report = torch_mortise.last_report()
    if coverage is not None:
        assert report["coverage"] >= coverage, [g["eager"] for g in report["graphs"]]
    return report
