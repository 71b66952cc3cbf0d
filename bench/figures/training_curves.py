# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training beside eager and Inductor: a GPT-2 on text and a ResNet on images (bench/training/data.py says which), in f32 and in bf16
autocast, 500 steps each.

    final_loss.{eager, mortise}          mean loss of the last 50 steps of four runs of each side, whose weights are moved by roundings;
                                         eager's optimiser is the trace that compilers are given (bench/training/runs.py). The curves
                                         have to agree as a whole (bench/training/judge.py); `distance` is the largest between the means
                                         of the two sides, in standard errors
    step_ratio.{eager, inductor, fused}  our step over theirs: the medians of steps that take turns in one process. Inductor and we
                                         compile the optimiser, too; `fused` is eager with PyTorch's fused optimiser, for comparison
    peak_ratio                           the most bytes that one of our steps allocates at one time beyond the training's state (weights and
                                         what the optimiser keeps of each), arenas included, over eager's, each in a process of
                                         its own, counted as in the figure plan-memory

The curves are in build/reports/training-curves.{svg,json}. Arguments: rows (`gpt2-f32`), `steps=N`, which make a part that is not kept."""

import json
import re

from figures import ArgumentError

MEASURES = "500 training steps of GPT-2 and ResNet, f32 and bf16: loss against eager, step time over eager's and Inductor's, peak memory"
NEEDS = "cpu, Linux; transformers, scikit-learn, matplotlib; g++ for Inductor"
MINUTES = 60

STEPS, LAST, RUNS = 500, 50, 4
SIDES = ("eager", "fused", "inductor", "mortise")
CURVES = {"eager": "traced", "mortise": "mortise"}  # the sides whose losses are compared, as runs.py calls them
ROUNDS, SECONDS = 25, 60.0  # of the step times
WARM, MEMORY_ROUNDS, SPREAD = 3, 5, 0.05
DUE = {"eager": 0.8, "inductor": 0.8}
DUE_PEAK = 1.0

CHILD = """
import json, sys, torch
torch.set_num_threads({threads})
from training import runs
result = runs.{call}
print(json.dumps(result))
"""


def measure(arguments: list[str]) -> dict:
    from measure import ROOT, progress
    from training import picture, runs

    numbers = [re.fullmatch("steps=([1-9][0-9]*)", one) for one in arguments]
    steps = next((int(number[1]) for number in numbers if number), STEPS)
    asked = [one for one, number in zip(arguments, numbers) if not number] or list(runs.ROWS)
    if unknown := [one for one in asked if one not in runs.ROWS]:
        raise ArgumentError(f"expected rows of {', '.join(runs.ROWS)}, or steps=N, found {unknown[0]!r}")
    rows, curves = {}, {}
    for name in asked:
        curves[name], problems = trained(name, steps)
        row = rows[name] = compared(curves[name], steps) | clocked(name, curves[name]) | remembered(name)
        row["problem"] = "; ".join(filter(None, [*problems, *(row.pop(part) for part in ("curve", "clock", "memory"))]))
        row["passed"] = not row["problem"]
        progress(f"{name}: loss {row['final_loss']}, step over {row['step_ratio']}, peak {row['peak_ratio']}; {row['problem']}")
    reports = ROOT / "build" / "reports"
    picture.draw(curves, reports / "training-curves.svg")
    (reports / "training-curves.json").write_text(json.dumps({"rows": rows, "curves": curves}) + "\n")
    result = {key: {side: {name: row[key].get(side) for name, row in rows.items()} for side in sides}
              for key, sides in (("final_loss", CURVES), ("step_ratio", ("eager", "inductor", "fused")))}
    result |= {"peak_ratio": {name: row["peak_ratio"] for name, row in rows.items()}, "steps": steps, "rows": rows,
               "passed": all(row["passed"] for row in rows.values())}
    part = steps != STEPS or len(asked) < len(runs.ROWS)
    return result | ({"partial": f"{len(asked)} of {len(runs.ROWS)} rows, {steps} steps"} if part else {})


def child(call: str, threads: int = 2, **environment) -> dict:
    from measure import in_fresh_process

    return in_fresh_process(CHILD.format(call=call, threads=threads), env=environment)


# ---- the losses ------------------------------------------------------------------------------------------------


def trained(name: str, steps: int) -> tuple[dict[str, list[list[float]]], list[str]]:
    """The losses of the runs of eager and of Mortise, and why they cannot be compared. Two run at a time, each on one thread."""
    from concurrent.futures import ThreadPoolExecutor

    asked = [(side, seed) for seed in range(RUNS) for side in CURVES.values()]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda one: child(f"curve({name!r}, {one[0]!r}, {steps}, {one[1]})", threads=1), asked))
    problems = [why for one, run in zip(asked, found) if (why := not_comparable((name, *one, found[0]["digest"]), run))]
    return {name: [run["losses"] for one, run in zip(asked, found) if one[0] == side] for name, side in CURVES.items()}, problems


def not_comparable(expected: tuple[str, str, int, str], run: dict) -> str:
    """Why a run is not the one that was asked for, on the same data."""
    if (made := (run["row"], run["side"], run["perturbed"], run["digest"])) != expected:
        return f"expected the run {expected}, found {made}"
    if run["side"] == "mortise" and run.get("coverage", 0.0) < 1.0:
        return f"mortise: {run.get('coverage', 0.0):.3f} of the operators ran in programs, all have to"
    return ""


def compared(curves: dict[str, list[list[float]]], steps: int) -> dict:
    """The keys of the losses; `curve` is why they are wrong."""
    from training import judge

    problems = [f"{side}: {why}" for side, runs in curves.items() for losses in runs if (why := judge.problem_of(losses, steps))]
    final = {side: sum(sum(losses[-LAST:]) for losses in runs) / (LAST * len(runs)) for side, runs in curves.items()}
    if problems:
        return {"final_loss": final, "distance": None, "curve": "; ".join(problems)}
    return {"final_loss": final, "distance": judge.distance(curves["mortise"], curves["eager"])[0],
            "curve": judge.disagreement(curves["mortise"], curves["eager"])}


# ---- the time of a step ----------------------------------------------------------------------------------------


def clocked(name: str, curves: dict[str, list[list[float]]]) -> dict:
    """The keys of the times; `clock` is what is wrong with them. A side whose losses are not those of the whole runs has no time."""
    found = child(f"times({name!r}, {list(SIDES)!r}, {ROUNDS}, {SECONDS})")
    return ratios(found, [losses for runs in curves.values() for losses in runs])


def ratios(found: dict, whole: list[list[float]]) -> dict:
    """`whole`: runs of both sides. A row whose sides disagree fails in any case."""
    from measure import median
    from training import judge

    problems = [f"{side} while clocked: {why}" for side, losses in found["losses"].items() if (why := judge.disagreement([losses], whole))]
    if len(set(found["digests"].values())) != 1:
        problems.append("the sides that were clocked saw different data")
    step = {side: median(times) for side, times in found["times"].items()}
    ratio = {side: None if problems else step["mortise"] / step[side] for side in SIDES if side != "mortise"}
    if not problems:
        problems = [f"a step takes {ratio[side]:.2f} of {side}'s time, at most {due} is due"
                    for side, due in DUE.items() if ratio[side] > due]
    return {"step_ms": step, "step_ratio": ratio, "clock": "; ".join(problems)}


# ---- memory ----------------------------------------------------------------------------------------------------


def remembered(name: str) -> dict:
    """The keys of the memory; `memory` is what is wrong with them."""
    from figures.plan_memory import RETURNING
    from measure import built

    counter = str(built("lib/liballoc_count.so"))
    code = f"memory({name!r}, {{side!r}}, {WARM}, {MEMORY_ROUNDS}, __import__('counter').Counter({counter!r}))"
    return peaks({side: child(code.format(side=side), LD_PRELOAD=counter, **RETURNING) for side in ("eager", "mortise")})


def peaks(found: dict[str, dict]) -> dict:
    from measure import median

    problems, step = [], {side: median(run["rounds"]) + run["held"] for side, run in found.items()}
    for side, run in found.items():
        if sum(abs(one + run["held"] - step[side]) > SPREAD * step[side] for one in run["rounds"]) > len(run["rounds"]) // 2:
            problems.append(f"{side}: rounds do not repeat: {run['rounds']}")
    if found["eager"]["state"] != found["mortise"]["state"] or found["eager"]["digest"] != found["mortise"]["digest"]:
        problems.append("the sides whose memory was counted trained different networks, or on different data")
    ratio = step["mortise"] / step["eager"] if step["eager"] > 0 else None
    if ratio is None:
        problems.append("eager allocated nothing")
    elif ratio > DUE_PEAK:
        problems.append(f"a step takes {ratio:.2f} of the memory of eager's, at most {DUE_PEAK:g} is due")
    return {"peak_ratio": ratio, "peak_mb": {side: bytes_ / 1e6 for side, bytes_ in step.items()},
            "held_mb": found["mortise"]["held"] / 1e6, "state_mb": found["eager"]["state"] / 1e6, "memory": "; ".join(problems)}
