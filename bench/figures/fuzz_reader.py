# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuzzes the reader of the portable format with arbitrary bytes: libFuzzer with ASan and UBSan. Arguments: seconds."""

MEASURES = "bytes given to the reader and to what works on a graph that was read; crashes, hangs, allocations above the cap"
NEEDS = "a build; clang with libFuzzer"
MINUTES = 10

LIMITS = {"malloc_limit_mb": 256, "rss_limit_mb": 2048, "timeout": 10, "max_len": 16384}
FOUND = ("crash-", "timeout-", "oom-", "leak-", "slow-unit-")


def measure(arguments: list[str]) -> dict:
    import re
    import shutil
    import subprocess
    import tempfile
    import time
    from pathlib import Path

    from measure import ROOT, build_folder, make, progress

    seconds = int(arguments[0]) if arguments else MINUTES * 60
    build = build_folder()
    program = make("mortise_fuzz_read")
    committed, findings, executions, rounds = ROOT / "tests" / "fuzz" / "corpus", [], 0, 0
    ends = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        shutil.copytree(committed, corpus)
        for file in (ROOT / "ir" / "portable" / "golden").glob("*.mrtg"):
            shutil.copy(file, corpus)
        coverage = 0
        while (left := round(ends - time.monotonic())) > 0:  # a finding ends a run; the next run uses the remaining time
            rounds += 1
            done = subprocess.run([str(program), str(corpus), f"-max_total_time={left}",
                                   f"-artifact_prefix={folder}/", "-print_final_stats=1",
                                   *(f"-{name}={value}" for name, value in LIMITS.items())],
                                  check=False, capture_output=True, text=True, errors="replace")
            # A run that ends with a finding prints no statistics, only its progress.
            counts = (re.findall(r"stat::number_of_executed_units: (\d+)", done.stderr)
                      or re.findall(r"^#(\d+)\t", done.stderr, re.M))
            executions += int(counts[-1]) if counts else 0
            coverage = max([coverage, *map(int, re.findall(r" cov: (\d+)", done.stderr))])
            found = [file for file in Path(folder).iterdir() if file.name.startswith(FOUND)]
            for file in found:
                kept = build / "fuzz" / file.name
                kept.parent.mkdir(exist_ok=True)
                shutil.move(file, kept)
                findings.append(str(kept.relative_to(ROOT)))
                progress(f"FOUND {findings[-1]}: {done.stderr[-600:]}")
            if done.returncode != 0 and not found:
                raise RuntimeError(f"the fuzzer ended with code {done.returncode}:\n{done.stderr[-3000:]}")
            if rounds >= 10:
                break
        size = sum(1 for _ in corpus.iterdir())
    if not executions or not coverage:
        raise RuntimeError(f"the fuzzer executed {executions} inputs and saw {coverage} edges: nothing was measured")
    return {"passed": not findings, "executions": executions, "crashes": len(findings), "findings": findings, "seconds": seconds,
            "edges": coverage, "corpus": size, "limits": LIMITS}
