# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A line on the terminal while a compilation takes long: which graph, how many of its programs are compiled, and the time so far."""

import contextlib
import sys
import threading
import time

SILENT, EVERY = 3.0, 0.5  # seconds before the line appears, and between two states of it
WIDTH = 20  # of the bar


def line(name, done, total, seconds):
    filled = WIDTH * done // max(total, 1)
    return f"mortise: {name} [{'#' * filled}{'.' * (WIDTH - filled)}] {done} of {total} programs, {seconds:.0f} s"


@contextlib.contextmanager
def shown(name, counts):
    """Shows a line while the body runs, if standard error is a terminal. `counts()`: how many programs are compiled, of how many."""
    stream = sys.stderr
    if not (hasattr(stream, "isatty") and stream.isatty()):
        yield
        return
    ended, started = threading.Event(), time.perf_counter()

    def show():
        visible = False
        while not ended.wait(EVERY if visible else SILENT):
            visible = True
            stream.write(f"\r\x1b[K{line(name, *counts(), time.perf_counter() - started)}")
            stream.flush()
        if visible:
            stream.write("\r\x1b[K")
            stream.flush()

    thread = threading.Thread(target=show, name="mortise progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
