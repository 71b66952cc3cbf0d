# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of all families (sdk/codegen/test/families.hpp) as code objects for each architecture of AMD's that the code generator knows:
`passed` are those that compile, link, are for that chip, and by their metadata spill no register, need no scratch memory, and fit a
block's memory and registers; `failed` are all others, with the reason in `problems`. `architectures.NAME`: the same, the median and the
largest time to compile one, and the most registers and shared bytes. No kernel is run: no AMD GPU is at hand. Arguments: architectures."""

from figures import ArgumentError

MEASURES = "kernels of all families x AMD's architectures: compiled, linked and within the limits of registers, LDS and scratch"
NEEDS = "a build"
MINUTES = 2

ARCHITECTURES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


def measure(arguments: list[str]) -> dict:
    from measure import make, progress

    if unknown := [name for name in arguments if name not in ARCHITECTURES]:
        raise ArgumentError(f"expected {', '.join(ARCHITECTURES)}, found {' '.join(unknown)}")
    program, result = make("mortise_codegen_assemble"), {"passed": 0, "failed": 0, "problems": [], "architectures": {}}
    for name in arguments or ARCHITECTURES:
        lines = assembled(program, name)
        row, problems = judged(lines)
        result["architectures"][name] = row
        result["problems"] += [f"{name}: {problem}" for problem in problems]
        result["passed"] += row["passed"]
        result["failed"] += row["failed"]
        progress(f"{name}: {row['passed']} passed, {row['failed']} failed, {row['compile_ms']['median']} ms each")
    return result


def assembled(program, *arguments) -> list[dict]:
    """What mortise_codegen_assemble says of each kernel."""
    import json
    import subprocess

    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{program} {' '.join(map(str, arguments))}: {done.stderr.strip() or done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def judged(lines: list[dict]) -> tuple[dict, list[str]]:
    from statistics import median

    kernels = [kernel | {"graph": line["graph"]} for line in lines for kernel in line.get("kernels", ())]
    problems = [f"{line['graph']}: {line['problem']}" for line in lines if line["problem"]]
    problems += [f"{line['graph']}: no kernel is named" for line in lines if not line["problem"] and not line.get("kernels")]
    problems += [f"{kernel['graph']}: {kernel['kernel']}: {kernel['problem']}" for kernel in kernels if kernel["problem"]]
    if not kernels and not problems:
        problems = ["no kernel was made"]
    times = [line["ms"] for line in lines if "ms" in line] or [0]
    row = {"passed": sum(not kernel["problem"] for kernel in kernels), "failed": len(problems),
           "compile_ms": {"median": round(median(times), 2), "most": round(max(times), 2)}}
    for key in ("vgprs", "sgprs", "shared"):
        row[key] = max((kernel[key] for kernel in kernels), default=0)
    return row, problems
