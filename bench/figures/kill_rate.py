# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How good mortise-conformance is: the faults of the saboteur that it finds, and what it says where nothing is wrong.

`planted`, `caught`: each fault gets the same steps until one finds it (bench/saboteur.py): a quick run of the level abi, one of the other
levels, then a full one of all, each on both devices. `by_step` says how many each step found, `missed` which none did. `false_alarms`:
failures on plugins without a fault, over five seeds: the saboteur without one, cpu, reference and strict, with the expectations that lie
beside them, and results of PyTorch eager but for those that docs/conformance/error-bounds.md lists, and of ONNX Runtime but for those of
bench/deviations.py, which are in `deviations` with their number. An entry there whose proof no longer holds fails. Seeds are new in each
run.
`mutants`, `mutants_killed`: of the cpu plugin's kernels (bench/mutants.py).
Arguments: the parts to make (all of them without one), names of the saboteur's faults, and files. A kept run of other parts (FILE.json) may
have been made on a machine with more cores, and counts if it was made from the same sources. What the part `mutants` had written to
build/PRESET/mutants.json when it was ended goes on."""

import json
from collections import Counter
from pathlib import Path

from figures import ArgumentError

MEASURES = "faults of the saboteur, and mutants of the cpu plugin's kernels, that mortise-conformance finds; false alarms"
NEEDS = "cpu"
MINUTES = 100

PARTS = ("frameworks", "sound", "mutants", "saboteur")  # what newly drawn cases and mutants may show comes first
LEAST_PLANTED, MUTANTS, LEAST_KILLED, SEEDS = 60, 300, 0.97, 5
# What decides about the figure: the kit, the plugins that it judges, and the scripts.
SOURCES = ("CMakeLists.txt", "bench", "cmake", "conformance", "docs/conformance", "ir", "passes", "plugins", "runtime", "sdk")


def measure(arguments: list[str]) -> dict:
    import random
    import time

    from measure import make
    from saboteur import faults

    sources = digest_of_sources()
    parts, ended = {}, None
    for file in map(Path, (argument for argument in arguments if argument.endswith(".json"))):
        run = kept_run(file, sources)
        if "all" in run:
            ended = run
        else:
            parts |= run["parts"]
    make("mortise_plugin_saboteur")
    if (found := parts.get("saboteur")) and (lacking := faults().keys() - found["faults"].keys()):
        raise ArgumentError(f"expected a run of all faults, found one without {', '.join(sorted(lacking))}; make it again")
    names = [argument for argument in arguments if argument not in PARTS and not argument.endswith(".json")]
    asked = [part for part in PARTS if part in arguments]
    asked = asked or (["saboteur"] if names else [part for part in PARTS if part not in parts])
    if unknown := [name for name in names if name not in faults()]:
        raise ArgumentError(f"expected {', '.join(PARTS)}, names of faults or FILE.json, found {' '.join(unknown)}")
    for target in ("mortise_plugin_strict", "plugin-cpu_mutant"):  # as the saboteur, no part of the product
        make(target)
    of = {"frameworks": of_frameworks, "sound": of_sound_plugins, "mutants": lambda seed: of_mutants(seed, sources, ended),
          "saboteur": lambda seed: of_saboteur(names or list(faults()), seed, whole=not names)}
    for part in asked:
        begin, seed = time.time(), random.getrandbits(32)
        result = of[part](seed)
        parts[part] = {"seed": seed} | result | {"passed": not result["problems"], "seconds": round(time.time() - begin)}
    return together(parts) | {"sources": sources}


def together(parts: dict[str, dict]) -> dict:
    """The figure's keys from the parts that there are."""
    result, alarms = {}, [alarm for part in parts.values() for alarm in part.get("alarms", [])]
    if {"frameworks", "sound"} <= parts.keys():
        result["false_alarms"] = len(alarms)
    if "mutants" in parts:
        result |= {"mutants": parts["mutants"]["mutants"], "mutants_killed": parts["mutants"]["killed"]}
    if "saboteur" in parts:
        result |= {key: parts["saboteur"][key] for key in ("planted", "caught")}
    problems = [problem for part in parts.values() for problem in part["problems"]]
    return result | {"alarms": alarms, "problems": problems, "passed": bool(parts) and not problems, "parts": parts}


def digest_of_sources() -> str:
    from kept import digest
    from measure import ROOT

    return digest(ROOT, SOURCES)


def kept_run(file: Path, sources: str) -> dict:
    """What of_mutants has kept of a run that was ended, or {"parts"} of one that was kept with --save, each with its machine."""
    try:
        run = json.loads(file.read_text())
        result = run if "all" in run else run["result"]
        made_from, machine = result["sources"], run.get("machine")
        parts = {} if "all" in run else {name: {"machine": machine} | part for name, part in result["parts"].items()}
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"{file}: expected a kept run of kill-rate, found {type(error).__name__}: {error}") from error
    if made_from != sources:
        raise ArgumentError(f"{file}: expected a run of the sources {sources[:12]}, found one of {made_from[:12]}; make it again")
    return run if "all" in run else {"parts": parts}


def of_mutants(seed: int, sources: str, ended: dict | None) -> dict:
    import mutants
    from measure import build_folder
    from saboteur import JOBS

    seed = ended["seed"] if ended else seed
    judged = mutants.run(MUTANTS, seed, jobs=JOBS, keep=build_folder() / "mutants.json", facts={"sources": sources}, ended=ended)
    problems = []
    if judged["mutants"] < MUTANTS or judged["killed"] < LEAST_KILLED * judged["mutants"]:
        problems.append(f"{judged['killed']} of {judged['mutants']} mutants killed; at least 97 % of {MUTANTS} are due")
    return judged | {"problems": problems}


def of_saboteur(names: list[str], seed: int, whole: bool) -> dict:
    from saboteur import conformance, try_all

    answers = try_all(names, lambda name: conformance(name, seed))
    missed = [name for name, answer in answers.items() if not answer["found"]]
    problems = [f"not found: {', '.join(missed)}"] if missed else []
    if whole and len(names) < LEAST_PLANTED:
        problems.append(f"expected {LEAST_PLANTED} faults or more, found {len(names)}")
    return {"planted": len(names), "caught": len(names) - len(missed), "missed": missed,
            "by_step": dict(Counter(answer["found"] or "none" for answer in answers.values())), "faults": answers, "problems": problems}


def of_sound_plugins(seed: int) -> dict:
    from saboteur import false_alarms

    alarms, runs = false_alarms([seed + i for i in range(SEEDS)])
    return {"sound_runs": runs, "alarms": alarms, "problems": alarms if runs else ["no plugin without a fault was tried"]}


def of_frameworks(seed: int) -> dict:
    import eager
    import onnx_runtime
    from measure import progress

    alarms = []
    of_torch, of_onnx, deviations = Counter(), Counter(), Counter()  # cases computed, by op; and by deviation
    for number in range(seed, seed + SEEDS):
        for wrong in (of_eager(number, of_torch), of_onnx_runtime(number, of_onnx, deviations)):
            alarms += wrong
            for alarm in wrong:
                progress(alarm)
        progress(f"seed {number}: {of_torch.total()} cases of PyTorch eager, {of_onnx.total()} of ONNX Runtime, {len(alarms)} alarms")
    problems = alarms + of_deviations()
    for name, wrapped, computed in (("PyTorch eager", eager.COMPUTE, of_torch), ("ONNX Runtime", onnx_runtime.NAMES, of_onnx)):
        if silent := sorted(set(wrapped) - set(computed)):
            problems.append(f"{name} computed no case of {', '.join(silent)}")
    return {"eager_cases": of_torch.total(), "onnx_runtime_cases": of_onnx.total(), "deviations": dict(deviations), "alarms": alarms,
            "problems": problems}


def of_eager(seed: int, computed: Counter) -> list[str]:
    """What the kit says against results of PyTorch eager that the page of error bounds does not list."""
    import eager
    import kit

    _, known = kit.bound_tables()
    wrong = beyond(eager, seed, computed)
    return [f"PyTorch eager, seed {seed}: {line['case']}: {line.get('why', line['outcome'])}" for line in wrong
            if not kit.explained(known, "/".join(line["case"].split("/")[:2]))]


def of_onnx_runtime(seed: int, computed: Counter, deviations: Counter) -> list[str]:
    """The same of ONNX Runtime; counts what bench/deviations.py lists."""
    import onnx_runtime
    from deviations import explanation

    alarms = []
    for line in beyond(onnx_runtime, seed, computed):
        if entry := explanation(line):
            deviations[f"{entry.cases}: {entry.why}"] += 1
        else:
            alarms.append(f"ONNX Runtime, seed {seed}: {line['case']}: {line.get('why', line['outcome'])}")
    return alarms


def beyond(framework, seed: int, computed: Counter) -> list[dict]:
    """What the kit finds wrong in a framework's results; counts by op what it computed."""
    lines = framework.judge("--level", "core,composite,quantised", "--quick", "--seed", seed)
    lines = [line for line in lines if line["outcome"] != "refused"]
    computed.update(line["case"].split("/")[0] for line in lines)
    return [line for line in lines if line["outcome"] != "passed"]


def of_deviations() -> list[str]:
    from deviations import DEVIATIONS

    return [f"bench/deviations.py: {entry.cases}: ONNX Runtime gives the exact result by now, where it was: {entry.why}"
            for entry in DEVIATIONS if not entry.holds()]
