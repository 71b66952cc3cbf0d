# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs functions in fresh processes that have imported the libraries and compiled nothing: a crash, a hang or an exit is that call's
failure."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

GRACE = 5  # seconds in which a process may end by itself, after it has given its result

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["zoo.preload"])
# The server that is forked finds modules by its environment alone, and says nothing when it does not find one.
_paths = [str(Path(__file__).resolve().parents[1]), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(_paths))


def _child(connection, words: str, function, arguments) -> None:
    os.setsid()  # what it starts ends with it
    handle = os.open(words, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    folder = os.path.dirname(words)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    tempfile.tempdir = folder
    try:
        if "zoo.preload" not in sys.modules:
            raise RuntimeError("expected a process that has imported zoo.preload")
        connection.send(function(*arguments))
    except BaseException as error:
        traceback.print_exc()
        connection.send({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
    connection.close()


def call(function, *arguments, seconds: float) -> dict:
    """What `function(*arguments)` returns, or {"error": why}. `function` is of a module that can be imported. Threads may call this."""
    with tempfile.TemporaryDirectory(prefix="mortise-zoo-", ignore_cleanup_errors=True) as folder:
        words = Path(folder) / "words"
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=_child, args=(theirs, str(words), function, arguments))
        process.start()
        theirs.close()
        try:
            result = ours.recv() if ours.poll(seconds) else {"error": f"no result within {seconds:.0f} s"}
        except EOFError:
            process.join(GRACE)
            last = words.read_text(errors="replace").strip()[-300:] if words.exists() else ""
            result = {"error": f"the process ended with {process.exitcode}: {last}"}
        process.join(GRACE)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.join()
    return result
