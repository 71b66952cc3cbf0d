# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MortiseError, which users see, and Unsupported, by which the importer sends an operator to eager."""

from typing import NamedTuple

CODES = (
    "OK",
    "INVALID_ARGUMENT",
    "UNSUPPORTED",
    "NEEDS_STATIC",
    "OUT_OF_MEMORY",
    "NOT_FOUND",
    "VERSION_MISMATCH",
    "CANCELLED",
    "DEVICE_LOST",
    "CORRUPT",
    "INTERNAL",
)
INVALID_ARGUMENT, UNSUPPORTED, NOT_FOUND, INTERNAL = 1, 2, 5, 10


class Refusal(NamedTuple):
    """Why one device does not take one op: MortiseRefusal (mortise.h) with the reason's name."""

    node: int  # the number in the graph that was placed
    op: str
    location: str  # the FX node's name
    device: str
    plugin: str
    reason: str
    detail: str

    def __str__(self):
        return f"{self.device}: {self.reason}{': ' if self.detail else ''}{self.detail}"


class MortiseError(RuntimeError):
    """`code`: a number of MortiseCode (plugin.h), and `name` its name. `message`: what was expected, what was found, what to do.
    `refusals`: a tuple of Refusal if no device takes some of the ops, else empty. `region`: the part of a graph whose call failed; with
    refusals, nothing of its call has happened. `too_late`: parts before it have updated the caller's tensors."""

    region = None
    too_late = False

    def __init__(self, code, message, refusals=()):
        super().__init__(message)
        self.refusals = tuple(refusals)
        self.code = code
        self.name = CODES[code] if 0 <= code < len(CODES) else str(code)
        self.message = message

    def __reduce__(self):
        return MortiseError, (self.code, self.message, self.refusals)


class Unsupported(Exception):
    """Raised by an importer's handler: this node runs in eager, for this reason."""
