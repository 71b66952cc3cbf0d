# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The strict plugin (sdk/examples/strict), seen from the figures: its control in this process, and the program strict_sweeps."""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

PLUGIN = "lib/mortise/test-plugins/libstrict.so"
HOST_TOUCH = "touched device memory"  # what the plugin says before the process ends
# As for the suite (tools/dev/test.sh). Python would keep memory until it ends; strict_sweeps does not.
SANITIZED = {"ASAN_OPTIONS": "detect_leaks=1:detect_container_overflow=0:allow_user_poisoning=0:allocator_may_return_null=1",
             "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}


class _Extension(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("next", ctypes.c_void_p), ("kind", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class _Control(ctypes.Structure):
    _fields_ = [("head", _Extension), ("configure", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_char_p)),
                ("report", ctypes.CFUNCTYPE(ctypes.c_char_p)), ("host_uses", ctypes.c_void_p), ("busy_ns", ctypes.c_void_p)]


class _Plugin(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("extension", ctypes.POINTER(_Control))]


class Control:
    """control.h of the plugin that this process has loaded, or loads now."""

    def __init__(self, library: Path):
        entry = ctypes.CDLL(str(library)).mortise_plugin
        entry.restype = ctypes.POINTER(_Plugin)
        self.control = entry().contents.extension.contents
        if self.control.head.kind != 0x8053:
            raise RuntimeError(f"expected the control of the strict plugin in {library}, found kind {self.control.head.kind:#x}")

    def configure(self, settings: str) -> None:
        if wrong := self.control.configure(settings.encode()):
            raise ValueError(wrong.decode())

    def report(self) -> dict:
        return json.loads(self.control.report())


def sweeps(program: Path, *arguments, env: dict | None = None) -> tuple[dict | None, str]:
    """Runs strict_sweeps. Returns its result and "", or None and the end of what a run that did not end well has said."""
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, errors="replace", check=False,
                          env=dict(os.environ, **(env or {})), timeout=3600)
    if done.returncode == 0:
        return json.loads(done.stdout.strip().splitlines()[-1]), ""
    return None, f"strict_sweeps {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr[-2000:]}"


def in_parts(program: Path, parts: Iterable[tuple], env: dict | None = None) -> Iterator[tuple]:
    """What `sweeps` returns for the arguments of each part, in order. A process that dies takes only its own part with it. Several run at
    a time, because most of their time is the devices' delays."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield from pool.map(lambda part: sweeps(program, *part, env=env), parts)
