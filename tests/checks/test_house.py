# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checks find what they are for, in small trees with one breach each."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MARK = "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n"


def run(check: str, root: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, HERE / "house.py", check, root], capture_output=True, text=True, check=False)


def tree(root: Path, files: dict[str, str]) -> Path:
    subprocess.run(["git", "init", "-q", root], check=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


BAD = [
    ("vendors", "runtime/a.cpp", MARK + "if (name == \"cuda\")\n"),
    ("vendors", "ir/families/A.td", "// as cuDNN does\n"),
    ("vendors", "runtime/a.cpp", MARK + "cudaMalloc(&memory, bytes);\n"),
    ("vendors", "runtime/a.cpp", MARK + "cuMemAlloc(&memory, bytes);\n"),
    ("vendors", "runtime/a.cpp", MARK + "bool use_hip_graphs;\n"),
    ("vendors", "passes/a.cpp", MARK + "CUBLAS_STATUS_SUCCESS\n"),
    ("vendors", "frontend/a.cpp", MARK + "vkCmdDispatch(commands, x, y, z);\n"),
    ("vendors", "frontend/a.cpp", MARK + "dnnl::memory memory; // oneDNN\n"),
    ("includes", "plugins/cpu/a.cpp", MARK + "#include <mortise/runtime/registry.hpp>\n"),
    ("includes", "plugins/cpu/a.cpp", MARK + '#include "../../runtime/host.hpp"\n'),
    ("includes", "plugins/cpu/a.cpp", MARK + "#include <mortise/mortise.h>\n"),
    ("includes", "sdk/include/mortise/a.hpp", MARK + "#include <llvm/ADT/STLExtras.h>\n"),
    ("includes", "sdk/include/mortise/a.hpp", MARK + "#include <mortise/runtime/registry.hpp>\n"),
    ("readmes", "stuff/a.txt", ""),
    ("licences", "runtime/a.cpp", "int a;\n"),
    ("licences", "bench/a.py", '"""words"""\n'),
]
GOOD = [
    ("includes", "sdk/include/mortise/a.hpp", "#include <mortise/graph.hpp>\n#include <stddef.h>\n#include  <vector>\n"),
    ("vendors", "plugins/cpu/a.cpp", "// oneDNN's\n"),
    ("vendors", "runtime/test/a.cpp", "// cuda\n"),
    ("vendors", "runtime/a.cpp", "// chip, hipster, cut, accumulate, barracuda, documents\n"),
    ("includes", "plugins/cpu/a.cpp", "#include <mortise/plugin.hpp>\n#include <mortise/codegen/codegen.hpp>\n#include <vector>\n"),
    ("includes", "runtime/a.cpp", "#include <mortise/runtime/registry.hpp>\n"),
    ("readmes", "stuff/README.md", "stuff\n"),
    ("licences", "runtime/a.cpp", MARK),
]


@pytest.mark.parametrize("check, name, text", BAD)
def test_finds(tmp_path, check, name, text):
    found = run(check, tree(tmp_path, {name: text}))
    assert found.returncode == 1 and name.split("/")[0] in found.stdout, found.stdout


@pytest.mark.parametrize("check, name, text", GOOD)
def test_passes(tmp_path, check, name, text):
    found = run(check, tree(tmp_path, {name: text}))
    assert found.returncode == 0, found.stdout


def library(folder: Path, name: str, source: str, *flags: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / f"{name}.so", folder / f"{name}.c", *flags], check=True)
    (folder / f"{name}.toml").write_text("")


def test_libraries(tmp_path):
    plugins, host = tmp_path / "lib" / "mortise" / "plugins", tmp_path / "lib"
    hidden, shown = ["-fvisibility=hidden"], '__attribute__((visibility("default"))) '

    def look(*arguments):
        return subprocess.run([sys.executable, HERE / "libraries.py", tmp_path, *arguments], capture_output=True, text=True, check=False)

    plugins.mkdir(parents=True)
    for name in ("libmortise", "libmortise-runtime"):
        library(host, name, "void mortise_run(void) {}")
    library(plugins, "libmortise_a", "void mortise_plugin(void) {}")
    assert look("a").returncode == 0, look("a").stdout
    assert "libmortise_b.so: expected" in look("a", "b").stdout
    library(plugins, "libmortise_b", "void mortise_plugin(void) {} int other;")
    assert "one export" in look().stdout
    library(plugins, "libmortise_b", f"int mortise_run(void); {shown} int mortise_plugin(void) {{ return mortise_run(); }}", *hidden,
            f"-L{host}", "-l:libmortise.so")
    assert "a plugin links nothing of ours" in look().stdout
    (plugins / "libmortise_b.toml").unlink()
    assert "no manifest" in look().stdout
    library(plugins, "libmortise_b", "void mortise_plugin(void) {}")
    library(host, "libLLVM", "void LLVMInitialize(void) {}")
    library(host, "libmortise", "void LLVMInitialize(void); void mortise_run(void) { LLVMInitialize(); }", f"-L{host}", "-l:libLLVM.so")
    assert "LLVM is inside and hidden" in look().stdout and look("--shared-llvm").returncode == 0
    library(host, "libmortise-runtime", "void LLVMInitialize(void); void mortise_run(void) { LLVMInitialize(); }", f"-L{host}",
            "-l:libLLVM.so")
    assert "libmortise-runtime.so: links libLLVM.so" in look("--shared-llvm").stdout
    library(host, "libmortise", "void mortise_run(void) {} void _ZN4llvm5errsEv(void) {}")
    assert "1 others: _ZN4llvm5errsEv" in look().stdout
    (host / "libmortise.so").unlink()
    assert "expected, not found" in look().stdout
