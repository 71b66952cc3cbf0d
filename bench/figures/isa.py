# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instruction sets: our tests at every x86-64 level, and latency beside eager PyTorch and ONNX Runtime.

    levels      tests passed and failed with the cpu plugin restricted to a level (`cpu.isa`); a level that the machine lacks is
                not run, says why, and counts as nothing
    rows        ms at the machine's own level; passed: ours is not slower than eager and has at least 0.8 of ONNX Runtime's speed
    restricted  the same for all three restricted to AVX2: ours and eager by switches of their own, ONNX Runtime by a copy of its
                library that sees no AVX-512 (ort_avx2.py). A newer core that is restricted is no older core: these rows tell how
                programs compare, not how fast a machine with AVX2 is

Each network has a process of its own. Outputs are compared with eager's before and after timing; who disagrees has no time.
`passed` and `failed` count tests and rows together."""

MEASURES = "tests at each x86-64 level; ms of networks beside eager and ONNX Runtime, at the machine's own level and at AVX2"
NEEDS = "cpu; onnxruntime, onnx, onnxscript; objdump"
MINUTES = 12

LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "native")
SUITES = ("cpu_vs_reference_test", "mortise_codegen_tests")  # C++
NETWORKS = ("minilm", "bert", "resnet50", "mobilenetv2", "mobilenetv2-hswish")
ORT_SHARE = 0.8  # of ONNX Runtime's speed
THREADS = 2
PAUSE = 0.01  # s between calls: both OpenMP's and ONNX Runtime's threads spin for some ms after one
RESTRICTED = {"x86-64-v3": {"MORTISE_CPU_ISA": "x86-64-v3", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
                            "MKL_ENABLE_INSTRUCTIONS": "AVX2"}}

CHILD = """
import json, sys, torch
from figures.isa import THREADS, measure_here
torch.set_num_threads(THREADS)
print(json.dumps(measure_here(sys.argv[1])))
"""


def measure(arguments: list[str]) -> dict:
    import networks

    for name in arguments:
        networks.check(name)
    result: dict = {} if arguments else {"levels": {level: run_level(level) for level in LEVELS}}
    result["rows"] = {name: row(name, "native", {}) for name in arguments or NETWORKS}
    result["restricted"] = {level: {name: row(name, level, environment) for name in arguments or NETWORKS}
                            for level, environment in RESTRICTED.items() if not lacks(level)}
    counts = list(result.get("levels", {}).values())
    rows = [one for part in (result["rows"], *result["restricted"].values()) for one in part.values()]
    result["passed"] = sum(level["passed"] for level in counts) + sum(one["passed"] for one in rows)
    result["failed"] = sum(level["failed"] for level in counts) + sum(not one["passed"] for one in rows)
    return result


def lacks(level: str) -> str:
    """Why the machine cannot run a level; empty when it can."""
    import subprocess

    from measure import ROOT

    if level == "native":
        return ""
    done = subprocess.run([str(ROOT / "tools/dev/at_isa.sh"), level, "true"], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 77 else ""


def run_level(level: str) -> dict:
    """What the C++ suites say at a level, each in one process."""
    import subprocess
    import tempfile
    from pathlib import Path

    from measure import ROOT, built, progress

    if why := lacks(level):
        progress(f"{level:10} not run: {why}")
        return {"passed": 0, "failed": 0, "not_run": why}
    counts: dict = {"passed": 0, "failed": 0, "what": []}
    prefix = [] if level == "native" else [str(ROOT / "tools/dev/at_isa.sh"), level]
    for suite in SUITES:
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch, "report.json")
            done = subprocess.run([*prefix, str(built(f"bin/{suite}")), "--gtest_brief=1", f"--gtest_output=json:{report}"],
                                  capture_output=True, text=True, check=False)
            add_report(counts, suite, report, done)
    progress(f"{level:10} {counts['passed']} passed, {counts['failed']} failed {counts['what'] or ''}")
    return counts


def add_report(counts: dict, suite: str, report, done) -> None:
    """Adds GoogleTest's report. A process that ended without one, or badly though no test failed, is a failure."""
    import json

    try:
        found = json.loads(report.read_text())
        tests = [(f"{group['name']}.{test['name']}", test) for group in found["testsuites"] for test in group["testsuite"]]
    except (OSError, ValueError, KeyError) as error:
        counts["failed"] += 1
        counts["what"].append(f"{suite} ended with {done.returncode} and no report ({error}): {(done.stdout + done.stderr)[-300:]}")
        return
    failed = [name for name, test in tests if test.get("failures")]
    counts["passed"] += sum(test.get("result") == "COMPLETED" and not test.get("failures") for _, test in tests)
    counts["failed"] += len(failed)
    counts["what"] += failed
    if done.returncode and not failed:
        counts["failed"] += 1
        counts["what"].append(f"{suite} ended with {done.returncode}")


def row(name: str, level: str, environment: dict) -> dict:
    """One network at one level, in a process of its own, with the verdict."""
    import os

    import ort_avx2
    from measure import ROOT, in_fresh_process, progress

    try:
        if environment:
            paths = [str(ort_avx2.folder(ROOT / "build")), os.environ.get("PYTHONPATH", "")]
            environment = environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        found = in_fresh_process(CHILD, name, env=environment)
    except RuntimeError as error:
        found = {"left_out": {"all": str(error)[-500:]}}
    problems = [f"{rival} {why}" for rival, why in found["left_out"].items()]
    for rival, share in {"eager": 1.0, "ort": ORT_SHARE}.items():
        if "mortise_ms" not in found or f"{rival}_ms" not in found:
            problems.append(f"no times of both mortise and {rival}")
        elif found[f"{rival}_ms"] / found["mortise_ms"] < share:
            problems.append(f"{found[f'{rival}_ms'] / found['mortise_ms']:.2f} of {rival}'s speed, at least {share} is due")
    found |= {"problem": "; ".join(problems), "passed": not problems}
    progress(f"{level:10} {name:18} " + "  ".join(f"{key[:-3]} {value:.2f} ms" for key, value in found.items()
                                                   if key in ("eager_ms", "ort_ms", "mortise_ms")) + f"  {found['problem']}")
    return found


def measure_here(name: str) -> dict:
    """Median ms in interleaved rounds, of those whose answer is eager's before and after."""
    import networks
    import torch
    from measure import ERROR_LIMIT, compare, interleaved, median, p95, rivals

    network = networks.make(name)
    with torch.no_grad():
        taken, left_out = rivals(network, {"mortise": {"backend": "mortise"}, "ort": onnx_runtime})
        expected = network.run(network.module)
        times = interleaved({rival: lambda function=function: network.run(function, network.module)
                             for rival, function in taken.items()}, rounds=40, seconds=30.0, pause=PAUSE)
        for rival, function in taken.items():
            if why := compare(network.run(function, network.module), expected).why_not(ERROR_LIMIT):
                left_out[rival] = f"{why} (after timing)"
    times = {rival: values for rival, values in times.items() if rival not in left_out}
    found = {f"{rival}_ms": median(values) for rival, values in times.items()}
    return found | {f"{rival}_p95_ms": p95(values) for rival, values in times.items()} | {"left_out": left_out}


def onnx_runtime(network):
    """The network exported to ONNX by PyTorch, in ONNX Runtime's CPU provider, called with tensors."""
    import contextlib
    import sys
    import tempfile
    from pathlib import Path

    import onnxruntime
    import torch

    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
        path = Path(scratch, "network.onnx")
        torch.onnx.export(network.module, network.inputs, str(path), dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.add_session_config_entry("session.force_spinning_stop", "1")  # its threads spin within a call only
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def call(*inputs):
        feeds = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(array) for array in session.run(None, feeds))

    return call
