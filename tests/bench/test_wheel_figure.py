# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figure `wheel` without its systems: a wheel, a row or a machine that is not as it should be is never counted as passed."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools" / "wheel")]
import bare
import check
import torch
import torch_mortise
import wheel_checks
import figure
import verdict
import wheel as maker
from figures import wheel

ROW = {
    **{"python": "3.11.2", "torch": "2.13.0", "devices": ["cpu"], "eager": [], "graphs": 1, "nodes": 3, "error": 1e-7},
    **{"dtype": "torch.float32", "shape": [32, 64], "import_s": 0.01, "rejected": [], "command": "cpu: a processor"},
    **{"plugins": ["cpu", "cuda", "reference", "vulkan"], "install_s": 2.0, "first_call_s": 5.0, "installed_megabytes": 100.0},
    "checks": {check.__name__: "" for check in wheel_checks.CHECKS},
}
FAULTS = {
    "in eager": ({"devices": [], "nodes": 0, "eager": ["gelu"]}, "expected everything on cpu"),
    "another device": ({"devices": ["cpu", "reference"]}, "expected everything on cpu"),
    "not compiled": ({"graphs": 0}, "expected everything on cpu"),
    "wrong": ({"error": 0.1}, "differs from eager"),
    "NaN": ({"error": float("nan")}, "differs from eager"),
    "another type": ({"dtype": "torch.float64"}, "differs from eager"),
    "slow to import": ({"import_s": 0.151}, "importing takes 0.151 s beyond torch's"),
    "a plugin that is not found": ({"plugins": ["cpu", "reference", "vulkan"]}, "expected the plugins"),
    "a damaged plugin": ({"rejected": ["libmortise_cuda.so: sha256 differs"]}, "sha256 differs"),
    "a check that fails": ({"checks": ROW["checks"] | {"changed_weights": "differs by 1"}}, "changed_weights: differs by 1"),
    "a check that is not made": ({"checks": {"changed_weights": ""}}, "expected 5 checks"),
    "a command without devices": ({"command": "mortise: no device"}, "lists no cpu"),
}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Systems that are empty folders, wheels that are empty files, and the row that all environments have."""

    def make(name, folder, build):
        (file := tmp_path / f"{name}.whl").touch()
        return file

    class Bare:
        def __init__(self, root, *_):
            (tmp_path / "system" / "home").mkdir(parents=True, exist_ok=True)
            self.root = tmp_path / "system"

    monkeypatch.setattr(maker, "make", make)
    monkeypatch.setattr(check, "breaches", lambda _: [])
    monkeypatch.setattr(bare, "BareDebian", Bare)
    monkeypatch.setattr(wheel, "interpreters", lambda: {"3.11": ("bookworm", "/usr/bin/python3.11")})
    monkeypatch.setattr(wheel, "measure_row", lambda *_: dict(ROW, problem=wheel.problem_of(ROW)))


def test_rows_that_are_good_pass(machine):
    result = wheel.measure(["3.11", "3.14/2.13"])
    assert verdict.problems(result) == [] and (result["passed"], result["failed"]) == (3, 0)
    assert list(result["rows"]) == ["3.11/2.11", "3.11/2.12", "3.11/2.13"] and list(result["not_run"]) == ["3.14/2.13"]
    assert result["import_s"] == 0.01 and result["seconds"] == {"install_s": 2.0, "first_call_s": 5.0}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_row_that_is_not_fails(fault, machine, monkeypatch):
    change, why = FAULTS[fault]
    monkeypatch.setattr(wheel, "measure_row", lambda *_: ROW | change | {"problem": wheel.problem_of(ROW | change)})
    result = wheel.measure(["3.11/2.13"])
    assert result["failed"] == 1 and any(why in problem for problem in verdict.problems(result))


def test_an_environment_that_breaks_fails(machine, monkeypatch):
    def broken(*_):
        raise RuntimeError("in the bare Debian, 'pip install' failed")

    monkeypatch.setattr(wheel, "measure_row", broken)
    assert "rows.3.11/2.13: in the bare Debian, 'pip install' failed" in verdict.problems(wheel.measure(["3.11/2.13"]))


def test_a_wheel_that_is_not_what_it_says_fails(machine, monkeypatch):
    monkeypatch.setattr(check, "breaches", lambda file: ["auditwheel proves linux_x86_64"] if "vulkan" in file.name else [])
    result = wheel.measure(["3.11/2.13"])
    assert result["problems"] == ["torch-mortise-vulkan.whl: auditwheel proves linux_x86_64"] and "1 failed" in verdict.problems(result)


def test_nothing_that_was_run_is_no_pass(machine):
    assert "passed is 0: nothing was measured" in verdict.problems(wheel.measure(["3.12"]))


def test_unknown_rows_are_refused():
    with pytest.raises(ValueError, match="expected rows such as 3.11/2.13 or 3.11, of CPython 3.10, .*; found 3.9"):
        wheel.chosen(["3.11", "3.9"])


def test_who_is_not_root_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in figure.make("wheel", [])["error"]


def test_a_system_with_a_compiler_is_refused(monkeypatch, tmp_path):
    (tmp_path / "made").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda _: "debootstrap")
    monkeypatch.setattr(bare, "FILES", ())
    monkeypatch.setattr(bare.BareDebian, "run", lambda *_: "/usr/bin/gcc\n")
    with pytest.raises(RuntimeError, match="expected a system without a compiler, found /usr/bin/gcc"):
        bare.BareDebian(tmp_path, "bookworm", (), [])


def test_pips_settings_reach_the_system(monkeypatch, tmp_path):
    """An index of files is shared with what lies beside its folder `simple`."""
    for name in ("wheels", "index/simple"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(bare, "FILES", ())
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file://{tmp_path}/index/simple https://example.org/simple")
    folders, kept = bare.settings()
    assert {str(tmp_path / "wheels"), str(tmp_path / "index")} <= set(folders) and f"PIP_FIND_LINKS={tmp_path / 'wheels'}" in kept


def test_what_differs_between_releases(capsys):
    wheel_checks.main()
    found = json.loads(capsys.readouterr().out)
    assert len(found) == wheel.CHECKS and set(found.values()) == {""}


def test_the_checks_see_faults():
    x = torch.randn(3)
    assert "differs" in wheel_checks.apart(torch.zeros(3), x) and "differs" in wheel_checks.apart(x * float("nan"), x)

    def in_eager(x):
        return torch.special.bessel_j0(x).relu()

    def broken(x):
        print(end="")
        return x + 1

    assert wheel_checks.compiled(in_eager)(x) is not None and "special_bessel_j0" in wheel_checks.left_out()
    assert wheel_checks.compiled(broken)(x) is not None and "print" in wheel_checks.left_out()
    torch_mortise.reset()
    assert wheel_checks.left_out() == "nothing was compiled"
