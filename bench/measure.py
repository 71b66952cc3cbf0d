# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measuring side by side: clocks, medians, agreement, and what the compiled model reports about itself."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


def progress(text: str) -> None:
    """One line to standard error, so that a figure's standard output ends with its JSON."""
    print(f"  {text}", file=sys.stderr, flush=True)


def build_folder() -> Path:
    """The build whose torch_mortise this Python finds: build/PRESET, of build/PRESET/python/torch_mortise."""
    found = importlib.util.find_spec("torch_mortise")
    if found is None:
        raise RuntimeError("expected torch_mortise of a build (PYTHONPATH=build/release/python); run ./dev build release")
    return Path(found.origin).absolute().parents[2]  # its files are links into the sources, so do not resolve them


def built(name: str) -> Path:
    """A program or library that the build has made: "bin/mortise-decompositions"."""
    if not (path := build_folder() / name).exists():
        raise RuntimeError(f"expected {path}, which the build makes; run ./dev build")
    return path


def median(values: list[float]) -> float:
    return statistics.median(values)


def p95(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]


def interleaved(calls: dict[str, Callable], rounds: int = 30, seconds: float = 20.0) -> dict[str, list[float]]:
    """Milliseconds of each call, in rounds that take turns, so that a slow minute of the machine hits all alike.
    Stops after `rounds`, or when `seconds` are spent and five rounds are done."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    gc.collect()
    started = time.perf_counter()
    for done in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e3)
        if done >= 4 and time.perf_counter() - started > seconds:
            break
    return times


def scaled_error(found, expected) -> float:
    """Largest absolute difference over all outputs, each relative to the largest magnitude of its expected output."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        scale = b.abs().max().item() or 1.0
        worst = max(worst, (a.to(torch.float64) - b.to(torch.float64)).abs().max().item() / scale)
    return worst


def min_cosine(found, expected) -> float:
    """Smallest cosine between matching rows (the last dimension) over all outputs."""
    worst = 1.0
    for a, b in zip(found, expected, strict=True):
        a, b = (x.to(torch.float64).reshape(-1, x.shape[-1]) for x in (a, b))
        worst = min(worst, torch.nn.functional.cosine_similarity(a, b, dim=1).min().item())
    return worst


def has_compiler() -> bool:
    """Whether Inductor could build its kernels here."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++"))


def clear_compilers() -> None:
    """Forgets what torch.compile compiled in this process."""
    torch._dynamo.reset()
    gc.collect()


def timed(function: Callable):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def machine() -> dict:
    """What a quoted figure has to name."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "system": platform.platform(),
            "torch": torch.__version__, "commit": commit}


def in_fresh_process(code: str, *arguments: str, env: dict | None = None) -> dict:
    """Runs Python code in a new process with bench/ on its path; the last line it prints is JSON."""
    environment = dict(os.environ, **(env or {}))
    environment["PYTHONPATH"] = f"{ROOT / 'bench'}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"a measuring process failed with code {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
