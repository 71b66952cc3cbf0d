# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `mortise`: what is installed, run, bench, convert, draw, check, and reduce, which finds planted faults."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import measure

BUILD = measure.build_folder()
MORTISE = BUILD / "bin" / "mortise"
CPU = BUILD / "lib" / "mortise" / "plugins" / "libmortise_cpu.so"
POINTWISE = ROOT / "sdk" / "examples" / "pointwise"

T = "tensor<?x8xf32, #mortise.dims<#symbols, [n, 8]>>"
GRAPH = f"""
#symbols = #mortise.symbols<n in [2, 64]>
func.func @chain(%x: {T} {{mortise.name = "x"}}, %y: {T}) -> ({T}, {T}) attributes {{mortise.symbols = #symbols}} {{
  %0 = mortise.add %x, %y : ({T}, {T}) -> {T}
  %1 = mortise.exp %0 : ({T}) -> {T}
  %2 = mortise.neg %1 : ({T}) -> {T}
  %3 = mortise.exp %2 : ({T}) -> {T}
  %4 = mortise.tanh %3 : ({T}) -> {T}
  %5 = mortise.mul %4, %y : ({T}, {T}) -> {T}
  %6 = mortise.abs %5 : ({T}) -> {T}
  %7 = mortise.sub %6, %0 : ({T}, {T}) -> {T}
  return %7, %1 : {T}, {T}
}}
"""


ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")} | {"MORTISE_KERNEL_CACHE": "off"}


def mortise(*arguments, status=0, **environment):
    ran = subprocess.run([MORTISE, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=ENVIRONMENT | environment)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout if status == 0 else ran.stdout + ran.stderr


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "chain.mlir"
    path.write_text(GRAPH)
    return path


def ops(text):
    return re.findall(r"mortise\.(\w+) %", text)


def test_convert_there_and_back(graph, tmp_path):
    mortise("convert", graph, tmp_path / "chain.mrtg")
    assert (tmp_path / "chain.mrtg").read_bytes()[4:8] == b"MRTG"
    text = mortise("convert", tmp_path / "chain.mrtg", "-")
    assert ops(text) == ["add", "exp", "neg", "exp", "tanh", "mul", "abs", "sub"]
    assert "#symbols = #mortise.symbols<n in [2, 64]>" in text and "#mortise.dims<#symbols, [n, 8]>" in text
    (tmp_path / "again.mlir").write_text(text)
    mortise("convert", tmp_path / "again.mlir", tmp_path / "again.mrtg")
    assert mortise("convert", tmp_path / "again.mrtg", "-") == text  # the bytes keep the location of each op


@pytest.mark.parametrize("content, expected", [("func.func @f(", "expected"), ("", "public function")])
def test_convert_says_what_is_wrong(tmp_path, content, expected):
    path = tmp_path / "bad.mlir"
    path.write_text(content)
    assert expected in mortise("convert", path, "-", status=2)


def test_convert_for_older_readers(graph, tmp_path):
    mortise("convert", graph, tmp_path / "chain.mrtg", "--opset", "1")
    said = mortise("convert", graph, tmp_path / "old.mrtg", "--opset", "1", "--format", "1")
    assert mortise("convert", tmp_path / "old.mrtg", "-") == mortise("convert", tmp_path / "chain.mrtg", "-") and not said
    newer = tmp_path / "newer.mlir"
    newer.write_text('func.func @f() -> tensor<2xi64> { %0 = mortise.extents {shape = #mortise.dims<[1, 2]>} : () -> tensor<2xi64>\n'
                     "return %0 : tensor<2xi64> }")
    assert "opset" in mortise("convert", newer, tmp_path / "newer.mrtg", "--opset", "1", status=2)
    assert "portable format" in mortise("convert", graph, tmp_path / "old.mlir", "--opset", "1", status=2)


def test_compile(graph, tmp_path):
    said = mortise("compile", graph, "-o", tmp_path / "chain.mrtp", "--device", "cpu")
    program = (tmp_path / "chain.mrtp").read_bytes()
    assert program.startswith(b"MRTPROG\n") and f"{len(program)} bytes" in said and "cpu (cpu): 8 nodes" in said
    assert "nowhere" in mortise("compile", graph, "-o", tmp_path / "nowhere" / "chain.mrtp", "--device", "cpu", status=2)
    assert "'nope'" in mortise("compile", graph, "-o", tmp_path / "x.mrtp", "--device", "nope", status=2)


def test_compiled_programs_run(graph, tmp_path):
    program, values = tmp_path / "chain.mrtp", [tmp_path / "graph.bin", tmp_path / "program.bin"]
    mortise("compile", graph, "-o", program, "--device", "cpu")
    for symbols in ([], ["--symbols", "n=7"]):
        said = [mortise("run", path, *symbols, "--seed", "3", "-o", out) for path, out in zip((graph, program), values)]
        assert said[0] == said[1] and ("7x8" in said[1] or "[7, 8]" in said[1]) == bool(symbols), said
        assert values[0].read_bytes() == values[1].read_bytes() != b""
    found = json.loads(mortise("bench", program, "--symbols", "n=7", "--seconds", "0.05", "--json"))
    assert found["calls"] >= 3 and found["regions"][0]["device"] == "cpu" and found["steps"]


def test_compiled_programs_hold_kernels(graph, tmp_path):
    with_kernels, without = tmp_path / "with.mrtp", tmp_path / "without.mrtp"
    mortise("compile", graph, "-o", with_kernels, "--device", "cpu")
    mortise("compile", graph, "-o", without, "--device", "cpu", MORTISE_SAVED_KERNELS="off")
    assert with_kernels.stat().st_size > without.stat().st_size + 1000

    def cached(program, **settings):
        said = json.loads(mortise("bench", program, "--seconds", "0.05", "--json", **settings))
        return [region["kernel_cache"] for region in said["regions"]]

    assert cached(with_kernels) == ["saved"] and cached(without) == ["kernel_cache is off"]
    assert cached(with_kernels, MORTISE_SAVED_KERNELS="off") == ["kernel_cache is off"]
    said = [mortise("run", program, "--seed", "3") for program in (graph, with_kernels, without)]
    assert said[0] == said[1] == said[2]


def test_compiled_programs_that_cannot_run(graph, tmp_path):
    program = tmp_path / "chain.mrtp"
    mortise("compile", graph, "-o", program, "--device", "cpu")
    assert "leave out --device" in mortise("run", program, "--device", "reference", status=2)
    assert "symbol" in mortise("run", program, "--symbols", "m=7", status=2)
    assert re.search(r"\bn\b.*\b2\b", mortise("run", program, "--symbols", "n=1", status=2))  # n is at least 2
    assert "found a compiled program" in mortise("draw", program, "-o", tmp_path / "page.html", status=2)
    program = program.rename(tmp_path / "chain.bin")
    assert "output 0" in mortise("run", program)  # its content says what it is
    damaged = bytearray(program.read_bytes())
    damaged[-5] ^= 1
    (tmp_path / "damaged.mrtp").write_bytes(damaged)
    assert "damaged.mrtp" in mortise("run", tmp_path / "damaged.mrtp", status=2)
    assert "can be read" in mortise("run", tmp_path / "none.mrtp", status=2)


SAVES = """
import sys, torch, torch_mortise
options = {"device": "reference", "save_graphs": sys.argv[1]}
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
with torch.no_grad():
    for function in model, lambda x: torch.tanh(x) @ x.T:
        torch.compile(function, backend="mortise", options=options)(torch.randn(3, 4))
"""


def test_graphs_of_pytorch(tmp_path):
    folder = tmp_path / "new" / "graphs"
    environment = ENVIRONMENT | {"PYTHONPATH": str(BUILD / "python")}
    for _ in range(2):  # the second process must not overwrite files
        subprocess.run([sys.executable, "-c", SAVES, folder], check=True, env=environment, timeout=300)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["graph_0.2.mrtg", "graph_0.mrtg", "graph_1.2.mrtg", "graph_1.mrtg"]
    for name in names:
        assert mortise("check", folder / name, "--plugins", CPU).strip() == "right"
    assert "tanh" in mortise("convert", folder / "graph_1.mrtg", "-")


def test_damaged_file(graph, tmp_path):
    mortise("convert", graph, tmp_path / "chain.mrtg")
    damaged = tmp_path / "damaged.mrtg"
    damaged.write_bytes((tmp_path / "chain.mrtg").read_bytes()[:-40])
    assert mortise("convert", damaged, "-", status=2).strip()
    damaged.write_bytes(b"no graph at all")
    assert "MRTG" in mortise("convert", damaged, "-", status=2)


def test_check(graph):
    assert mortise("check", graph, "--plugins", CPU, "--symbols", "n=7").strip() == "right"
    assert "nobody" in mortise("check", graph, "--plugins", CPU, "--symbols", "nobody=7", status=2)
    assert "65" in mortise("check", graph, "--plugins", CPU, "--symbols", "n=65", status=2)


@pytest.mark.parametrize("text", [
    "func.func @f() attributes {a = " + "[" * 100000 + "]" * 100000 + "} { return }",
    "func.func @f(%x: " + "tuple<" * 100000 + "i32" + ">" * 100000 + ") { return }",
    'module attributes {a = "' + "[" * 5000 + '"} // ' + "{" * 5000 + "\n" + "{" * 100000,
])
def test_text_without_end(tmp_path, text):
    path = tmp_path / "deep.mlir"
    path.write_text(text)
    assert "nested at most 1100 deep" in mortise("convert", path, "-", status=2)


@pytest.mark.parametrize("symbols, expected", [
    ("n=40000000000", "takes more than this machine's"),
    ("n=9223372036854775807", "too large: f32[9223372036854775807, 8]"),
    ("n=99999999999999999999", "expected a number of 64 bits in 'n=99999999999999999999'"),
    ("n=-1", "expected 'n' to be at least 2, found -1"), ("n=", "expected a number of 64 bits"),
    ("n=3.5", "expected a number of 64 bits"), ("m=3", "with a symbol of the graph"), ("n", "expected NAME=NUMBER"),
])
def test_numbers_that_no_run_can_have(tmp_path, symbols, expected):
    path = tmp_path / "wide.mlir"
    path.write_text(GRAPH.replace("[2, 64]", "[2, *]"))
    assert expected in mortise("check", path, "--device", "reference", "--symbols", symbols, status=2)


@pytest.mark.parametrize("range, expected", [
    ("[9223372036854775806, *] step 5", "expected 'n' to be a multiple of 5"),
    ("[3, 4] step 5", "expected 'n' to be a multiple of 5"), ("[5, 2]", "0 <= minimum <= maximum"),
    ("[0, 9] step 0", "a step of 1 or more"), ("[0, 9] step -2", "a step of 1 or more"),
    ("[99999999999999999999, *]", "integer value too large"),
])
def test_ranges_without_a_number(tmp_path, range, expected):
    path = tmp_path / "empty.mlir"
    path.write_text(GRAPH.replace("[2, 64]", range))
    assert expected in mortise("check", path, "--device", "reference", status=2)


def test_draw(graph, tmp_path):
    page = tmp_path / "chain.html"
    mortise("draw", graph, "-o", page, "--plugins", CPU)
    text = page.read_text()
    assert text.count('class="box"') == 8 and "f32[n, 8]" in text and "tanh" in text
    assert "on cpu by cpu" in text and "us predicted" in text
    assert "http" not in text.replace("http://www.w3.org", "")  # self-contained
    mortise("draw", graph, "-o", page, "--device", "")
    text = page.read_text()
    assert text.count('class="box"') == 8 and "predicted" not in text
    assert text.count('class="io"') == 4 and "output 1" in text  # two inputs, two outputs
    assert "flop" not in text  # n has no value, so there is no cost
    mortise("draw", graph, "-o", page, "--device", "", "--symbols", "n=5")
    text = page.read_text()
    assert "f32[5, 8]" in text and "40 flop" in text


BODIES = """
func.func @choose(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mortise.if %c, %x then {
  ^bb0(%a: tensor<4xf32>):
    %1 = mortise.sin %a : (tensor<4xf32>) -> tensor<4xf32>
    mortise.yield %1 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    %1 = mortise.cos %a : (tensor<4xf32>) -> tensor<4xf32>
    mortise.yield %1 : tensor<4xf32>
  } : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_draw_shows_bodies(tmp_path):
    (tmp_path / "if.mlir").write_text(BODIES)
    mortise("draw", tmp_path / "if.mlir", "-o", tmp_path / "if.html", "--device", "")
    text = (tmp_path / "if.html").read_text()
    assert text.count('class="box"') == 3 and "sin" in text and "cos" in text
    assert "mortise.if (node 0), body 0" in text and "mortise.if (node 0), body 1" in text


def faulty_plugin(folder, right, wrong):
    """Builds the example plugin with one expression replaced."""
    source = (POINTWISE / "plugin.cpp").read_text()
    assert source.count(right) == 1
    (folder / "plugin.cpp").write_text(source.replace(right, wrong))
    library = folder / "libmortise_pointwise.so"
    compiler = shutil.which("clang++-22") or shutil.which("c++")
    subprocess.run([compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-I", ROOT / "sdk" / "include",
                    folder / "plugin.cpp", "-o", library], check=True)
    shutil.copy(POINTWISE / "manifest.toml", library.with_suffix(".toml"))
    return library


@pytest.mark.parametrize("wrong, how", [("std::tanh(a) * 1.01f", "exit status 1"), ("*(volatile float *)8 = a", "signal"),
                                        ("[] { for (volatile int i = 0;;) i = i; return 0.f; }()", "no end")])
def test_reduce_finds_the_fault(graph, tmp_path, wrong, how):
    plugin = faulty_plugin(tmp_path, "std::tanh(a)", wrong)
    region = tmp_path / "region.mlir"
    said = mortise("reduce", graph, "-o", region, "--device", "pointwise", "--plugins", plugin, "--symbols", "n=5",
                   "--seconds", "6")
    assert ops(region.read_text()) == ["tanh"] and how in said and "1 of 8 nodes" in said
    again = re.search(r"^repeat: (.*)$", said, re.M)[1].split()
    if how != "no end":
        assert subprocess.run(again, capture_output=True, timeout=60, env=ENVIRONMENT).returncode not in (0, 2)


def test_devices(tmp_path):
    said = mortise("devices", "--plugins", CPU)
    assert re.search(r"^cpu: .*thread", said) and str(CPU) in said and "rejected" not in said
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"no library")
    said = mortise("devices", "--plugins", f"{CPU}:{broken}")
    assert re.search(rf"^rejected: {broken}: .+", said, re.M)
    found = json.loads(mortise("devices", "--json", "--plugins", f"{CPU}:{broken}"))
    assert [device["name"] for device in found["devices"]] == ["cpu"] and found["rejected"][0]["path"] == str(broken)
    assert "no device" in mortise("devices", "--plugins", broken, status=1)


def test_config_show():
    said = mortise("config", "show", MORTISE_MODE="max-autotune", MORTISE_PLUGIN_PATH=str(CPU))
    assert re.search(r'^mode +  *= "max-autotune"  \(MORTISE_MODE\)$', said, re.M)
    assert re.search(r'^cpu\.isa +  *= "native"  \(default\)$', said, re.M)
    settings = json.loads(mortise("config", "show", "--json", MORTISE_MODE="max-autotune"))
    assert {"key": "mode", "value": "max-autotune", "source": "MORTISE_MODE"} in settings
    assert "did you mean MORTISE_MODE?" in mortise("config", "show", status=2, MORTISE_MODES="default")


def test_cache(graph, tmp_path):
    folder = {"MORTISE_KERNEL_CACHE": str(tmp_path / "kernels")}

    def entries():
        return json.loads(mortise("cache", "show", "--json", **folder))["entries"]

    run = ("run", graph, "--plugins", CPU, "--device", "cpu", "--symbols", "n=5")
    said = mortise(*run, **folder)
    (entry,) = entries()
    assert entry["kernel"]["plugin"] == "cpu" and entry["kernel"]["lowering"] == "cpu.region" and entry["bytes"] > 1000
    assert entry["file"] in mortise("cache", "show", **folder)
    assert mortise(*run, **folder) == said
    (kernel,) = (tmp_path / "kernels").iterdir()
    damaged = bytearray(kernel.read_bytes())
    damaged[-9] ^= 1
    kernel.write_bytes(damaged)
    assert mortise(*run, **folder) == said  # compiled again
    assert sorted(e["kernel"] is None for e in entries()) == [False, True] and "damaged" in mortise("cache", "show", **folder)
    assert "2 files removed" in mortise("cache", "clear", **folder) and entries() == []
    assert "off" in mortise("cache", "show")
    (tmp_path / "kernels").chmod(0o777)
    assert "chmod go-w" in mortise("cache", "show", status=2, **folder)
    assert "absolute path" in mortise("cache", "show", status=2, MORTISE_KERNEL_CACHE="kernels")


def test_doctor():
    said = mortise("doctor", "--plugins", CPU)
    assert "right: sum, product, softmax" in said and said.endswith("all is well\n")
    said = mortise("doctor", "--plugins", CPU, "--device", "gpu", status=1)
    assert re.search(r'^BAD   device "gpu"', said, re.M) and "1 wrong" in said
    assert "is TMPDIR writable?" in mortise("doctor", "--plugins", CPU, status=1, TMPDIR="/nonexistent")


def test_a_plugin_says_why_it_has_no_device():
    cuda = CPU.with_name("libmortise_cuda.so")
    nowhere = {"MORTISE_CUDA_DRIVER": "/nowhere/libcuda.so"}
    plugins = ("--plugins", f"{CPU}:{cuda}")
    for said in (mortise("devices", *plugins, **nowhere), mortise("doctor", *plugins, "--device", "cpu", **nowhere)):
        (line,) = [line for line in said.splitlines() if "/nowhere/libcuda.so" in line]
        assert "no device" in line and "install the GPU's driver" in line
    (plugin,) = [p for p in json.loads(mortise("devices", "--json", *plugins, **nowhere))["plugins"] if p["name"] == "cuda"]
    assert "/nowhere/libcuda.so" in plugin["no_device"]


@pytest.mark.parametrize("wrong, expected", [("a + b", "right: sum; not taken: product, softmax"),
                                             ("a + b * 1.01f", "BAD   device pointwise: a sum: exit status 1: output 0"),
                                             ("*(volatile float *)8 = a", "BAD   device pointwise: a sum: signal 11")])
def test_doctor_finds_a_wrong_device(tmp_path, wrong, expected):
    plugin = faulty_plugin(tmp_path, "a + b", wrong)
    assert expected in mortise("doctor", "--plugins", plugin, "--device", "pointwise", status=int("BAD" in expected))


def test_run(graph, tmp_path):
    said = mortise("run", graph, "--plugins", CPU, "--symbols", "n=7", "-o", tmp_path / "outputs.bin")
    assert re.search(r"^output 0, f32\[7, 8\]: from \S+ to \S+, mean", said, re.M) and len(said.splitlines()) == 2
    assert (tmp_path / "outputs.bin").stat().st_size == 2 * 7 * 8 * 4
    mortise("run", graph, "--plugins", CPU.parent, "--device", "reference", "--symbols", "n=7", "-o", tmp_path / "right.bin")
    outputs, right = (np.fromfile(tmp_path / name, np.float32) for name in ("outputs.bin", "right.bin"))
    assert np.allclose(outputs, right, rtol=1e-5, atol=1e-6) and outputs.std() > 0
    inputs = np.ones(2 * 2 * 8, np.float32)
    inputs[3] = np.nan  # of x
    inputs.tofile(tmp_path / "inputs.bin")
    said = mortise("run", graph, "--plugins", CPU, "--symbols", "n=2", "--inputs", tmp_path / "inputs.bin")
    assert said.count(", not finite: 1\n") == 2
    assert "there is no device 'gpu'" in mortise("run", graph, "--plugins", CPU, "--device", "gpu", status=2)


UPDATES = """
func.func @f(%cache: tensor<4xf32> {mortise.state}, %x: tensor<4xf32>) -> (tensor<4xf32> {mortise.alias = 0 : i64}) {
  %0 = mortise.add %cache, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_run_updates_state(tmp_path):
    (tmp_path / "f.mlir").write_text(UPDATES)
    np.array([1, 2, 3, 4, 10, 20, 30, 40], np.float32).tofile(tmp_path / "in.bin")
    mortise("run", tmp_path / "f.mlir", "--plugins", CPU, "--inputs", tmp_path / "in.bin", "-o", tmp_path / "out.bin")
    assert np.fromfile(tmp_path / "out.bin", np.float32).tolist() == [11, 22, 33, 44]


def test_bench(graph):
    found = json.loads(mortise("bench", graph, "--plugins", CPU, "--symbols", "n=7", "--seconds", "0.2", "--json"))
    assert found["calls"] >= 3 and 0 < found["least_ms"] <= found["median_ms"] <= found["p95_ms"]
    assert found["steps"] and all(step["us"] > 0 for step in found["steps"])
    said = mortise("bench", graph, "--plugins", CPU, "--symbols", "n=7", "--seconds", "0.2")
    assert re.search(r"^\d+ calls: median", said, re.M) and " % " in said
    for seconds in "0", "abc", "inf":
        assert "expected a number of seconds above 0" in mortise("bench", graph, "--plugins", CPU, "--seconds", seconds, status=105)


def test_reduce_by_a_command(graph, tmp_path):
    region = tmp_path / "region.mrtg"
    command = f"! ({MORTISE} convert {{}} - | tr -d '\\n' | grep -q 'exp.*neg')"
    mortise("reduce", graph, "-o", region, "--command", command)
    assert ops(mortise("convert", region, "-")) == ["exp", "neg"]


def test_reduce_needs_a_failure(graph, tmp_path):
    said = mortise("reduce", graph, "-o", tmp_path / "r.mrtg", "--plugins", CPU, status=2)
    assert "does not fail" in said


def test_language_server_answers():
    """The server starts, offers what editors need, and reports an error in a text when it is opened."""

    def message(method, number=None, **parameters):
        content = {"jsonrpc": "2.0", "method": method, "params": parameters}
        if number is not None:
            content["id"] = number
        text = json.dumps(content)
        return f"Content-Length: {len(text)}\r\n\r\n{text}"

    document = {"uri": "test:///f.mlir", "languageId": "mlir", "version": 1,
                "text": "func.func @f(%x: tensor<2xf32>) { %0 = mortise.tan %x : (tensor<2xf32>) -> tensor<3xf32>\n return }"}
    sent = (message("initialize", 1, processId=None, rootUri=None, capabilities={})
            + message("textDocument/didOpen", textDocument=document) + message("shutdown", 2) + message("exit"))
    ran = subprocess.run([BUILD / "bin" / "mortise-lsp-server"], input=sent, capture_output=True, text=True, timeout=60)
    assert '"capabilities"' in ran.stdout and "publishDiagnostics" in ran.stdout and "mortise.tan" in ran.stdout


def test_explain(graph, tmp_path):
    """Where each region runs and why, over a device with memory of its own: text, JSON and a page say the same."""
    strict = BUILD / "lib" / "mortise" / "test-plugins" / "libstrict.so"
    page = tmp_path / "page.html"
    options = ["explain", graph, "--device", "strict:0,cpu", "--plugins", f":{strict}", "--symbols", "n=16"]
    rules = {"MORTISE_PLACE": "op=tanh device=cpu"}
    whole = json.loads(mortise(*options, "--json", **rules))
    assert whole["nodes_by_device"] == {"cpu": 1, "strict:0": 7} and whole["placed"] == whole["nodes"] == 8
    (there, on_cpu, back) = whole["regions"]
    assert (on_cpu["device"], on_cpu["ops"]) == ("cpu", "tanh") and there["device"] == back["device"] == "strict:0"
    assert all(region["measured_us"] > 0 and region["predicted_us"] > 0 for region in whole["regions"])
    assert sum(region["share"] for region in whole["regions"]) == pytest.approx(1)
    # Two inputs and what cpu computes go there, two outputs and what cpu reads come back: f32[16, 8] each.
    assert [(copy["from"], copy["to"]) for copy in whole["copies"]].count(("host", "strict:0")) == 3
    assert [(copy["from"], copy["to"]) for copy in whole["copies"]].count(("strict:0", "host")) == 3
    assert {copy["bytes"] for copy in whole["copies"]} == {16 * 8 * 4} and whole["copied_bytes"] == 6 * 16 * 8 * 4
    for copy in whole["copies"]:
        assert copy["predicted_us"] == pytest.approx((1e-3 + 512 / 1e15 * 1e9) / 1e3)
        assert copy["price"] == {"ns": 1e-3, "ns_source": "stated", "bytes_per_second": 1e15, "bytes_per_second_source": "stated",
                                 "over_host": False}
    (lost, *others) = [one for one in whole["declined"] if one["device"] == "cpu" and one["lowering"] == "cpu.region"]
    assert lost["reason"] == "cost" and lost["plugin"] == "cpu" and lost["predicted_us"] > 0 and not others
    assert lost["nodes"] == list(range(8)) and "its nodes are in strict.region on strict:0" in lost["detail"]
    assert not [one for one in whole["refusals"] if one["reason"] == "cost"] and whole["unlisted"] == []
    assert ("mortise.tanh", "strict:0", "option") in {(one["op"], one["device"], one["reason"]) for one in whole["refusals"]}

    text = mortise(*options, "-o", page, **rules)
    assert "region 1 on cpu (cpu.region): tanh" in text and "copy of 512 bytes from host to strict:0: predicted 0.0 us" in text
    assert "(1e-06 us and 1e+06 GB/s, stated by the device)" in text
    assert f"lost: cpu.region by cpu on cpu: {lost['ops']}; predicted" in text
    assert "refused: mortise.tanh by strict on strict:0: option, the place rule 'op=tanh device=cpu'" in text
    drawn = page.read_text()
    assert drawn.count('class="bar p"') == drawn.count('class="bar m"') == 3 and "&lt;svg id=&quot;svg&quot;" in drawn
    assert "the place rule &#39;" in drawn or "the place rule 'op=tanh" in drawn


def test_prices_of_copies(graph, tmp_path):
    """A price that the user sets is shown by `config show`, `devices` and `explain`, and decides."""
    strict = BUILD / "lib" / "mortise" / "test-plugins" / "libstrict.so"
    price = "host->strict=1e6:2e9"
    said = mortise("devices", "--plugins", f":{strict}", MORTISE_TRANSFER=price)
    assert "copies from host to strict:1: 1000 us and 2 GB/s, set by the user" in said
    assert "copies from strict:1 to host: 1e-06 us and 1e+06 GB/s, stated by the device" in said
    found = json.loads(mortise("devices", "--json", "--plugins", f":{strict}", MORTISE_TRANSFER=price))["copies"]
    (there,) = [one for one in found if (one["from"], one["to"]) == ("host", "strict:0")]
    assert (there["ns"], there["ns_source"], there["bytes_per_second"]) == (1e6, "set", 2e9)
    (over,) = [one for one in found if (one["from"], one["to"]) == ("strict:0", "aloof")]
    assert over["over_host"] and over["ns"] == pytest.approx(2e-3)
    shown = mortise("config", "show", MORTISE_TRANSFER=price)
    assert re.search(rf'^transfer +  *= "{re.escape(price)}"  \(MORTISE_TRANSFER\)$', shown, re.M)

    options = ["explain", graph, "--json", "--device", "strict:0,cpu", "--plugins", f":{strict}", "--symbols", "n=16"]
    assert json.loads(mortise(*options))["nodes_by_device"] == {"strict:0": 8}
    assert json.loads(mortise(*options, MORTISE_TRANSFER=price))["nodes_by_device"] == {"cpu": 8}
    whole = json.loads(mortise(*options, MORTISE_TRANSFER=price, MORTISE_PLACE="op=* device=strict"))
    prices = {(copy["from"], copy["price"]["ns_source"], copy["predicted_us"] > 1000) for copy in whole["copies"]}
    assert prices == {("host", "set", True), ("strict:0", "stated", False)}

    said = mortise("devices", "--plugins", f":{strict}", status=1, MORTISE_TRANSFER="hots->strict=1:1")
    assert "there is no device 'hots'" in said and "did you mean 'host'" in said
    assert "FROM->TO=NS:BYTES_PER_SECOND" in mortise("devices", status=2, MORTISE_TRANSFER="host->strict=fast")


def test_explain_shows_candidates_that_were_refused(graph, tmp_path):
    """What a plugin offers and cannot compile stands in the report with its lowering and nodes, and on the page."""
    strict = BUILD / "lib" / "mortise" / "test-plugins" / "libstrict.so"
    page = tmp_path / "page.html"
    options = ["explain", graph, "--device", "strict:0,cpu", "--plugins", f":{strict}", "--symbols", "n=16", "-o", page]
    cannot = {"MORTISE_STRICT_SETTINGS": "cannot=mortise.tanh"}
    whole = json.loads(mortise(*options, "--json", **cannot))
    refused = [one for one in whole["declined"] if one["reason"] == "error"]
    assert {(one["lowering"], one["device"]) for one in refused} == {("strict.region", "strict:0")}
    assert max(len(one["nodes"]) for one in refused) == 8 and all("`cannot` excludes mortise.tanh" in one["detail"] for one in refused)
    assert {"cpu": 1, "strict:0": 7} == whole["nodes_by_device"]
    assert "refused: strict.region by strict on strict:0: tanh; predicted" in mortise(*options, **cannot)
    drawn = page.read_text()
    table = drawn[drawn.index("Candidates that lost or were refused"):drawn.index("Nodes that were refused")]
    assert table.count("<tr>") == 1 + len(json.loads(mortise(*options, "--json", **cannot))["declined"])


def test_explain_without_a_way(graph):
    strict = BUILD / "lib" / "mortise" / "test-plugins" / "libstrict.so"
    said = mortise("explain", graph, "--device", "cpu", "--plugins", f":{strict}", "--symbols", "n=16", status=2,
                   MORTISE_PLACE="op=exp device=strict")
    assert "run on no chosen device" in said and "mortise.exp" in said
