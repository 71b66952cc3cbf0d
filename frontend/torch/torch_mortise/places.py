# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where tensors lie: which devices of PyTorch are installed devices of Mortise, too. DLPack's type and number of a device say so."""

import functools
import json

import torch

from . import _library


HOST = None  # the place of tensors in host memory, see place()


@functools.cache
def dlpack_device(device):
    """(DLPack's type, DLPack's number) of a torch.device; None if PyTorch exports no memory of it."""
    with torch._subclasses.fake_tensor.unset_fake_temporarily(), torch.utils._python_dispatch._disable_current_modes():
        try:
            return _library.native().place_of(torch.empty(0, device=device))
        except (RuntimeError, BufferError, AssertionError):  # no memory (meta tensors), or a PyTorch without this device
            return None


@functools.cache
def installed(options):
    """{(DLPack's type, DLPack's number): the name of the device that has this memory}"""
    found = {}
    for device in json.loads(_library.session(options).describe())["devices"]:
        if device["dlpack"] and not device["host_memory"]:
            found.setdefault(tuple(device["dlpack"]), device["name"])
    return found


@functools.cache
def place(device, options):
    """Where tensors of a torch.device lie, as native/place.hpp reads it: HOST, or (DLPack's type, DLPack's number, the
    name of Mortise's device). KeyError if no installed device has this memory."""
    if device.type == "cpu":
        return HOST
    number = dlpack_device(device)
    name = installed(options)[number]
    return *number, name


@functools.cache
def refusal(device, options):
    """Why programs take no tensors of a torch.device; "" when they do."""
    try:
        place(device, options)
        return ""
    except KeyError:
        return f"device {device.type}, whose memory no installed device has"


def synchronize(tensors):
    """Waits for what is queued on the devices of these tensors, in any stream."""
    for device in {t.device for t in tensors if t.device.type != "cpu"}:
        torch.accelerator.synchronize(device)
