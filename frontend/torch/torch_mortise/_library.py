# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads the extension, and with it libmortise, once."""

import json
import logging
import threading

import torch

from .errors import NOT_FOUND, MortiseError

log = logging.getLogger("torch_mortise")


def _dense(tensor, size, stride):
    copy = torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor.detach())


def _copy_back(tensor, copy):
    with torch.no_grad():
        tensor.copy_(copy)


def _view(tensor, size, stride, shift):
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + shift)


def _load():
    try:
        from . import _native
    except ImportError as error:
        raise MortiseError(
            NOT_FOUND,
            f"expected libmortise and the extension _native beside torch_mortise, found: {error}; "
            "build them with ./dev build, or reinstall the package",
        ) from error
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        raise MortiseError(NOT_FOUND, f"expected torch 2.13 or newer, found {torch.__version__}; upgrade torch")
    _native.setup(
        torch.Tensor.__dlpack_c_exchange_api__,
        MortiseError,
        torch.Tensor,
        torch._C.TensorBase.__dict__["_version"],
        torch.empty_strided,
        _view,
        _dense,
        _copy_back,
        torch.autograd.graph.increment_version,
        getattr(getattr(torch._C, "_aoti", None), "unsafe_alloc_void_ptr_from_tensor", None),
        torch.zeros(1),
    )
    if not _native.reads_directly():
        log.info("torch %s does not let bound weights be read directly, so that calls take longer", torch.__version__)
    return _native


_lock = threading.Lock()
_loaded = None
_sessions = {}


def native():
    global _loaded
    if _loaded is None:
        with _lock:
            _loaded = _loaded or _load()
    return _loaded


def session(options=()):
    """The session for these (key, value) pairs; equal options share a session."""
    module = native()
    with _lock:
        found = _sessions.get(options)
        if found is None:
            found = _sessions[options] = module.Session(options)
        return found


def setting(options, key):
    """The value of `key` in the configuration of the session for `options`; "" for an unknown key."""
    config = json.loads(session(options).describe())["config"]
    return next((entry["value"] for entry in config if entry["key"] == key), "")
