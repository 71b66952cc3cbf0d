# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of other ages on today's host, and today's `hello` on hosts of other ages: one table of what docs/abi.md promises.

A synthetic plugin is `hello` with changes to its source and to a copy of plugin.h, made by replacing text that must be there. Each says on
stderr what it sees, in lines that start with "matrix:"."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sdk" / "abi"))
import golden  # noqa: E402  (the folder of the SDK's checks)

HEADER = ROOT / "sdk/include/mortise/plugin.h"
HELLO = ROOT / "sdk/examples/hello"
FROZEN = {"MortiseExpr", "MortiseExprStep", "MortiseInPlace", "MortiseForm", "MortiseOption"}  # plugin.h, Growth
REVISION = golden.revisions(HEADER)[1]
COMPILER = shutil.which("clang-22") or "cc"


@dataclass
class Row:
    name: str
    section: str             # of docs/abi.md
    action: str              # loads, downgrades or refuses
    words: list[str]         # that have to be said
    never: list[str] = field(default_factory=list)
    op: str = "add"
    header: tuple = ()       # functions from the header's text to another
    source: tuple = ()
    manifest: tuple = ()     # pairs: text, and what stands there instead
    golden: int = 0          # a committed binary of this revision in place of a synthetic plugin
    attributes: str = ""     # of the op, which has one operand then
    host: str = "mortise"    # the program


# ---- Changes, each of which has to find what it changes

def replaced(old: str, new: str):
    def change(text: str) -> str:
        if text.count(old) != 1:
            raise ValueError(f"expected {old!r} once, found it {text.count(old)} times")
        return text.replace(old, new)
    return change


def without_size_checks(text: str) -> str:
    return re.sub(r"^MORTISE_CHECK\(.*sizeof\(Mortise.*\n", "", text, flags=re.M)


def next_revision(text: str) -> str:
    """plugin.h as revision N + 1; hosts of today cannot know the hash of that one."""
    text = replaced(f"#define MORTISE_ABI_REVISION {REVISION}", f"#define MORTISE_ABI_REVISION {REVISION + 1}")(text)
    return re.sub(r"(#define MORTISE_ABI_LAYOUT_HASHES \{.*)\}", r"\1, UINT64_C(0x5eed)}", text)


def slot_appended(text: str) -> str:
    end = "} MortisePlugin;"
    return without_size_checks(replaced(end, "  MortiseStatus *(*appended)(MortiseInitializeArgs *args);\n" + end)(text))


def structs_grown(text: str) -> str:
    """Every struct that may grow does so, but the two tables."""
    def grown(match):
        name = match[2]
        return match[0] if name in FROZEN | {"MortisePlugin", "MortiseHost"} else f"{match[1]}  uint64_t appended_member;\n}}{match[3]}"
    changed, count = re.subn(r"(struct (\w+) \{[^{}]*?\n)\}([^;]*;)", grown, text)
    if count < 20:
        raise ValueError(f"expected at least 20 structs in plugin.h, found {count}")
    return without_size_checks(changed)


SAYS = replaced("  host = args->host;\n", """\
  host = args->host;
  fprintf(stderr, "matrix: revision %u, opset %u, arguments %s\\n", host->abi_revision, host->opset,
          args->struct_size < sizeof *args ? "shorter" : "as long");
""")
STDIO = replaced("#include <stdlib.h>\n", "#include <stdio.h>\n#include <stdlib.h>\n")
APPENDED = (replaced("MORTISE_EXPORT const", """\
static MortiseStatus *appended(MortiseInitializeArgs *args) {
  (void)args;
  fprintf(stderr, "matrix: the appended slot was called\\n");
  return NULL;
}

MORTISE_EXPORT const"""), replaced("      .enqueue = enqueue,\n", "      .enqueue = enqueue,\n      .appended = appended,\n"))


def speaks(oldest: int, newest: int, hashes: str = ""):
    """The table's range and hashes."""
    changes = (replaced(".abi_oldest = MORTISE_ABI_OLDEST", f".abi_oldest = {oldest}"),
               replaced(".abi_newest = MORTISE_ABI_REVISION", f".abi_newest = {newest}"))
    return changes + ((replaced("layout_hashes[] = MORTISE_ABI_LAYOUT_HASHES", f"layout_hashes[] = {{{hashes}}}"),) if hashes else ())


def opset(number: int) -> dict:
    return {"source": (replaced(".opset = MORTISE_OPSET", f".opset = {number}"), *COPYSIGN),
            "manifest": (("opset = 3", f"opset = {number}"),)}


# Takes gelu whatever its attributes are, and says how many it sees. Where there is one operand, it is both of hello's.
ONLY_OPERAND = "node->operands[node->operand_count - 1]"
GELU = (replaced('{"mortise.div", divide}', '{"mortise.div", divide}, {"mortise.gelu", gelu}'),
        replaced("BINARY(divide, a[i] / b[i])\n", """\
BINARY(divide, a[i] / b[i])
static double erf_of(double x) { /* its series, because plugins of the matrix link no libm */
  double term = x, sum = x;
  if (x < -4 || x > 4)
    return x < 0 ? -1 : 1;
  for (int n = 1; n < 80; ++n) {
    term *= -x * x / n;
    sum += term / (2 * n + 1);
  }
  return sum * 1.1283791670955126;
}
BINARY(gelu, b[i] * 0.5f * (float)(1 + erf_of(a[i] * 0.70710678118654752)))
"""),
        replaced("node->operands[1]->type->strides", f"{ONLY_OPERAND}->type->strides"),
        replaced("node->operands[1]->result_index", f"{ONLY_OPERAND}->result_index"),
        replaced("  kernel->op = find_op(node);\n",
                 '  kernel->op = find_op(node);\n  fprintf(stderr, "matrix: compiles with %zu attributes\\n", node->attribute_count);\n'))


def gelu(approximate: str, number: int) -> dict:
    """On a host in whose language opset 3 added gelu's attribute, which is "none" before."""
    return {"op": "gelu", "attributes": f'approximate = "{approximate}"', "host": "mortise-attribute-added",
            "source": (replaced(".opset = MORTISE_OPSET", f".opset = {number}"), *GELU),
            "manifest": (("opset = 3", f"opset = {number}"),)}


# Takes an op of opset 3 whatever its own opset is, so that only the host keeps it away.
COPYSIGN = (replaced('{"mortise.div", divide}', '{"mortise.div", divide}, {"mortise.copysign", copysign_}'),
            replaced("BINARY(divide, a[i] / b[i])", "BINARY(divide, a[i] / b[i])\nBINARY(copysign_, __builtin_copysignf(a[i], b[i]))"))
CUT = replaced(".struct_size = sizeof(MortisePlugin)", ".struct_size = offsetof(MortisePlugin, infer)")
ABI = f"abi = [{REVISION}, {REVISION}]"
HASH = f"MORTISE_ABI_LAYOUT_HASH_{REVISION}"
REFUSED = "rejected: "


def manifest_range(oldest: int, newest: int) -> tuple:
    return ((ABI, f"abi = [{oldest}, {newest}]"),)


def rows() -> list[Row]:
    n, negotiated = REVISION, f"matrix: revision {REVISION}, "
    found = [Row(f"golden of revision {revision}", "Negotiation", "loads", ["right"], golden=int(revision))
             for revision in golden.recorded(ROOT / "sdk/abi/golden")]
    return found + [
        Row("today's", "Negotiation", "loads", ["right", negotiated, "arguments as long"]),
        Row("newer: a slot appended", "Negotiation", "downgrades", ["right", negotiated], ["appended slot was called"],
            header=(next_revision, slot_appended), source=APPENDED, manifest=manifest_range(n, n + 1)),
        Row("newer: structs grown", "Growth", "downgrades", ["right", negotiated, "arguments shorter"],
            header=(next_revision, structs_grown), manifest=manifest_range(n, n + 1)),
        Row("newer: today's revision is gone", "Negotiation", "refuses",
            [f"revisions {n} to {n}, found {n + 1} to {n + 1}", "install a newer Mortise"], ["matrix:"],
            header=(next_revision, slot_appended), source=speaks(n + 1, n + 1, "UINT64_C(0x5eed)"), manifest=manifest_range(n + 1, n + 1)),
        Row("newer: an opset ahead", "Negotiation", "downgrades", ["right", "opset 3, "], op="copysign", **opset(4)),
        Row("older: opset 2 gets no op of opset 3", "Negotiation", "refuses", ["knows opset 2 and the op is of opset 3"],
            op="copysign", **opset(2)),
        Row("older: opset 1 gets no op of opset 3", "Negotiation", "refuses", ["knows opset 1 and the op is of opset 3"],
            op="copysign", **opset(1)),
        Row("older: opset 1 gets ops of opset 1", "Negotiation", "loads", ["right"], **opset(1)),
        Row("older: opset 2 gets no attribute of opset 3 at a value of its own", "Negotiation", "refuses",
            ["mortise.logistic(f32[1000])"], ["matrix: compiles"], **gelu("tanh", 2)),  # it is asked for gelu's parts instead
        Row("older: opset 2 gets the op without an attribute that it implies", "Negotiation", "downgrades",
            ["right", "matrix: compiles with 0 attributes"], **gelu("none", 2)),
        Row("today's opset gets the attribute", "Negotiation", "loads", ["right", "matrix: compiles with 1 attributes"], **gelu("none", 3)),
        Row("older: a table without its last slot", "Negotiation", "refuses",
            [f"revisions {n} to {n}, found {n - 1} to {n - 1}", "build it with a newer SDK"], ["matrix:"],
            source=(CUT, *speaks(n - 1, n - 1, "1")), manifest=manifest_range(n - 1, n - 1)),
        Row("older: a short table that claims today's revision", "Negotiation", "refuses",
            ["expected a table of at least", "found struct_size"], ["matrix:"], source=(CUT, *speaks(n - 1, n, f"1, {HASH}")),
            manifest=manifest_range(n - 1, n)),
        Row("older: and today's", "Negotiation", "loads", ["right", negotiated], source=speaks(n - 1, n, f"1, {HASH}"),
            manifest=manifest_range(n - 1, n)),
        Row("another layout of today's revision", "Negotiation", "refuses", ["expected layout hash", f"for ABI revision {n}", "found 1"],
            ["matrix:"], source=speaks(n, n, "1")),
        Row("a manifest with another range", "Negotiation", "refuses",
            [f"expected abi = [{n}, {n}]", f"found [{n}, {n + 1}]"], ["matrix:"], manifest=manifest_range(n, n + 1)),
    ]


# ---- Trying one

def edited(text: str, changes) -> str:
    for change in changes:
        text = change(text)
    return text


def build(row: Row, folder: Path) -> None:
    library, manifest = folder / golden.LIBRARY, folder / golden.MANIFEST
    if row.golden:
        for path in (library, manifest):
            shutil.copy(ROOT / f"sdk/abi/golden/revision-{row.golden}" / path.name, path)
        return
    (folder / "mortise").mkdir()
    (folder / "mortise" / "plugin.h").write_text(edited(HEADER.read_text(), row.header))
    (folder / "plugin.c").write_text(edited((HELLO / "plugin.c").read_text(), (STDIO, SAYS, *row.source)))
    golden.compile_plugin(folder / "plugin.c", library, COMPILER, folder)
    manifest.write_text(edited((HELLO / "manifest.toml").read_text(), [replaced(old, new) for old, new in row.manifest]))


def program(row: Row) -> Path:
    """The host of a row, in this build; those that only rows run are built first."""
    import measure

    return measure.built("bin/mortise") if row.host == "mortise" else measure.make(row.host)


def attempt(row: Row, folder: Path, mortise: Path) -> tuple[str, str]:
    """What is wrong, or ""; and what was said. `mortise check` compares the device with the reference interpreter."""
    build(row, folder)
    kind = "tensor<1000xf32>"
    inputs, line = ("%x: {0}, %y: {0}", "%x, %y : ({0}, {0})") if not row.attributes else ("%x: {0}", "%x {{{1}}} : ({0})")
    (folder / "graph.mlir").write_text(f"func.func @graph({inputs.format(kind)}) -> {kind} {{\n  %0 = mortise.{row.op} "
                                       f"{line.format(kind, row.attributes)} -> {kind}\n  return %0 : {kind}\n}}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_") and name != "LD_PRELOAD"}
    said = ""
    for command in (["check", "graph.mlir", "--device", "hello", "--plugins", folder], ["devices", "--plugins", folder]):
        ran = subprocess.run([mortise, *command], cwd=folder, env=environment | {"MORTISE_KERNEL_CACHE": "off", "HOME": str(folder)},
                             capture_output=True, text=True, timeout=60, check=False)
        said += ran.stdout + ran.stderr
        if command[0] == "check" and (ran.returncode == 0) != (row.action != "refuses"):
            return f"expected that it {row.action}, found exit status {ran.returncode}: {said[-600:]}", said
    if missing := [word for word in row.words if word not in said]:
        return f"expected {missing} in: {said[-800:]}", said
    if heard := [word for word in row.never if word in said]:
        return f"expected no {heard} in: {said[-800:]}", said
    return "", said


# ---- Hosts of other ages, played by old_host.c

@dataclass
class Host:
    name: str
    section: str
    revision: int
    members: str  # where the host's table ends; see old_host.c
    status: int   # 0 for "right"
    words: list[str]


def hosts() -> list[Host]:
    older = ["initialize: status 6", "expected a host of ABI revision"]
    return [
        Host("host of today", "Negotiation", REVISION, "all", 0, ["right"]),
        *[Host(f"host that presents revision {revision}", "Negotiation", revision, "all", 1, older) for revision in range(1, REVISION)],
        Host("host whose table ends after what hello calls", "Growth", REVISION, "graph_bytes", 0, ["right"]),
        Host("host whose table ends before parallel_for", "Growth", REVISION, "parallel_for", 1, older),
    ]


def attempt_host(row: Host, folder: Path, source: Path = HELLO / "plugin.c") -> str:
    """What is wrong with `source`, a hello, on an older host; or ""."""
    golden.compile_plugin(source, folder / golden.LIBRARY, COMPILER)
    program = folder / "old_host"
    subprocess.run([COMPILER, "-std=c11", "-O1", f"-I{ROOT / 'sdk/include'}", "-o", program, ROOT / "bench/old_host.c", "-ldl"], check=True)
    ran = subprocess.run([program, folder / golden.LIBRARY, str(row.revision), row.members], capture_output=True, text=True, timeout=60,
                         check=False)
    said = ran.stdout + ran.stderr
    if ran.returncode != row.status or any(word not in said for word in row.words):
        return f"expected exit status {row.status} and {row.words}, found {ran.returncode}: {said[-400:]}"
    return ""


# ---- Faults that have to be seen: each returns what is wrong

def host_that_takes_everything(folder: Path) -> str:
    """Seen only if each row of a refusal sees it."""
    (program := folder / "mortise").write_text("#!/bin/sh\necho right\n")
    program.chmod(0o755)
    missed = []
    for row in rows():
        if row.action == "refuses":
            (inner := folder / row.name).mkdir()
            missed += [] if attempt(row, inner, program)[0] else [row.name]
    return "" if missed else "each row of a refusal is red"


def golden_with_another_byte(folder: Path) -> str:
    shutil.copytree(ROOT / "sdk/abi/golden", copy := folder / "golden")
    for path in ROOT.glob("sdk/abi/revision-*.txt"):
        shutil.copy(path, folder)
    library = copy / f"revision-{REVISION}" / golden.LIBRARY
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    library.write_bytes(content)
    return "; ".join(golden.problems(copy))


def hello_that_ignores_its_host(folder: Path) -> str:
    """Calls parallel_for beyond the host's table."""
    text = (HELLO / "plugin.c").read_text()
    changed = re.sub(r"  if \(host->abi_revision.*?;\n", "", text, flags=re.S)
    if changed == text:
        raise ValueError("expected hello to look at the host's revision")
    (folder / "plugin.c").write_text(changed)
    return "; ".join(found for row in hosts() if row.status and (found := attempt_host(row, folder, folder / "plugin.c")))


PLANTS = {"a host that takes every plugin": host_that_takes_everything, "a golden with another byte": golden_with_another_byte,
          "a hello that ignores its host": hello_that_ignores_its_host}
