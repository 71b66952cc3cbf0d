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


# ---- An op of the plugin's own: acme.blend(a, b), for which there is no reference

def own(blend="a[i] + 2 * b[i]", infer="  args->add(args->sink, args->operands[0]);", name="acme.blend", runs=True):
    """Changes of the template that declare acme.blend."""
    definition = f"""static void blend(const float *a, const float *b, float *out, int64_t begin, int64_t end) {{
  static float runs;
  ++runs;
  for (int64_t i = begin; i < end; ++i)
    out[i] = {blend};
}}
static const MortiseOpDeclaration blended = {{.struct_size = sizeof blended, .name = "{name}", .summary = "a and twice b",
                                             .operands_min = 2, .operands_max = 2}};
static const MortiseOpDeclaration *const declared[] = {{&blended}};
static MortiseStatus *infer(MortiseInferArgs *args) {{
  (void)blend;
  if (args->operands[0]->dtype != MORTISE_F32 || args->operands[0]->rank != 2)
    return host->status_create(MORTISE_INVALID_ARGUMENT, "expected matrices of f32");
  for (int i = 0; i < 2; ++i)
    if (args->operands[1]->dtype != MORTISE_F32 || args->operands[1]->rank != 2 ||
        args->operands[0]->dims[i] != args->operands[1]->dims[i])
      return host->status_create(MORTISE_INVALID_ARGUMENT, "expected equal types");
{infer}
  return NULL;
}}
static const struct op ops[] = {{"""
    table = f'    {{"mortise.mul", mul}},\n    {{"{name}", blend}},\n' if runs else '    {"mortise.mul", mul},\n'
    return (("static const struct op ops[] = {", definition), ('    {"mortise.mul", mul},\n', table),
            ("      .enqueue = enqueue,\n", "      .enqueue = enqueue,\n      .ops = declared, .op_count = 1, .infer = infer,\n"))


LISTED = ('devices = ["acme"]', 'devices = ["acme"]\nops = ["acme.blend"]')
CLAIMED = ('ops = ["mortise.add", "mortise.mul"]', 'ops = ["mortise.add", "mortise.mul", "acme.blend"]')
WITH_OWN = OPS + ",acme.blend"


def test_an_own_op_runs_and_has_no_reference(tmp_path):
    said = check(build(tmp_path, *own(), manifest=(LISTED, CLAIMED)), status=0, ops=WITH_OWN)
    assert "ops of its own acme.blend" in said and "f32: acme.blend, add, mul" in said and "nothing wrong" in said
    assert "acme.blend of its own ran in 2 cases, equal inputs with equal results; there is no reference for it" in said


@pytest.mark.parametrize("blend", ["a[i] + b[i] + runs", "i == 3 ? out[i] : a[i]"], ids=["impure", "unwritten"])
def test_an_own_op_that_is_not_pure(tmp_path, blend):
    said = check(build(tmp_path, *own(blend), manifest=(LISTED,)), status=1, ops=WITH_OWN)
    assert "equal inputs give other bytes in another run, or not all of it is written" in said


def test_an_own_op_that_writes_past_its_end(tmp_path):
    said = check(build(tmp_path, *own("(out[end] = 1, a[i])"), manifest=(LISTED,)), status=1, ops=WITH_OWN)
    assert "acme.blend" in said and "SIGSEGV" in said


def test_an_own_op_that_is_declared_and_not_computed(tmp_path):
    said = check(build(tmp_path, *own(runs=False), manifest=(LISTED,)), status=0, ops=WITH_OWN)
    assert "acme.blend of its own is declared, and the device runs none of its cases" in said
    (second := tmp_path / "claimed").mkdir()
    assert "the manifest claims acme.blend in f32: " in check(build(second, *own(runs=False), manifest=(LISTED, CLAIMED)), status=1,
                                                               ops=WITH_OWN)


def test_a_claim_of_an_op_that_is_not_declared(tmp_path):
    said = check(build(tmp_path, manifest=(CLAIMED,)), status=1)
    assert "the manifest claims acme.blend, which is no op of the language, and which the plugin does not declare" in said


def test_an_own_op_of_a_bad_name(tmp_path):
    said = check(build(tmp_path, *own(name="acme.Blend"), manifest=(LISTED,)), status=1, ops=WITH_OWN)
    assert 'expected a name such as "acme.swizzle"' in said and "found 'acme.Blend'" in said


def test_an_infer_that_lies_about_rank(tmp_path):
    lies = "  MortiseType lie = *args->operands[0];\n  lie.rank = 99;\n  args->add(args->sink, &lie);"
    said = check(build(tmp_path, *own(infer=lies), manifest=(LISTED,)), status=1, ops=WITH_OWN)
    assert "expected a rank of 0 to 32, found 99" in said


def test_an_infer_that_accepts_nothing_small(tmp_path):
    refuses = '  return host->status_create(MORTISE_INVALID_ARGUMENT, "expected 4096 columns");'
    said = check(build(tmp_path, *own(infer=refuses), manifest=(LISTED,)), status=0, ops=WITH_OWN)
    assert "acme.blend of its own was not tried: its infer accepts none of the small types that were guessed" in said


def test_a_crash_in_infer_names_the_slot(tmp_path):
    said = check(build(tmp_path, *own(infer="  *(volatile int *)(uintptr_t)0x10 = 1;"), manifest=(LISTED,)), status=1, ops=WITH_OWN)
    assert "SIGSEGV" in said and "infer" in said
