# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mortise for PyTorch: torch.compile(model, backend="mortise", options={...}) or mode=...; see README.md."""

import importlib

from .errors import MortiseError

# Where each name is. Modules are imported when a name of theirs is first used, because Dynamo, which most of them need, takes
# more than a second to import, and `import torch` leaves it out.
_MODULES = {
    "backend": ".dynamo",
    "describe": ".dynamo",
    "devices": ".dynamo",
    "explain": ".report",
    "Explanation": ".report",
    "last_report": ".report",
    "profiling": ".report",
    "refresh": ".dynamo",
    "release_memory": ".pool",
    "reset": ".report",
}
__all__ = ["MortiseError"]
__all__ += list(_MODULES)
__version__ = "0.1.0"


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name], __name__), name)
    return value


def __dir__():
    return sorted([*globals(), *_MODULES])
