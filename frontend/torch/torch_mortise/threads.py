# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The threads that work beside the caller's."""

import concurrent.futures
import logging
import os

log = logging.getLogger("torch_mortise")

_compiler = None


def compiler():
    """The thread that compiles beside calls that run in eager."""
    global _compiler
    if _compiler is None:
        _compiler = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mortise compile")
    return _compiler


_binder = None


def binder():
    """The thread that binds weights ahead of calls. To start a thread is to wait for it, so that the backend asks for it before it has
    work for it."""
    global _binder
    if _binder is None:
        _binder = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mortise bind")
        _binder.submit(int)
    return _binder


def tell_failure(future):
    """Errors of binding are left to the first call, which binds again. Whatever else was raised is a fault of ours."""
    if future.exception():
        log.error("binding ahead of the first call failed", exc_info=future.exception())


def forget_threads():
    global _binder, _compiler
    _binder = _compiler = None


os.register_at_fork(after_in_child=forget_threads)  # a child has no such threads
