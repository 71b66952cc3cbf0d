# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GPUs when something is wrong, and over many calls (bench/gpu_faults.py): 10,000 calls leave no memory behind, compute-sanitizer finds
nothing, and memory that runs out, an illegal address, a lost device, a missing driver or library and hostile kernels on disk each end in a
right answer or in an error that says what to do. Each row runs in a process of its own.

Places: host (no GPU takes part; where all plugins are built), cuda, vulkan and lavapipe, which is Vulkan on the CPU; those that are here.
Each is due, and one without rows (`lacking`) counts as failed. Arguments: parts of rows' names or places, and kept runs of other places
(FILE.json), made from the same sources on other machines."""

from figures import ArgumentError

MEASURES = "GPUs under faults and over 10,000 calls: memory, compute-sanitizer, lost devices, missing drivers and libraries, hostile caches"
NEEDS = "gpu, Mesa's lavapipe; PyTorch"
MINUTES = 10

DUE = ("host", "cuda", "vulkan", "lavapipe")
# What decides about the figure.
SOURCES = ("CMakeLists.txt", "bench/faults.py", "bench/figures/gpu_robust.py", "bench/gpu_faults.py", "cmake", "frontend", "ir", "passes",
           "plugins", "runtime", "sdk", "tests/vulkan")


def faults_of(place: str) -> list[str]:
    """The names of those that are tried there."""
    from gpu_faults import FAULTS

    groups = {place, "vulkan"} if place == "lavapipe" else {place}
    return [name for name, one in FAULTS.items() if one.group in groups]


def measure(arguments: list[str]) -> dict:
    import os
    from concurrent.futures import ThreadPoolExecutor

    from figures import gpu_networks, rocm_stand_in
    from gpu_faults import FAULTS
    from kept import digest, merged, parts_given
    from measure import ROOT, machine, make, progress

    sources = digest(ROOT, SOURCES)
    parts, given = parts_given(arguments, "gpu-robust", sources)
    places = [argument for argument in given if argument in DUE]
    names = [argument for argument in given if argument not in places]
    there = gpu_networks.places() | ({"host": "none"} if rocm_stand_in.can_be_made() else {})
    here = {place: there[place] for place in DUE if place in there}
    if unknown := [place for place in places if place not in here]:
        raise ArgumentError(f"expected places that are here ({', '.join(here)}), found {', '.join(unknown)}")
    for place, hardware in here.items():
        wanted = [name for name in faults_of(place) if not names or any(part in name for part in names)]
        if place in parts or not wanted or (places and place not in places):
            continue
        for target in dict.fromkeys(target for name in wanted for target in FAULTS[name].programs):
            make(target)
        rows = {}

        def run(name, place=place, rows=rows):
            found = rows[name] = row(name)
            progress(f"{name} {place}: {'FAILED: ' + found['problem'] if found['problem'] else '; '.join(found['said']) or 'right'}")

        with ThreadPoolExecutor(max(2, (os.cpu_count() or 1) // 4)) as pool:
            list(pool.map(run, [name for name in wanted if not FAULTS[name].alone]))
        for name in wanted:
            if FAULTS[name].alone:
                run(name)
        parts[place] = {"hardware": hardware, "machine": machine(), "rows": {name: rows[name] for name in wanted}}
    if not parts:
        raise ArgumentError(f"expected parts of names such as 'memory', found {' '.join(arguments)}")
    result = {"sources": sources} | merged(parts, DUE)
    if names:
        result["partial"] = "some rows"
    return result


def row(name: str) -> dict:
    from faults import attempt
    from gpu_faults import FAULTS
    from measure import ROOT

    found = attempt(ROOT / "bench" / "gpu_faults.py", FAULTS[name])
    return found | {"passed": not found["problem"]}
