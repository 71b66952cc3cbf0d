# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mortise for PyTorch: torch.compile(model, backend="mortise", mode=..., options={...}); see README.md."""

from .backend import backend, describe, devices, refresh
from .errors import MortiseError
from .pool import release_memory
from .report import Explanation, explain, last_report, profiling, reset

__all__ = [
    "backend",
    "describe",
    "devices",
    "explain",
    "Explanation",
    "last_report",
    "MortiseError",
    "profiling",
    "refresh",
    "release_memory",
    "reset",
]
__version__ = "0.1.0"
