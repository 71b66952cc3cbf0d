# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How good mortise-conformance is: the faults of the saboteur that it finds, and what it says where nothing is wrong.

`planted`, `caught`: each fault gets the same steps until one finds it (bench/saboteur.py): a quick run of the level abi, one of the other
levels, then a full one of all, each on both devices. `by_step` says how many each step found, `missed` which none did. `false_alarms`:
failures on plugins without a fault, over five seeds: the saboteur without one, cpu, reference and strict, with the expectations that lie
beside them, and results of PyTorch eager but for those that docs/conformance/error-bounds.md lists, and of ONNX Runtime but for those of
bench/deviations.py, which are in `deviations` with their number. An entry there whose proof no longer holds fails. Seeds are new in each
run.
`mutants`, `mutants_killed`: of the cpu plugin's kernels (bench/mutants.py).
Arguments: the parts to make (`alarms`, `mutants`, `saboteur`; all of them without one), or names of the saboteur's faults."""

from collections import Counter

MEASURES = "faults of the saboteur, and mutants of the cpu plugin's kernels, that mortise-conformance finds; false alarms"
NEEDS = "cpu"
MINUTES = 70

PARTS = ("alarms", "mutants", "saboteur")
LEAST_PLANTED, MUTANTS, LEAST_KILLED = 60, 300, 0.97


def measure(arguments: list[str]) -> dict:
    import random
    import time

    from measure import make
    from saboteur import faults

    make("mortise_plugin_saboteur")
    names = [argument for argument in arguments if argument not in PARTS]
    parts = [part for part in PARTS if part in arguments] or (["saboteur"] if names else list(PARTS))
    if unknown := [name for name in names if name not in faults()]:
        raise ValueError(f"expected {', '.join(PARTS)} or names of faults, found {' '.join(unknown)}")
    for target in ("mortise_plugin_strict", "plugin-cpu_mutant"):  # as the saboteur, no part of the product
        make(target)
    begin, result = time.time(), {"seed": random.getrandbits(32), "problems": []}
    # What newly drawn cases and mutants may show comes first: the faults are always the same ones.
    if "alarms" in parts:
        result |= of_sound_plugins(result["seed"], result["problems"])
    if "mutants" in parts:
        import os

        import mutants
        from measure import build_folder

        # What is judged so far outlives a run that is ended. Times do not matter here, so that more cores judge more at once.
        judged = mutants.run(MUTANTS, result["seed"], jobs=max(os.cpu_count() or 2, 2), keep=build_folder() / "mutants.json")
        result |= {"mutants": judged["mutants"], "mutants_killed": judged["killed"], "mutants_judged": judged}
        if judged["mutants"] < MUTANTS or judged["killed"] < LEAST_KILLED * judged["mutants"]:
            result["problems"].append(f"{judged['killed']} of {judged['mutants']} mutants killed; at least 97 % of {MUTANTS} are due")
    if "saboteur" in parts:
        result |= of_saboteur(names or list(faults()), result["seed"], result["problems"], whole=not names)
    return result | {"parts": parts, "passed": not result["problems"], "seconds": round(time.time() - begin)}


def of_saboteur(names: list[str], seed: int, problems: list[str], whole: bool) -> dict:
    from saboteur import conformance, try_all

    answers = try_all(names, lambda name: conformance(name, seed))
    missed = [name for name, answer in answers.items() if not answer["found"]]
    if missed:
        problems.append(f"not found: {', '.join(missed)}")
    if whole and len(names) < LEAST_PLANTED:
        problems.append(f"expected {LEAST_PLANTED} faults or more, found {len(names)}")
    return {"planted": len(names), "caught": len(names) - len(missed), "missed": missed,
            "by_step": dict(Counter(answer["found"] or "none" for answer in answers.values())), "faults": answers}


def of_sound_plugins(seed: int, problems: list[str]) -> dict:
    import eager
    import onnx_runtime
    from measure import progress
    from saboteur import false_alarms

    seeds = [seed + i for i in range(5)]
    alarms, runs = false_alarms(seeds)
    of_torch, of_onnx, deviations = Counter(), Counter(), Counter()  # cases computed, by op; and by deviation
    for number in seeds:
        for wrong in (of_eager(number, of_torch), of_onnx_runtime(number, of_onnx, deviations)):
            alarms += wrong
            for alarm in wrong:
                progress(alarm)
        progress(f"seed {number}: {of_torch.total()} cases of PyTorch eager, {of_onnx.total()} of ONNX Runtime, {len(alarms)} alarms")
    problems += alarms + of_deviations()
    for name, wrapped, computed in (("PyTorch eager", eager.COMPUTE, of_torch), ("ONNX Runtime", onnx_runtime.NAMES, of_onnx)):
        if silent := sorted(set(wrapped) - set(computed)):
            problems.append(f"{name} computed no case of {', '.join(silent)}")
    if not runs:
        problems.append("no plugin without a fault was tried")
    return {"false_alarms": len(alarms), "sound_runs": runs, "eager_cases": of_torch.total(), "onnx_runtime_cases": of_onnx.total(),
            "deviations": dict(deviations), "alarms": alarms}


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
