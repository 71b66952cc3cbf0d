# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins that other packages bring: each has an entry point in the group torch_mortise.plugins, which names the package in whose folder
the plugins lie. The runtime trusts them by their files, as it does any plugin's (decision 0043). Needs no PyTorch."""

import functools
import importlib.metadata
import importlib.util
import logging
import os

GROUP, VARIABLE = "torch_mortise.plugins", "MORTISE_INSTALLED_PLUGINS"
log = logging.getLogger("torch_mortise")


def _folders(entry):
    """The folders of the package that an entry point names. Nothing of it is imported."""
    try:
        spec = importlib.util.find_spec(entry.value)
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        log.warning("%s = %s in %s names no installed package; its plugins are left out", entry.name, entry.value, GROUP)
    return folders


@functools.cache
def installed_plugins():
    """The value of the setting installed_plugins: those folders, separated by colons. "" where the environment has the setting."""
    if VARIABLE in os.environ:
        return ""
    entries = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    found = dict.fromkeys(folder for entry in entries for folder in _folders(entry))
    for folder in [each for each in found if ":" in each]:
        log.warning("%s has a colon in its path, which separates paths; its plugins are left out", folder)
        del found[folder]
    return ":".join(found)
