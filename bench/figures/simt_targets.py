# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of all families (sdk/codegen/test/families.hpp) for every GPU that the code generator knows.

    sm_NN   PTX that NVIDIA's assembler takes for the chip
    gfxNNN  code objects that link and stay within registers, scratch and shared memory (figure rocm-assemble)
    spirv   graphs of the families and random graphs, each with the kit's sets of inputs, run by the vulkan plugin on this machine's device
            (Mesa's lavapipe where there is no GPU), every element within the conformance kit's bounds of the exact result

`passed` and `failed` count kernels, for spirv cases: a graph with a set of inputs; `problems` says why one failed. `compile_ms.TARGET`:
the median time to generate a kernel's code, for PTX without the assembler's part; none for spirv. Random graphs have new seeds in each run.
Arguments: targets."""

from figures import ArgumentError

MEASURES = "kernel families x {lavapipe run, sm_75 to sm_120 by ptxas, five gfx linked}: passed, failed, ms to compile one"
NEEDS = "a build; ptxas in PATH (PyPI's nvidia-cuda-nvcc); a device with Vulkan (mesa-vulkan-drivers)"
MINUTES = 8

CHIPS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
RANDOM_GRAPHS = 100


def measure(arguments: list[str]) -> dict:
    from figures.rocm_assemble import ARCHITECTURES, assembled, judged
    from measure import make, progress

    targets = ("spirv", *CHIPS, *ARCHITECTURES)
    if unknown := [name for name in arguments if name not in targets]:
        raise ArgumentError(f"expected {', '.join(targets)}, found {' '.join(unknown)}")
    program, result = make("mortise_codegen_assemble"), {"passed": 0, "failed": 0, "problems": [], "compile_ms": {}, "targets": {}}
    for name in arguments or targets:
        if name == "spirv":
            row, problems = run_here(program)
        elif name in CHIPS:
            row, problems = by_ptxas(program, name)
        else:
            row, problems = judged(assembled(program, name))
        result["targets"][name] = {"passed": row["passed"], "failed": row["failed"]}
        if "compile_ms" in row:
            result["compile_ms"][name] = row["compile_ms"]["median"]
        result["problems"] += [f"{name}: {problem}" for problem in problems]
        result["passed"] += row["passed"]
        result["failed"] += row["failed"]
        progress(f"{name}: {row['passed']} passed, {row['failed']} failed")
    return result


def by_ptxas(program, chip: str) -> tuple[dict, list[str]]:
    import shutil
    import tempfile
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path
    from statistics import median

    from figures.rocm_assemble import assembled

    if not (ptxas := shutil.which("ptxas")):
        raise RuntimeError("no ptxas in PATH: install nvidia-cuda-nvcc==13.0.88 (PyPI)")
    with tempfile.TemporaryDirectory() as folder:
        lines = assembled(program, chip, folder)
        problems = [f"{line['graph']}: {line['problem']}" for line in lines if line["problem"]] if lines else ["no kernel was made"]
        lines = [line for line in lines if not line["problem"]]
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda line: assembles(ptxas, chip, Path(folder) / line["file"]), lines))
    problems += [f"{line['graph']}: {answer}" for line, answer in zip(lines, answers, strict=True) if answer]
    times = [line["ms"] for line in lines] or [0]
    return {"passed": answers.count(""), "failed": len(problems), "compile_ms": {"median": round(median(times), 2)}}, problems


def assembles(ptxas: str, chip: str, file) -> str:
    """Why the assembler refuses the file; empty when it takes it."""
    import subprocess

    made = file.with_suffix(".cubin")
    done = subprocess.run([ptxas, f"-arch={chip}", "-o", str(made), str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()[:500] or f"exit status {done.returncode}"
    return "" if made.exists() and made.stat().st_size else "ptxas wrote nothing"


def run_here(program) -> tuple[dict, list[str]]:
    import random
    import tempfile

    import kit
    from figures.rocm_assemble import assembled

    with tempfile.TemporaryDirectory() as folder:
        [counted] = assembled(program, "graphs", folder, random.getrandbits(30), RANDOM_GRAPHS)
        report = kit.run(kit.PLUGINS / "libmortise_vulkan.so", "--graph", folder)
    problems = kit.failures(report)
    if missing := counted["graphs"] - len({graph_of(line) for line in report["cases"]}):
        problems.append(f"{missing} of {counted['graphs']} graphs were not judged")
    problems += [f"{line['case']}: refused: {line['why']}" for line in report["cases"] if line["outcome"] == "refused"]
    return {"passed": report["totals"]["passed"], "failed": len(problems)}, problems


def graph_of(line: dict) -> str:
    """The graph of a case `FILE/#N`, whose inputs number N are."""
    return line["case"].rpartition("/")[0]
