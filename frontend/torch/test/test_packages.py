# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an installed package promises: a quick import, plugins of other packages by entry points, the command, versions of PyTorch."""

import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
import torch_mortise
import torch_mortise._native
from torch_mortise import _library, command, packages

POCKET = pathlib.Path(torch_mortise._native.__file__).parents[2] / "frontend/capi/test/pocket/libpocket.so"
# As torch_mortise.describe does, without Dynamo, whose import takes longer than all else here.
DESCRIBE = """
import json, sys
from torch_mortise import _library
described = _library.session(tuple(json.loads(sys.argv[1]).items())).describe()
print(json.dumps([json.loads(described), "torch_acme" in sys.modules]))
"""


def run(code, *arguments, path=None, **environment):
    environment = dict(os.environ, **environment)
    if path:
        environment["PYTHONPATH"] = f"{path}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=True)


@pytest.fixture
def acme(tmp_path):
    """A package with a plugin, as pip leaves it. It must not be imported."""
    (package := tmp_path / "torch_acme").mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    shutil.copy(POCKET, package)
    shutil.copy(POCKET.with_suffix(".toml"), package)
    (info := tmp_path / "torch_acme-1.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch_mortise.plugins]\nacme = torch_acme\n")
    return package


def described(path, *, options=None, **environment):
    """The names of the plugins, the rejections, and what was written to standard error."""
    done = run(DESCRIBE, json.dumps(options or {}), path=path, **environment)
    found, imported = json.loads(done.stdout)
    assert not imported
    return {plugin["name"] for plugin in found["plugins"]}, found["rejected"], done.stderr


def test_an_import_leaves_dynamo_out():
    code = "import sys, torch; before = set(sys.modules); import torch_mortise; print(*sorted(set(sys.modules) - before))"
    found = run(code).stdout.split()
    assert not [name for name in found if name.startswith(("torch.", "sympy", "networkx"))], found


def test_each_name_is_there_whichever_module_was_imported_first():
    code = """
import importlib, sys
importlib.import_module(sys.argv[1])
import torch_mortise
assert callable(torch_mortise.backend) and set(torch_mortise.__all__) <= set(dir(torch_mortise))
print(*(getattr(torch_mortise, name).__module__ for name in torch_mortise.__all__))
"""
    for first in ("torch_mortise", "torch_mortise.dynamo"):
        assert run(code, first).stdout.split() == ["torch_mortise.errors", *("torch_mortise" + m for m in torch_mortise._MODULES.values())]
    with pytest.raises(AttributeError, match="no attribute 'backends'"):
        _ = torch_mortise.backends


def test_a_package_brings_its_plugin(acme):
    assert "pocket" in described(acme.parent)[0]
    assert "pocket" not in described(None)[0]


def test_settings_are_stronger(acme):
    assert "pocket" not in described(acme.parent, MORTISE_INSTALLED_PLUGINS="")[0]
    assert "pocket" not in described(acme.parent, options={"installed_plugins": "/nowhere"})[0]
    assert described(acme.parent, options={"plugin_path": str(POCKET)})[0] == {"pocket"}
    assert {"pocket", "cpu"} <= described(acme.parent, options={"plugin_path": ":/nowhere.so"})[0]


def test_its_files_are_examined(acme):
    acme.chmod(0o777)
    plugins, [rejected], _ = described(acme.parent)
    assert "pocket" not in plugins and "world-writable" in rejected["reason"]


def test_a_wrong_hash_is_rejected(acme):
    manifest = acme / "libpocket.toml"
    lines = [line for line in manifest.read_text().splitlines() if not line.startswith("sha256")]
    manifest.write_text("\n".join([f'sha256 = "{"0" * 64}"', *lines]))
    plugins, [rejected], _ = described(acme.parent)
    assert "pocket" not in plugins and "sha256" in rejected["reason"]


def test_an_entry_point_that_names_nothing_is_said(acme):
    shutil.rmtree(acme)
    plugins, rejected, said = described(acme.parent)
    assert "cpu" in plugins and not rejected
    assert "acme = torch_acme in torch_mortise.plugins names no installed package" in said


def test_a_folder_that_no_path_can_hold_is_said(acme, tmp_path):
    (odd := tmp_path / "a:b").mkdir()
    acme.rename(odd / acme.name)
    code = f"import sys; sys.path.insert(0, {str(odd)!r}); from torch_mortise import packages; print([packages.installed_plugins()])"
    done = run(code, path=acme.parent)
    assert done.stdout == "['']\n" and "has a colon in its path" in done.stderr


def test_the_command_hands_plugins_over(acme, monkeypatch, tmp_path):
    (program := tmp_path / "bin" / "mortise").parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|%s" "$MORTISE_INSTALLED_PLUGINS" "$*"\n')
    program.chmod(0o755)
    code = f"""
import sys, torch_mortise.command
assert "torch" not in sys.modules
torch_mortise.command.__file__ = {str(tmp_path / "command.py")!r}
torch_mortise.command.main()
"""
    assert run(code, "devices", "--json", path=acme.parent).stdout == f"{acme}|devices --json"
    monkeypatch.setattr(command, "__file__", str(tmp_path / "gone" / "command.py"))
    with pytest.raises(SystemExit, match="expected the program"):
        command.main()


def test_versions_of_pytorch(monkeypatch, caplog):
    monkeypatch.setattr(torch, "__version__", "2.10.0+cpu")
    with pytest.raises(torch_mortise.MortiseError, match=r"expected torch 2.11 to 2.13, found 2.10.0\+cpu; upgrade torch"):
        _library._load()
    with caplog.at_level(logging.WARNING, "torch_mortise"):
        monkeypatch.setattr(torch, "__version__", "2.13.1")
        _library._load()
        assert not caplog.records
        monkeypatch.setattr(torch, "__version__", "2.14.0a0+git123")
        _library._load()
    assert "found 2.14.0a0+git123, with which Mortise was not tested" in caplog.text


def test_the_versions_are_those_of_the_package():
    """Those that the door names, and those that pip compares."""
    import re

    text = (pathlib.Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    [needed] = re.findall(r'dependencies = \["(.*)"\]', text)
    (oldest, newest) = (_library.OLDEST, _library.NEWEST)
    assert needed == f"torch>={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"
    assert packages.VARIABLE == "MORTISE_INSTALLED_PLUGINS"
