# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a plugin offers and then refuses, when weights are bound or in a call, runs elsewhere: on the next device, or in eager with the
plugin's words as the reason. The plugin `pocket` (frontend/capi/test/pocket) refuses as its option says, and takes one node at a time."""

import pathlib
import shutil

import pytest
import torch
import torch_mortise
import torch_mortise._native
import torch_mortise.region
from conftest import DEVICES
from torch import nn
from torch_mortise import last_report

POCKET = pathlib.Path(torch_mortise._native.__file__).parents[2] / "frontend/capi/test/pocket/libpocket.so"
pytestmark = [
    pytest.mark.skipif("reference" not in DEVICES, reason="needs the device reference"),
    pytest.mark.skipif(not POCKET.exists(), reason="needs the plugin pocket (target mortise_plugin_pocket)"),
]
UNSUPPORTED, INTERNAL = 2, 10
WORDS = "the pocket calculator has no room for mortise.mul"


BOTH, ALONE = "pocket,reference", "pocket"


def compiled(model, fails, devices=BOTH, dynamic=False, library=POCKET, **options):
    options |= {"device": devices, "plugin_path": f":{library}", "pocket.fail": fails}
    return torch.compile(model, backend="mortise", dynamic=dynamic, options=options)


class Scale(nn.Module):
    """-(x * w + x)"""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3, 4), 2.0))

    def forward(self, x):
        return -(x * self.weight + x)


class Count(nn.Module):
    """Adds x * x to a state."""

    def __init__(self):
        super().__init__()
        self.state = nn.Buffer(torch.ones(4))

    def forward(self, x, y):
        self.state.add_(y * y)
        return x * x + x, self.state + y


def programs():
    return [program for graph in last_report()["graphs"] for program in graph["programs"]]


def devices_of(op):
    return {part["device"] for program in programs() for part in program["placement"] if op in part["ops"]}


def eager():
    return {entry["op"]: entry["reason"] for graph in last_report()["graphs"] for entry in graph["eager"]}


def same(call, model, x):
    with torch.no_grad():
        expected = model(x)
        found = call(x)
    assert torch.equal(found, expected), (found, expected)


@pytest.mark.parametrize("slot", ["kernel_compile", "constants_bind"])
def test_weights_that_are_refused_are_bound_on_another_device(slot):
    model, x = Scale(), torch.randn(3, 4)
    call = compiled(model, f"{slot} mortise.mul {UNSUPPORTED}")
    for _ in range(2):
        same(call, model, x)
    assert devices_of("mortise.mul") == {"reference"} and devices_of("mortise.add") == {"pocket"}
    assert last_report()["coverage"] == 1.0
    words = {r["detail"] for p in programs() for r in p["declined"] if "mortise.mul" in r["ops"] and r["reason"] == "error"}
    assert len(words) == 1 and WORDS in words.pop()
    assert WORDS in str(torch_mortise.explain(call, x))


def test_weights_that_nobody_binds_are_read_in_eager():
    model, x = Scale(), torch.randn(3, 4)
    call = compiled(model, f"constants_bind mortise.mul {UNSUPPORTED}", ALONE)
    for _ in range(2):
        same(call, model, x)
    assert list(eager()) == ["aten.mul.Tensor"] and WORDS in eager()["aten.mul.Tensor"]
    assert devices_of("mortise.add") == {"pocket"}


@pytest.mark.parametrize("devices", [BOTH, ALONE])
def test_weights_may_be_refused_when_they_change(devices):
    model, x = Scale(), torch.randn(3, 4)
    call = compiled(model, f"negative_constants mortise.mul {UNSUPPORTED}", devices)
    same(call, model, x)
    assert devices_of("mortise.mul") == {"pocket"}
    for change in (-5.0, 9.0):
        with torch.no_grad():
            model.weight.add_(change)
        for _ in range(2):
            same(call, model, x)
    assert devices_of("mortise.mul") == ({"reference"} if devices == BOTH else set())
    assert list(eager()) == ([] if devices == BOTH else ["aten.mul.Tensor"])


def test_other_errors_of_binding_are_raised():
    model, x = Scale(), torch.randn(3, 4)
    call = compiled(model, f"constants_bind mortise.mul {INTERNAL}")
    for _ in range(2):
        with pytest.raises(torch_mortise.MortiseError, match=WORDS) as caught, torch.no_grad():
            call(x)
        assert caught.value.code == INTERNAL
    assert eager() == {}


@pytest.mark.parametrize("slot", ["kernel_compile", "constants_bind"])
@pytest.mark.parametrize("devices", [BOTH, ALONE])
def test_kernels_of_a_call_are_placed_again_with_state(slot, devices):
    """The plugin knows no symbols, so that its kernels are made in the call."""
    model, expected = Count(), Count()
    call = compiled(model, f"{slot} mortise.mul {UNSUPPORTED}", devices, dynamic=True)
    for rows in (3, 5, 3):
        x, y = torch.randn(rows, 4), torch.randn(4)
        with torch.no_grad():
            assert all(torch.equal(a, b) for a, b in zip(call(x, y), expected(x, y)))
        assert torch.equal(model.state, expected.state)  # updated once
    if devices == ALONE:
        assert WORDS in eager()["aten.mul.Tensor"]
    else:
        assert devices_of("mortise.mul") == {"reference"} and eager() == {}


def test_a_refusal_behind_an_update_of_state_is_an_error_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.state = nn.Buffer(torch.ones(4))
            self.weight = nn.Parameter(torch.full((4,), 2.0))

        def forward(self, x):
            self.state.add_(x)
            return torch.special.bessel_j0(x) * self.weight  # in eager, and a program behind it

    model, x = Model(), torch.ones(4)
    call = compiled(model, f"constants_bind mortise.mul {UNSUPPORTED}", ALONE)
    with torch.no_grad():
        with pytest.raises(torch_mortise.MortiseError, match=WORDS):
            call(x)
        assert torch.equal(model.state, torch.full((4,), 2.0))
        found = call(x)
    assert torch.equal(found, torch.special.bessel_j0(x) * 2)
    assert torch.equal(model.state, torch.full((4,), 3.0))


def isolated(model, fails, folder, devices=BOTH, **options):
    """With a copy of the plugin, because a process starts only some workers for each file."""
    for name in ("libpocket.so", "libpocket.toml"):
        shutil.copy(POCKET.with_name(name), folder)
    return compiled(model, fails, devices, library=folder / "libpocket.so", isolate="pocket", log_level="off", **options)


@pytest.mark.parametrize("slot", ["constants_bind", "enqueue"])
@pytest.mark.parametrize("devices", [BOTH, ALONE])
def test_a_fault_is_placed_again_within_the_call(slot, devices, tmp_path):
    model, x = Scale(), torch.randn(3, 4)
    call = isolated(model, f"{slot} mortise.mul abort", tmp_path, devices)
    for _ in range(2):
        same(call, model, x)
    if devices == ALONE:
        assert f"was ended by SIGABRT in {slot}" in eager()["aten.mul.Tensor"]
    else:
        assert devices_of("mortise.mul") == {"reference"} and devices_of("mortise.add") == {"pocket"}


def test_a_fault_behind_an_update_of_state_is_an_error_once(tmp_path):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.state = nn.Buffer(torch.ones(4))

        def forward(self, x):
            self.state.mul_(x)
            return -self.state

    model, x = Model(), torch.full((4,), 3.0)
    call = isolated(model, "enqueue mortise.neg abort", tmp_path)
    with torch.no_grad():
        with pytest.raises(torch_mortise.MortiseError, match="cannot be repeated") as caught:
            call(x)
        assert caught.value.name == "DEVICE_LOST"
        assert torch.equal(model.state, x)
        assert torch.equal(call(x), -x * 3)
    assert torch.equal(model.state, x * 3) and devices_of("mortise.neg") == {"reference"}


def test_a_fault_of_a_warm_call_is_placed_again(tmp_path):
    """A warm call reaches its program without Python (native/entry.cpp)."""
    model, x = Scale(), torch.rand(3, 4) + 1
    call = isolated(model, "negative_inputs mortise.mul abort", tmp_path)
    for _ in range(3):
        same(call, model, x)
    assert devices_of("mortise.mul") == {"pocket"}
    for _ in range(2):
        same(call, model, -x)
    assert devices_of("mortise.mul") == {"reference"} and devices_of("mortise.add") == {"pocket"}


def test_an_error_of_a_warm_call_is_raised_each_time():
    model, x = Scale(), torch.rand(3, 4) + 1
    call = compiled(model, f"negative_inputs mortise.mul {INTERNAL}")
    for _ in range(3):
        same(call, model, x)
    for _ in range(2):
        with pytest.raises(torch_mortise.MortiseError, match=WORDS) as caught, torch.no_grad():
            call(-x)
        assert caught.value.code == INTERNAL and caught.value.region.name.startswith("graph_")
        same(call, model, x)


def test_warm_calls_reach_their_program_directly(monkeypatch):
    model, x = Scale(), torch.rand(3, 4)
    call = compiled(model, "")
    same(call, model, x)
    monkeypatch.setattr(torch_mortise.region.Region, "call", None)
    same(call, model, x)
