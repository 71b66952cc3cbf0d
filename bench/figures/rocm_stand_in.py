# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rocm plugin on the stand-in for HIP (tests/hip-stand-in), whose kernels are emulated: no AMD GPU takes part.

    core       the conformance kit's level core, quick, on gfx942 (waves of 64) and gfx1100 (waves of 32)
    networks   small configurations of the six networks through torch.compile, and a network of layers
    faults     the same, with a fault at each call of HIP in turn (bench/rocm_faults.py)

`passed` and `failed` count cases that the plugin computed, and faults; `problems` says why one failed, and what the stand-in complained of.
`faults.survived`: faults that cost no result. Arguments: architectures for `core`, or names of networks."""

import functools

from figures import ArgumentError

MEASURES = "conformance core on the stand-in for HIP, and networks with a fault at every call of HIP in turn"
NEEDS = "cpu"
MINUTES = 10

ARCHITECTURES = ("gfx942", "gfx1100")


def measure(arguments: list[str]) -> dict:
    from measure import progress
    from rocm_faults import LASTING, NAMES

    if unknown := [name for name in arguments if name not in (*ARCHITECTURES, *NAMES)]:
        raise ArgumentError(f"expected {', '.join((*ARCHITECTURES, *NAMES))}, found {' '.join(unknown)}")
    wanted = arguments or (*ARCHITECTURES, *NAMES)
    result = {"passed": 0, "failed": 0, "problems": [], "core": {}, "faults": {"calls": 0, "survived": 0, "networks": {}}}

    def add(row, problems):
        result["passed"] += row["passed"]
        result["failed"] += len(problems) if problems else row["failed"]
        result["problems"] += problems[:20]

    for name in wanted:
        if name in ARCHITECTURES:
            row, problems = core(name)
            result["core"][name] = row
        else:
            lines = [faults(name)] + ([faults(name, code) for code in LASTING] if name == "layers" else [])
            row = {key: sum(line[key] for line in lines) for key in ("passed", "failed", "survived")} | {"calls": lines[0]["calls"]}
            problems = [problem for line in lines for problem in line["problems"]]
            if not row["calls"]:
                problems.append(f"{name}: HIP was not called")
            problems += [""] * (row["failed"] - len(problems))
            result["faults"]["networks"][name] = row
            result["faults"]["calls"] += row["calls"]
            result["faults"]["survived"] += row["survived"]
        add(row, problems)
        progress(f"{name}: {row['passed']} passed, {len(problems)} failed")
    result["problems"] = [problem for problem in result["problems"] if problem]
    return result


def can_be_made() -> bool:
    """Whether this is a build with its sources, not one that was carried to another machine."""
    from measure import build_folder

    return (build_folder() / "build.ninja").exists()


@functools.cache
def build():
    from measure import make

    for target in ("hip_stand_in", "plugin-rocm_stand_in"):
        make(target)


def environment(**more) -> dict:
    """For a process whose only device is the stand-in's."""
    import os

    from measure import build_folder

    names = {"MORTISE_ROCM_DRIVER": str(build_folder() / "lib" / "mortise" / "hip-stand-in" / "hip_stand_in.so"),
             "MORTISE_PLUGIN_PATH": str(build_folder() / "lib" / "mortise" / "hip-stand-in"), "MORTISE_LOG_LEVEL": "off",
             "MORTISE_KERNEL_CACHE": "off"}
    return {key: value for key, value in os.environ.items() if not key.startswith("MORTISE_")} | names | more


def core(architecture: str, cases=("--level", "core", "--quick"), planted: str = "") -> tuple[dict, list[str]]:
    """`planted`: settings of the stand-in, for the test of this figure."""
    import tempfile
    from pathlib import Path

    import kit
    from measure import ROOT

    build()
    plugin = Path(environment()["MORTISE_PLUGIN_PATH"]) / "libmortise_rocm_stand_in.so"
    with tempfile.TemporaryDirectory() as folder:
        complaints = Path(folder) / "complaints"
        settings = f"arch={architecture} devices=1 calls=0 report={complaints} {planted}"
        report = kit.run(plugin, *cases, "--expectations", ROOT / "plugins" / "rocm" / "expectations.toml",
                         environment=environment(MORTISE_TEST_HIP_STAND_IN=settings))
        lines = complaints.read_text().splitlines() if complaints.exists() else []
    problems = [f"{architecture}: {problem}" for problem in kit.failures(report)]
    problems += [f"{architecture}: the stand-in: {line}" for line in lines if not line.startswith("launches=")]
    launches = sum(int(line.partition("=")[2]) for line in lines if line.startswith("launches="))
    if not kit.executed(report) or not launches:
        problems.append(f"{architecture}: expected cases that launch kernels, found {kit.executed(report)} and {launches} launches")
    return {"passed": report["totals"]["passed"], "failed": len(problems), "refused": report["totals"]["refused"],
            "launches": launches, "result": report["result"]}, problems


def faults(network: str, lasting: int | None = None) -> dict:
    """What rocm_faults.py says; a process that ends otherwise has failed as a whole."""
    import json
    import subprocess
    import sys

    from measure import ROOT

    build()
    more = {} if lasting is None else {"MORTISE_TEST_LASTING": str(lasting)}
    ran = subprocess.run([sys.executable, str(ROOT / "bench" / "rocm_faults.py"), network], capture_output=True, text=True, check=False,
                         env=environment(MORTISE_TEST_HIP_STAND_IN="arch=gfx942 devices=1", **more))
    if ran.returncode == 0 and ran.stdout.strip():
        return json.loads(ran.stdout.splitlines()[-1])
    why = f"{network}: exit status {ran.returncode}: {ran.stderr[-500:]}"
    return {"calls": 0, "passed": 0, "failed": 1, "survived": 0, "problems": [why]}
