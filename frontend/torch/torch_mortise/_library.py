# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads the extension, and with it libmortise, once."""

import json
import logging
import threading

import torch

from . import packages
from .errors import NOT_FOUND, MortiseError

OLDEST, NEWEST = (2, 11), (2, 13)  # of PyTorch, as pyproject.toml has them
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
    from .donation import shared  # whose module needs this one

    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    expected = f"torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if release < OLDEST or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        raise MortiseError(NOT_FOUND, f"expected {expected}, found {torch.__version__}; upgrade torch")
    if release > NEWEST:
        log.warning("expected %s, found %s, with which Mortise was not tested", expected, torch.__version__)
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
        shared,
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


def _with_installed_plugins(options):
    folders = packages.installed_plugins()
    return options if not folders or any(key == "installed_plugins" for key, _ in options) else (*options, ("installed_plugins", folders))


def session(options=()):
    """The session for these (key, value) pairs; equal options share a session."""
    module = native()
    with _lock:
        found = _sessions.get(options)
        if found is None:
            found = _sessions[options] = module.Session(_with_installed_plugins(options))
        return found


def setting(options, key):
    """The value of `key` in the configuration of the session for `options`; "" for an unknown key."""
    config = json.loads(session(options).describe())["config"]
    return next((entry["value"] for entry in config if entry["key"] == key), "")
