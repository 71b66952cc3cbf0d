# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The faults for the figure `honest`: what each one changes while a figure runs, and the network that they run on.

A fault wraps something that a figure calls (a compiled function, a count, a clock); no file is edited. Figures that measure in separate
processes get the same wrapping there (`in_children`)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from unittest import mock

import torch
from torch import nn


class Tiny(nn.Module):
    """Maps ids [batch, tokens] to hidden states and their mean."""

    def __init__(self):
        super().__init__()
        self.embed, self.linear, self.norm = nn.Embedding(20000, 32), nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, ids):
        hidden = self.norm(torch.nn.functional.gelu(self.linear(self.embed(ids))))
        return hidden, hidden.mean(1)


def tiny():
    from networks import Network

    return Network("tiny", "a network of four layers", Tiny(), (torch.randint(1000, 20000, (2, 19)),))


def register() -> None:
    """Registers the network by name in this process."""
    import networks

    networks.MAKERS["tiny"] = tiny


def put(value: float) -> Callable:
    def change(outputs):
        first = outputs[0].clone()
        first.view(-1)[first.numel() // 2] = value
        return (first, *outputs[1:])

    return change


CHANGES = {
    "NaN": put(math.nan),
    "infinity": put(math.inf),
    "zeroed": lambda outputs: (torch.zeros_like(outputs[0]), *outputs[1:]),
    "zeroed second output": lambda outputs: (outputs[0], torch.zeros_like(outputs[1])),
    "shape": lambda outputs: (outputs[0][:, :-1], *outputs[1:]),
    "dtype": lambda outputs: (outputs[0].double(), *outputs[1:]),
    "missing output": lambda outputs: outputs[:1],
    "no outputs": lambda outputs: (),
    "scaled": lambda outputs: (outputs[0] * 1.001, *outputs[1:]),
}


def spoil(backend: str, change: Callable, after: int = 0, before: Callable | None = None):
    """Makes torch.compile for `backend` return a function whose outputs are changed from call number `after` on."""
    original = torch.compile

    def compile(model, **options):
        function, calls = original(model, **options), 0
        if options.get("backend") != backend:
            return function

        def spoilt(*arguments):
            nonlocal calls
            calls += 1
            if before:
                before()
            outputs = function(*arguments)
            return change(outputs) if calls > after else outputs

        return spoilt

    return mock.patch.object(torch, "compile", compile)


def raising(*_):
    raise RuntimeError("planted: this rival fails")


class NanWeights(Tiny):
    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.linear.bias[3] = math.nan


# ---- in processes of their own --------------------------------------------------------------------


def half_the_growth():
    import counter

    original = counter.Counter.growth
    counter.Counter.growth = lambda self, run: original(self, run) // 2


def unequal_rounds():
    import itertools

    import counter

    original, number = counter.Counter.growth, itertools.count()
    counter.Counter.growth = lambda self, run: original(self, run) + (next(number) % 4) * (10 << 20)


def call_through(allocate: bool, zero: bool):
    """Makes every call through the C API go through a function that allocates, or zeroes the first output."""
    import ctypes

    import counter

    original = counter.Counter.calls_of

    def calls_of(self, program, run_pointers, arguments, calls):
        run_pointers.restype = ctypes.c_void_p
        run_pointers.argtypes = [ctypes.c_void_p] * 4
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p),
                          ctypes.c_void_p)
        def run(program, inputs, outputs, symbols):
            if allocate:
                libc.free(libc.malloc(4096))
            status = run_pointers(program, inputs, outputs, symbols)
            if zero:
                ctypes.memset(outputs[0], 0, 64)
            return status

        self.holding = self.library  # the function above needs the interpreter's lock
        return original(self, program, run, arguments, calls)

    counter.Counter.calls_of = calls_of


def wall_too_small():
    import reports

    original = reports.backend_seconds
    reports.backend_seconds = lambda report: (lambda found: found | {"total": found["total"] / 10,
                                                                     "not_in_stages": found["total"] / 10
                                                                     - sum(found["stages"].values())})(original(report))


def no_stages():
    import reports

    original = reports.backend_seconds
    reports.backend_seconds = lambda report: original(report) | {"stages": {}}


def die():
    import os

    spoil("mortise", lambda outputs: os._exit(3)).start()


CHILD_FAULTS = {
    "nothing": lambda: None,
    "half the growth": half_the_growth,
    "unequal rounds": unequal_rounds,
    "allocating program": lambda: call_through(allocate=True, zero=False),
    "zeroing program": lambda: call_through(allocate=False, zero=True),
    "tensor in each call": lambda: spoil("mortise", lambda outputs: outputs, before=lambda: torch.empty(5000)).start(),
    "zeroed": lambda: spoil("mortise", CHANGES["zeroed"]).start(),
    "NaN from inductor": lambda: spoil("inductor", CHANGES["NaN"]).start(),
    "wall too small": wall_too_small,
    "no stages": no_stages,
    "dies": die,
}


@contextlib.contextmanager
def in_children(fault: str, drop: str = "", printed: str | None = None):
    """Plants a fault of CHILD_FAULTS in every fresh process. `drop`: an environment variable that gets lost; `printed`: what the process
    prints instead of its result."""
    import measure

    original = measure.in_fresh_process
    head = f"import plants; plants.register(); plants.CHILD_FAULTS[{fault!r}]()\n"

    def in_fresh_process(code, *arguments, env=None):
        kept = {name: value for name, value in (env or {}).items() if name != drop}
        return original(f"print({printed!r})" if printed is not None else head + code, *arguments, env=kept)

    with mock.patch.object(measure, "in_fresh_process", in_fresh_process):
        yield
