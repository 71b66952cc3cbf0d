# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figures, a module each (bench/figure.py)."""


class ArgumentError(ValueError):
    """What was asked of a figure is nothing that it makes; the message says what it takes. Raised before anything is measured."""
