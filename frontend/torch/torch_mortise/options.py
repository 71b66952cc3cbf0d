# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch.compile's `mode` and `options` mean for one graph. Options that this package has no use for are the session's
(runtime/README.md lists them); those of Inductor that mean something here are accepted as they are, and others name what is nearest."""

import difflib
import math
from typing import NamedTuple

import torch

from .errors import INVALID_ARGUMENT, MortiseError
from .verify import share

# repeat_layers: whether equal layers are imported once (repeats.py); false helps to find faults in that
# any_size: whether one trace serves sizes 0 and 1, too (sizes.py)
# verify: which calls are compared with eager (verify.py)
# fallback_random: whether eager draws random numbers, so that they are eager's for a seed
# compile_timeout: for how many seconds the first call waits for the compilation
# on_failure: what happens when a compilation fails, or takes longer: "raise", or "eager" with the reason in last_report()
DEFAULTS = {
    "specialize_limit": "64",
    "repeat_layers": "true",
    "any_size": "true",
    "verify": "off",
    "fallback_random": "false",
    "compile_timeout": "inf",
    "on_failure": "raise",
}

# (whether measured times decide, whether calls are replayed): the mode. Inductor's modes are sets of its options, too.
MODES = {
    (False, False): "default",
    (False, True): "reduce-overhead",
    (True, True): "max-autotune",
    (True, False): "max-autotune-no-cudagraphs",
}
INDUCTORS_MODES = {"max_autotune": 0, "triton.cudagraphs": 1}
# Options of Inductor that ask for what is done in any case: the value that asks, and what switches it off.
INDUCTORS_HABITS = {
    "epilogue_fusion": ("true", "cpu.fuse_activations = false keeps activations out of products"),
    "freezing": ("true", "weights are packed when they are bound, and again when they change"),
    "fx_graph_cache": ("true", "kernel_cache = off keeps no compiled kernels"),
}
# Other options of Inductor: what to use in their place.
INSTEAD_OF_INDUCTORS = {
    "coordinate_descent_tuning": 'mode="max-autotune"',
    "max_autotune_gemm": 'mode="max-autotune"',
    "max_autotune_pointwise": 'mode="max-autotune"',
    "trace.enabled": "save_graphs = FOLDER, and torch_mortise.last_report()",
    "trace.graph_diagram": "save_graphs = FOLDER, and `mortise draw`",
    "triton.cudagraph_trees": 'mode="reduce-overhead"',
    "use_fast_math": "precision = high or medium",
    "nan_asserts": 'verify = "first"',
}


class Options(NamedTuple):
    session: tuple  # ((key, value), ...), sorted
    specialize_limit: int = 64
    repeat_layers: bool = True
    verify: float = 0.0  # the share of calls, math.inf for the first
    fallback_random: bool = False
    compile_timeout: float = math.inf
    eager_on_failure: bool = False


def wrong(text):
    return MortiseError(INVALID_ARGUMENT, text)


def read(mode, options):
    """The Options. Raises MortiseError for unknown options, and for values that this package reads itself; a session reads the others."""
    values, session, inductors = dict(DEFAULTS), {}, {}
    if mode is not None:
        session["mode"] = str(mode)
    for key, value in (options or {}).items():
        if not isinstance(value, (str, bool, int, float)):
            raise wrong(f"option {key}: expected text, a number or a bool, found {type(value).__name__}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key in values:
            values[key] = text
            if key == "specialize_limit":  # the runtime has the same limit for the kernels of one program
                session[key] = text
        elif key in INDUCTORS_MODES:
            inductors[INDUCTORS_MODES[key]] = truth(key, text)
        elif key in INDUCTORS_HABITS:
            asks, instead = INDUCTORS_HABITS[key]
            if text != asks:
                raise wrong(f"option {key} of Inductor: expected {asks}, which is always so, found {text}; {instead}")
        else:
            refuse(key)
            session[key] = text
    truth("any_size", values["any_size"])  # sizes.py has read it by now
    if inductors:
        session["mode"] = mode_with(session.get("mode", "default"), inductors)
    if torch.are_deterministic_algorithms_enabled():
        session.setdefault("deterministic", "true")
    return Options(
        tuple(sorted(session.items())),
        specialize_limit=whole("specialize_limit", values["specialize_limit"]),
        repeat_layers=truth("repeat_layers", values["repeat_layers"]),
        verify=share(values["verify"]),
        fallback_random=truth("fallback_random", values["fallback_random"]),
        compile_timeout=seconds("compile_timeout", values["compile_timeout"]),
        eager_on_failure=one_of("on_failure", values["on_failure"], ("raise", "eager")) == "eager",
    )


def refuse(key):
    """Raises for a name that is nearly one of this package's own, or that Inductor knows. Others are left to the session."""
    if near := difflib.get_close_matches(key, DEFAULTS, 1, 0.8):
        raise wrong(f'expected a known option, found "{key}"; the nearest is "{near[0]}"')
    if key in INSTEAD_OF_INDUCTORS:
        raise wrong(f'expected a known option, found "{key}" of Inductor; use {INSTEAD_OF_INDUCTORS[key]}')


def mode_with(mode, inductors):
    """The mode that follows from another one and from {position in a key of MODES: value}."""
    parts = next((key for key, name in MODES.items() if name == mode), None)
    return mode if parts is None else MODES[tuple(inductors.get(at, part) for at, part in enumerate(parts))]


def truth(key, text):
    return one_of(key, text, ("true", "false")) == "true"


def one_of(key, text, known):
    if text not in known:
        raise wrong(f'option {key}: expected {" or ".join(known)}, found "{text}"')
    return text


def whole(key, text):
    if not text.isdigit() or int(text) < 1:
        raise wrong(f'option {key}: expected a positive number, found "{text}"')
    return int(text)


def seconds(key, text):
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not found >= 0:
        raise wrong(f'option {key}: expected a number of seconds, 0 or more, found "{text}"')
    return found
