# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FX -> mortise graph: a table from aten overload to handler, filled by the modules of this folder, one per op family."""

from . import (
    attention,
    composed,
    contraction,
    creation,
    elementwise,
    foreach,
    indexing,
    linalg,
    normalisation,
    pooling,
    random,
    reduction,
    shape,
    sorting,
    special,
    vendor,
    window,
)  # noqa: F401
from .core import EAGER, Emitter, HANDLERS, Value, by_design, handled  # noqa: F401
