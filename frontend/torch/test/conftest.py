# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests share. MORTISE_TEST_DEVICES names the devices to test on; a GPU's driver that is installed adds none by itself."""

import os
import pathlib
import subprocess

import error_bounds
import pytest
import torch
import torch.nn.functional as F
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


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, (tuple, list)) else [value]


def rounding_once(run):
    """Two lists: the results of run() with one rounding per op, and how far such roundings move each floating result. Eager's own kernels
    may round more often: convolutions of f16 add in f16."""
    from torch_mortise.dynamo import decompositions

    def called(noise):
        with error_bounds.NoisyCalls(noise, decompositions()):
            return flat(run())

    centre = called(error_bounds.Noise(share=0.0))
    noise, shifts = error_bounds.Noise(), [[] for _ in centre]
    for _ in range(error_bounds.RUNS):
        for c, m, found in zip(centre, called(noise), shifts):
            found.append(error_bounds.error_of(m.double(), c.double()))
    return centre, [error_bounds.root_mean_square(found) for found in shifts]


def assert_same(found, expected, run=None, strides=True):
    """Checks that types and integers are equal and that floats are within what roundings explain (error_bounds.py). `run()` computes the
    expected values again without side effects. Without `run` the bound is 64 unit roundoffs of the largest expected number, which is enough
    for sums of up to 64 terms in f32."""
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        assert f.shape == e.shape and f.dtype == e.dtype
        if strides and e.numel():
            assert [s for s, n in zip(f.stride(), f.shape) if n > 1] == [
                s for s, n in zip(e.stride(), e.shape) if n > 1
            ]
        assert e.is_floating_point() or torch.equal(f, e), (f, e)
    measured = None
    for number, (f, e) in enumerate(zip(found, expected)):
        if not e.is_floating_point() or not e.numel():
            continue
        f, wanted = f.detach().double(), e.detach().double()
        away, allowed = error_bounds.error_of(f, wanted), 2 * error_bounds.ulp(wanted, e.dtype)
        if bool((away <= allowed).all()):
            continue
        if run is None:
            assert error_bounds.PRECISION[e.dtype] >= 24, "results of this dtype need `run`"
            size = wanted[wanted.isfinite()].abs().max() if bool(wanted.isfinite().any()) else 0.0
            allowed = allowed + 64 * error_bounds.unit_roundoff(e.dtype) * size
        else:
            measured = measured or rounding_once(run)
            wanted = measured[0][number].double()
            away = torch.minimum(away, error_bounds.error_of(f, wanted))
            allowed = allowed + error_bounds.CONFIDENCE * measured[1][number]
        wrong = ~(away <= allowed)
        if bool(wrong.any()):
            places = [tuple(p) for p in wrong.nonzero()[:4].tolist()]
            raise AssertionError(f"result {number}: {int(wrong.sum())} of {e.numel()} {e.dtype} elements differ: " + "; ".join(
                f"at {p}: {f[p]:.9g}, expected {wanted[p]:.9g} within {allowed[p]:.3g}" for p in places))


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
