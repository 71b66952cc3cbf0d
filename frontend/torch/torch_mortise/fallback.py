# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Logs once, as "torch_mortise", which operators run in eager PyTorch and why. `last_report()` lists all of them."""

import logging
import os
import re

import torch

from .importer import by_design

log = logging.getLogger("torch_mortise")
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)  # the format of Python's tracebacks
_TORCH = os.path.dirname(torch.__file__) + os.sep
_told = set()  # (site, operator, reason)


def site(node):
    """The place in the user's code that calls the operator, "model.py:12": the innermost frame outside PyTorch. "" without a traceback."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    frames = [f for f in frames if not f[0].startswith(_TORCH)] or frames
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""


def forget():
    """Makes `tell` log every reason again."""
    _told.clear()


def tell(graph):
    """Logs a WARNING for each operator of `graph` that runs in eager, once for each site, operator and reason, however many graphs and
    calls meet it."""
    eager = [(node, reason) for node, reason in graph.eager_nodes() if not by_design(node.target)]
    if not eager:
        return
    rest = "" if graph.has_programs() else "; nothing in this graph is compiled"
    for node, reason in eager:
        _once(site(node) or graph.name, str(node.target), reason, "%s: %s%s runs in eager: %s%s", graph.name, node.target, _at(node),
              reason, rest)


def _at(node):
    where = site(node)
    return f" at {where}" if where else ""


def _once(where, operator, reason, text, *arguments):
    if (where, operator, reason) not in _told:
        _told.add((where, operator, reason))
        log.warning(text, *arguments)
