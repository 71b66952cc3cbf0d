# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.device("strict"): a PyTorch device whose tensors lie in memory that faults when the host touches it, over the strict plugin
(sdk/examples/strict), which also finds work that nothing orders. Indices 0 and 1 are of one kind, 2 is of another."""

import json
import pathlib
import types

import torch
import torch_mortise._native
from torch._dynamo import device_interface

BUILD = pathlib.Path(torch_mortise._native.__file__).parents[2]
PLUGIN = str(BUILD / "lib/mortise/test-plugins/libstrict.so")
OPTIONS = {"plugin_path": f":{PLUGIN}", "device": "strict,aloof,cpu"}  # of torch.compile

torch.ops.load_library(str(BUILD / "lib/mortise/test-torch/libstrict_device.so"))
_ops = torch.ops.strict_device
_ops.open(PLUGIN)
# After what may fail: a backend without its module fails every other test of the process.
torch.utils.rename_privateuse1_backend("strict")


manual_seed = _ops.manual_seed  # of one device


def manual_seed_all(seed):
    for device in range(_ops.device_count()):
        manual_seed(device, seed)


class Interface(device_interface.DeviceInterface):
    current_device = staticmethod(_ops.current_device)
    set_device = staticmethod(_ops.set_device)
    device_count = staticmethod(_ops.device_count)
    is_available = staticmethod(lambda: True)
    current_stream = staticmethod(torch.accelerator.current_stream)
    synchronize = staticmethod(torch.accelerator.synchronize)


torch._register_device_module("strict", types.SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: True,
    device_count=_ops.device_count,
    current_device=_ops.current_device,
    set_device=_ops.set_device,
    manual_seed_all=manual_seed_all,
    _is_in_bad_fork=lambda: False,
    get_amp_supported_dtype=lambda: [torch.bfloat16, torch.float16],
))
device_interface.register_interface_for_device("strict", Interface)


def configure(settings="", expects=None):
    """As control.h of the plugin documents it. Nothing may be in flight. Forgets the violations found, of which there must be none, or only
    those that have the text `expects` in them."""
    assert all(expects is not None and expects in violation for violation in report()["violations"]), report()["violations"]
    wrong = _ops.configure(settings)
    assert not wrong, wrong


def report():
    return json.loads(_ops.report())


def synchronize():
    for device in range(_ops.device_count()):
        torch.accelerator.synchronize(torch.device("strict", device))
