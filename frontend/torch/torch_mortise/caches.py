# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled kernels among what `torch.compiler.save_cache_artifacts()` saves. A process that loads them (`import torch_mortise.caches`
first, because PyTorch takes only kinds that it knows) finds them in its kernel cache. They are machine code: load no bytes of others."""

import contextlib
import io
import logging
import os
import re
import tarfile
import tempfile
import threading
import time

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from . import _library

log = logging.getLogger("torch_mortise")
KERNEL = re.compile(r"[0-9a-f]{16}\.kernel")  # runtime/kernel_cache.cpp names files so
_started = time.time() - 1  # file systems keep times less exactly
_sessions = set()  # options of the sessions for which graphs were compiled
_lock = threading.Lock()
_waiting = None  # the artifact that will hold the kernels of the compilations since the last one was saved


def folder(options=()):
    """The folder of the kernel cache; None without one."""
    setting = _library.setting(options, "kernel_cache")
    if setting != "on":
        return setting if setting != "off" else None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "mortise", "kernels")


def packed():
    """The kernels that were compiled or loaded since this process began, by it or beside it, as an archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in sorted({found for options in _sessions if (found := folder(options))}):
            with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
                for entry in entries:
                    if KERNEL.fullmatch(entry.name) and entry.stat().st_mtime >= _started:
                        tar.add(entry.path, entry.name)
    return archive.getvalue()


def unpack(content, path):
    """Writes the kernels of an archive into the folder, each as a whole. The runtime checks them when it reads them."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            if not member.isfile() or not KERNEL.fullmatch(member.name):
                log.warning("cache artifacts: expected kernels, found %r, which is left out", member.name)
                continue
            with tempfile.NamedTemporaryFile(dir=path, suffix=".tmp", delete=False) as file:
                file.write(tar.extractfile(member).read())
            os.replace(file.name, os.path.join(path, member.name))


@CacheArtifactFactory.register
class Kernels(CacheArtifact):
    """One for all kernels. Those of this process are read when PyTorch saves them, because nearly no process does."""

    __hash__, __eq__ = object.__hash__, object.__eq__  # a comparison of contents would read them

    @staticmethod
    def type():
        return "mortise"

    @property
    def content(self):
        return self.loaded or self.collected()

    @content.setter
    def content(self, value):
        self.__dict__["loaded"] = value

    def collected(self):
        global _waiting
        with _lock:
            _waiting = None if _waiting is self.key else _waiting
        return packed()

    def populate_cache(self):
        if (path := folder()) is None:
            log.warning("cache artifacts: kernel_cache is off, so that the saved kernels are not used")
        else:
            unpack(self.content, path)


def compiled(options):
    """Notes that a graph was compiled in the session for `options`."""
    global _waiting
    with _lock:
        _sessions.add(options)
        if _waiting is not None:
            return
        _waiting = key = f"kernels {time.time_ns()}"
    CacheArtifactManager.record_artifact(Kernels.type(), key, b"")
