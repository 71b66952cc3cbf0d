# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The figures of GPUs that need no GPU: what does not compile, assemble, fit or compute is never counted as passed."""

import json
import math
import mmap
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import gpu_faults
import gpu_rows
import kit
import measure
import torch
import torch_mortise
import verdict
from figures import (ArgumentError, cuda_fused, cuda_generated, cuda_ordered, cuda_peers, gpu_mixed, gpu_networks, gpu_robust,
                     rocm_assemble, rocm_stand_in, simt_targets, vulkan_speed)

KERNEL = {"kernel": "softmax", "vgprs": 40, "sgprs": 20, "shared": 64, "problem": ""}
LINE = {"graph": "softmax f32 3x37", "aligned": False, "ms": 2.0, "bytes": 9, "problem": "", "kernels": [KERNEL]}
WRONG = {
    "4 spilled registers": LINE | {"kernels": [KERNEL | {"problem": "4 spilled registers, at most 0"}]},
    "no kernel is named": LINE | {"kernels": []},
    "no code generator": {"graph": "softmax f32 3x37", "problem": "no code generator"},
}


def test_good_kernels_pass(monkeypatch):
    monkeypatch.setattr(rocm_assemble, "assembled", lambda *_: [LINE, LINE | {"ms": 4.0}])
    result = rocm_assemble.measure(["gfx942"])
    assert verdict.problems(result) == [] and result["passed"] == 2
    row = result["architectures"]["gfx942"]
    assert row["compile_ms"] == {"median": 3.0, "most": 4.0} and row["vgprs"] == 40


@pytest.mark.parametrize("why", WRONG)
def test_bad_kernels_fail(why, monkeypatch):
    monkeypatch.setattr(rocm_assemble, "assembled", lambda *_: [LINE, WRONG[why]])
    for result in (rocm_assemble.measure(["gfx942"]), simt_targets.measure(["gfx90a"])):
        assert any(why in problem for problem in result["problems"]) and result["failed"] == 1
        assert verdict.problems(result)


@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_no_kernels_are_no_pass(target, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: "ptxas")
    monkeypatch.setattr(rocm_assemble, "assembled", lambda *_: [])
    result = simt_targets.measure([target])
    assert result["problems"] == [f"{target}: no kernel was made"] and verdict.problems(result)


def test_an_architecture_that_nobody_has_is_refused():
    with pytest.raises(ValueError, match="expected gfx90a"):
        rocm_assemble.measure(["gfx1"])
    with pytest.raises(RuntimeError, match="expected a GPU of gfx90a"):
        rocm_assemble.assembled(measure.make("mortise_codegen_assemble"), "gfx1")


def test_ptx_that_is_none_is_refused(monkeypatch, tmp_path):
    if not shutil.which("ptxas"):
        pytest.skip("no ptxas in PATH: install nvidia-cuda-nvcc==13.0.88 (PyPI)")

    def assembled(program, chip, folder):
        (Path(folder) / "0.ptx").write_text(".version 7.0\n.target sm_80\nno ptx")
        return [{"graph": "broken", "file": "0.ptx", "ms": 1.0, "problem": ""}]

    monkeypatch.setattr(rocm_assemble, "assembled", assembled)
    result = simt_targets.measure(["sm_80"])
    assert result["failed"] == 1 and "ptxas" in result["problems"][0] and verdict.problems(result)


def test_graphs_that_are_not_judged_fail(monkeypatch):
    monkeypatch.setattr(rocm_assemble, "assembled", lambda *_: [{"graphs": 3}])
    cases = [
        {"case": "file/a.mrtg/#1", "outcome": "failed", "why": "element 0"},
        {"case": "file/a.mrtg/#2", "outcome": "passed"},
        {"case": "file/b.mrtg/#1", "outcome": "refused", "why": "sorts"},
    ]
    totals = {"passed": 1, "failed": 1, "refused": 1}
    monkeypatch.setattr(kit, "run", lambda *_, **__: {"totals": totals, "cases": cases})
    result = simt_targets.measure(["spirv"])
    for why in ("element 0", "refused: sorts", "1 of 3 graphs were not judged"):
        assert any(why in problem for problem in result["problems"]), result["problems"]
    assert (result["passed"], result["failed"]) == (1, 3)


FAST = {"name": "softmax 8x4096 bf16", "gbps": 3500.0, "copy_gbps": 4000.0, "spread": 0.02, "error": 0.5}
SLOW = {
    "slow": FAST | {"gbps": 2700.0},
    "zeroed": FAST | {"error": 128.0},
    "NaN": FAST | {"error": None},
    "disturbed": FAST | {"spread": 0.5},
}


def test_a_fast_kernel_that_is_right_passes():
    assert vulkan_speed.judged(FAST)["passed"]
    assert not any(vulkan_speed.judged(line)["passed"] for line in SLOW.values())


def test_speed_needs_a_gpu():
    """Not one that a CPU stands in for."""
    result = vulkan_speed.measure([])
    assert "expected a GPU with Vulkan" in result.get("error", "") and verdict.problems(result)


PLACED = {"vulkan": 2, "cpu": 5}
OPS = {"vulkan": {"tanh"}, "cpu": {"linear", "top_k", "softmax"}}


PEER_ROW = {"trace_s": 4.0, "cold_s": 5.5, "error": 0.02, "mortise_ms": 0.9, "mortise_reduce_overhead_ms": 0.8, "reduce_overhead_ms": 0.85}


@pytest.mark.parametrize(("name", "change", "lacks"), [
    ("bert b1", {}, []),
    ("bert b1", {"mortise_reduce_overhead_ms": 1.0}, ["reduce-overhead"]),
    ("bert b1", {"error": 0.1}, ["agreement"]),
    ("bert b1", {"error": float("nan")}, ["agreement"]),
    ("bert b1", {"cold_s": 6.1}, ["cold"]),
    ("bert b1", {"cold_s": float("nan")}, ["cold"]),
    ("bert b1", {"mortise_ms": float("nan"), "mortise_reduce_overhead_ms": float("nan")}, ["reduce-overhead", "ms"]),
    ("llama-1b decode", {}, []),
    ("llama-1b decode", {"mortise_reduce_overhead_ms": 0.86, "reduce_overhead_ms": 1.6}, ["ms"]),
])
def test_a_row_beside_peers_says_what_it_lacks(name, change, lacks):
    assert cuda_peers.missed(name, PEER_ROW | change) == lacks


@pytest.mark.parametrize("key", ["error", "cold_s", "trace_s", "reduce_overhead_ms"])
def test_a_row_beside_peers_lacks_what_was_not_measured(key):
    assert cuda_peers.missed("bert b1", {name: value for name, value in PEER_ROW.items() if name != key})


def test_a_round_beside_peers_begins_once(monkeypatch):
    """A decode step must not run past the end of its cache, nor in an empty one."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    met = []
    case = cuda_peers.Case(None, ("call",), before_round=lambda: met.append("round"), before_call=lambda: met.append("before"))
    assert cuda_peers.timed(case, met.append, 2) >= 0
    assert met == ["round", "before", "call", "before", "call"]
    cuda_peers.first(case, met.append)
    assert met[5:] == ["round", "before", "call"]


def test_work_of_several_devices_is_judged():
    def problems(ruled=True, placement=PLACED, ops=OPS, error=1e-7):
        return gpu_mixed.judged(["vulkan", "cpu"], ruled, placement, ops, error)["problems"]

    assert problems() == [] and problems(ruled=False) == []
    assert "vulkan has no work" in problems(placement={"cpu": 7})
    assert "one device has all of the work" in problems(ruled=False, placement={"cpu": 7})
    assert "1 operators run in eager" in problems(placement=PLACED | {"eager": 1})
    assert "tanh runs on cpu, expected vulkan" in problems(ops={"vulkan": {"tanh"}, "cpu": {"tanh", "top_k"}})
    assert "none of top_k runs on cpu" in problems(ops={"vulkan": {"tanh"}, "cpu": {"softmax"}})
    assert any("error nan" in problem for problem in problems(error=float("nan")))


def test_a_network_runs_on_the_cpu_and_on_vulkan():
    result = gpu_mixed.measure([])
    (part,) = result["parts"].values()
    if "vulkan" not in part["hardware"]:
        pytest.skip("no device with Vulkan: install mesa-vulkan-drivers (Debian)")
    assert all(row["passed"] for row in result["rows"].values()) and len(result["rows"]) == 2, result
    assert result["lacking"] == ["gpu"] and verdict.problems(result)


def test_several_devices_on_two_machines_are_one_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_mixed, "row", lambda *_: gpu_mixed.judged(["vulkan", "cpu"], True, PLACED, OPS, 1e-7))
    monkeypatch.setattr(torch_mortise, "devices", lambda: [{"kind": "cuda", "hardware": "H200"}, {"kind": "vulkan", "hardware": "H200"}])
    there = gpu_mixed.measure([])
    assert there["lacking"] == ["lavapipe"] and there["passed"] == 4
    (tmp_path / "there.json").write_text(json.dumps({"figure": "gpu-mixed", "result": there}))
    monkeypatch.setattr(torch_mortise, "devices", lambda: [{"kind": "vulkan", "hardware": "llvmpipe"}])
    whole = gpu_mixed.measure([str(tmp_path / "there.json")])
    assert verdict.problems(whole) == [] and whole["passed"] == 6


NETWORK = {"err_vs_f64": 0.02, "eager_err_vs_f64": 0.015, "device": "vulkan", "dtype": "bfloat16", "coverage": 1.0}
PLACES = {"lavapipe": "llvmpipe", "stand-in": "gfx942"}


@pytest.mark.parametrize(
    "wrong",
    [{"err_vs_f64": math.nan}, {"err_vs_f64": 0.031}, {"coverage": 0.99}, {"problem": "NaN where eager has none"}],
    ids=["NaN", "twice eager's error", "an operator in eager", "hostile values"],
)
def test_a_network_that_is_wrong_fails(wrong):
    assert gpu_networks.judged(NETWORK)
    assert not gpu_networks.judged(NETWORK | wrong)


def test_networks_of_several_machines_are_one_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_networks, "places", lambda: {"cuda": "H200", "vulkan": "H200"})
    monkeypatch.setattr(gpu_networks, "rows_in_a_process", lambda _, name: {f"{name} float32": NETWORK | {"passed": True}})
    there = gpu_networks.measure([])
    assert there["lacking"] == ["lavapipe", "stand-in"] and verdict.problems(there)
    (tmp_path / "there.json").write_text(json.dumps({"figure": "gpu-networks", "result": there}))
    monkeypatch.setattr(gpu_networks, "places", lambda: PLACES)
    whole = gpu_networks.measure([str(tmp_path / "there.json")])
    assert verdict.problems(whole) == [] and whole["passed"] == 4 * len(gpu_networks.NETWORKS) and len(whole["parts"]) == 4
    (tmp_path / "stale.json").write_text(json.dumps({"figure": "gpu-networks", "result": there | {"sources": "0" * 64}}))
    with pytest.raises(ValueError, match="make it again"):
        gpu_networks.measure([str(tmp_path / "stale.json")])
    (tmp_path / "other.json").write_text(json.dumps({"figure": "gpu-mixed", "result": there}))
    with pytest.raises(ValueError, match="found one of gpu-mixed"):
        gpu_networks.measure([str(tmp_path / "other.json")])
    with pytest.raises(ValueError, match="expected places that are here"):
        gpu_networks.measure(["cuda"])


def test_a_network_that_ends_its_process_is_red(monkeypatch):
    monkeypatch.setattr(gpu_networks, "places", lambda: PLACES)
    monkeypatch.setattr(gpu_networks, "ROWS", "import os; os.abort()")
    result = gpu_networks.measure(["lavapipe", "bert"])
    assert "failed with code" in result["rows"]["bert lavapipe"]["error"] and verdict.problems(result)


def test_faults_of_several_machines_are_one_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_robust, "row", lambda name: {"what": name, "said": [], "problem": "", "passed": True})
    monkeypatch.setattr(measure, "make", lambda target: None)
    monkeypatch.setattr(gpu_networks, "places", lambda: {"cuda": "H200", "vulkan": "H200"})
    there = gpu_robust.measure([])
    assert there["lacking"] == ["lavapipe"] and verdict.problems(there) and "memcheck cuda" in there["rows"]
    (tmp_path / "there.json").write_text(json.dumps({"figure": "gpu-robust", "result": there}))
    monkeypatch.setattr(gpu_networks, "places", lambda: PLACES)
    whole = gpu_robust.measure([str(tmp_path / "there.json")])
    assert verdict.problems(whole) == [] and set(whole["parts"]) == set(gpu_robust.DUE)
    assert {name for name, one in gpu_faults.FAULTS.items() if one.group == "lavapipe"} == {"lost-device"}
    assert "lost-device lavapipe" in whole["rows"] and "memory-of-calls-on-vulkan lavapipe" in whole["rows"]
    assert gpu_robust.measure(["memory"])["partial"]
    monkeypatch.setattr(gpu_robust, "row", lambda name: {"what": name, "said": [], "problem": "it grew", "passed": False})
    assert verdict.problems(gpu_robust.measure([str(tmp_path / "there.json")]))


@pytest.fixture
def cheap_calls(monkeypatch):
    monkeypatch.setattr(gpu_faults, "CALLS", 20000)
    monkeypatch.setattr(gpu_faults, "WARM", 2000)


def test_calls_that_keep_memory_are_found(cheap_calls, monkeypatch):
    kept = []
    gpu_faults.flat(lambda x: x, [1])
    with pytest.raises(AssertionError, match="bytes of the host a call are not given back"):
        gpu_faults.flat(lambda x: kept.append(bytearray(200)), [1])
    pages, content = mmap.mmap(-1, 20000 << 12), b"x" * (1 << 12)
    with pytest.raises(AssertionError, match="the process grew from"):  # by pages that malloc knows nothing of
        gpu_faults.flat(lambda x: pages.write(content), [1])
    kept.clear()
    monkeypatch.setattr(gpu_faults, "on_gpu", lambda: len(kept))
    with pytest.raises(AssertionError, match="the device's memory grew"):
        gpu_faults.flat(lambda x: kept.append(None), [1])


@pytest.mark.parametrize("name", gpu_faults.PLANTS)
def test_kernels_that_are_planted_assemble(name, tmp_path):
    assembler = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if not assembler:
        pytest.skip("no ptxas in PATH: install nvidia-cuda-nvcc (PyPI)")
    (tmp_path / "planted.ptx").write_text(gpu_faults.ptx(gpu_faults.PLANTS[name]))
    subprocess.run([assembler, "-arch=sm_90", "-o", tmp_path / "planted.cubin", tmp_path / "planted.ptx"], check=True)


TOOL = """#!{python}
import pathlib, sys
pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1].replace("%p", "7")).write_text({log!r})
sys.exit({status})
"""


@pytest.mark.parametrize("log, status, why", [
    ("ERROR SUMMARY: 0 errors", 0, ""), ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, ""),
    ("Invalid __global__ read\nERROR SUMMARY: 1 error", 86, "Invalid __global__ read"), ("ERROR SUMMARY: 30 errors", 0, "30 errors"),
    ("RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warnings)", 0, "1 hazard"),
    ("ERROR SUMMARY: 0 errors", 1, "exit status 1"), ("", 0, "exit status 0")])
def test_what_compute_sanitizer_says_decides(log, status, why, monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(TOOL.format(python=sys.executable, log=log, status=status))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = gpu_faults.sanitized("memcheck", ["true"])
    assert why in found and bool(found) == bool(why)


@pytest.mark.parametrize("name", ["no-cuda-driver", "no-hip", "no-vulkan-loader"])
def test_a_missing_driver_ends_well(name):
    assert gpu_robust.row(name)["problem"] == ""


ROW = {"network": "bert", "calls": 40, "passed": 41, "failed": 0, "survived": 2, "problems": [], "functions": {}}


def test_networks_that_survive_all_faults_pass(monkeypatch):
    monkeypatch.setattr(rocm_stand_in, "faults", lambda *_: ROW)
    result = rocm_stand_in.measure(["bert", "gpt2"])
    assert verdict.problems(result) == [] and result["passed"] == 82 and result["faults"]["calls"] == 80


@pytest.mark.parametrize(
    "wrong",
    [{"failed": 1, "problems": ["bert: differs from eager"]}, {"failed": 2}, {"calls": 0, "passed": 0}],
    ids=["a wrong result", "faults without a reason", "HIP was not called"],
)
def test_networks_that_fail_are_red(wrong, monkeypatch):
    monkeypatch.setattr(rocm_stand_in, "faults", lambda *_: ROW | wrong)
    result = rocm_stand_in.measure(["bert"])
    assert result["failed"] >= 1 and verdict.problems(result)


def test_a_process_that_dies_is_red(monkeypatch):
    monkeypatch.setattr(rocm_stand_in, "environment", lambda **_: {"PATH": "/nowhere"})
    result = rocm_stand_in.measure(["bert"])
    assert result["failed"] >= 1 and "exit status" in result["problems"][0] and verdict.problems(result)


ADD = ("--op", "add", "--quick")


def test_cases_on_the_stand_in_pass_and_a_planted_fault_is_red():
    row, problems = rocm_stand_in.core("gfx1100", ADD)
    assert problems == [] and row["passed"] > 0 and row["launches"] > 0
    _, problems = rocm_stand_in.core("gfx1100", ADD, planted="fail=hipModuleLaunchKernel:3:999")
    assert problems


def test_an_unknown_network_is_refused():
    with pytest.raises(ValueError, match="expected gfx942"):
        rocm_stand_in.measure(["alexnet"])


ORDERED = ("sort f32 64x4096", "top 8 bf16 8192x64", "cumsum i64 8192x64 along 0", "cummax f32 1024x4096", "logcumsumexp f32 1024x4096",
           "scatter_add f32 4096x256 8192", "searchsorted f32 4096 100000")


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_results_are_judged(name):
    case = cuda_ordered.cases()[name]
    torch.manual_seed(1)
    inputs = case.inputs("cpu")
    found = case.function(*inputs)
    assert cuda_ordered.wrong(case, found, inputs) == ""
    results = [found] if torch.is_tensor(found) else list(found)
    for number, result in enumerate(results):
        for fault in (torch.zeros_like(result), result.flip(0), result[:-1], result + 1):
            planted = [*results[:number], fault, *results[number + 1:]]
            assert cuda_ordered.wrong(case, planted[0] if torch.is_tensor(found) else planted, inputs), name
        if result.is_floating_point():
            one = result.clone()
            one.view(-1)[1] = float("nan")
            planted = [*results[:number], one, *results[number + 1:]]
            assert cuda_ordered.wrong(case, planted[0] if torch.is_tensor(found) else planted, inputs), name


def test_random_numbers_are_judged_by_their_zeros():
    case = cuda_ordered.cases()["dropout of gelu bf16 8192x4096"]
    inputs = case.inputs("cpu")
    assert cuda_ordered.wrong(case, case.function(*inputs), inputs) == ""
    assert cuda_ordered.wrong(case, inputs[0], inputs)
    assert cuda_ordered.wrong(case, torch.zeros_like(inputs[0]), inputs)


@pytest.mark.parametrize("name", ["product bf16 16x4096x4096", "product f32 1000x1001x999"])
def test_generated_products_are_judged(name):
    case = cuda_generated.cases()[name]
    torch.manual_seed(1)
    inputs = case.inputs("cpu")
    exact = case.function(*[x.double() for x in inputs])
    found = case.function(*inputs)
    eager = {"eager_error": cuda_generated.error(found, exact), "lowerings": ["cuda.product"]}
    assert cuda_generated.passes(eager | {"error": cuda_generated.error(found, exact)})
    sequential = cuda_generated.sequential_error(case, inputs[0].dtype)
    if inputs[0].dtype == torch.float32:  # products of one column, added term by term
        sums = torch.zeros(64)
        for term in range(case.terms):
            sums += inputs[0][:64, term] * inputs[1][term, :64]
        want = (inputs[0][:64].double() * inputs[1][:, :64].T.double()).sum(1)
        assert sequential / 4 < cuda_generated.error(sums, want) < sequential
        assert not cuda_generated.passes(eager | {"error": 8 * sequential, "sequential_error": sequential})
    else:
        assert sequential == 0
    one = found.clone()
    one[0, 0] = float("nan")
    for fault in (torch.zeros_like(found), found.flip(0), one, found * 1.1):
        assert not cuda_generated.passes(eager | {"error": cuda_generated.error(fault, exact)})


def test_products_of_a_library_are_not_generated():
    good = {"error": 1e-6, "eager_error": 1e-6}
    for names in ([], ["cublaslt.matmul"], ["cublaslt.matmul", "cuda.product"], ["cuda.pointwise"]):
        assert not cuda_generated.passes(good | {"lowerings": names})
    step = {"lowering": "cudnn.convolution"}
    assert cuda_generated.lowerings({"graphs": [{"program": {"placement": [{"steps": [step, step]}]}}]}) == ["cudnn.convolution"]


def test_convolutions_count_their_operations():
    case = cuda_generated.cases()["convolution bf16 32x64x56x56 64 3x3"]
    assert case.operations == 2 * 32 * 64 * 56 * 56 * 64 * 9
    x, w, b = (t.float() for t in cuda_generated.cases()["convolution f32 32x1024x14x14 256 1x1"].inputs("cpu"))
    assert case.function is not None and x.shape == (32, 1024, 14, 14) and w.shape == (256, 1024, 1, 1) and b.shape == (256,)


def planted_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "planted")
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)


def test_rows_of_a_gpu(monkeypatch):
    planted_gpu(monkeypatch)
    cases = {"good": True, "bad": False}

    def row(name, case):
        return {"passed": case}

    assert gpu_rows.measured(cases, ["good"], row) == {"device": "planted", "rows": {"good": {"passed": True}}, "passed": True}
    found = gpu_rows.measured(cases, [], row)
    assert list(found["rows"]) == ["good", "bad"] and not found["passed"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "expected a GPU" in gpu_rows.measured(cases, [], row)["error"]


@pytest.mark.parametrize("figure", [cuda_fused, cuda_generated, cuda_ordered, cuda_peers])
def test_an_unknown_row_is_refused(figure, monkeypatch):
    for name in cuda_generated.SWITCHES:
        monkeypatch.setenv(name, "auto")  # what the figure sets is taken back
    with pytest.raises(ArgumentError, match="expected rows among .*found 'nosuch'"):
        figure.measure(["nosuch"])


def test_medians_are_of_interleaved_rounds(monkeypatch):
    calls = []

    def timed(call, sets, count):
        calls.append((call, count))
        return len(calls)

    monkeypatch.setattr(gpu_rows, "timed", timed)
    found = gpu_rows.medians({"a": "A", "b": "B"}, [()], rounds=3, count=5, warm=2)
    assert calls == [("A", 2), ("B", 2)] + [("A", 5), ("B", 5)] * 3
    assert found == {"a": 5, "b": 6}
