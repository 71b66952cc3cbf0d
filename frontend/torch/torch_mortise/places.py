# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where tensors lie: which devices of PyTorch are installed devices of Mortise, too. DLPack's type and number of a device say so."""

import functools

import torch

from . import _library
from .errors import MortiseError

HOST = None  # the place of tensors in host memory, see place()


@functools.cache
def dlpack_device(device):
    """(DLPack's type, DLPack's number) of a torch.device; None if PyTorch exports no memory of it."""
    with torch._subclasses.fake_tensor.unset_fake_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        try:
            return _library.native().place_of(torch.empty(0, device=device))
        except (RuntimeError, BufferError, AssertionError):  # no memory (meta tensors), or a PyTorch without this device
            return None


def place(device):
    """Where tensors of a torch.device lie, as native/place.hpp reads it: HOST, or (DLPack's type, DLPack's number)."""
    return HOST if device.type == "cpu" else dlpack_device(device)


@functools.cache
def refusal(device, options):
    """Why programs take no tensors of a torch.device; "" when they do."""
    if device.type == "cpu":
        return ""
    if dlpack_device(device) is None:
        return f"device {device.type}, which has no memory"
    try:
        _library.session(options).check_place(dlpack_device(device))
        return ""
    except MortiseError as error:
        return f"device {device.type}: {error.message}"


def synchronize(tensors):
    """Waits for what is queued on the devices of these tensors, in any stream."""
    for device in {t.device for t in tensors if t.device.type != "cpu"}:
        torch.accelerator.synchronize(device)
