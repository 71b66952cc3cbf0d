# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults that users meet, each a function that plants one and then calls a compiled model. Each ends in a right answer (`same`) or in a
clear error (`says`): one that names what was expected, what was found or what to do.

A fault runs in a process of its own with a limit of time: `python bench/MODULE.py NAME` (`main`), which `attempt` starts and judges. It
must prove that it was planted (`planted`), so that a fault that is no longer applied fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120  # for one fault, on a busy machine


@dataclass(frozen=True)
class Fault:
    name: str
    group: str
    run: Callable
    programs: tuple[str, ...] = ()  # targets of the build that it needs
    seconds: int = SECONDS
    alone: bool = False  # what other processes do at the same time would be taken for its own

    @property
    def words(self) -> str:
        return " ".join(self.run.__doc__.split())


class Faults(dict[str, Fault]):
    """Those of one module, by name."""

    def fault(self, group: str, *programs: str, seconds: int = SECONDS, alone: bool = False):
        def register(function):
            name = function.__name__.strip("_").replace("_", "-")
            self[name] = Fault(name, group, function, programs, seconds, alone)
            return function

        return register


SAID: list[str] = []
COUNTS = {"planted": 0, "compared": 0}


# ---- what a fault is made of ----------------------------------------------------------------------------------


def planted(condition, what: str) -> None:
    if not condition:
        raise AssertionError(f"the fault was not planted: {what}")
    COUNTS["planted"] += 1


def data(*shape, seed: int = 1):
    import torch

    return torch.randn(*(shape or (8, 16)), generator=torch.Generator().manual_seed(seed))


def equal(found, expected) -> None:
    from measure import ERROR_LIMIT, compare

    if why := compare(found, expected).why_not(ERROR_LIMIT):
        raise AssertionError(f"a wrong result: {why}")
    COUNTS["compared"] += 1


def same(call, model, *inputs, grad: bool = False) -> None:
    """The compiled model gives eager's answer."""
    import torch

    with torch.set_grad_enabled(grad):
        equal(call(*inputs), model(*inputs))


def says(call: Callable, *words: str, kind: type | None = None) -> str:
    """The call raises an error that says all of this."""
    import torch_mortise

    try:
        found = call()
    except BaseException as error:
        chain, texts = error, []
        while chain is not None:
            texts.append(f"{type(chain).__name__}: {chain}")
            chain = chain.__cause__ or getattr(chain, "inner_exception", None)
        text = "\n".join(texts)
        missing = [word for word in words if word not in text]
        if missing or kind and not isinstance(error, kind):
            raise AssertionError(f"expected an error with {missing or kind}, found {text[:600]}") from error
        own = next((t for t in texts if t.startswith(torch_mortise.MortiseError.__name__)), texts[0])
        SAID.append(" ".join(own.split())[:300])
        return text
    raise AssertionError(f"expected an error that says {words}, found the result {str(found)[:80]}")


def report() -> dict:
    import torch_mortise

    return torch_mortise.last_report()


def in_eager() -> dict[str, str]:
    return {entry["op"]: entry["reason"] for graph in report()["graphs"] for entry in graph["eager"]}


def cached() -> list[str]:
    programs = [program for graph in report()["graphs"] for program in graph["programs"]]
    return [region["kernel_cache"] for program in programs for region in program["placement"]]


def again() -> None:
    """Forgets what was compiled, so that the next call compiles."""
    import torch
    import torch_mortise

    torch._dynamo.reset()
    torch_mortise.reset()


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mortise-fault-"))


# ---- the process of one fault ---------------------------------------------------------------------------------


def main(faults: Faults, name: str) -> int:
    """Prints what happened, which `verdict` judges."""
    import torch

    torch.set_num_threads(2)
    problem = ""
    try:
        faults[name].run()
    except AssertionError as error:
        problem = str(error)
    except BaseException as error:
        problem = f"{type(error).__name__}: {error}"
    print(json.dumps({"problem": problem[:1500], "said": SAID, **COUNTS}), flush=True)
    return 0


def attempt(script: Path, fault: Fault) -> dict:
    """What became of a fault: its row, with `problem` empty if it passed."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/out", "w+") as out, open(f"{folder}/err", "w+") as err:
        variables = os.environ | {"MORTISE_KERNEL_CACHE": "off", "TMPDIR": folder, "HF_HUB_OFFLINE": "1",
                                  "TORCHINDUCTOR_CACHE_DIR": folder}
        process = subprocess.Popen([sys.executable, str(script), fault.name], stdout=out, stderr=err, env=variables, cwd=folder,
                                   start_new_session=True)
        try:
            ended, problem = process.wait(fault.seconds), ""
        except subprocess.TimeoutExpired:
            ended, problem = None, f"it did not end within {fault.seconds} s"
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it left running, workers among it
        except ProcessLookupError:
            pass
        process.wait()
        out.seek(0)
        err.seek(0)
        printed, last_words = out.read().strip().splitlines(), err.read().strip()[-400:]
    row = {"what": fault.words, "said": []}
    if problem or ended:
        return row | {"problem": problem or f"it ended with {ended}: {last_words}"}
    try:
        found = json.loads(printed[-1])
        return row | {"said": found["said"], "problem": verdict(found)}
    except (IndexError, KeyError, TypeError, json.JSONDecodeError):
        return row | {"problem": f"it printed no result but {printed[-1:]}: {last_words}"}


def verdict(found: dict) -> str:
    if found["problem"]:
        return found["problem"]
    if not found["planted"]:
        return "the fault was not planted"
    return "" if found["compared"] or found["said"] else "nothing was compared, and no error was raised"
