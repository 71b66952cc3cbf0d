# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A missing or broken plugin file is refused with an actionable reason, and the good plugins still load."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import torch_mortise

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURE = ROOT / "runtime" / "test" / "plugins" / "fixture.c"
MANIFEST = """name = "faulty"
vendor = "tests"
version = "1.0"
abi = [3, 3]
opset = 1
devices = ["faulty"]
automatic = ["faulty"]
"""


def build(folder: Path, fault: str) -> Path:
    library = folder / "libfaulty.so"
    compiler = shutil.which("clang-22") or shutil.which("cc")
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{ROOT / 'sdk' / 'include'}", f"-DFAULT={fault.upper()}", '-DNAME="faulty"',
                    "-o", str(library), str(FIXTURE)], check=True)
    library.with_suffix(".toml").write_text(MANIFEST)
    return library


def reason(path: Path) -> str:
    """Why the plugin at `path` was refused. Also checks that the installed plugins are still there."""
    described = torch_mortise.describe(plugin_path=f":{path}")
    assert {"cpu", "reference"} <= {device["name"] for device in described["devices"]}
    refused = [entry for entry in described["rejected"] if entry["path"] == str(path)]
    assert len(refused) == 1, described["rejected"]
    return refused[0]["reason"]


def test_a_good_plugin_loads(tmp_path):
    described = torch_mortise.describe(plugin_path=f":{build(tmp_path, 'none')}")
    assert "faulty" in {device["name"] for device in described["devices"]}


def test_missing_file(tmp_path):
    assert "no such file" in reason(tmp_path / "libgone.so").lower()


def test_not_a_plugin(tmp_path):
    library = build(tmp_path, "none")
    library.write_text("this is a text file, not a library\n")
    assert "elf" in reason(library).lower()


@pytest.mark.parametrize("keep", [0, 10, 64, 1000, 5000])
def test_truncated(tmp_path, keep):
    library = build(tmp_path, "none")
    library.write_bytes(library.read_bytes()[:keep])
    assert any(word in reason(library).lower() for word in ("truncated", "elf", "empty"))


def test_not_mortises_library(tmp_path):
    library = build(tmp_path, "none")
    source = tmp_path / "other.c"
    source.write_text("int unrelated(void) { return 1; }\n")
    subprocess.run([shutil.which("clang-22") or "cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    assert "mortise_plugin" in reason(library)


@pytest.mark.parametrize("fault, expected", [
    ("wrong_abi", ("90", "99", "3 to 3")),
    ("wrong_magic", ("magic",)),
    ("wrong_layout", ("layout",)),
    ("null_slot", ("propose",)),
    ("null_table", ("null",)),
    ("fails_to_initialize", ("flux capacitor",)),
    ("garbage_alignment", ("alignment", "7")),
])
def test_garbage(tmp_path, fault, expected):
    found = reason(build(tmp_path, fault)).lower()
    for word in expected:
        assert word in found


def test_manifest_missing(tmp_path):
    library = build(tmp_path, "none")
    library.with_suffix(".toml").unlink()
    assert "manifest" in reason(library).lower()


def test_manifest_of_another_plugin(tmp_path):
    library = build(tmp_path, "none")
    library.with_suffix(".toml").write_text(MANIFEST.replace('"faulty"', '"other"', 1))
    found = reason(library)
    assert "other" in found and "faulty" in found


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX")
def test_world_writable_folder(tmp_path):
    library = build(tmp_path, "none")
    tmp_path.chmod(0o777)
    assert "world-writable" in reason(library)


def test_garbage_candidates_are_dropped_with_a_reason(tmp_path):
    library = build(tmp_path, "garbage_candidates")
    compiled = torch.compile(lambda x: x + 1, backend="mortise",
                             options={"device": "faulty", "plugin_path": f":{library}"})
    x = torch.arange(4.0)
    torch.testing.assert_close(compiled(x), x + 1)  # no device took it, so eager ran it and gives the reason
    eager = torch_mortise.last_report()["graphs"][-1]["eager"]
    assert eager and "faulty" in str(eager)


@pytest.mark.parametrize("fault, expected", [
    ("garbage_candidate", "expected a MortiseCandidate"),
    ("garbage_nodes", "node numbers, found memory that cannot be read"),
    ("garbage_lowering", "its lowering's name cannot be read"),
    ("garbage_pairs", "its pairs to run in place cannot be read"),
    ("garbage_detail", "the plugin's reason cannot be read"),
])
def test_answers_that_cannot_be_read_are_refused(tmp_path, fault, expected):
    library = build(tmp_path, fault)
    compiled = torch.compile(lambda x: x + 1, backend="mortise", options={"device": "faulty", "plugin_path": f":{library}"})
    x = torch.arange(4.0)
    torch.testing.assert_close(compiled(x), x + 1)
    assert expected in str(torch_mortise.last_report()["graphs"][-1]["eager"])


def test_device_of_a_refused_plugin_names_the_reason(tmp_path):
    library = build(tmp_path, "wrong_abi")
    with pytest.raises(Exception) as error:
        torch.compile(lambda x: x + 1, backend="mortise",
                      options={"device": "faulty", "plugin_path": f":{library}"})(torch.ones(2))
    assert "libfaulty.so" in str(error.value) and "99" in str(error.value)
