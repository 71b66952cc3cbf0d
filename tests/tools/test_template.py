# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The way of a new vendor: `mortise plugin new` for each language, the commands of docs/write-a-plugin.md, and the ways to
give a plugin work that the templates' README names."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_mortise

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from figures.vendor_path import FAULTS


@pytest.mark.parametrize("lang, memory", FAULTS)
def test_new_plugins_conform(vendor, lang, memory):
    name = f"my-{lang}"
    vendor.run("mortise", "plugin", "new", name, "--lang", lang, "--memory", memory, "--vendor", "Me & Co.")
    if lang == "codegen":  # compilers that work with the build's libraries
        vendor.environment |= {"CC": "clang-22", "CXX": "clang++-22"}
    vendor.build(name)
    said = vendor.check(name)
    assert f"{name} 1.0.0 of Me & Co.: " in said and f"it loads, and has device {name}" in said and "cases are right" in said
    assert "no claim is refused" in said
    for file in (vendor.folder / name).iterdir():
        if file.is_file():
            assert not re.search(r"acme|pointwise", file.read_text(), re.IGNORECASE), file


def test_a_name_that_holds_the_templates(vendor):
    vendor.run("mortise", "plugin", "new", "acme-npu", "--vendor", "Acme Inc. of acme")
    vendor.build("acme-npu")
    assert "acme-npu 1.0.0 of Acme Inc. of acme: " in vendor.check("acme-npu")


@pytest.mark.parametrize("arguments, expected", [
    (["Acme"], "expected a name of up to 40 lower case letters"),
    (["../acme"], "expected a name of up to 40 lower case letters"),
    (["acme", "--lang", "codegen", "--memory", "own"], "--memory host"),
    (["acme", "--vendor", 'a "quoted" name'], "expected a vendor without quotes"),
    (["mortise-sdk"], "is there already, and is not empty"),
])
def test_new_plugins_refused(vendor, arguments, expected):
    assert expected in vendor.run("mortise", "plugin", "new", *arguments, status=2)


def test_new_without_an_sdk(vendor, sdk):
    alone = vendor.folder / "elsewhere" / "bin"
    alone.mkdir(parents=True)
    shutil.copy(sdk / "bin" / "mortise", alone)
    if "not found" in subprocess.run(["ldd", alone / "mortise"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this build's programs find their libraries only in their place")
    assert "there is no SDK beside this program" in vendor.run(alone / "mortise", "plugin", "new", "acme", status=2)


def test_the_page_as_it_stands(vendor, sdk):
    """Each block of commands of docs/write-a-plugin.md, in order, in one shell and an empty folder."""
    page = (sdk / "share" / "mortise" / "sdk" / "README.md").read_text()
    assert page == (ROOT / "docs" / "write-a-plugin.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    os.unlink(vendor.folder / "mortise-sdk")
    subprocess.run(["tar", "-C", sdk.parent, "-czf", vendor.folder / "mortise-sdk.tar.gz", sdk.name], check=True)
    vendor.environment["PATH"] = "/usr/bin:/bin"
    said = vendor.run("bash", "-euxc", "\n".join(blocks))
    assert said.count("nothing wrong") == 2 and "f32: sub" in said and "\nright\n" in said


@pytest.fixture(scope="module")
def acme(sdk, tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    subprocess.run([sdk / "bin" / "mortise", "plugin", "new", "acme", "--folder", folder / "acme"], check=True)
    subprocess.run(["cmake", "-S", folder / "acme", "-B", folder / "build"], check=True)
    subprocess.run(["cmake", "--build", folder / "build"], check=True)
    return f":{folder / 'build' / 'lib' / 'mortise' / 'plugins'}"


@pytest.mark.parametrize("options, expected", [
    ({"device": "acme"}, {"acme", "eager"}),
    ({"device": "acme,cpu"}, {"cpu"}),
    ({"device": "acme,cpu", "place": "op=add device=acme; op=mul device=acme"}, {"acme", "cpu"}),
], ids=["alone", "beside_cpu", "by_rule"])
def test_who_gets_what(acme, options, expected):
    compiled = torch.compile(lambda x, y: torch.tanh(x * y + x), backend="mortise", options={"plugin_path": acme} | options)
    x, y = torch.rand(64, 64), torch.rand(64, 64)
    torch.testing.assert_close(compiled(x, y), torch.tanh(x * y + x))
    assert set(torch_mortise.last_report()["placement"]) == expected
