# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mortise plugin check`: what is wrong with a plugin, in words. Each fault is planted in the SDK's template."""

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

# Lines of the template that faults replace.
LOOP = "  for (int64_t i = begin; i < end; ++i)\n    out[i] = a[i] * b[i];"
MUL = "out[i] = a[i] * b[i];"
CALL = "  struct call call ="
COMPILE = "  MortiseKernel *kernel = calloc"
DESTROY = "  free(args->kernel);"
BOUND = "  args->constants = constants;\n"
INCLUDE = "#include <stdlib.h>\n"
TASK = "static void task(void *context, int64_t begin, int64_t end) {\n  const struct call *call = context;\n"
HOST = "static const MortiseHost *host;"


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


# The changes, and what has to be said.
FAULTS = {
    "a wrong element": ([(MUL, "out[i] = a[i] * b[i] * 1.0001f;")], ["elements of f32", "at most"]),
    "an element left out": ([(LOOP, LOOP.replace("i < end", "i + 1 < end"))], ["elements of f32", "mortise.mul"]),
    "an input is overwritten": ([(LOOP, LOOP + "\n  *(float *)(uintptr_t)&a[begin] = 0;")], ["writes to input", "only to be read"]),
    "a read past the end": ([(MUL, "out[i] = a[i] * b[i] + 0 * a[i + 1];")], ["SIGSEGV at address", "in enqueue of plugin 'acme'"]),
    "a write past the end": ([(LOOP, LOOP.replace("i < end", "i <= end"))],
                             ["SIGSEGV at address", "in enqueue of plugin 'acme'", "region 0 (acme.binary on acme)"]),
    "a write before the begin": ([(LOOP, LOOP + "\n  ((volatile float *)out)[begin - 1] = 0;")], ["writes beside a tensor"]),
    "an abort": ([(COMPILE, "  abort();\n" + COMPILE)], ["SIGABRT in kernel_compile of plugin 'acme'"]),
    "an endless loop": ([(CALL, "  for (volatile int i = 1; i;)\n    ;\n" + CALL)],
                        ["no answer within 2 s", "SIGABRT in enqueue of plugin 'acme'"]),
    "rounding is changed": ([(CALL, "  fesetround(FE_UPWARD);\n" + CALL), (INCLUDE, "#include <fenv.h>\n" + INCLUDE)],
                            ["enqueue changes the thread's floating-point settings"]),
    "state between threads": ([(TASK, "static struct call last;\n" + TASK.replace("= context", "= &last")),
                               ("  host->parallel_for(args", "  last = call;\n  usleep(200);\n  host->parallel_for(args"),
                               (INCLUDE, "#define _DEFAULT_SOURCE\n#include <unistd.h>\n" + INCLUDE)], ["when 4 threads call it at once"]),
    "a leak": ([(DESTROY, "")], ["bytes of memory are not given back"]),
    "constants of the first binding": ([(BOUND, """\
  static MortiseKernel *of;
  static MortiseConstants first;
  if (of != args->kernel)
    first = *constants;
  of = args->kernel;
  *constants = first;
""" + BOUND)], ["after other constants were bound"]),
    "an error at compilation": ([(COMPILE, '  return host->status_create(MORTISE_INTERNAL, "the moon is full");\n' + COMPILE)],
                                ["the moon is full"]),
    "the wrong op": ([('{"mortise.mul", mul},', '{"mortise.sub", mul},')], ["mortise.sub f32", "claims mortise.mul in f32"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted(tmp_path, name):
    changes, expected = FAULTS[name]
    said = check(build(tmp_path, *changes), "--seconds", "2", status=1)
    for words in expected:
        assert words in said, said


def test_claims_without_kernels(tmp_path):
    claims = (('dtypes = ["f32"]', 'dtypes = ["f32", "f16"]'),
              ('ops = ["mortise.add", "mortise.mul"]', 'ops = ["mortise.mul", "mortise.s*"]'))
    said = check(build(tmp_path, manifest=claims), status=1)
    assert "the manifest claims mortise.sub in f32: " in said and "the manifest claims mortise.mul in f16: " in said
    assert "claims mortise.mul in f32" not in said and "in bf16" not in said


def test_leaked_symbols(tmp_path):
    said = check(build(tmp_path, ("static int32_t supports(", "MORTISE_EXPORT int32_t supports(")), status=1)
    assert "expected the one export mortise_plugin, found 1 more: supports" in said


@pytest.mark.parametrize("change, expected", [
    ((".version = \"1.0.0\"", ".version = NULL"), "version"),
    ((".propose = propose,", ""), "propose"),
    ((HOST, "__attribute__((constructor)) static void start(void) { abort(); }\n" + HOST), "SIGABRT in the start"),
])
def test_does_not_load(tmp_path, change, expected):
    assert expected in check(build(tmp_path, change), status=1)


def test_no_plugin(tmp_path):
    assert "expected a shared library" in check(TEMPLATE / "plugin.c", status=1)
    assert "cannot be opened" in check(tmp_path / "libgone.so", status=1)
    library = build(tmp_path)
    library.with_suffix(".toml").unlink()
    assert "manifest" in check(library, status=1)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_our_own(name):
    assert "cases are right" in check(BUILD / "lib" / "mortise" / "plugins" / f"libmortise_{name}.so", status=0, ops="")
