# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel as a user gets it: made from this commit, judged by tools/wheel/check.py (`problems`), and installed by pip into an empty
environment on a bare Debian 12, which has no compiler. A row is one CPython with one PyTorch: Debian's own CPython, and others that pyenv
has on this machine; what cannot be had is in `not_run`, with the reason, and only the check of the stable ABI and of the sources' version
speaks for it. Each row runs three lines that do not import torch_mortise (bench/three_lines.py), compares their result with eager, and
reads in the report that all of it ran on the cpu plugin.

`megabytes`: of the wheel; `installed_megabytes`: of its files. `seconds`: to install it beside PyTorch, and for the first call, which
traces and compiles (medians of the rows). `import_s`: of torch_mortise behind torch, the largest median of a row; at most 0.15. Rows also
say what `import torch` takes, and what the command `mortise` and the wheels of other plugins do there. Arguments: 3.11/2.13, or 3.11."""

MEASURES = "the wheel in empty environments on a bare Debian 12: CPython x PyTorch, size, seconds to install and to answer, time to import"
NEEDS = "root, network, 20 GB of disk"
MINUTES = 25

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PYTORCHES = ("2.11", "2.12", "2.13")
IMPORTS, IMPORT_LIMIT_S = 7, 0.15
PLUGIN_WHEELS = ("torch-mortise-cuda", "torch-mortise-vulkan")

IMPORT = """
import json, time
begin = time.perf_counter()
import torch
torch_s = time.perf_counter() - begin
import torch_mortise
print(json.dumps([torch_s, time.perf_counter() - begin - torch_s]))
"""

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
    if "cpu" not in row["command"]:
        found.append(f"`mortise devices` lists no cpu: {row['command']}")
    return "; ".join(found)


def interpreters() -> dict[str, str]:
    """{version of CPython: its program}, at the path that it has in the bare system, too."""
    import os
    from pathlib import Path

    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {name: files[-1] for name in PYTHONS if (files := sorted(root.glob(f"{name}.*/bin/python{name}")))}
    return {name: str(file) for name, file in found.items()} | {"3.11": "/usr/bin/python3"}  # Debian 12's own


def measure_row(system, python: str, torch: str, wheels: list[str]) -> dict:
    """One environment, which is removed afterwards. `wheels`: their paths in the system, torch-mortise first."""
    import json
    import time
    from statistics import median

    run = system.run
    run(f"rm -rf /home/venv && {python} -m venv /home/venv")
    try:
        run(f"/home/venv/bin/pip install -q 'torch=={torch}.*'")
        began = time.perf_counter()
        run(f"/home/venv/bin/pip install -q --no-index {wheels[0]}")
        install_s = time.perf_counter() - began
        times = [json.loads(run(f"/home/venv/bin/python -c '{IMPORT}'")) for _ in range(IMPORTS + 1)][1:]  # the first reads from the disk
        run(f"/home/venv/bin/pip install -q --no-index {' '.join(wheels[1:])}")
        row = json.loads(run("cd /home && /home/venv/bin/python judge.py").splitlines()[-1])
        size = run("du -sk /home/venv/lib/python3*/site-packages/torch_mortise").split()[0]
        row |= {"install_s": install_s, "import_torch_s": median(each[0] for each in times), "import_s": median(each[1] for each in times),
                "installed_megabytes": round(int(size) / 1e3, 1), "command": run("/home/venv/bin/mortise devices").strip()}
    finally:
        run("rm -rf /home/venv")
    return row | {"problem": problem_of(row)}


def chosen(arguments: list[str]) -> list[tuple[str, str]]:
    """The rows that the arguments name; by default all."""
    pairs = [(python, torch) for python in PYTHONS for torch in PYTORCHES]
    rows = [pair for pair in pairs if not arguments or pair[0] in arguments or "/".join(pair) in arguments]
    if unknown := [each for each in arguments if each not in PYTHONS and each not in map("/".join, pairs)]:
        raise ValueError(f"expected rows such as 3.11/2.13 or 3.11, of CPython {', '.join(PYTHONS)} and PyTorch {', '.join(PYTORCHES)}; "
                         f"found {' '.join(unknown)}")
    return rows


def measure(arguments: list[str]) -> dict:
    import shutil
    import sys
    from pathlib import Path
    from statistics import median

    from bare import BareDebian
    from measure import ROOT, build_folder, progress

    sys.path.insert(0, str(ROOT / "tools" / "wheel"))
    import check
    import wheel

    pairs, pythons, cache = chosen(arguments), interpreters(), ROOT / "build" / "bare"
    system = BareDebian(cache, [str(Path(python).parents[1]) for python in pythons.values() if not python.startswith("/usr/")])
    (folder := cache / "wheels").mkdir(parents=True, exist_ok=True)
    made = [wheel.make(name, folder, build_folder()) for name in ("torch-mortise", *PLUGIN_WHEELS)]
    problems = [f"{each.name}: {breach}" for each in made for breach in check.breaches(each)]
    home = system.root / "home"
    for file in made:
        shutil.copy(file, home)
    shutil.copy(ROOT / "bench" / "three_lines.py", home)
    (home / "judge.py").write_text(JUDGE)
    rows, not_run = {}, {}
    for python, torch in pairs:
        name = f"{python}/{torch}"
        if python not in pythons:
            not_run[name] = f"no CPython {python} here: Debian 12 has 3.11, and pyenv has none"
            continue
        try:
            rows[name] = measure_row(system, pythons[python], torch, [f"/home/{file.name}" for file in made])
        except RuntimeError as error:
            rows[name] = {"problem": str(error)}
        progress(f"{name}: {rows[name]['problem'] or 'passed'}")
    good = [row for row in rows.values() if not row["problem"]]
    megabytes = {file.name: round(file.stat().st_size / 1e6, 1) for file in made}
    result = {"passed": len(good), "failed": len(rows) - len(good) + len(problems), "problems": problems,
              "megabytes": megabytes[made[0].name], "wheels": megabytes}
    if good:
        result |= {"installed_megabytes": good[0]["installed_megabytes"], "import_s": max(row["import_s"] for row in good),
                   "seconds": {key: median(row[key] for row in good) for key in ("install_s", "first_call_s")}}
    return result | {"rows": rows, "not_run": not_run}
