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
    assert all(outcome != "wrong" for name, outcome in outcomes.items() if "mortise.mul" not in name)


@pytest.mark.parametrize("fault", ["out[0] = 3;", "*(volatile int *)(uintptr_t)0x10 = 1;"], ids=["wrong", "crash"])
def test_jobs(tmp_path, fault):
    """What several processes find is what one finds, in the same order."""
    library = build(tmp_path, (LOOP, LOOP + f"\n  {fault}"))
    outcomes = []
    for jobs in ("1", "3"):
        report = json.loads(check(library, "--json", "--jobs", jobs, status=1))
        outcomes.append([(case["case"], case["outcome"]) for case in report["devices"]["acme"]])
    assert outcomes[0] == outcomes[1] and {"right", "wrong"} <= {outcome for _, outcome in outcomes[0]}
    check(library, "--jobs", "0", status=105)


def test_claims_without_kernels(tmp_path):
    claims = (('dtypes = ["f32"]', 'dtypes = ["f32", "f16"]'),
              ('ops = ["mortise.add", "mortise.mul"]', 'ops = ["mortise.mul", "mortise.s*"]'))
    said = check(build(tmp_path, manifest=claims), status=1)
    assert "the manifest claims mortise.sub in f32: " in said and "the manifest claims mortise.mul in f16: " in said
    assert "claims mortise.mul in f32" not in said and "in bf16" not in said


def test_another_device(tmp_path):
    assert "it has no device other; its devices are acme" in check(build(tmp_path), "--device", "other", status=1)
    assert "7 cases are right, of which 2 are chains of ops" in check(build(tmp_path), "--device", "acme", status=0)


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


# ---- Faults that only show in other memory, at other sizes or behind other work. Each plugin is right without its fault.

SHAPE = """\
/* The number that a program of one symbol, or of products of numbers and symbols, gives. */
static int64_t extent(const MortiseExpr *program, const int64_t *symbols) {
  int64_t stack[8], depth = 0;
  for (size_t i = 0; i < program->count; ++i)
    if (program->steps[i].op == MORTISE_EXPR_CONST)
      stack[depth++] = program->steps[i].value;
    else if (program->steps[i].op == MORTISE_EXPR_SYMBOL)
      stack[depth++] = symbols[program->steps[i].value];
    else
      --depth, stack[depth - 1] *= stack[depth];
  return stack[0];
}

static MortiseStatus *enqueue("""
STATIC = """  if (type->dim_exprs) {
    *detail = "expected a static shape";
    return MORTISE_REASON_NEEDS_STATIC;
  }
"""
WORKSPACE = (  # the sum goes through a workspace
    ("  MortiseStep step;\n", "  MortiseStep step;\n  MortiseExprStep bytes;\n"),
    ("  args->steps = args->kernel->steps;",
     "  args->kernel->bytes = (MortiseExprStep){MORTISE_EXPR_CONST, 0, args->kernel->count * 4};\n"
     "  args->workspace = (MortiseExpr){&args->kernel->bytes, 1};\n  args->steps = args->kernel->steps;"),
    ("  host->parallel_for(args->kernel->count, 16384, task, &call);",
     "  float *sums = (float *)(uintptr_t)args->workspace, *out = call.out;\n  call.out = sums;\n  START\n"
     "  task(&call, 0, args->kernel->count);\n  for (int64_t i = 0; i < args->kernel->count; ++i)\n    out[i] = sums[i];\n  END"))
IN_PLACE = (
    ("    args->add(args->sink, &candidate);", "    MortiseInPlace pairs[] = {{node->operands[0]->index, node->results[0]->index}};\n"
     "    if (!(node->operands[0]->flags & (MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE)) && !args->graph->alias_count &&\n"
     "        node->operands[0]->type->rank == node->results[0]->type->rank &&\n"
     "        element_count(node->operands[0]->type) == element_count(node->results[0]->type)) {\n"
     "      candidate.in_place = pairs;\n      candidate.in_place_count = 1;\n    }\n    args->add(args->sink, &candidate);"),)


def words(pairs, **into):
    """The pairs with words of their new texts replaced."""
    changed = []
    for old, new in pairs:
        for word, text in into.items():
            new = new.replace(word, text)
        changed.append((old, new))
    return changed


@pytest.mark.parametrize("start, end, expected", [
    ("", "", ""),
    ("for (int64_t i = 0; i < args->kernel->count; ++i) sums[i] = 0;", "", ""),
    ("float before = args->kernel->count ? sums[0] : 0;", "if (args->kernel->count) out[0] += before;", "workspace full of NaN|differ"),
    ("", "sums[args->kernel->count] = 0;", "whose workspace of "),
    ("", "sums[-1] = 0;", "beyond its workspace|whose workspace"),
], ids=["right", "written first", "relies on zeros", "writes behind", "writes in front"])
def test_workspaces(tmp_path, start, end, expected):
    said = check(build(tmp_path, *words(WORKSPACE, START=start, END=end)), status=1 if expected else 0)
    assert any(word in said for word in expected.split("|")), said


@pytest.mark.parametrize("loop, expected", [
    (LOOP, ""),
    ("  for (int64_t i = begin; i < end; ++i)\n    out[i] = 0;\n  for (int64_t i = begin; i < end; ++i)\n    out[i] += a[i] * b[i];",
     "with output 0 in the memory of input 0, as its pairs in place allow: "),
], ids=["right", "writes before it reads"])
def test_pairs_in_place(tmp_path, loop, expected):
    assert expected in check(build(tmp_path, *IN_PLACE, (LOOP, loop)), status=1 if expected else 0)


@pytest.mark.parametrize("count, expected", [
    ("args->symbols", ""),
    ("(const int64_t[]){2, 2}", "with n = "),
], ids=["right", "one size for all"])
def test_symbols(tmp_path, count, expected):
    changes = ((STATIC, ""), ("static int64_t element_count(const MortiseType *type) {\n",
                              "static int64_t element_count(const MortiseType *type) {\n  if (type->dim_exprs)\n    return 64;\n"),
               ("  int64_t count;\n", "  int64_t count;\n  const MortiseType *type;\n"),
               ("  kernel->count = element", "  kernel->type = node->results[0]->type;\n  kernel->count = element"),
               ("static MortiseStatus *enqueue(", SHAPE),
               ("  host->parallel_for(args->kernel->count,", "  int64_t count = args->kernel->count;\n"
                "  if (args->kernel->type->dim_exprs) {\n"
                f"    count = 1;\n    for (int32_t i = 0; i < args->kernel->type->rank; ++i)\n"
                f"      count *= extent(&args->kernel->type->dim_exprs[i], {count});\n  }}\n  host->parallel_for(count,"))
    assert expected in check(build(tmp_path, *changes), status=1 if expected else 0)


def test_compiled_for_each_size(tmp_path):
    """The template needs static shapes; with this fault it keeps the first one for all."""
    once = ("  kernel->count = element_count(node->results[0]->type);",
            "  static int64_t first;\n  if (args->region->nodes[0]->results[0]->type->rank == 2 && !first)\n"
            "    first = element_count(node->results[0]->type);\n  kernel->count = element_count(node->results[0]->type);\n"
            "  if (first && node->results[0]->type->dims[0] == 33)\n    kernel->count = first;")
    assert "with n = 33" in check(build(tmp_path, once), status=1, ops="mortise.mul")


FUSED = (  # mul + add as one candidate
    ("static MortiseStatus *propose(MortiseProposeArgs *args) {\n", """\
static int is_fused(const MortiseNode *first, const MortiseNode *second) {
  return strcmp(first->op, "mortise.mul") == 0 && strcmp(second->op, "mortise.add") == 0 &&
         second->operands[0] == first->results[0] && first->results[0]->use_count == 1 &&
         !second->operands[1]->producer && !(second->operands[1]->flags & MORTISE_VALUE_CONSTANT);
}

static MortiseStatus *propose(MortiseProposeArgs *args) {
  for (uint32_t i = 0; i + 1 < args->graph->node_count; ++i) {
    const char *why = "";
    const uint32_t both[] = {i, i + 1};
    MortiseCandidate fused = {.struct_size = sizeof fused, .lowering = "acme.fused", .nodes = both, .node_count = 2, .cost_ns = 1};
    if (is_fused(args->graph->nodes[i], args->graph->nodes[i + 1]) && !supports(args->graph->nodes[i], &why) &&
        !supports(args->graph->nodes[i + 1], &why))
      args->add(args->sink, &fused);
  }
"""),
    ("  if (args->region->node_count != 1 || ", "  if (args->region->node_count > 2 || "),
    ("  uint32_t node; /*", "  int64_t third;\n  uint32_t node; /*"),
    ("  args->kernel = kernel;\n",
     "  kernel->third = args->region->node_count == 2 ? (int64_t)args->region->nodes[1]->operands[1]->result_index : -1;\n"
     "  args->kernel = kernel;\n"),
    ("  host->parallel_for(args->kernel->count, 16384, task, &call);",
     "  host->parallel_for(args->kernel->count, 16384, task, &call);\n  if (args->kernel->third >= 0)\n"
     "    add(call.out, (const float *)(uintptr_t)args->inputs[args->kernel->third], call.out, 0, args->kernel->count SUB);"))


@pytest.mark.parametrize("sub, expected", [("", ""), (" - 1", "candidate acme.fused of 2 nodes: |mortise.mul + mortise.add")],
                         ids=["right", "forgets an element"])
def test_chains(tmp_path, sub, expected):
    library = build(tmp_path, *words(FUSED, SUB=sub))
    said = check(library, status=1 if sub else 0)
    assert any(word in said for word in expected.split("|"))
    assert sub or "0 candidates of several ops" not in said


def test_claims_that_no_case_fits(tmp_path):
    refuses = '  return host->status_create(MORTISE_INVALID_ARGUMENT, "expected 4096 columns");'
    library = build(tmp_path, *own(infer=refuses), manifest=(LISTED, CLAIMED, ("max_rank = 8", "max_rank = 0")))
    said = check(library, status=0, ops=WITH_OWN)
    assert "there is no case that fits these claims" in said
    assert "acme.blend in f32, mortise.add in f32, mortise.mul in f32" in said


def test_claims_of_no_op(tmp_path):
    wrong = ('"mortise.mul"]', '"mortise.mull"]')
    assert "the manifest claims 'mortise.mull', which is no op of opset" in check(build(tmp_path, manifest=(wrong,)), status=1)


def test_claims_of_matrices(tmp_path):
    claims = (('ops = ["mortise.add", "mortise.mul"]', 'ops = ["mortise.dot"]'), ('["f32"]', '["i8"]'), ("max_rank = 8", "max_rank = 2"))
    assert "the manifest claims mortise.dot in i8: " in check(build(tmp_path, manifest=claims), status=1, ops="mortise.add,mortise.dot")


QUEUES = ROOT / "sdk" / "template" / "cpp-own"
QUEUE_FAULTS = {  # text of the template, what stands there instead, and what check says
    "right": ("", "", ""),
    "keeps argument lists": (
        "queueOf(args.stream).add([&kernel, a = operands[0], b = operands[1], out = args.outputs[0]] {",
        "queueOf(args.stream).add([&kernel, a = operands[0], b = operands[1], outputs = args.outputs] {\n"
        "      const MortiseAddress out = outputs[0];",
        "what enqueue was given was changed when it had returned"),
    "ignores event_wait": ("if (event.queue && event.queue.get() != &queueOf(args.stream))\n      queueOf(args.stream).add([queue",
                           "if (false)\n      queueOf(args.stream).add([queue",
                           "behind event_wait did not wait"),
    "signals an event early": ("queue->waitFor(event.place);\n    return", "queue->waitFor(1);\n    return",
                               "event_synchronize returned before"),
    "says that an event has happened": ("args.happened = !event.queue || event.queue->has(event.place);", "args.happened = 1;",
                                        "event_query said that an event had happened before"),
    "does not wait for a stream": ("queueOf(args.stream).waitForAll();", "", "signal|differ"),
    "keeps an event's first mark": ("    event.queue = reinterpret_cast<Stream *>(args.stream)->queue;\n",
                                    "    if (event.queue)\n      return {};\n"
                                    "    event.queue = reinterpret_cast<Stream *>(args.stream)->queue;\n",
                                    "was still at its first mark"),
    "frees memory at once": ("    if (args.stream)\n      queueOf(args.stream).add([memory] { std::free(memory); });\n    else\n", "",
                             "in queues: memory was freed|signal"),
    "copies at once": ("    queueOf(args.stream).add([copy = args] {\n", "    ([copy = args] {\n", "differ"),
}


@pytest.mark.parametrize("fault", QUEUE_FAULTS)
def test_queues(tmp_path, fault):
    old, new, expected = QUEUE_FAULTS[fault]
    text = (QUEUES / "plugin.cpp").read_text()
    assert not old or text.count(old) == 1, (fault, text.count(old))
    text = text.replace(old, new) if old else text
    if fault == "copies at once":
        text = text.replace("copy.source), copy.bytes);\n    });", "copy.source), copy.bytes);\n    })();")
    (tmp_path / "plugin.cpp").write_text(text)
    library = tmp_path / "libmortise_acme.so"
    shutil.copy(QUEUES / "manifest.toml", library.with_suffix(".toml"))
    compiler = shutil.which("clang++-22") or shutil.which("c++")
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
                    "-static-libstdc++", "-Wl,--exclude-libs,ALL", f"-Wl,--version-script={ROOT / 'sdk' / 'cmake' / 'plugin.exports'}",
                    f"-I{ROOT / 'sdk' / 'include'}", "-o", library, tmp_path / "plugin.cpp", "-pthread"], check=True)
    said = check(library, status=1 if expected else 0)
    assert any(word in said for word in expected.split("|")), said
