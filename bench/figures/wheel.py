# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel as a user gets it: made from this commit, judged by tools/wheel/check.py (`problems`), and installed by pip into an empty
environment on a bare Debian 12, which has no compiler. A row is one CPython with one PyTorch: Debian's own CPython, others that pyenv has
on this machine, or else those of a later Debian, in which the row then runs (`system`). What cannot be had is in `not_run`, with the
reason; only the check of the stable ABI and of the sources' version speaks for it. Each row runs three lines that do not import
torch_mortise (bench/three_lines.py), compares their result with eager, and reads in the report that all of it ran on the cpu plugin;
then what differs between releases of PyTorch is tried (bench/wheel_checks.py).

`megabytes`: of the wheel; `installed_megabytes`: of its files. `seconds`: to install it beside PyTorch, and for the first call, which
traces and compiles (medians of the rows). `import_s`: of torch_mortise behind torch, the largest median of a row; at most 0.15. Rows also
say what `import torch`, Dynamo, and the first use of torch_mortise behind both take, and what the command `mortise` and the wheels of
other plugins do there. Arguments: 3.11/2.13, or 3.11."""

from figures import ArgumentError

MEASURES = "the wheel in empty environments on a bare Debian 12: CPython x PyTorch, size, seconds to install and to answer, time to import"
NEEDS = "root, network, 20 GB of disk"
MINUTES = 40

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PYTORCHES = ("2.11", "2.12", "2.13")
IMPORTS, IMPORT_LIMIT_S = 5, 0.15
CHECKS = 5  # of wheel_checks.py
DEBIANS = {"3.11": ("bookworm", "python3.11"), "3.13": ("trixie", "python3.13"), "3.14": ("forky", "python3.14")}
PLUGIN_WHEELS = ("torch-mortise-cuda", "torch-mortise-vulkan")

IMPORT = """
import json, time
times = [time.perf_counter()]
import torch
times.append(time.perf_counter())
import torch_mortise
times.append(time.perf_counter())
import torch._dynamo.backends.common
times.append(time.perf_counter())
torch_mortise.backend
times.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""
IMPORTED = ("import_torch_s", "import_s", "import_dynamo_s", "first_use_s")

# Runs three_lines.py, and judges what it computed.
JUDGE = """
import json, runpy, sys, time
begin = time.perf_counter()
ran = runpy.run_path("/home/three_lines.py")
seconds = time.perf_counter() - begin
import torch, torch_mortise
report = torch_mortise.last_report()
found, expected = ran["found"], ran["model"](ran["x"])
programs = [graph["program"] for graph in report["graphs"] if graph.get("program")]
print(json.dumps({
    "python": sys.version.split()[0], "torch": str(torch.__version__), "version": torch_mortise.__version__,
    "first_call_s": seconds, "error": ((found - expected).abs().max() / expected.abs().max()).item(),
    "dtype": str(found.dtype), "shape": list(found.shape),
    "eager": [str(node) for graph in report["graphs"] for node in graph["eager"]], "graphs": len(report["graphs"]),
    "devices": sorted({region["device"] for program in programs for region in program["placement"]}),
    "nodes": sum(len(region["nodes"]) for program in programs for region in program["placement"]),
    "plugins": sorted(plugin["name"] for plugin in torch_mortise.describe()["plugins"]),
    "rejected": [f"{each['path']}: {each['reason']}" for each in torch_mortise.describe()["rejected"]]}))
"""


def problem_of(row: dict) -> str:
    """What is wrong with a row, in words; "" if nothing is."""
    found = []
    if row["devices"] != ["cpu"] or row["eager"] or not row["graphs"] or not row["nodes"]:
        found.append(f"expected everything on cpu, found {row['nodes']} nodes on {row['devices']} and in eager {row['eager']}")
    if not row["error"] <= 2e-5 or (row["dtype"], row["shape"]) != ("torch.float32", [32, 64]):
        found.append(f"differs from eager by {row['error']}, as {row['dtype']} {row['shape']}")
    if not row["import_s"] <= IMPORT_LIMIT_S:
        found.append(f"importing takes {row['import_s']:.3f} s beyond torch's, where {IMPORT_LIMIT_S} are allowed")
    if row["rejected"] or not {"cpu", "reference", "cuda", "vulkan"} <= set(row["plugins"]):
        found.append(f"expected the plugins cpu, reference, cuda and vulkan, found {row['plugins']}, and rejected {row['rejected']}")
    found += [f"{name}: {wrong}" for name, wrong in row["checks"].items() if wrong]
    if len(row["checks"]) < CHECKS:
        found.append(f"expected {CHECKS} checks, found {list(row['checks'])}")
    if "cpu" not in row["command"]:
        found.append(f"`mortise devices` lists no cpu: {row['command']}")
    return "; ".join(found)


def interpreters() -> dict[str, tuple[str, str]]:
    """{version of CPython: (the Debian that it runs in, its path there)}."""
    import os
    from pathlib import Path

    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    of_pyenv = {name: ("bookworm", str(files[-1])) for name in PYTHONS if (files := sorted(root.glob(f"{name}.*/bin/python{name}")))}
    of_debian = {name: (suite, f"/usr/bin/{program}") for name, (suite, program) in DEBIANS.items()}
    return of_debian | of_pyenv | {"3.11": of_debian["3.11"]}


def install_torch(system, torch: str) -> None:
    """Installs PyTorch. Builds for CUDA need gigabytes of libraries; the environments of one version share them."""
    import json

    pip, shared = "/home/venv/bin/pip install -q", f"/home/nvidia-{torch}"
    report = json.loads(system.run(f"{pip} --dry-run --report - 'torch=={torch}.*'"))
    wanted = [package["metadata"] for package in report["install"] if package["metadata"]["name"].startswith("nvidia-")]
    if wanted:
        names = " ".join(f"{each['name']}=={each['version']}" for each in wanted)
        system.run(f"if ! [ -e {shared}/made ]; then rm -rf /home/nvidia-*; {pip} --no-deps --no-compile --target {shared} {names}; "
                   f"touch {shared}/made; fi; echo {shared} > $(echo /home/venv/lib/python3*/site-packages)/nvidia.pth")
    system.run(f"{pip} --no-compile 'torch=={torch}.*'")


def measure_row(system, python: str, torch: str, wheels: list[str]) -> dict:
    """One environment, which is removed afterwards. `wheels`: their paths in the system, torch-mortise first."""
    import json
    import time
    from statistics import median

    run = system.run
    run(f"rm -rf /home/venv && {python} -m venv /home/venv")
    try:
        install_torch(system, torch)
        began = time.perf_counter()
        run(f"/home/venv/bin/pip install -q --no-index {wheels[0]}")
        install_s = time.perf_counter() - began
        times = [json.loads(run(f"/home/venv/bin/python -c '{IMPORT}'")) for _ in range(IMPORTS + 1)][1:]  # the first reads from the disk
        imported = dict(zip(IMPORTED, (median(each) for each in zip(*times))))
        run(f"/home/venv/bin/pip install -q --no-index {' '.join(wheels[1:])}")
        row = json.loads(run("cd /home && /home/venv/bin/python judge.py").splitlines()[-1])
        row["checks"] = json.loads(run("cd /home && /home/venv/bin/python wheel_checks.py").splitlines()[-1])
        size = run("du -sk /home/venv/lib/python3*/site-packages/torch_mortise").split()[0]
        row |= imported | {"install_s": install_s, "installed_megabytes": round(int(size) / 1e3, 1),
                           "command": run("/home/venv/bin/mortise devices").strip()}
    finally:
        run("rm -rf /home/venv")
    return row | {"problem": problem_of(row)}


def chosen(arguments: list[str]) -> list[tuple[str, str]]:
    """The rows that the arguments name; by default all."""
    pairs = [(python, torch) for torch in PYTORCHES for python in PYTHONS]
    rows = [pair for pair in pairs if not arguments or pair[0] in arguments or "/".join(pair) in arguments]
    if unknown := [each for each in arguments if each not in PYTHONS and each not in map("/".join, pairs)]:
        raise ArgumentError(f"expected rows such as 3.11/2.13 or 3.11, of CPython {', '.join(PYTHONS)} and PyTorch {', '.join(PYTORCHES)}; "
                         f"found {' '.join(unknown)}")
    return rows


def measure(arguments: list[str]) -> dict:
    import shutil
    import subprocess
    import sys
    from pathlib import Path
    from statistics import median

    from bare import BareDebian
    from measure import ROOT, build_folder, progress

    sys.path.insert(0, str(ROOT / "tools" / "wheel"))
    import check
    import wheel

    pairs, pythons, cache = chosen(arguments), interpreters(), ROOT / "build" / "bare"
    shared = [str(Path(python).parents[1]) for suite, python in pythons.values() if not python.startswith("/usr/")]

    def bare(suite: str) -> BareDebian:
        packages = [(program, f"{program}-venv") for its, program in DEBIANS.values() if its == suite]
        return BareDebian(cache / suite, suite, *packages, shared)

    bare("bookworm")  # what is missing is said before anything is made
    (folder := cache / "wheels").mkdir(parents=True, exist_ok=True)
    made = [wheel.make(name, folder, build_folder()) for name in ("torch-mortise", *PLUGIN_WHEELS)]
    problems = [f"{each.name}: {breach}" for each in made for breach in check.breaches(each)]
    rows, not_run, roots = {}, {}, set()
    for python, torch in pairs:
        name = f"{python}/{torch}"
        if python not in pythons:
            suites = ", ".join(suite for suite, _ in DEBIANS.values())
            not_run[name] = f"no CPython {python} here: neither pyenv has it nor Debian's {suites}"
            continue
        suite, program = pythons[python]
        try:
            system = bare(suite)
            roots.add(system.root)
            for file in (*made, ROOT / "bench" / "three_lines.py", ROOT / "bench" / "wheel_checks.py"):
                shutil.copy(file, system.root / "home")
            (system.root / "home" / "judge.py").write_text(JUDGE)
            rows[name] = measure_row(system, program, torch, [f"/home/{file.name}" for file in made])
        except (RuntimeError, subprocess.CalledProcessError) as error:
            rows[name] = {"problem": str(error)}
        rows[name]["system"] = f"Debian {suite}"
        progress(f"{name}: {rows[name]['problem'] or 'passed'}")
    for folder in [folder for root in roots for folder in (root / "home").glob("nvidia-*")]:
        shutil.rmtree(folder)
    good = [row for row in rows.values() if not row["problem"]]
    megabytes = {file.name: round(file.stat().st_size / 1e6, 1) for file in made}
    result = {"passed": len(good), "failed": len(rows) - len(good) + len(problems), "problems": problems,
              "megabytes": megabytes[made[0].name], "wheels": megabytes}
    if good:
        result |= {"installed_megabytes": good[0]["installed_megabytes"], "import_s": max(row["import_s"] for row in good),
                   "seconds": {key: median(row[key] for row in good) for key in ("install_s", "first_call_s")}}
    return result | {"rows": rows, "not_run": not_run}
