# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mortise plugin check`: what it says of a plugin. tests/bad_input has the faults that it finds."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import measure

BUILD = measure.build_folder()
MORTISE = BUILD / "bin" / "mortise"
TEMPLATE = ROOT / "sdk" / "template" / "c"
OPS = "mortise.add,mortise.mul,mortise.sub"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")} | {"MORTISE_KERNEL_CACHE": "off"}

LOOP = "  for (int64_t i = begin; i < end; ++i)\n    out[i] = a[i] * b[i];"


def build(folder, *changes, manifest=(), flags=("-fvisibility=hidden",)):
    """The template with changes, pairs of an old and a new text."""
    texts = {}
    for name, pairs in (("plugin.c", changes), ("manifest.toml", manifest)):
        texts[name] = (TEMPLATE / name).read_text()
        for old, new in pairs:
            assert texts[name].count(old) == 1, (name, old)
            texts[name] = texts[name].replace(old, new)
    (folder / "plugin.c").write_text(texts["plugin.c"])
    library = folder / "libmortise_acme.so"
    library.with_suffix(".toml").write_text(texts["manifest.toml"])
    compiler = shutil.which("clang-22") or shutil.which("cc")
    include = f"-I{ROOT / 'sdk' / 'include'}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", *flags, include, "-o", library, folder / "plugin.c", "-lm"], check=True)
    return library


def check(library, *options, status, ops=OPS):
    ran = subprocess.run([MORTISE, "plugin", "check", library, "--ops", ops, *options], capture_output=True, text=True, timeout=300,
                         env=ENVIRONMENT)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


def test_the_template(tmp_path):
    said = check(build(tmp_path), status=0)
    assert "it exports mortise_plugin alone" in said
    assert "f32: add, mul" in said and "sub" not in said
    assert "nothing wrong" in said
    assert "expected an op of the plugin's table" in check(build(tmp_path), "--verbose", status=0)


def test_json(tmp_path):
    report = json.loads(check(build(tmp_path, (LOOP, LOOP + "\n  out[0] = 3;")), "--json", status=1))
    assert {entry["outcome"] for entry in report["checks"]} == {"ok", "note", "BAD"}
    outcomes = {case["case"]: case["outcome"] for case in report["devices"]["acme"]}
    assert set(outcomes.values()) == {"right", "wrong", "refused"}
    assert all(outcome != "wrong" for name, outcome in outcomes.items() if not name.startswith("mortise.mul"))


def test_claims_without_kernels(tmp_path):
    claims = (('dtypes = ["f32"]', 'dtypes = ["f32", "f16"]'),
              ('ops = ["mortise.add", "mortise.mul"]', 'ops = ["mortise.mul", "mortise.s*"]'))
    said = check(build(tmp_path, manifest=claims), status=1)
    assert "the manifest claims mortise.sub in f32: " in said and "the manifest claims mortise.mul in f16: " in said
    assert "claims mortise.mul in f32" not in said and "in bf16" not in said


def test_another_device(tmp_path):
    assert "it has no device other; its devices are acme" in check(build(tmp_path), "--device", "other", status=1)
    assert "4 cases are right" in check(build(tmp_path), "--device", "acme", status=0)


def test_bad_arguments(tmp_path):
    library = build(tmp_path)
    assert "no op is like 'mortise.nothing'; expected shell patterns" in check(library, ops="mortise.nothing", status=1)
    for seconds in ("0", "-1", "nan", "soon"):
        check(library, "--seconds", seconds, status=105)


def test_no_plugin(tmp_path):
    assert "expected a shared library" in check(TEMPLATE / "plugin.c", status=1)
    assert "cannot be opened" in check(tmp_path / "libgone.so", status=1)
    library = build(tmp_path)
    library.with_suffix(".toml").unlink()
    assert "manifest" in check(library, status=1)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_our_own(name):
    assert "cases are right" in check(BUILD / "lib" / "mortise" / "plugins" / f"libmortise_{name}.so", status=0, ops="")
