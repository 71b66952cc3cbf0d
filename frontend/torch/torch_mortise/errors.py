# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The one error that this package raises, and the internal one that sends an operator to eager."""

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


class MortiseError(RuntimeError):
    """`code`: a number of MortiseCode (plugin.h), `name` its name; `message`: what was expected, what was found, what to do."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.name = CODES[code] if 0 <= code < len(CODES) else str(code)
        self.message = message

    def __reduce__(self):
        return MortiseError, (self.code, self.message)


class Unsupported(Exception):
    """Raised by an importer's handler: this node runs in eager, for this reason."""
