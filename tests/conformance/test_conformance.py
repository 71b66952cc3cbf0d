# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mortise-conformance`: what it says of our plugins, and of a template with faults."""

import json
import math
import os
import random
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "tools")]
import measure
import saboteur
import templates
from test_plugin_check import LOOP, build

BUILD = measure.build_folder()
KIT = BUILD / "bin" / "mortise-conformance"
PLUGINS = BUILD / "lib" / "mortise" / "plugins"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")}
SCHEMA = json.loads((ROOT / "conformance" / "report.schema.json").read_text())

# As the kit's exit statuses are named in conformance/kit/options.hpp.
GOOD, FAILED, USAGE, UNUSABLE, NOTHING, SHRUNKEN, UNPROVEN, UNEXPECTED = range(8)


def run(*arguments, status):
    ran = subprocess.run([KIT, *map(str, arguments)], capture_output=True, text=True, timeout=280, env=ENVIRONMENT)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def judge(plugin, folder, *arguments, status):
    """A run's words and its report."""
    said = run("--plugin", plugin, "--report", folder, "--jobs", "2", *arguments, status=status)
    report = json.loads((folder / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    assert report["exit"] == status
    return said, report


def judge_template(tmp_path, *changes, status, manifest=(), arguments=("--op", "add,mul", "--quick")):
    return judge(build(tmp_path, *changes, manifest=manifest), tmp_path / "out", *arguments, status=status)


def test_reference(tmp_path):
    part = ("--quick", "--level", "core,composite", "--shard", "1/6")
    said, report = judge(PLUGINS / "libmortise_reference.so", tmp_path, *part, status=GOOD)
    assert report["totals"]["passed"] > 500
    assert f"seed {report['run']['seed']}" in said
    coverage = report["coverage"]
    assert 0 < coverage["covered"] < coverage["possible"]
    # Strides are all that it refuses, with what follows from the lack of pairs in place.
    assert {line["reason"] for line in report["cases"] if line["outcome"] == "refused"} <= {"layout", "no-pair"}


def test_reference_over_symbols(tmp_path):
    """The interpreter runs static shapes: nothing is executed."""
    said, report = judge(PLUGINS / "libmortise_reference.so", tmp_path, "--level", "dynamic", "--op", "add", "--quick", status=NOTHING)
    assert report["result"] == "nothing executed"
    assert {line["reason"] for line in report["cases"]} <= {"needs-static", "no-pair"}


def test_cpu(tmp_path):
    expectations = ROOT / "plugins" / "cpu" / "expectations.toml"
    _, report = judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--quick", "--level", "core,composite", "--shard", "1/6", "--seed", "1",
                      "--expectations", expectations, status=GOOD)
    assert report["totals"]["passed"] > 500


def test_cpu_over_symbols(tmp_path):
    ops = "add,exp,reduce_sum,softmax,dot"
    _, report = judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--quick", "--level", "dynamic", "--op", ops, "--seed", "1",
                      "--expectations", ROOT / "plugins" / "cpu" / "expectations.toml", status=GOOD)
    assert report["totals"]["passed"] > 50
    assert all(line["case"].startswith("dynamic/") for line in report["cases"])


def test_updates_over_six_symbols(tmp_path):
    """The cpu plugin once listed where each element lies, of which there are 2^36 with typical values of the symbols."""
    _, report = judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--seed", "5", "--memory", 1 << 32,
                      "--case", "dynamic/put/i16/rank6/updated/random/set/#1",
                      "--case", "dynamic/put/f16/rank6/updated/extreme/add-last/#1", status=GOOD)
    assert report["totals"]["passed"] == 2


def test_template(tmp_path):
    said, report = judge_template(tmp_path, status=GOOD, arguments=("--op", "add,mul", "--level", "core"))
    assert report["totals"]["passed"] > 10
    assert report["totals"]["failed"] == 0
    suites = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert int(suites.get("tests")) == len(report["cases"]) and suites.get("failures") == "0"


@pytest.mark.parametrize("template", ["c-own", "cpp-own"])
def test_templates_with_memory_of_their_own(tmp_path, template):
    """Who begins with one has a plugin that passes: strides are refused, and what its device does not have is an error."""
    library = templates.library_of(template, tmp_path)
    _, report = judge(library, tmp_path / "out", "--op", "add,mul,sub", "--level", "core,abi", status=GOOD)
    assert report["totals"]["passed"] > 50 and not report["totals"]["failed"]


FLUSH = "a[i] * b[i] < 1e-38f && a[i] * b[i] > -1e-38f ? 0 * a[i] * b[i] : a[i] * b[i]"
INITIALIZE = "static MortiseStatus *initialize(MortiseInitializeArgs *args) {"
F32_ALONE = "  if (type->dtype != MORTISE_F32) {"

# What is planted, and how the kit calls it.
FAULTS = {
    "the last element is left out": ((LOOP, LOOP.replace("i < end", "i + 1 < end")), "failed", "result"),
    "a NaN is swallowed": ((LOOP, LOOP.replace("a[i] * b[i]", "a[i] == a[i] ? a[i] * b[i] : 0")), "failed", "result"),
    "the sign of zero is lost": ((LOOP, LOOP.replace("a[i] * b[i]", "a[i] * b[i] == 0 ? 0 : a[i] * b[i]")), "failed", "result"),
    "subnormals are flushed": ((LOOP, LOOP.replace("a[i] * b[i]", FLUSH)), "failed", "result"),
    "it writes one element too many": ((LOOP, LOOP.replace("i < end", "i <= end")), "crashed", None),
    "it reads one element too many": ((LOOP, LOOP + "\n  volatile float next = a[end]; (void)next;"), "crashed", None),
    "it writes to an input": ((LOOP, LOOP + "\n  if (begin < end) ((float *)a)[begin] = 1;"), "failed", "input"),
    "it is another result each time": (
        (LOOP, "  static float calls;\n  calls += 1;\n" + LOOP.replace("a[i] * b[i]", "a[i] * b[i] + calls * 1e-30f")), "failed", None),
    "it crashes": ((LOOP, LOOP + "\n  if (end > 40) *(volatile int *)0 = 1;"), "crashed", None),
    "it hangs": ((LOOP, LOOP + "\n  while (end > 1000) { __asm__ volatile(\"\"); }"), "hung", None),
    "it leaks": ((LOOP, LOOP + "\n  volatile char *lost = malloc(500); lost[0] = 1;"), "failed", "leak"),
    "it ignores strides": (("    if (types[i]->strides) {", "    if (types[i]->strides && !host) {"), "failed", None),
    "it ignores the element type": ((F32_ALONE, F32_ALONE.replace(")", " && type->dtype != MORTISE_I32)")), "failed", "result"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault, tmp_path):
    change, outcome, kind = FAULTS[fault]
    arguments = ("--op", "add,mul", "--quick", "--limit", "2") if outcome == "hung" else ("--op", "add,mul", "--level", "core")
    said, report = judge_template(tmp_path, change, status=FAILED, arguments=arguments)
    lines = [line for line in report["cases"] if line["outcome"] == outcome and (kind is None or line.get("kind") == kind)]
    assert lines, {(line["outcome"], line.get("kind")) for line in report["cases"]}
    # Others go on, in another worker.
    assert report["totals"]["passed"] > 0
    assert report["cases"][-1]["outcome"]
    assert "repeat: mortise-conformance --plugin" in said


def test_a_failure_is_repeated_by_its_command(tmp_path):
    library = build(tmp_path, FAULTS["the last element is left out"][0])
    _, report = judge(library, tmp_path / "out", "--op", "mul", "--quick", status=FAILED)
    line = next(line for line in report["cases"] if line["outcome"] == "failed")
    said = run("--plugin", library, "--seed", report["run"]["seed"], "--case", line["case"], status=FAILED)
    assert line["why"] in said


def test_claims(tmp_path):
    claims = (('ops = ["mortise.add", "mortise.mul"]', 'ops = ["mortise.add", "mortise.sub"]'),)
    said, report = judge_template(tmp_path, manifest=claims, status=UNPROVEN, arguments=("--op", "add,sub", "--quick"))
    assert any("mortise.sub in f32" in text for text in report["unproven"])
    assert "claims that no case proves" in said


def test_nothing_executed(tmp_path):
    said, _ = judge_template(tmp_path, status=NOTHING, arguments=("--op", "exp", "--quick"))
    assert "nothing executed" in said


def test_expectations(tmp_path):
    expected = tmp_path / "expectations.toml"
    expected.write_text('[[not-yet]]\ncases = ["mul/*"]\nreason = "later"\n')
    said, report = judge_template(tmp_path, status=UNEXPECTED, arguments=("--op", "add,mul", "--quick", "--expectations", expected))
    assert "not-yet mul/*" in said
    change = (LOOP, LOOP.replace("a[i] * b[i]", "7"))
    expected.write_text('[[never]]\ncases = ["mul/f32/*"]\nreason = "by design"\n')
    _, report = judge_template(tmp_path, change, status=GOOD, arguments=("--op", "add,mul", "--quick", "--expectations", expected))
    assert any(line.get("expected") for line in report["cases"])
    expected.write_text('[[never]]\ncases = ["mul/f32/*"]\n')
    assert "expected a reason" in run("--plugin", tmp_path / "libmortise_acme.so", "--expectations", expected, status=USAGE)


def test_a_library_that_crashes_as_it_is_loaded(tmp_path):
    change = (INITIALIZE, INITIALIZE + "\n  *(volatile int *)0 = 1;")
    said = run("--plugin", build(tmp_path, change), status=UNUSABLE)
    assert "SIGSEGV" in said and "initialize" in said


def test_shards_are_all_cases(tmp_path):
    def ids(*arguments):
        return [line for line in run("--list", "--quick", "--op", "a*", *arguments, status=GOOD).splitlines() if "/#" in line]

    parts = [ids("--shard", f"{part}/3") for part in (1, 2, 3)]
    assert sorted(sum(parts, [])) == sorted(ids())
    assert all(parts)


def test_a_fault_that_shows_with_other_values_alone(tmp_path):
    """Random numbers have no zero among them; those of the last run have."""
    change = (LOOP, LOOP.replace("a[i] * b[i]", "a[i] == 0 ? 7 : a[i] * b[i]"))
    said, _ = judge_template(tmp_path, change, status=FAILED, arguments=("--case", "mul/f32/large/dense/random/#1"))
    assert "of other values" in said


def test_a_read_behind_a_misaligned_tensor(tmp_path):
    """Where the tensor ends at the page, which takes an odd number of elements."""
    change = (LOOP, LOOP + "\n  volatile float next = a[end]; (void)next;")
    listed = run("--list", "--op", "mul", status=GOOD).splitlines()
    names = [line for line in listed if line.startswith("mul/f32/") and "/misaligned/" in line]
    arguments = [word for name in names for word in ("--case", name)]
    _, report = judge_template(tmp_path, change, status=FAILED, arguments=arguments)
    assert {"crashed"} <= {line["outcome"] for line in report["cases"]}


def test_cases_of_a_file(tmp_path):
    names = ["mul/f32/prime/dense/random/#1", "add/f32/tail/dense/nan/#1"]
    (file := tmp_path / "cases").write_text("\n".join(names) + "\n\n")
    _, report = judge(build(tmp_path), tmp_path / "out", "--cases", file, status=GOOD)
    assert sorted(line["case"] for line in report["cases"]) == sorted(names)
    file.write_text("\n")
    assert "found none" in run("--plugin", tmp_path / "libmortise_acme.so", "--cases", file, status=USAGE)


def test_resume(tmp_path):
    library = build(tmp_path)
    first, report = judge(library, tmp_path / "out", "--op", "add,mul", "--quick", "--seed", "5", status=GOOD)
    journal = tmp_path / "out" / "verdicts.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == len(report["cases"]) + 1
    journal.write_text("".join(lines[:11]) + '{"case": "add/f3')  # as if it had been interrupted
    _, again = judge(library, tmp_path / "out", "--op", "add,mul", "--quick", "--seed", "5", "--resume", status=GOOD)
    assert again["run"]["resumed"] == 10
    assert again["totals"] == report["totals"]
    said = run("--plugin", library, "--op", "add", "--seed", "6", "--report", tmp_path / "out", "--resume", status=USAGE)
    assert "those of another run" in said


def test_diff(tmp_path):
    library = build(tmp_path)
    judge(library, tmp_path / "good", "--op", "mul", "--quick", "--seed", "1", status=GOOD)
    library = build(tmp_path, FAULTS["the last element is left out"][0])
    judge(library, tmp_path / "bad", "--op", "mul", "--quick", "--seed", "1", status=FAILED)
    good, bad = tmp_path / "good" / "report.json", tmp_path / "bad" / "report.json"
    assert "passed -> failed" in run("diff", good, bad, status=FAILED)
    assert "failed -> passed" in run("diff", bad, good, status=GOOD)
    assert "no case differs" in run("diff", good, good, status=GOOD)
    assert "expected a report.json" in run("diff", good, library, status=USAGE)


def test_a_seed_is_fresh_unless_it_is_given(tmp_path):
    library = build(tmp_path)
    seeds = {judge(library, tmp_path / "out", "--case", "add/f32/prime/dense/random/#1", status=GOOD)[1]["run"]["seed"] for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize("arguments, why", [
    (("--level", "cores"), "expected core, composite, dynamic, training"),
    (("--shard", "3/2"), "expected I/N"),
    (("--resume",), "expected --report and --seed"),
    (("--jobs", "0"), "--jobs"),
    (("--op", "add,nosuch"), "is like 'nosuch'"),
    (("--op", "softmax"), "no op with cases of these levels"),
    (("--memory", "1"), "--memory"),
    (("--limit", "-1"), "--limit"),
    (("--case", "add/f32/prime"), "expected OP/DTYPE/SHAPE"),
    ((), "expected --plugin"),
    (("--nosuch",), "--nosuch"),
])
def test_words_that_are_not_understood(arguments, why):
    plugin = () if not arguments else ("--plugin", PLUGINS / "libmortise_reference.so")
    assert why in run(*plugin, *arguments, status=USAGE)


@pytest.mark.parametrize("library", ["/nonexistent.so", "/tmp"])
def test_a_library_that_is_no_file(library):
    assert f"found no file '{library}'" in run("--plugin", library, status=UNUSABLE)


def test_the_page_stands_alone(tmp_path):
    judge_template(tmp_path, FAULTS["the last element is left out"][0], status=FAILED)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "http" not in page and "<script" not in page and "src=" not in page
    assert 'id="failures"' in page and 'id="matrix"' in page and "--case" in page


def test_abi_of_our_plugins(tmp_path):
    """Probes pass, and those that a plugin has no slots for are refused with the reason."""
    for name in ("reference", "cpu"):
        _, report = judge(PLUGINS / f"libmortise_{name}.so", tmp_path / name, "--level", "abi", "--op", "add,exp,dot", status=GOOD)
        outcomes = {line["case"].split("/")[1]: line["outcome"] for line in report["cases"] if line["outcome"] != "refused"}
        assert {"threads", "kernels", "again", "constants", "cancelled", "newer", "leaks"} <= set(outcomes)
        reasons = {line["reason"] for line in report["cases"] if line["outcome"] == "refused"}
        assert "no-streams" in reasons


def test_stress(tmp_path):
    _, report = judge(PLUGINS / "libmortise_reference.so", tmp_path, "--level", "stress", "--op", "add,dot", "--seconds", "0.5",
                      status=GOOD)
    assert report["totals"]["passed"] == 4
    leak = (LOOP, LOOP + "\n  volatile char *lost = malloc(500); lost[0] = 1;")
    said, report = judge_template(tmp_path, leak, status=FAILED, arguments=("--level", "stress", "--op", "mul", "--seconds", "2"))
    assert "grows without end" in said


def networks_of(report):
    return [line for line in report["cases"] if line["case"].count("/") == 3]


def test_networks_of_the_reference(tmp_path):
    _, report = judge(PLUGINS / "libmortise_reference.so", tmp_path, "--quick", "--level", "training,quantised,models", status=GOOD)
    assert len(networks_of(report)) == 3 * 35
    assert {line["outcome"] for line in networks_of(report)} == {"passed"}


def test_networks_of_cpu(tmp_path):
    """All but what has 4 bits. Several nodes are taken at a time."""
    part = f"{random.randint(1, 3)}/3"
    _, report = judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--quick", "--level", "training,models", "--shard", part, status=GOOD)
    assert len(networks_of(report)) > 20
    assert {line["outcome"] for line in networks_of(report)} == {"passed"}
    assert all(1 <= line["regions"] <= line["nodes"] for line in networks_of(report))
    assert sum(line["regions"] for line in networks_of(report)) < 0.3 * sum(line["nodes"] for line in networks_of(report))
    _, report = judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--quick", "--level", "quantised", "--op", "*s-*,*-row", status=GOOD)
    assert {line["case"].split("/")[1] for line in networks_of(report) if line["outcome"] == "refused"} == {"weights-alone"}


@pytest.mark.skipif(not saboteur.LIBRARY.exists(), reason="this build has no saboteur")
@pytest.mark.parametrize("fault, network, op", [("mean-by-one-less", "training/sums", "mean"),
                                                ("convolution-flipped", "models/residual", "convolution"),
                                                ("variance-by-one-less", "training/train-encoder", "layer_norm")])
def test_a_fault_in_a_network_is_bisected(tmp_path, fault, network, op):
    """The smallest part is the op with the fault, alone; it is saved, and one command repeats it."""
    with_fault = saboteur.environment(fault)
    command = [KIT, "--plugin", saboteur.LIBRARY, "--device", "saboteur", "--report", tmp_path, "--case", f"{network}/f32/#1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, env=with_fault)
    assert ran.returncode == FAILED, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    [line] = report["cases"]
    assert f"the smallest part that fails: {op}: " in line["why"]
    repeat = ran.stdout.split("repeat: mortise-conformance ")[1].splitlines()[0]
    assert f"--region '{line['region']}'" in repeat
    again = subprocess.run(f"{KIT} {repeat}", shell=True, capture_output=True, text=True, timeout=60, env=with_fault)
    assert again.returncode == FAILED and again.stdout.startswith("failed "), again.stdout + again.stderr
    sound = subprocess.run(f"{KIT} {repeat}", shell=True, capture_output=True, text=True, timeout=60, env=saboteur.environment("none"))
    assert sound.returncode == GOOD, sound.stdout + sound.stderr


def test_graphs_of_ones_own(tmp_path):
    """Those of the golden files, whose numbers are their own here."""
    golden = ROOT / "ir" / "portable" / "golden"
    _, report = judge(PLUGINS / "libmortise_reference.so", tmp_path, "--quick", "--graph", golden, status=GOOD)
    files = {Path(line["case"].removeprefix("file/").removesuffix("/#1")).name: line for line in report["cases"]}
    assert set(files) == {path.name for path in golden.glob("*.mrtg")}
    refused = {name: line for name, line in files.items() if line["outcome"] != "passed"}
    assert all(line["reason"] == "not-judged" for line in refused.values()), refused
    assert 1 <= len(refused) <= 4  # collectives, and an op of a vendor
    assert ">opset1-attention-attention.mrtg<" in (tmp_path / "report.html").read_text()
    one = golden / "opset1-elementwise-reals.mrtg"
    assert "3 cases on cpu" in run("--plugin", PLUGINS / "libmortise_cpu.so", "--graph", one, status=GOOD)
    assert "README.md: " in run("--plugin", PLUGINS / "libmortise_reference.so", "--graph", ROOT / "README.md", status=NOTHING)
    for path in (tmp_path, tmp_path / "none.mrtg"):
        assert "--graph: expected" in run("--plugin", PLUGINS / "libmortise_cpu.so", "--graph", path, status=USAGE)


GIVEN = """
func.func @given(%x: tensor<3xf32>, %unused: tensor<2xi1>, %i: tensor<2xi64>) -> (tensor<2xf32>, tensor<2xi64>) {
  %e = mortise.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  %0 = mortise.relu %e : (tensor<3xf32>) -> tensor<3xf32>
  %1 = mortise.take %0, %i {axis = 0 : i64} : (tensor<3xf32>, tensor<2xi64>) -> tensor<2xf32>
  %2 = mortise.add %i, %i : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  return %1, %2 : tensor<2xf32>, tensor<2xi64>
}
"""
E = math.e


@pytest.fixture
def given(tmp_path):
    """A graph with inputs beside it, whose results are e, 1 / e, and 4, 2."""
    (tmp_path / "given.mlir").write_text(GIVEN)
    subprocess.run([BUILD / "bin" / "mortise", "convert", tmp_path / "given.mlir", tmp_path / "given.mrtg"], check=True, env=ENVIRONMENT)
    (tmp_path / "given.inputs").write_bytes(struct.pack("<3f??2q", 0, -1, 1, True, False, 2, 1))
    return tmp_path / "given.mrtg"


@pytest.mark.parametrize("expected, why", [
    (None, None), ((E, 1 / E, 1e-6, 1e-7, 4, 2), None), ((E, 3, 1e-6, math.inf, 4, 2), None),
    ((E, 3, 1e-6, 1e-7, 4, 2), "output 0, f32[2]: element 1: expected 3, found 0.36787945; at most "),
    ((E, math.nan, 1e-6, 1e-7, 4, 2), "output 0, f32[2]: element 1: expected nan"),
    ((E, 1 / E, 1e-6, 1e-7, 4, 3), "output 1, i64[2]: it has other elements")], ids=str)
def test_graphs_with_inputs(given, tmp_path, expected, why):
    """They run once, on their inputs; the interpreter has to give what is expected."""
    if expected:
        given.with_suffix(".expected").write_bytes(struct.pack("<4d2q", *expected))
    for plugin in ("libmortise_reference.so", "libmortise_cpu.so"):
        _, report = judge(PLUGINS / plugin, tmp_path / plugin, "--graph", tmp_path, status=FAILED if why else GOOD)
        [line] = report["cases"]
        assert line["nodes"] == 4 if not why else line["kind"] == "kit" and why in line["why"], line


def test_roundings_between_ops(tmp_path):
    """bf16 rounds 1.0078125 * 1.0078125 to 1.015625 before 1 is taken off: 4 ULP from the exact result, which the graph explains."""
    op = "(tensor<1xbf16>, tensor<1xbf16>) -> tensor<1xbf16>"
    (tmp_path / "two.mlir").write_text(f"""func.func @two(%x: tensor<1xbf16>, %y: tensor<1xbf16>) -> tensor<1xbf16> {{
  %0 = mortise.mul %x, %x : {op}
  %1 = mortise.sub %0, %y : {op}
  return %1 : tensor<1xbf16>
}}""")
    subprocess.run([BUILD / "bin" / "mortise", "convert", tmp_path / "two.mlir", tmp_path / "two.mrtg"], check=True, env=ENVIRONMENT)
    (tmp_path / "two.inputs").write_bytes(struct.pack("<2H", 0x3F81, 0x3F80))
    plugin = ("--plugin", PLUGINS / "libmortise_reference.so", "--graph", tmp_path / "two.mrtg")
    for expected, status in ((0.01568603515625, GOOD), (0.2, FAILED)):
        (tmp_path / "two.expected").write_bytes(struct.pack("<2d", expected, 1e-9))
        run(*plugin, status=status)


@pytest.mark.skipif(not saboteur.LIBRARY.exists(), reason="this build has no saboteur")
def test_inputs_of_a_graph_are_the_plugins(given, tmp_path):
    """A fault that only NaN shows: no input by seed has one."""
    command = [KIT, "--plugin", saboteur.LIBRARY, "--device", "saboteur", "--graph", given, "--seed", "3"]
    with_fault = saboteur.environment("relu-swallows-nan")
    assert subprocess.run(command, capture_output=True, timeout=60, env=with_fault).returncode == GOOD
    given.with_suffix(".inputs").write_bytes(struct.pack("<3f??2q", 0, math.nan, 1, True, False, 2, 1))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env=with_fault)
    assert ran.returncode == FAILED and "expected nan" in ran.stdout, ran.stdout + ran.stderr


def test_inputs_that_do_not_fit(given):
    plugin = ("--plugin", PLUGINS / "libmortise_reference.so")
    given.with_suffix(".expected").write_bytes(bytes(47))
    assert "given.expected: expected 48 bytes, found 47" in run(*plugin, "--graph", given, status=NOTHING)
    given.with_suffix(".inputs").write_bytes(bytes(29))
    assert "given.inputs: expected 30 bytes, found 29" in run(*plugin, "--graph", given, status=NOTHING)
    dynamic = given.with_name("dynamic.mrtg")
    text = GIVEN.replace("@given(", "@dynamic(").replace("3xf32>", "?xf32, #mortise.dims<#s, [n]>>")
    text = text.replace("-> (tensor<2xf32>, tensor<2xi64>) {", "-> (tensor<2xf32>, tensor<2xi64>) attributes {mortise.symbols = #s} {")
    dynamic.with_suffix(".mlir").write_text("#s = #mortise.symbols<n in [2, 64]>" + text)
    subprocess.run([BUILD / "bin" / "mortise", "convert", dynamic.with_suffix(".mlir"), dynamic], check=True, env=ENVIRONMENT)
    run(*plugin, "--graph", dynamic, status=GOOD)
    dynamic.with_suffix(".inputs").write_bytes(b"")
    assert "dynamic.mrtg: expected a graph without symbols, because it has inputs" in run(*plugin, "--graph", dynamic, status=NOTHING)


def test_a_region_that_cannot_be_read(tmp_path):
    (tmp_path / "no.region").write_text("{}")
    for file, why in ((tmp_path / "no.region", "expected a region that this kit has saved"), (tmp_path / "none", "expected a region")):
        assert why in run("--plugin", PLUGINS / "libmortise_reference.so", "--region", file, status=USAGE)
    assert "/none.so cannot be used: " in run("--plugin", tmp_path / "none.so", "--region", tmp_path / "no.region", status=USAGE)


def speeds(report):
    return {line["case"].removeprefix("perf/speed/"): line["perf"] for line in report["cases"] if "perf" in line}


def test_perf_of_the_cpu_plugin(tmp_path):
    said, report = judge(PLUGINS / "libmortise_cpu.so", tmp_path, "--level", "perf", "--quick", "--op", "add,dot,reduce_sum,take,max_pool",
                         status=GOOD)
    found = speeds(report)
    assert len(found) == 5
    side = 384
    assert found["dot/f32/bulk/dense/random/plain/#1"]["flops"] == 2 * side**3
    assert found["dot/f32/bulk/dense/random/plain/#1"]["bytes"] == 3 * 4 * side**2
    for case, speed in found.items():
        roof = speed["bytes"] / speed["bandwidth"]
        if speed["products"]:
            roof = max(roof, speed["flops"] / speed["peak"])
        assert speed["roof_seconds"] == pytest.approx(roof), case
        assert speed["share"] == pytest.approx(roof / speed["run_seconds"]), case
        assert speed["run_seconds"] <= speed["median_seconds"], case
    assert "median share of the roofline: contraction" in said and "slowest: " in said
    page = (tmp_path / "report.html").read_text()
    assert page.count("<circle") == 5 and 'id="rooflines"' in page and 'id="speeds"' in page
    assert "http" not in page and "<script" not in page and "src=" not in page


def test_perf_of_a_plugin_without_products(tmp_path):
    """No peak is known then, and what is refused has no speed. Cases with clocks are run behind the others, and reported in their place."""
    part = ("--level", "perf,core", "--quick", "--op", "add,mul,exp")
    _, report = judge_template(tmp_path, status=GOOD, arguments=part)
    assert set(speeds(report)) == {f"{op}/f32/bulk/dense/random/#1" for op in ("add", "mul")}
    assert all("peak" not in speed for speed in speeds(report).values())
    listed = [line for line in run("--list", *part, status=GOOD).splitlines() if "/#" in line]
    assert [line["case"] for line in report["cases"]] == listed


# It computes nothing where the memory of the result holds what it has computed there before.
LAZY = "  if (end > begin && out[begin] == a[begin] * b[begin] && out[end - 1] == a[end - 1] * b[end - 1]) return;\n" + LOOP
RANGES = "host->parallel_for(args->kernel->count, 16384, task, &call);"
IDLERS = {
    "it is idle while it is clocked": ((LOOP, LAZY), "speed", "does not do its work"),
    "it computes in its first run alone": (
        (RANGES, "static int calls;\n  if (calls++ == 0)\n    " + RANGES), "result", "in the run behind those that were clocked"),
    "it never computes": ((LOOP, "  (void)out;\n  (void)a;\n  (void)b;"), "result", "in the first run"),
}


@pytest.mark.parametrize("idler", IDLERS)
def test_a_kernel_that_does_not_do_its_work_has_no_speed(idler, tmp_path, monkeypatch):
    # On a busy machine threads wait for each other longer than the work takes, and to be idle is not faster.
    monkeypatch.setitem(ENVIRONMENT, "OMP_NUM_THREADS", "1")
    change, kind, why = IDLERS[idler]
    _, report = judge_template(tmp_path, change, status=FAILED, arguments=("--level", "perf", "--op", "mul"))
    line = next(line for line in report["cases"] if line["outcome"] == "failed")
    assert line["kind"] == kind and why in line["why"], line
    assert "perf" not in line


@pytest.mark.skipif(not saboteur.LIBRARY.exists(), reason="this build has no saboteur")
def test_a_second_run_that_is_cheaper_has_no_speed():
    status, said = saboteur.kit(saboteur.LIBRARY, "--level", "perf", "--op", "mul", "--quick", fault="second-run-cheaper")
    assert status == FAILED and "in the run behind those that were clocked" in said[0]


def test_a_run_that_stops(tmp_path):
    change = FAULTS["the last element is left out"][0]
    _, report = judge_template(tmp_path, change, status=FAILED, arguments=("--op", "add,mul", "--level", "core", "--stop"))
    assert report["totals"]["failed"] >= 1
    whole = run("--list", "--op", "add,mul", status=GOOD)
    assert len(report["cases"]) < whole.count("/#")


# One fault for each way in which the kit looks (values, shapes, memory beside, attributes, streams, threads, lifecycle, claims), with ops
# on which it shows.
SLICE = {"tail-short-lane": "exp", "int-to-float-twice": "convert", "workspace-understated": "sub", "code-cached-by-shape": "reduce_sum",
         "event-wait-ignored": "add", "call-in-kernel": "add", "frame-stale-addresses": "add", "last-constants-used": "add",
         "packed-bytes-hidden": "add", "cancellation-ignored": "add", "stream-error-swallowed": "add", "claim-refused": "erf"}
QUEUED = {"event-wait-ignored", "stream-error-swallowed"}


@pytest.mark.skipif(not saboteur.LIBRARY.exists(), reason="this build has no saboteur")
@pytest.mark.parametrize("fault", SLICE)
def test_a_fault_of_the_saboteur_is_found(fault):
    device = saboteur.DEVICES[fault in QUEUED]
    step, line = saboteur.conformance(fault, random.getrandbits(32), [(device, "full")], SLICE[fault])
    assert step and line


@pytest.mark.skipif(not saboteur.LIBRARY.exists(), reason="this build has no saboteur")
@pytest.mark.parametrize("device", saboteur.DEVICES)
def test_the_saboteur_without_a_fault_is_good(device):
    steps = [(device, extent) for extent in ("abi", "quick")]
    assert saboteur.conformance("none", random.getrandbits(32), steps, "add,exp,dot,reduce_sum,softmax") == ("", "")
