# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measuring side by side: clocks, medians, agreement, and the comparison of outputs."""

from __future__ import annotations

import fcntl
import gc
import importlib.util
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


def progress(text: str) -> None:
    """One line to standard error, so that a figure's standard output ends with its JSON."""
    print(f"  {text}", file=sys.stderr, flush=True)


def build_folder() -> Path:
    """The build that this Python imports torch_mortise from: build/PRESET for build/PRESET/python/torch_mortise."""
    found = importlib.util.find_spec("torch_mortise")
    if found is None:
        raise RuntimeError("expected torch_mortise of a build (PYTHONPATH=build/release/python); run ./dev build release")
    return Path(found.origin).absolute().parents[2]  # not resolved, because its files are links into the sources


def built(name: str) -> Path:
    """A program or library of the build, such as "bin/mortise-decompositions"."""
    if not (path := build_folder() / name).exists():
        raise RuntimeError(f"expected {path}, which the build makes; run ./dev build")
    return path


def make(target: str, build: Path | None = None) -> Path:
    """Builds bin/TARGET, a program that only figures and tests run, in this build, by default in build_folder(). What was carried to
    another machine is taken as it is."""
    build = build or build_folder()
    if not (build / "build.ninja").exists():
        return build / "bin" / target
    with open(build / "make.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes, and ninja knows nothing of another one
        subprocess.run(["cmake", "--build", str(build), "--target", target], check=True, stdout=subprocess.DEVNULL)
    return build / "bin" / target


def median(values: list[float]) -> float:
    return statistics.median(values)


def p95(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]


def interleaved(calls: dict[str, Callable], rounds: int = 30, seconds: float = 20.0,
                pause: float = 0.0) -> dict[str, list[float]]:
    """Milliseconds of each call, in rounds in which the calls take turns, so that a slow minute of the machine affects all alike. Stops
    after `rounds`, or when `seconds` are spent and five rounds are done. `pause`: seconds before each call, where rivals have threads of
    their own, which may spin for a while after a call and take the next one's cores."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    gc.collect()
    started = time.perf_counter()
    for done in range(rounds):
        for name, call in calls.items():
            if pause:
                time.sleep(pause)
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e3)
        if done >= 4 and time.perf_counter() - started > seconds:
            break
    return times


ERROR_LIMIT = 2e-5  # relative to an output's scale: how far f32 networks may differ from f64 or from each other


@dataclass(frozen=True)
class Agreement:
    """The result of `compare`. `problem` is empty if the outputs can be compared; otherwise it gives the reason, `error` is infinite and
    `cosine` is -1, so that no bound is met by accident."""

    error: float
    cosine: float
    problem: str = ""

    def within(self, limit: float) -> bool:
        return not self.problem and self.error <= limit

    def why_not(self, limit: float) -> str:
        """Empty when within the limit, else the reason in words."""
        if self.problem or self.within(limit):
            return self.problem
        return f"differs by {self.error:.1e} of the output's scale, where {limit:.0e} is allowed"


def compare(found, expected, like=None) -> Agreement:
    """Compares all outputs: their count, shapes and dtypes (with those of `like`, when `expected` is a more exact answer), then the
    positions of numbers, infinities and NaN, then values. The error of an output is its largest absolute difference relative to the largest
    finite magnitude expected in it; the cosine is the smallest between matching rows (along the last dimension). Integers and booleans must
    be equal. A comparison of no outputs is a problem, not an agreement."""
    found, expected = _tensors(found), _tensors(expected)
    like = expected if like is None else _tensors(like)
    if not len(found) == len(expected) == len(like):
        return _incomparable(f"expected {len(like)} outputs, found {len(found)}")
    error, cosine, compared = 0.0, 1.0, 0
    for number, (a, b, kind) in enumerate(zip(found, expected, like, strict=True)):
        problem = _different_kind(a, kind) or _different_kind(b, kind, dtype=False) or _different_places(a, b)
        if problem:
            return _incomparable(f"output {number}: {problem}")
        if b.is_floating_point() or b.is_complex():
            a, b = _numbers(a), _numbers(b)
            finite = b.isfinite()
            compared += int(finite.sum())
            if not finite.any():
                continue
            zero = torch.zeros((), dtype=b.dtype)
            a, b = torch.where(finite, a, zero), torch.where(finite, b, zero)
            error = max(error, (a - b).abs().max().item() / (b.abs().max().item() or 1.0))
            cosine = min(cosine, _least_cosine(a, b))
        else:
            compared += b.numel()
    if not compared:
        return _incomparable("nothing to compare: no output has a finite value")
    if not (math.isfinite(error) and math.isfinite(cosine)):
        return _incomparable(f"the comparison gave error {error} and cosine {cosine}")
    return Agreement(error, cosine)


def _tensors(outputs) -> tuple:
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def _incomparable(problem: str) -> Agreement:
    return Agreement(math.inf, -1.0, problem)


def _different_kind(found, expected, dtype: bool = True) -> str:
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return f"expected {type(expected).__name__}, found {type(found).__name__}: only tensors can be compared"
    if found.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, found {tuple(found.shape)}"
    if dtype and found.dtype != expected.dtype:
        return f"expected {expected.dtype}, found {found.dtype}"
    return ""


def _different_places(found: torch.Tensor, expected: torch.Tensor) -> str:
    """Why the values cannot be subtracted: infinities and NaN differ in position or sign, or integers differ."""
    if not (expected.is_floating_point() or expected.is_complex()):
        differing = int((found != expected).sum())
        return f"{differing} of {expected.numel()} integers differ" if differing else ""
    found, expected = _numbers(found), _numbers(expected)
    for what, here, there in (("NaN", found.isnan(), expected.isnan()), ("+inf", found == math.inf, expected == math.inf),
                              ("-inf", found == -math.inf, expected == -math.inf)):
        if differing := int((here != there).sum()):
            return (f"{what} stands at {int(here.sum())} places of {expected.numel()}, expected at {int(there.sum())}; "
                    f"{differing} places differ")
    return ""


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.to(torch.float64)


def _least_cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """The smallest cosine between matching rows. Rows that are zero on both sides agree."""
    a, b = (x.reshape(-1, x.shape[-1] if x.dim() else 1) for x in (a, b))
    a, b = (x / x.abs().amax(1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny) for x in (a, b))  # scaled to avoid underflow
    cosine = torch.nn.functional.cosine_similarity(a, b, dim=1)
    both_zero = (a == 0).all(1) & (b == 0).all(1)
    return torch.where(both_zero, 1.0, cosine).min().item()


def has_compiler() -> bool:
    """Whether a C++ compiler exists, which Inductor needs for its kernels."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "clang++"))


def rivals(network, compiled: dict[str, dict | Callable]) -> tuple[dict[str, Callable], dict[str, str]]:
    """Eager and the compiled forms of a network that agree with eager, and the reasons why the others do not. A rival that raises or
    disagrees must neither be clocked nor be dropped silently. A form is given by options of torch.compile, or by a function that takes the
    network and returns what is called in place of its module."""
    expected = network.run(network.module)
    taken, left_out = {"eager": network.module}, {}
    reference = compare(expected, expected)
    if reference.problem:
        raise RuntimeError(f"{network.name}: eager's own answer cannot be compared: {reference.problem}")
    for name, options in compiled.items():
        try:
            function = options(network) if callable(options) else torch.compile(network.module, **options)
            agreement = compare(network.run(function, network.module), expected)
        except Exception as error:  # including a missing compiler
            left_out[name] = f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
            continue
        if agreement.within(ERROR_LIMIT):
            taken[name] = function
        else:
            left_out[name] = agreement.why_not(ERROR_LIMIT)
    return taken, left_out


def clear_compilers() -> None:
    """Drops everything that torch.compile compiled in this process."""
    torch._dynamo.reset()
    gc.collect()


def timed(function: Callable):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def machine() -> dict:
    """The facts that a quoted figure must name."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    return {"cpu": cpu, "vectors": torch.backends.cpu.get_cpu_capability(), "cores": os.cpu_count(),
            "threads": torch.get_num_threads(), "system": platform.platform(), "torch": torch.__version__} | sources(ROOT)


# A run writes results and the table that quotes them, so changes of these do not mean that its sources differ.
WRITTEN = ("bench/results", "README.md")


def sources(root: Path) -> dict:
    """The commit that a run is of, and whether its sources are those of that commit. Where a bundle of `./dev gpu-bundle` has been
    unpacked, the bundle's commit: the repository there may be older than the files that came with it."""
    def git(*arguments: str, **environment: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False,
                              env=os.environ | environment).stdout.strip()

    bundle = root / ".gpu" / "commit"
    if not bundle.exists() or not (root / ".gpu" / "unpacked").exists():
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in WRITTEN))
        return {"commit": git("rev-parse", "--short=12", "HEAD"), "clean": not changed}
    commit, tree = bundle.read_text().split()
    with tempfile.TemporaryDirectory() as folder:
        index = f"{folder}/index"
        git("add", "--all", GIT_INDEX_FILE=index)
        git("rm", "-rqf", "--cached", "--ignore-unmatch", *WRITTEN, GIT_INDEX_FILE=index)
        return {"commit": commit, "clean": git("write-tree", GIT_INDEX_FILE=index) == tree}


def in_fresh_process(code: str, *arguments: str, env: dict | None = None) -> dict:
    """Runs Python code in a new process with bench/ on its path. Returns the JSON in the last line that it prints."""
    environment = dict(os.environ, **(env or {}))
    environment["PYTHONPATH"] = f"{ROOT / 'bench'}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment,
                          check=False)
    if done.returncode:
        raise RuntimeError(f"a measuring process failed with code {done.returncode}:\n{done.stderr[-3000:]}")
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise RuntimeError(f"a measuring process printed no JSON but {done.stdout[-200:]!r}") from error


SAVE_GRAPHS = """
import json, sys, torch, networks
network = networks.make(sys.argv[1], small=json.loads(sys.argv[3]))
with torch.no_grad():
    network.run(torch.compile(network.module, backend="mortise", options={"device": "cpu", "save_graphs": sys.argv[2]}), network.module)
print(json.dumps({}))
"""


def save_graphs(network: str, folder: str, small: bool = False) -> list[Path]:
    """The files of a network's graphs in the portable format, as torch.compile hands them over."""
    in_fresh_process(SAVE_GRAPHS, network, folder, json.dumps(small))
    if not (files := sorted(Path(folder).glob("*.mrtg"))):
        raise RuntimeError(f"{network}: torch.compile saved no graph")
    return files
