# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins in a process of their own (docs/decisions/0042-isolation.md): right results, and faults that end as messages."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "tools")]
import bad_plugins
import measure
import templates
from bad_plugins import BOUND, CALL, CANDIDATE, COMPILE, FOREVER, INFO

BUILD = measure.build_folder()
PLUGINS = BUILD / "lib" / "mortise" / "plugins"
pytestmark = [pytest.mark.skipif(not (BUILD / "bin" / "mortise-worker").exists(), reason="this build has no mortise-worker"),
              pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer ends a process in its own way")]

SLOTS = {"propose": CANDIDATE, "kernel_compile": COMPILE, "kernel_info": INFO, "constants_bind": BOUND, "enqueue": CALL}
FAULTS = {
    "abort": ("  abort();\n", "was ended by SIGABRT in {}"),
    "null": ("  *(volatile int *)(uintptr_t)0x10 = 1;\n", "was ended by SIGSEGV in {}"),
    "exit": ("  exit(0);\n", "called exit(0) in {}"),
    "loop": (FOREVER, "gave no answer within 2 s and was ended in {}"),
    "memory": ("  for (;;)\n    *(volatile char *)memset(malloc(1 << 24), 1, 1 << 24) = 2;\n", "was ended by SIGSEGV in {}"),
}
START = """
import os, sys, subprocess, threading, time, torch, torch_mortise
torch.manual_seed(0)
def children():
    return subprocess.run(["ps", "-o", "stat=,comm=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
def compiled(module, **options):
    torch._dynamo.reset()
    return torch.compile(module, backend="mortise", **options)
"""
PROGRAM = START + """
def run(x, y):
    return x * y
x, y = torch.randn(512, 512), torch.randn(512, 512)
for turn in range(2):
    try:
        result = compiled(run)(x, y)
    except Exception as error:
        print("ERROR", turn, error)
    else:
        assert torch.allclose(result, run(x, y)), turn
        print("RIGHT", turn)
assert "Z" not in children(), children()
"""


def environment(folder, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")}
    return kept | {"MORTISE_KERNEL_CACHE": "off", "HOME": str(folder), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(BUILD / "python"),
                   "MORTISE_PLUGIN_PATH": f"{folder / 'libmortise_acme.so'}:{PLUGINS}", "MORTISE_ISOLATE_SECONDS": "2",
                   "MORTISE_ISOLATE_BYTES": str(1 << 28), "MORTISE_ISOLATE": "acme"} | more


def run(folder, program, **more):
    ran = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment(folder, **more), capture_output=True, text=True,
                         timeout=300, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def mortise(folder, *command, **more):
    ran = subprocess.run([BUILD / "bin" / "mortise", *command], cwd=folder, env=environment(folder, **more), capture_output=True, text=True,
                         timeout=300, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def bad(folder, changes):
    includes = ("#include <stdlib.h>\n", "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n")
    chosen = [('.kind = "acme",', '.kind = "acme",\n      .automatic = 1,'), (".cost_ns = 1000 + count * 12 / 10,", ".cost_ns = 1,")]
    bad_plugins.changed(folder, [includes, *chosen, *changes])
    bad_plugins.declare_automatic(folder)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("slot", SLOTS)
def test_a_fault_names_the_slot_and_the_next_device_is_used(slot, fault, tmp_path):
    line, words = FAULTS[fault]
    bad(tmp_path, [(SLOTS[slot], line + SLOTS[slot])])
    status, said = run(tmp_path, PROGRAM)
    assert status == 0, said
    assert "plugin 'acme': its worker " + words.format(slot) in said
    assert "RIGHT 0" in said and "RIGHT 1" in said and "ERROR" not in said


@pytest.mark.parametrize("place", ["start abort", "start loop", "initialize null", "initialize loop", "devices abort"])
def test_a_fault_at_load_rejects_the_plugin(place, tmp_path):
    bad_plugins.fixture(tmp_path, "-DFAULT=CRASHES")
    status, said = run(tmp_path, PROGRAM, MORTISE_TEST_CRASH=place)
    assert status == 0 and "RIGHT 0" in said and "RIGHT 1" in said, said
    assert "plugin 'acme': its worker " in said
    assert f" in {place.split()[0].replace('start', 'the start')}; report this" in said


@pytest.mark.parametrize("place", ["start abort", "start loop", "initialize null", "devices abort"])
def test_a_library_is_probed_before_it_is_loaded(place, tmp_path):
    bad_plugins.fixture(tmp_path, "-DFAULT=CRASHES")
    status, said = run(tmp_path, PROGRAM, MORTISE_TEST_CRASH=place, MORTISE_ISOLATE="off")
    assert status == 0 and "RIGHT 0" in said and "RIGHT 1" in said, said
    assert "plugin 'acme': its worker " in said and f"in {place.split()[0].replace('start', 'the start')}" in said


def worker_that_ends(folder):
    """A program that greets the host as this build's worker does, and then ends."""
    greeting = re.search(rb"mortise-worker [0-9a-f]{16}", (BUILD / "bin" / "mortise-worker").read_bytes())[0].decode()
    path = folder / "worker"
    path.write_text(f"#!/bin/sh\nprintf '\\{len(greeting):03o}\\0\\0\\0\\0\\0\\0\\0{greeting}' >&3\n")
    path.chmod(0o755)
    return str(path)


def test_what_was_proven_is_not_probed_again(tmp_path):
    bad_plugins.put(tmp_path, (BUILD / "lib" / "mortise" / "plugins" / "libmortise_reference.so").read_bytes(),
                    (PLUGINS / "libmortise_reference.toml").read_text())
    time.sleep(2.1)  # nothing is kept of a file that has just changed
    command = [BUILD / "bin" / "mortise", "devices"]
    ends = worker_that_ends(tmp_path)
    for worker, proven in ((ends, False), ("", True), (ends, True)):
        ran = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path, MORTISE_ISOLATE="off", MORTISE_ISOLATE_WORKER=worker,
                             MORTISE_PLUGIN_PATH=str(tmp_path)), capture_output=True, text=True, check=False)
        assert ("rejected" not in ran.stdout) == proven, ran.stdout + ran.stderr


def test_a_worker_of_another_build_is_no_reason_to_reject_a_plugin(tmp_path):
    bad_plugins.put(tmp_path, (BUILD / "lib" / "mortise" / "plugins" / "libmortise_reference.so").read_bytes(),
                    (PLUGINS / "libmortise_reference.toml").read_text())
    ran = subprocess.run([BUILD / "bin" / "mortise", "devices"], cwd=tmp_path, capture_output=True, text=True, check=False,
                         env=environment(tmp_path, MORTISE_ISOLATE="off", MORTISE_ISOLATE_WORKER="/bin/false",
                                         MORTISE_PLUGIN_PATH=str(tmp_path)))
    assert "rejected" not in ran.stdout and "reference interpreter" in ran.stdout
    assert "is loaded without a probe" in ran.stderr and "to be the mortise-worker of this build" in ran.stderr


RIGHT = START + """
mlp = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
other = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
with torch.no_grad():
    for module in (mlp, other):
        for dynamic in (False, True):
            fast = compiled(module, dynamic=dynamic, options={"device": DEVICE})
            for rows in (3, 5, 8):
                x = torch.randn(rows, 16)
                assert torch.allclose(fast(x), module(x), atol=1e-5), (dynamic, rows)
    x = torch.randn(8, 16)
    expected, wrong = other(x), []
    def many():
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(fast(x), expected, atol=1e-5):
                    wrong.append(1)
    threads = [threading.Thread(target=many) for _ in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not wrong
    begin = time.perf_counter()
    for _ in range(200):
        fast(x)
    print("us a call:", (time.perf_counter() - begin) / 200 * 1e6)
assert "mortise-worker" in children(), children()
links = []
for one in os.listdir("/proc/self/fd"):
    try:
        links.append(os.readlink(f"/proc/self/fd/{one}"))
    except OSError:
        pass
assert sum("memfd:mortise-worker" in link for link in links) == children().count("mortise-worker"), links
"""


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_isolated_plugins_give_right_results(device, tmp_path):
    bad_plugins.put(tmp_path)
    status, said = run(tmp_path, RIGHT.replace("DEVICE", repr(device)), MORTISE_ISOLATE="on",
                       MORTISE_ISOLATE_BYTES=str(1 << 34), MORTISE_ISOLATE_SECONDS="60")
    assert status == 0, said


STRICT = BUILD / "lib" / "mortise" / "test-plugins" / "libstrict.so"
own = pytest.mark.skipif(not STRICT.exists(), reason="this build has no strict plugin")


def isolated(folder, plugin, **more):
    return {"MORTISE_ISOLATE": plugin, "MORTISE_PLUGIN_PATH": f"{folder}:{PLUGINS}", "MORTISE_ISOLATE_BYTES": str(1 << 34),
            "MORTISE_ISOLATE_SECONDS": "60"} | more


@own
@pytest.mark.parametrize("settings", ["", "delay_us=50 seed=3", "clock=0 late=1"])
def test_a_device_with_memory_of_its_own_gives_right_results(settings, tmp_path):
    status, said = run(tmp_path, RIGHT.replace("DEVICE", "'strict'"),
                       **isolated(tmp_path, "strict", MORTISE_STRICT_SETTINGS=settings, MORTISE_PLUGIN_PATH=f"{STRICT}:{PLUGINS}"))
    assert status == 0, said


@own
def test_layouts_cross_and_other_spaces_are_refused_with_words(tmp_path):
    bad_plugins.put_faulty_strict(tmp_path)
    (tmp_path / "probe.mlir").write_text(bad_plugins.PROGRAM)
    words = "wants a value in space 'scratch' of the device, which a plugin in a process of its own does not have"
    carried = asked = refused = 0
    for seed in range(16):  # which chooses layouts and spaces
        more = isolated(tmp_path, "strict", MORTISE_STRICT_SETTINGS=f"layouts=1 seed={seed}")
        status, out, said = mortise(tmp_path, "check", "probe.mlir", "--device", "strict", **more)
        assert (status == 0 and "right" in out) or words in out + said, out + said
        refused += status != 0
        if status == 0:
            carried += 1
            _, _, said = mortise(tmp_path, "check", "probe.mlir", "--device", "strict", **more, MORTISE_TEST_FAULT="layout exit")
            asked += "plugin 'strict': its worker called exit(0) in layout" in said
    assert asked == carried > 0 and refused, (carried, asked, refused)


@pytest.mark.parametrize("template", ["c-own", "cpp-own"])
def test_the_templates_with_memory_of_their_own(template, tmp_path):
    templates.library_of(template, tmp_path)
    (tmp_path / "probe.mlir").write_text(bad_plugins.PROGRAM)
    for isolate in ("off", "acme"):
        status, out, said = mortise(tmp_path, "check", "probe.mlir", "--device", "acme", **isolated(tmp_path, isolate))
        assert status == 0 and "right" in out, out + said


@own
def test_slots_that_isolation_leaves_out_are_not_asked(tmp_path):
    bad_plugins.put_faulty_strict(tmp_path)
    (tmp_path / "probe.mlir").write_text(bad_plugins.PROGRAM)
    more = isolated(tmp_path, "strict", MORTISE_DEVICE="strict", MORTISE_KERNEL_CACHE=str(tmp_path / "cache"))
    for slot in ("event_create", "event_record", "event_synchronize", "peer", "stream_export", "kernel_save", "host_register", "layout"):
        status, _, said = mortise(tmp_path, "run", "probe.mlir", **more, MORTISE_TEST_FAULT=f"{slot} abort")
        assert status == 0 and said == "", (slot, said)


@own
def test_devices_says_what_isolation_takes_away(tmp_path):
    for isolate, words in (("strict", True), ("off", False)):
        _, said, _ = mortise(tmp_path, "devices", **isolated(tmp_path, isolate, MORTISE_PLUGIN_PATH=f"{STRICT}:{PLUGINS}"))
        assert ("isolated, and so without memory of its own" in said) == words, said
        assert said.count("in a process of its own") == 3 * words, said


DLPACK = START + """
import strict_device
x = torch.ones(4, device="strict")
try:
    compiled(lambda x: x * 2, options=strict_device.OPTIONS | {"isolate": ISOLATE})(x)
except Exception as error:
    print("ERROR", error)
import torch_mortise
print(torch_mortise.last_report())
"""


@own
@pytest.mark.parametrize("isolate", ["strict", "off"])
def test_tensors_of_a_device_whose_plugin_is_isolated(isolate, tmp_path):
    program = f"import sys\nsys.path.insert(0, {str(ROOT / 'frontend' / 'torch' / 'test')!r})\n" + DLPACK.replace("ISOLATE", repr(isolate))
    status, said = run(tmp_path, program, **isolated(tmp_path, "off"))
    assert status == 0, said
    words = "runs in a process of its own, whose memory this one does not reach; leave it out of the setting isolate"
    assert (words in said) == (isolate == "strict"), said


# ---- An op of a vendor's own: acme_npu.lookup

NPU = ROOT / "sdk" / "examples" / "acme-npu"


@pytest.fixture(scope="module")
def npu(tmp_path_factory):
    library = tmp_path_factory.mktemp("npu") / "plugin.so"
    subprocess.run(["clang++-22", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-std=c++20", f"-I{ROOT / 'sdk' / 'include'}",
                    *NPU.glob("*.cpp"), "-o", library, "-pthread"], check=True)
    return library


LOOKUP = START + """
import torch_mortise
library, calls = torch.library.Library("acme_npu", "DEF"), []
def eager(x, table):
    calls.append(x)
    return table[x.long() + 128]
library.define("lookup(Tensor x, Tensor table) -> Tensor")
library.impl("lookup", eager, "CPU")
library.impl("lookup", lambda x, table: torch.empty_like(x), "Meta")
def graph(x, table):
    return -torch.ops.acme_npu.lookup(torch.abs(x).clamp(max=100), table)
table = torch.randint(-128, 128, (256,), dtype=torch.int8)
for dynamic in (False, True):
    torch_mortise.reset()
    fast = compiled(graph, dynamic=dynamic, options={"device": "acme-npu,cpu"})
    for rows in (3, 7):
        x = torch.randint(-127, 128, (rows, 5), dtype=torch.int8)
        assert torch.equal(fast(x, table), -table[torch.abs(x).clamp(max=100).long() + 128]), (dynamic, rows)
    report = torch_mortise.last_report()
    print("ON THE NPU:", report["placement"].get("acme-npu", 0), "IN EAGER:", len(calls))
    print([entry["reason"] for each in report["graphs"] for entry in each["eager"]])
assert "Z" not in children(), children()
"""


def test_an_op_of_its_own_from_torch_compile(npu, tmp_path):
    bad_plugins.put(tmp_path, npu.read_bytes(), (NPU / "manifest.toml").read_text())
    status, said = run(tmp_path, LOOKUP, **isolated(tmp_path, "acme-npu"))
    assert status == 0, said
    assert said.count("ON THE NPU: 2 IN EAGER: 0") == 2, said  # a program for each shape


@pytest.mark.parametrize("fault", ["abort", "null", "_exit", "loop"])
def test_a_fault_in_infer_names_the_slot_and_the_op_runs_in_eager(fault, npu, tmp_path):
    bad_plugins.put_faulty(tmp_path, npu, (NPU / "manifest.toml").read_text())
    status, said = run(tmp_path, LOOKUP, **isolated(tmp_path, "acme-npu", MORTISE_ISOLATE_SECONDS="1", MORTISE_TEST_FAULT=f"infer {fault}"))
    assert status == 0, said
    assert said.count("ON THE NPU: 0") == 2 and "IN EAGER: 0" not in said, said
    assert f"acme_npu.lookup: plugin 'acme-npu': its worker {bad_plugins.FAULTS[fault]} in infer" in said, said


# ---- Prices of copies

def explained(folder, npu, **more):
    bad_plugins.put(folder, npu.read_bytes(), (NPU / "manifest.toml").read_text())
    half, vector = "tensor<256x256xf16>", "tensor<256xf16>"
    (folder / "probe.mlir").write_text(f"""
        func.func @probe(%x: {half}, %w: {half} {{mortise.constant}}, %b: {vector} {{mortise.constant}}) -> {half} {{
          %0 = mortise.linear %x, %w, %b {{weight_transposed = false}} : ({half}, {half}, {vector}) -> {half}
          return %0 : {half}
        }}""")
    more = isolated(folder, "acme-npu", **more)
    status, out, said = mortise(folder, "explain", "probe.mlir", "--json", "--device", "acme-npu,cpu", **more)
    assert status == 0, out + said
    return json.loads(out)


@pytest.mark.parametrize("isolate", ["acme-npu", "off"])
def test_copies_are_priced_as_in_process(isolate, npu, tmp_path):
    whole = explained(tmp_path, npu, MORTISE_ISOLATE=isolate)
    assert [region["device"] for region in whole["regions"]] == ["acme-npu"]
    assert [(copy["from"], copy["to"], copy["bytes"]) for copy in whole["copies"]] == [
        ("host", "acme-npu", 131072), ("acme-npu", "host", 131072)]
    for copy in whole["copies"]:
        assert copy["predicted_us"] == pytest.approx(1.5 + 131072 / 16e3)  # as the device states
        assert copy["price"]["ns_source"] == "stated"
    total = sum(each["predicted_us"] for each in whole["copies"] + whole["regions"]) + whole["regions"][0]["launch_us"]
    assert whole["predicted_us"] == pytest.approx(total)


@pytest.mark.parametrize("isolate", ["acme-npu", "off"])
def test_a_price_that_is_set_decides_where_a_region_runs(isolate, npu, tmp_path):
    whole = explained(tmp_path, npu, MORTISE_ISOLATE=isolate, MORTISE_TRANSFER="host->acme-npu=1e9:1e9")
    assert [region["device"] for region in whole["regions"]] == ["cpu"]
    assert any(lost["device"] == "acme-npu" and lost["reason"] == "cost" for lost in whole["declined"] + whole["refusals"])


def test_devices_prices_copies_of_an_isolated_device(npu, tmp_path):
    bad_plugins.put(tmp_path, npu.read_bytes(), (NPU / "manifest.toml").read_text())
    _, said, _ = mortise(tmp_path, "devices", **isolated(tmp_path, "acme-npu", MORTISE_TRANSFER="acme-npu->host=7000:2e9"))
    assert "copies from host to acme-npu: 1.5 us and 16 GB/s, stated by the device" in said, said
    assert "copies from acme-npu to host: 7 us and 2 GB/s, set by the user" in said, said


OP_PACK = [('.kind = "acme",', '.kind = "acme",\n      .same_as = "cpu:0",')]


def test_an_op_pack_in_host_memory(tmp_path):
    bad_plugins.changed(tmp_path, OP_PACK)
    manifest = tmp_path / "libmortise_acme.toml"
    manifest.write_text(manifest.read_text().replace("devices = [", 'same_as = ["cpu"]\ndevices = ['))
    (tmp_path / "probe.mlir").write_text(bad_plugins.PROGRAM)
    status, out, said = mortise(tmp_path, "check", "probe.mlir", "--device", "acme", **isolated(tmp_path, "acme"))
    assert status == 0 and "right" in out, out + said


def test_the_worker_ends_with_a_host_that_is_killed(tmp_path):
    bad(tmp_path, [(CALL, FOREVER + CALL)])
    host = subprocess.Popen([sys.executable, "-c", START + "print(flush=True)\ncompiled(lambda x, y: x * y)(torch.ones(4), torch.ones(4))"],
                            cwd=tmp_path, env=environment(tmp_path, MORTISE_ISOLATE_SECONDS="300"), stdout=subprocess.PIPE)
    host.stdout.readline()
    found = []
    for _ in range(300):
        found = subprocess.run(["pgrep", "-P", str(host.pid), "mortise-worker"], capture_output=True, text=True, check=False).stdout.split()
        if found:
            break
        time.sleep(0.1)
    assert found
    time.sleep(1)
    host.send_signal(signal.SIGKILL)
    host.wait()
    for _ in range(50):
        state = Path(f"/proc/{found[0]}/stat")
        if not state.exists() or state.read_text().split(")")[1].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the worker still runs")


def test_a_project_may_isolate_but_not_trust(tmp_path):
    bad_plugins.put(tmp_path)
    for text, status in (('isolate = "on"', 0), ('isolate = "off"', 2), ('isolate = "acme"', 2), ("isolate_seconds = 9", 2)):
        (tmp_path / "mortise.toml").write_text(text + "\n")
        plain = {name: value for name, value in environment(tmp_path).items() if not name.startswith("MORTISE_ISOLATE")}
        ran = subprocess.run([BUILD / "bin" / "mortise", "config", "show"], cwd=tmp_path, env=plain, capture_output=True, check=False)
        assert ran.returncode == status, (text, ran)
