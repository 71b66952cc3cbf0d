# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ways to be a bad plugin, manifest or configuration, each with words of the message that the user has to see. The figure `bad-plugins`
counts them, tests/bad_input runs each as a test.

A way to be bad is tried with the command `mortise`: what is wrong at load with `devices`, beside a good plugin that has to load all the
same; what is wrong in its work with `plugin check`; configuration with `config show`; faults of a plugin in a process of its own with
`run`, where the cpu plugin has to take over unless the fault comes behind an update of state. No command may end by a signal or take
long."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "sdk" / "template" / "c"
FIXTURES = ROOT / "runtime" / "test" / "plugins"
LIMIT = 120  # seconds of a command


@dataclass
class Bad:
    name: str
    command: str                    # devices, check, config, run, or fails: a run that ends with the plugin's error
    words: list[str]                # of the message
    make: Callable[[Path], object]  # puts the bad thing into a folder
    environment: dict[str, str] = field(default_factory=dict)
    unsanitized: str = ""           # why it cannot be tried under a sanitizer


def compile_c(source: Path, library: Path, *flags: str) -> None:
    compiler, include = shutil.which("clang-22") or "cc", f"-I{ROOT / 'sdk' / 'include'}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-fvisibility=hidden", include, *flags, "-o", library, source, "-lm"], check=True,
                   capture_output=True)


@cache
def good_library() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        compile_c(TEMPLATE / "plugin.c", library := Path(folder, "lib.so"))
        return library.read_bytes()


MANIFEST = (TEMPLATE / "manifest.toml").read_text()


def put(folder: Path, library: bytes | None = None, manifest: str | bytes | None = MANIFEST) -> None:
    if library is None:
        library = good_library()
    (folder / "libmortise_acme.so").write_bytes(library)
    if manifest is not None:
        (folder / "libmortise_acme.toml").write_bytes(manifest.encode() if isinstance(manifest, str) else manifest)


# ---- Manifests

def line(key: str, text: str) -> str:
    """The manifest with another line for a key; without it for ""."""
    lines = [text if one.split("=")[0].strip() == key else one for one in MANIFEST.splitlines()]
    assert lines != MANIFEST.splitlines(), key
    return "\n".join(lines) + "\n"


MANIFESTS = {
    "no name": (line("name", ""), ["expected the key 'name'"]),
    "no vendor": (line("vendor", ""), ["expected the key 'vendor'"]),
    "no version": (line("version", ""), ["expected the key 'version'"]),
    "no abi": (line("abi", ""), ["expected abi = [oldest, newest]"]),
    "no opset": (line("opset", ""), ["expected the key 'opset'"]),
    "no devices": (line("devices", ""), ['expected devices = ["kind", ...]']),
    "abi of one revision": (line("abi", "abi = [3]"), ["expected abi = [oldest, newest]"]),
    "abi as text": (line("abi", 'abi = "3"'), ["expected abi = [oldest, newest]"]),
    "abi backwards": (line("abi", "abi = [3, 2]"), ["expected abi = [oldest, newest]"]),
    "abi from 0": (line("abi", "abi = [0, 3]"), ["expected abi = [oldest, newest]"]),
    "abi below 0": (line("abi", "abi = [-1, 3]"), ["expected abi = [oldest, newest]"]),
    "abi too large": (line("abi", "abi = [3, 99999999999]"), ["expected abi = [oldest, newest]"]),
    "abi of the future": (line("abi", "abi = [90, 99]"), ["90", "99"]),
    "abi other than the table's": (line("abi", "abi = [3, 4]"), ["expected abi = [3, 3]", "found [3, 4]"]),
    "opset in words": (line("opset", 'opset = "three"'), ["expected opset to be a number, found 'three'"]),
    "opset below 0": (line("opset", "opset = -3"), ["expected opset to be a number"]),
    "opset other than the table's": (line("opset", "opset = 2"), ["expected abi = [3, 3] and opset = 3", "and 2"]),
    "no device kind": (line("devices", "devices = []"), ['expected devices = ["kind", ...]']),
    "devices as text": (line("devices", 'devices = "acme"'), ['expected devices = ["kind", ...]']),
    "kind auto": (line("devices", 'devices = ["auto"]'), ["expected device kinds", "'auto'"]),
    "kind in capitals": (line("devices", 'devices = ["ACME"]'), ["expected device kinds", "'ACME'"]),
    "kind with an ordinal": (line("devices", 'devices = ["acme:0"]'), ["expected device kinds", "'acme:0'"]),
    "another kind": (line("devices", 'devices = ["other"]'), ["'acme'", "other"]),
    "empty name": (line("name", 'name = ""'), ["expected 'name' to be one value, found nothing"]),
    "name as a list": (line("name", 'name = ["acme"]'), ["expected 'name' to be one value, found a list"]),
    "name in capitals": (line("name", 'name = "Acme"'), ["expected a name of lower case letters", "'Acme'"]),
    "name of another": (line("name", 'name = "other"'), ["other", "acme"]),
    "no TOML": ("= =\n", ["libmortise_acme.toml"]),
    "a key twice": (MANIFEST + '\n[claims2]\nname = 1\nname = 2\n', ["libmortise_acme.toml", "name"]),
    "an open string": (line("vendor", 'vendor = "Acme'), ["libmortise_acme.toml"]),
    "empty": ("", ["expected the key 'name'"]),
    "NUL bytes": (b"name = \0\0\0", ["libmortise_acme.toml"]),
    "not UTF-8": (line("vendor", "vendor = 'VENDOR'").encode().replace(b"VENDOR", b"\xff\xfe"), ["libmortise_acme.toml"]),
    "nested deep": ("a = " + "[" * 100_000, ["libmortise_acme.toml"]),
    "a long key": (MANIFEST + "\n" + "k" * 500_000 + " = 1\n", ["libmortise_acme.toml"]),
    "too large": (MANIFEST + "# " + "x" * 20_000_000, ["libmortise_acme.toml"]),
    "claims as a number": (MANIFEST.split("[[claims]]")[0] + "claims = 3\n", ["expected 'claims' to be tables"]),
    "claims out of order": (MANIFEST.split("[[claims]]")[0] + '[claims.4294967295]\nops = ["mortise.add"]\n',
                            ["expected tables [[claims]]"]),
    "claims of no dtype": (line("dtypes", 'dtypes = ["f33"]'), ["expected dtypes such as f32", "'f33'"]),
    "claims with a rank in words": (line("max_rank", 'max_rank = "many"'), ["max_rank"]),
    "claims with ops as text": (line("ops", 'ops = "mortise.add"'), ["expected ops = [...]"]),
    "claims of something else": (MANIFEST + "speed = 3\n", ["found 'speed'"]),
    "own ops as text": (line("opset", 'opset = 3\nops = "acme.swirl"'), ['expected ops = ["vendor.op", ...]']),
    "own ops of the language": (line("opset", 'opset = 3\nops = ["mortise.add"]'), ['expected ops = ["vendor.op", ...]']),
    "own ops that the table lacks": (line("opset", 'opset = 3\nops = ["acme.swirl"]'), ["the ops of its table (none), found acme.swirl"]),
    "options as a number": (line("opset", "opset = 3\noptions = 3"), ["expected 'options' to be tables"]),
    "an option of something else": (MANIFEST + "\n[options.fast]\ncolour = 'red'\n", ["[options.fast]", "'colour'"]),
    "an option's default as a list": (MANIFEST + "\n[options.fast]\ndefault = [1]\n", ["[options.fast]", "'default'"]),
}


def manifests() -> list[Bad]:
    rows = [Bad(f"manifest: {name}", "devices", words, lambda folder, text=text: put(folder, manifest=text))
            for name, (text, words) in MANIFESTS.items()]

    def other(make):
        def both(folder):
            put(folder, manifest=None)
            make(folder / "libmortise_acme.toml")
        return both

    rows += [
        Bad("manifest: none", "devices", ["no manifest", "libx.toml"], other(lambda path: None)),
        Bad("manifest: a folder", "devices", ["libmortise_acme.toml"], other(Path.mkdir)),
        Bad("manifest: a pipe", "devices", ["libmortise_acme.toml"], other(os.mkfifo)),
        Bad("manifest: a device", "devices", ["libmortise_acme.toml"], other(lambda path: path.symlink_to("/dev/zero"))),
        Bad("manifest: a link to nowhere", "devices", ["no manifest"], other(lambda path: path.symlink_to("gone"))),
    ]
    return rows


# ---- Libraries

def patched(offset: int, content: bytes) -> bytes:
    return good_library()[:offset] + content + good_library()[offset + len(content):]


def libraries() -> list[Bad]:
    def row(name, words, library):
        return Bad(f"library: {name}", "devices", words, lambda folder: put(folder, library() if callable(library) else library))

    def instead(name, words, make):
        def both(folder):
            put(folder)
            (path := folder / "libmortise_acme.so").unlink()
            make(path)
        return Bad(f"library: {name}", "devices", words, both)

    def compiled(name, words, text, *flags):
        def make(folder):
            put(folder)
            (folder / "other.c").write_text(text)
            compile_c(folder / "other.c", folder / "libmortise_acme.so", *flags)
        return Bad(f"library: {name}", "devices", words, make)

    def needs_a_library_that_is_gone(folder):
        put(folder)
        (folder / "gone.c").write_text("__attribute__((visibility(\"default\"))) int gone(void) { return 1; }\n")
        compile_c(folder / "gone.c", folder / "libgone.so")
        (folder / "other.c").write_text("int gone(void);\n__attribute__((visibility(\"default\"))) int here(void) { return gone(); }\n")
        compile_c(folder / "other.c", folder / "libmortise_acme.so", f"-L{folder}", "-lgone")
        (folder / "libgone.so").unlink()

    def writable(what):
        def make(folder):
            put(folder)
            (folder / what).chmod(0o777)
        return make

    return [
        row("text", ["ELF"], b"this is a text\n"),
        row("empty", ["ELF"], b""),
        row("a script", ["ELF"], b"#!/bin/sh\nexit 0\n"),
        row("cut after 3 bytes", ["ELF"], lambda: good_library()[:3]),
        *[row(f"cut after {count} bytes", ["truncated"], lambda count=count: good_library()[:count]) for count in (40, 64, 1000, 9000)],
        row("of 32 bits", ["64-bit"], lambda: patched(4, b"\1")),
        row("of another byte order", ["64-bit"], lambda: patched(5, b"\2")),
        row("of another machine", ["x86-64", "machine 243"], lambda: patched(18, b"\xf3\0")),
        row("a program", ["expected a shared library, found ELF type 2"], lambda: patched(16, b"\2\0")),
        row("an object file", ["expected a shared library, found ELF type 1"], lambda: patched(16, b"\1\0")),
        row("headers out of the file", ["truncated"], lambda: patched(32, b"\xff\xff\xff\xff\0\0\0\0")),
        row("no headers", ["program headers"], lambda: patched(56, b"\0\0")),
        instead("gone", ["cannot be opened"], lambda path: None),
        instead("a folder", ["expected a regular file"], Path.mkdir),
        instead("a pipe", ["expected a regular file"], os.mkfifo),
        instead("a device", ["expected a regular file"], lambda path: path.symlink_to("/dev/zero")),
        instead("a link to nowhere", ["cannot be opened"], lambda path: path.symlink_to("gone")),
        compiled("without mortise_plugin", ["expected it to export the function mortise_plugin"], "int nothing;\n"),
        compiled("mortise_plugin is hidden", ["expected it to export the function mortise_plugin"],
                 "void *mortise_plugin(void) { return 0; }\n"),
        compiled("mortise_plugin is data", ["to be a function", "found data"],
                 "__attribute__((visibility(\"default\"))) int mortise_plugin = 3;\n"),
        compiled("an undefined symbol", ["the dynamic loader refused it", "missing_function"],
                 "int missing_function(void);\n__attribute__((visibility(\"default\"))) int f(void) { return missing_function(); }\n"),
        Bad("library: needs one that is gone", "devices", ["the dynamic loader refused it", "libgone.so"], needs_a_library_that_is_gone),
        Bad("library: world-writable", "devices", ["world-writable", "chmod o-w"], writable("libmortise_acme.so")),
        Bad("library: in a world-writable folder", "devices", ["world-writable", "chmod o-w"], writable(".")),
    ]


# ---- Tables: faults of runtime/test/plugins/fixture.c

TABLES = {
    "WRONG_MAGIC": ["magic"], "NULL_SLOT": ["propose"], "WRONG_ABI": ["90", "99", "3 to 3"], "WRONG_LAYOUT": ["layout"],
    "NULL_TABLE": ["NULL"], "GARBAGE_TABLE": ["table"], "SMALL_TABLE": ["40"], "GARBAGE_DEVICES": ["device"],
    "FAILS_TO_INITIALIZE": ["its initialize failed", "flux capacitor"], "GARBAGE_ALIGNMENT": ["alignment", "7"],
    "NULL_DEVICE": ["device", "NULL"], "UNDECLARED_KIND": ["surprise"],
    "HALF_OF_STREAMS": ["stream_"], "GARBAGE_STATUS": ["status_create"], "GARBAGE_SLOT": ["slot peer", "an address where nothing is"],
}


def declare_automatic(folder: Path) -> None:
    """Has the manifest say that `auto` may choose the device."""
    manifest = folder / "libmortise_acme.toml"
    manifest.write_text(manifest.read_text().replace("devices = [", 'automatic = ["acme"]\ndevices = ['))


def fixture(folder: Path, *flags: str) -> None:
    put(folder)
    compile_c(FIXTURES / "fixture.c", folder / "libmortise_acme.so", '-DNAME="acme"', *flags)
    manifest = MANIFEST.replace("opset = 3", "opset = 1").replace("Acme Inc.", "tests").replace("1.0.0", "1.0")
    (folder / "libmortise_acme.toml").write_text(manifest)
    declare_automatic(folder)


def tables() -> list[Bad]:
    rows = [Bad(f"table: {fault.lower()}", "devices", words, lambda folder, fault=fault: fixture(folder, f"-DFAULT={fault}"))
            for fault, words in TABLES.items()]
    opset2 = {"HALF_OF_INSTANCES": (["instance_"], "-DOPSET=2"), "HALF_OF_SAVING": (["kernel_"], "-DSAVING=1")}
    for fault, (words, flag) in opset2.items():
        def make(folder, fault=fault, flag=flag):
            fixture(folder, f"-DFAULT={fault}", flag)
            if "OPSET" in flag:
                path = folder / "libmortise_acme.toml"
                path.write_text(path.read_text().replace("opset = 1", "opset = 2"))
        rows.append(Bad(f"table: {fault.lower()}", "devices", words, make))
    rows.append(Bad("table: an op that the manifest does not list", "devices", ["the ops of its table (acme.answer), found none"],
                    lambda folder: fixture(folder, "-DOPS=1")))
    crashes = {
        "start abort": ["SIGABRT in the start"],
        "start null": ["SIGSEGV at address 0x10 in the start"],
        "start loop": ["SIGABRT in the start"],
        "initialize null": ["SIGSEGV at address 0x10 in initialize of plugin 'acme'"],
        "initialize loop": ["SIGABRT in initialize of plugin 'acme'"],
        "devices abort": ["SIGABRT in devices of plugin 'acme'"], "devices thread": ["in a thread of plugin 'acme'"],
        "propose null": ["in propose of plugin 'acme'"],
    }
    return rows + [Bad(f"crash: {place}", "check", words, lambda folder: fixture(folder, "-DFAULT=CRASHES"), {"MORTISE_TEST_CRASH": place})
                   for place, words in crashes.items()]


# ---- Kernels: changes of the template, and what `plugin check` has to say

LOOP = "  for (int64_t i = begin; i < end; ++i)\n    out[i] = a[i] * b[i];"
MUL = "out[i] = a[i] * b[i];"
CALL = "  struct call call ="
COMPILE = "  MortiseKernel *kernel = calloc"
BOUND = "  args->constants = constants;\n"
INCLUDE = "#include <stdlib.h>\n"
TASK = "static void task(void *context, int64_t begin, int64_t end) {\n  const struct call *call = context;\n"
INFO = "  args->steps = args->kernel->steps;\n"
FOREVER = "  for (volatile int i = 1; i;)\n    ;\n"
SPEAKS = '  return host->status_create(%s, "the moon is full");\n'
CANDIDATE = "    args->add(args->sink, &candidate);"
OLD_CONSTANTS = """\
  static MortiseKernel *of;
  static MortiseConstants first;
  if (of != args->kernel)
    first = *constants;
  of = args->kernel;
  *constants = first;
"""
KERNELS = {
    "a wrong element": ([(MUL, "out[i] = a[i] * b[i] * 1.0001f;")], ["elements of f32", "at most"]),
    "NaN": ([(MUL, "out[i] = a[i] * b[i] * (0.f / 0.f);")], ["mortise.mul f32", "found"]),
    "zeros": ([(MUL, "out[i] = 0;")], ["mortise.mul f32", "found 0"]),
    "the other op": ([(MUL, "out[i] = a[i] + b[i];")], ["mortise.mul f32", "elements of f32"]),
    "an element left out": ([(LOOP, LOOP.replace("i < end", "i + 1 < end"))], ["elements of f32", "mortise.mul"]),
    "nothing is written": ([(LOOP, "  (void)a, (void)b, (void)out, (void)begin, (void)end;")], ["mortise.mul f32"]),
    "an input is overwritten": ([(LOOP, LOOP + "\n  *(float *)(uintptr_t)&a[begin] = 0;")], ["writes to input", "only to be read"]),
    "a read past the end": ([(MUL, "out[i] = a[i] * b[i] + 0 * a[i + 1];")], ["SIGSEGV at address", "in enqueue of plugin 'acme'"]),
    "a read before the begin": ([(MUL, "out[i] = a[i] * b[i] + 0 * ((volatile const float *)a)[i - 1];")], ["SIGSEGV at address"]),
    "a write past the end": ([(LOOP, LOOP.replace("i < end", "i <= end"))],
                             ["SIGSEGV at address", "in enqueue of plugin 'acme'", "region 0 (acme.binary on acme)"]),
    "a write before the begin": ([(LOOP, LOOP + "\n  ((volatile float *)out)[begin - 1] = 0;")], ["writes beside a tensor"]),
    "an abort": ([(COMPILE, "  abort();\n" + COMPILE)], ["SIGABRT in kernel_compile of plugin 'acme'"]),
    "an endless loop": ([(CALL, FOREVER + CALL)], ["no answer within 4 s", "SIGABRT in enqueue of plugin 'acme'"]),
    "an endless compilation": ([(COMPILE, FOREVER + COMPILE)], ["SIGABRT in kernel_compile of plugin 'acme'"]),
    "a division by zero": ([(CALL, "  volatile int zero = 0;\n  zero = 7 / zero;\n" + CALL)], ["SIGFPE in enqueue of plugin 'acme'"]),
    "the process ends": ([(CALL, "  exit(0);\n" + CALL)], ["before the end of its cases"]),
    "rounding is changed": ([(CALL, "  fesetround(FE_UPWARD);\n" + CALL), (INCLUDE, "#include <fenv.h>\n" + INCLUDE)],
                            ["enqueue changes the thread's floating-point settings"]),
    "state between threads": ([(TASK, "static struct call last;\n" + TASK.replace("= context", "= &last")),
                               ("  host->parallel_for(args", "  last = call;\n  usleep(200);\n  host->parallel_for(args"),
                               (INCLUDE, "#define _DEFAULT_SOURCE\n#include <unistd.h>\n" + INCLUDE)], ["when 4 threads call it at once"]),
    "a leak": ([("  free(args->kernel);", "")], ["bytes of memory are not given back"]),
    "constants of the first binding": ([(BOUND, OLD_CONSTANTS + BOUND)], ["after other constants were bound"]),
    "no constants": ([(BOUND, "")], ["in enqueue of plugin 'acme'"]),
    "an error at compilation": ([(COMPILE, SPEAKS % "MORTISE_INTERNAL" + COMPILE)], ["the moon is full"]),
    "an error in a call": ([(CALL, SPEAKS % "MORTISE_DEVICE_LOST" + CALL)], ["the moon is full"]),
    "a code that does not exist": ([(CALL, SPEAKS % "77" + CALL)], ["unknown status code 77"]),
    "neither kernel nor status": ([("  args->kernel = kernel;\n", "")], ["expected a kernel or a status, found neither"]),
    "a status of its own": ([(CALL, "  static char mine[64];\n  if (mine[0] == 0)\n    return (MortiseStatus *)mine;\n" + CALL)],
                            ["a status that status_create did not make"]),
    "steps that are none": ([(INFO, "  args->steps = (const MortiseStep *const *)(uintptr_t)0x1230;\n")], ["steps"]),
    "a workspace of 2^46 bytes": ([(INFO, "  static const MortiseExprStep huge = {MORTISE_EXPR_CONST, 0, INT64_C(1) << 46};\n"
                                          "  args->workspace = (MortiseExpr){&huge, 1};\n" + INFO)], ["cannot allocate", "plugin 'acme'"]),
    "a workspace below 0": ([(INFO, "  static const MortiseExprStep less = {MORTISE_EXPR_CONST, 0, -8};\n"
                                    "  args->workspace = (MortiseExpr){&less, 1};\n" + INFO)],
                            ["expected a workspace size, found -8 bytes"]),
    "a candidate of nodes that are not there":
        ([(CANDIDATE, "    uint32_t many = 4000000000u;\n    candidate.nodes = &many;\n" + CANDIDATE)], ["takes none of the"]),
    "a candidate without a name": ([(CANDIDATE, "    candidate.lowering = NULL;\n" + CANDIDATE)], ["takes none of the"]),
    "a cost below 0": ([(CANDIDATE, "    candidate.cost_ns = -1;\n" + CANDIDATE)], ["takes none of the"]),
    "a cost that is no number": ([(CANDIDATE, "    candidate.cost_ns = 0.0 / 0.0;\n" + CANDIDATE)], ["takes none of the"]),
    "an op that it does not compute": ([('{"mortise.mul", mul},', '{"mortise.sub", mul},')],
                                       ["mortise.sub f32", "claims mortise.mul in f32"]),
    "more symbols": ([("static const struct op *find_op(", "MORTISE_EXPORT const struct op *find_op(")], ["found 1 more: find_op"]),
    "no version": ([('.version = "1.0.0"', ".version = NULL")], ["version"]),
    "no propose": ([(".propose = propose,", "")], ["propose"]),
}


def changed(folder: Path, changes: list[tuple[str, str]]) -> None:
    put(folder)
    text = (TEMPLATE / "plugin.c").read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"expected the template to have {old!r} once, found it {text.count(old)} times")
        text = text.replace(old, new)
    (folder / "plugin.c").write_text(text)
    compile_c(folder / "plugin.c", folder / "libmortise_acme.so")


def kernels() -> list[Bad]:
    return [Bad(f"kernel: {name}", "check", words, lambda folder, changes=changes: changed(folder, changes))
            for name, (changes, words) in KERNELS.items()]


# ---- Faults in each slot: in this process, where they leave a line, and in a process of its own, where this one lives on

SLOTS = ("start", "mortise_plugin", "initialize", "devices", "propose", "kernel_compile", "kernel_info", "constants_bind", "enqueue",
         "constants_destroy", "kernel_destroy")
# Those that a plugin with memory and queues of its own has besides, as far as an isolated one is asked for them.
OWN_SLOTS = ("memory_allocate", "copy", "stream_create", "stream_wait", "frame_create", "frame_destroy", "memory_free")
ISOLATE_SECONDS = 1
CRASHES = {"abort": "SIGABRT", "null": "SIGSEGV at address 0x10", "out of bounds": "SIGSEGV at address",
           "stack overflow": "SIGSEGV at address"}
FAULTS = {
    "abort": "was ended by SIGABRT", "null": "was ended by SIGSEGV", "out of bounds": "was ended by SIGSEGV",
    "stack overflow": "was ended by SIGSEGV", "exit": "called exit(0)", "_exit": "called exit(0)",
    "loop": f"gave no answer within {ISOLATE_SECONDS} s and was ended", "sleep": f"gave no answer within {ISOLATE_SECONDS} s and was ended",
    "memory": "was ended by SIGSEGV",  # of the plugin that uses what malloc did not give
}
# The weight is a constant, so that constants_bind has something to bind.
PROGRAM = """\
func.func @probe(%x: tensor<64x64xf32>, %w: tensor<64x64xf32> {mortise.constant}) -> tensor<64x64xf32> {
  %0 = mortise.mul %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
"""
# The state is written before acme multiplies.
STATE_PROGRAM = """\
func.func @probe(%s: tensor<64x64xf32> {mortise.state}, %x: tensor<64x64xf32>)
    -> (tensor<64x64xf32> {mortise.alias = 0 : i64}, tensor<64x64xf32>) {
  %0 = mortise.neg %s : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = mortise.mul %0, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}
"""


def put_faulty(folder: Path, plugin: Path, manifest: str) -> None:
    """Puts runtime/test/plugins/faulty.c around the plugin."""
    put(folder, faulty_library(), manifest)
    (folder / "real").mkdir()
    (folder / "real" / "plugin.so").symlink_to(plugin)


@cache
def faulty_library() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        compile_c(FIXTURES / "faulty.c", library := Path(folder, "lib.so"), "-ldl")
        return library.read_bytes()


def put_faulty_template(folder: Path) -> None:
    (folder / "template").mkdir()
    changed(folder / "template", [('.kind = "acme",', '.kind = "acme",\n      .automatic = 1,'),
                                  (".cost_ns = 1000 + count * 12 / 10,", ".cost_ns = 1,")])
    put_faulty(folder, folder / "template" / "libmortise_acme.so", MANIFEST)
    declare_automatic(folder)


def strict_plugin() -> Path:
    """The plugin whose devices have memory and queues of their own, of the build."""
    import measure

    return measure.built("lib/mortise/test-plugins/libstrict.so")


OP_PROGRAM = """\
func.func @probe(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = mortise.vendor "acme.answer"(%x) {how = "right", times = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
"""


def put_faulty_op(folder: Path) -> None:
    """A plugin that declares acme.answer."""
    (folder / "fixture").mkdir()
    fixture(folder / "fixture", "-DOPS=1")
    manifest = 'ops = ["acme.answer"]\n' + (folder / "fixture" / "libmortise_acme.toml").read_text()
    put_faulty(folder, folder / "fixture" / "libmortise_acme.so", manifest)


def put_faulty_strict(folder: Path) -> None:
    put_faulty(folder, strict_plugin(), (ROOT / "sdk" / "examples" / "strict" / "manifest.toml").read_text())


def faults() -> list[Bad]:
    def make(put_plugin, program=PROGRAM):
        def both(folder):
            put_plugin(folder)
            (folder / "probe.mlir").write_text(program)
        return both

    def alone(plugin, slot, fault):
        return {"MORTISE_TEST_FAULT": f"{slot} {fault}", "MORTISE_ISOLATE": plugin,
                "MORTISE_ISOLATE_SECONDS": str(ISOLATE_SECONDS if fault in ("loop", "sleep") else 30),
                "MORTISE_ISOLATE_BYTES": str(1 << 28), "MORTISE_DEVICE": "auto" if plugin == "acme" else f"{plugin},cpu"}

    unsanitized = "a sanitizer ends the worker in its own way, and its shadow memory is over isolate_bytes"

    def place(slot):
        return "the start" if slot == "start" else slot

    def isolated(plugin, put_plugin, slot, fault, of=""):
        words = [f"plugin '{plugin}': its worker {FAULTS[fault]} in {place(slot)}"]
        if fault not in ("exit", "_exit"):  # the worker's own line, too
            words.append("mortise: SIGSEGV at address" if "SEGV" in FAULTS[fault] else f"mortise: SIGABRT in {place(slot)}")
        return Bad(f"isolated{of}: {fault} in {slot}", "run", words, make(put_plugin), alone(plugin, slot, fault), unsanitized)

    def of_op(fault):
        words = [f"acme.answer: plugin 'acme': its worker {FAULTS[fault]} in infer"]
        return Bad(f"isolated: {fault} in infer", "fails", words, make(put_faulty_op, OP_PROGRAM),
                   alone("acme", "infer", fault) | {"MORTISE_DEVICE": "acme"}, unsanitized)

    def late(fault):
        words = [f"plugin 'acme': its worker {FAULTS[fault]} in enqueue", "the call cannot be repeated without this kernel"]
        return Bad(f"isolated: {fault} behind an update of state", "fails", words, make(put_faulty_template, STATE_PROGRAM),
                   alone("acme", "enqueue", fault) | {"MORTISE_PLACE": "op=mortise.mul device=acme"}, unsanitized)

    def crash(slot, fault):
        words = [f"mortise: {CRASHES[fault]}", f"in {place(slot)}", "libmortise_acme.so",
                 *(["region 0 (acme.binary on acme)"] if slot in ("kernel_compile", "kernel_info", "constants_bind", "enqueue") else [])]
        return Bad(f"crash: {fault} in {slot}", "check", words, make(put_faulty_template), {"MORTISE_TEST_FAULT": f"{slot} {fault}"},
                   "the sanitizer reports a stack overflow, and not at its address" if fault == "stack overflow" else "")

    return [isolated("acme", put_faulty_template, slot, fault) for slot in SLOTS for fault in FAULTS] + \
           [isolated("strict", put_faulty_strict, slot, fault, " with memory of its own")
            for slot in ("propose", "kernel_compile", "constants_bind", "enqueue", *OWN_SLOTS)
            for fault in ("abort", "null", "out of bounds", "loop", "_exit")] + \
           [of_op(fault) for fault in FAULTS] + \
           [late("abort"), late("loop")] + \
           [crash(slot, fault) for slot in SLOTS for fault in CRASHES]


# ---- Configuration

def configurations() -> list[Bad]:
    def variable(name, value, *words):
        return Bad(f"configuration: {name}={value}", "config", list(words), lambda folder: None, {name: value})

    def project(name, text, *words):
        return Bad(f"configuration: {name}", "config", list(words), lambda folder: (folder / "mortise.toml").write_text(text))

    return [
        variable("MORTISE_DEVICES", "cpu", "did you mean MORTISE_DEVICE?"),
        variable("MORTISE_MODE", "fast", "'fast'", "default"),
        variable("MORTISE_PRECISION", "exact", "'exact'", "highest"),
        variable("MORTISE_DETERMINISTIC", "yes", "'yes'", "true"),
        variable("MORTISE_LOG_LEVEL", "loud", "'loud'", "warning"),
        variable("MORTISE_CRASH_REPORT", "maybe", "'maybe'", "on"),
        variable("MORTISE_VERIFY", "first", "'first'", "off"),
        variable("MORTISE_SAVED_KERNELS", "some", "'some'", "on"),
        variable("MORTISE_REQUIRE", "most on cpu", "most on cpu", "95% on cpu"),
        variable("MORTISE_REQUIRE", "200% on cpu", "200% on cpu"),
        variable("MORTISE_SPECIALIZE_LIMIT", "many", "'many'"),
        variable("MORTISE_SPECIALIZE_LIMIT", "0", "'0'"),
        variable("MORTISE_KERNEL_CACHE_BYTES", "-1", "'-1'"),
        variable("MORTISE_OUTPUT_POOL_BYTES", "1 GB", "'1 GB'"),
        variable("MORTISE_KERNEL_CACHE", "relative/folder", "relative/folder"),
        variable("MORTISE_MEMORY_LIMIT", "acme", "acme"),
        variable("MORTISE_MEMORY_LIMIT", "acme=lots", "acme=lots"),
        variable("MORTISE_PLACE", "op=add", "op=add"),
        variable("MORTISE_PLACE", "device cpu", "device cpu"),
        replace(variable("MORTISE_CPU_ISA", "avx9", "'avx9'", "native"), unsanitized="the figure builds no cpu plugin with sanitizers"),
        variable("MORTISE_CPU_SPEED", "9", "MORTISE_CPU_SPEED"),
        project("no TOML", "device = = 3\n", "mortise.toml"),
        project("an unknown key", 'devize = "cpu"\n', "devize", "device"),
        project("a project adds plugins", 'plugin_path = "/tmp"\n', "plugin_path", "mortise.toml"),
        project("a project moves the cache", 'kernel_cache = "/tmp/cache"\n', "kernel_cache", "mortise.toml"),
        project("a table for a key", "[device]\nname = 3\n", "device"),
        project("a list for a key", 'mode = ["default"]\n', "mode"),
        project("a rule without a place", '[[place]]\nop = "add"\n', "place"),
    ]


def rows() -> list[Bad]:
    return manifests() + libraries() + tables() + kernels() + faults() + configurations()


# ---- Trying one

# Leaks of a plugin are one way to be bad, and not the sanitizer's to find.
SANITIZED = {"ASAN_OPTIONS": "detect_leaks=0:detect_container_overflow=0:allow_user_poisoning=0:allocator_may_return_null=1",
             "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
             "TSAN_OPTIONS": f"halt_on_error=1:report_mutex_bugs=0:suppressions={ROOT / 'tools' / 'dev' / 'races.supp'}"}


def sanitized(build: Path) -> bool:
    """Whether everything in the build has a sanitizer."""
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("MORTISE_SANITIZE:")).split("=")[1] != ""


def message(bad: Bad, said: str) -> str:
    """The line of the message, for people who read the figure."""
    marks = {"devices": "rejected: ", "check": "BAD", "config": "mortise: ", "run": "mortise: ", "fails": "mortise: "}
    return next((line.strip() for line in said.splitlines() if line.startswith(marks[bad.command])), "")


def attempt(bad: Bad, folder: Path, build: Path) -> tuple[str, str]:
    """What is wrong, "" when the message has all its words; and the message."""
    bad.make(folder)
    command = [build / "bin" / "mortise"]
    if bad.command == "devices":
        command += ["devices", "--plugins", f"{folder}:{build / 'lib' / 'mortise' / 'plugins' / 'libmortise_reference.so'}"]
    elif bad.command == "check":
        command += ["plugin", "check", folder / "libmortise_acme.so", "--ops", "mortise.add,mortise.mul,mortise.sub", "--seconds", "4"]
    elif bad.command == "config":
        command += ["config", "show"]
    else:
        command += ["run", "probe.mlir", "--plugins", f"{folder}:{build / 'lib' / 'mortise' / 'plugins'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_") and name != "LD_PRELOAD"}
    environment |= SANITIZED | {"MORTISE_KERNEL_CACHE": "off", "MORTISE_PROBE": "off", "HOME": str(folder)} | bad.environment
    try:
        ran = subprocess.run([str(word) for word in command], cwd=folder, env=environment, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s", ""
    said = (ran.stdout + ran.stderr).decode(errors="replace")
    expected = {"devices": 0, "check": 1, "config": 2, "run": 0, "fails": 2}[bad.command]
    found = message(bad, said)
    if ran.returncode != expected:
        return f"expected exit status {expected}, found {ran.returncode}: {said[-500:]}", found
    if bad.command == "devices" and not ("reference" in said and "rejected: " in said):
        return f"expected a rejection, and the good plugin beside it, found: {said[-500:]}", found
    missing = [word for word in bad.words if word not in said]
    return (f"expected {missing} in: {said[-800:]}" if missing else ""), found
