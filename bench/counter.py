# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python access to the preloaded allocator (alloc_count.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass


class State(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p), ("initial", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Arguments(ctypes.Structure):
    _fields_ = [("inputs", ctypes.POINTER(ctypes.c_void_p)), ("outputs", ctypes.POINTER(ctypes.c_void_p)),
                ("states", ctypes.POINTER(State)), ("state_count", ctypes.c_size_t)]


@dataclass(frozen=True)
class Counts:
    """Calls since the process began: of the heap, of posix_memalign (also counted in `heap`), and of mmap and mremap."""

    heap: int
    aligned: int
    maps: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.heap - other.heap, self.aligned - other.aligned, self.maps - other.maps)


class Counter:
    """The counter of a process into which the library at `path` was preloaded."""

    def __init__(self, path: str):
        self.library = ctypes.CDLL(path)
        # The same library, called with the interpreter's lock held, because other Python threads (a package's timer) would allocate.
        self.holding = ctypes.PyDLL(path)
        self.holding.alloc_count_program.restype = ctypes.c_int64
        for name in ("heap", "aligned", "maps"):
            getattr(self.library, f"alloc_count_{name}").restype = ctypes.c_uint64
        for name in ("live", "peak", "program"):
            getattr(self.library, f"alloc_count_{name}").restype = ctypes.c_int64
        self.check()

    def check(self) -> None:
        """Raises unless the library counts: if it was loaded but not preloaded it counts nothing, and zero looks like success."""
        import torch

        size, before, live = 3 << 20, self.counts(), self.live()
        block = torch.empty(size, dtype=torch.uint8)
        if self.counts().aligned - before.aligned != 1 or abs(self.live() - live - size) > 1 << 16:  # other threads' are few
            raise RuntimeError(f"the allocator is not preloaded, or does not count: it saw {self.live() - live} of {size} bytes")
        del block
        if self.live() - live > 1 << 16:
            raise RuntimeError("the allocator does not see what is freed")

    def counts(self) -> Counts:
        return Counts(*(getattr(self.library, f"alloc_count_{name}")() for name in ("heap", "aligned", "maps")))

    def live(self) -> int:
        """The bytes allocated at the moment."""
        return self.library.alloc_count_live()

    def growth(self, run: Callable) -> int:
        """The most bytes allocated at one time while `run` ran, beyond those allocated before."""
        self.library.alloc_count_reset_peak()
        before = self.live()
        run()
        return self.library.alloc_count_peak() - before

    def calls_of(self, program: int, run_pointers, arguments: list[Arguments], calls: int) -> int:
        """The allocations, including mappings, of `calls` warm calls from each of len(arguments) threads."""
        made = self.holding.alloc_count_program(
            ctypes.cast(run_pointers, ctypes.c_void_p), ctypes.c_void_p(program), (Arguments * len(arguments))(*arguments),
            len(arguments), calls)
        if made < 0:
            raise RuntimeError("a call through the C API failed")
        return made
