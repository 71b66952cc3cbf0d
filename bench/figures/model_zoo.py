# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every architecture family of transformers and of timm (bench/zoo: found in the libraries, made small by rules) through torch.compile:
forward and one training step against eager, coverage, and the seconds of a cold compilation beside `aot_eager` and Inductor.

    architectures                     families that build and run in eager by the rules; `by_library` counts them
    skipped                           {family: why there is no row}; `families` is their sum with the rows
    untrained                         {family: why it has no training step}
    retried                           {family: how it differed with its first weights and inputs}: right with others, at most 5 % of the
                                      rows (bench/zoo/judge.py says why that may be)
    coverage                          share of all operators of all rows that ran in a program; `below`: rows under 0.95
    graph_breaks                      {family: how often Dynamo left the graph in the forward pass}; what runs there is in no share
    rows.NAME.problem                 why the row failed: a wrong result, an exception, a crash, a hang
    rows.NAME.{cold_s, aot_eager_s, inductor_s}   from torch.compile to the first forward result, each in a fresh process without caches,
                                      under the same other load; null where a peer raises, with the reason in `peers_failed`, and
                                      Inductor's for families that the seed did not draw (it takes most of a minute for each); `timed`
                                      counts the rows with all three, over which `medians` are

Arguments: families (`transformers/bert` or `bert`), a number (so many families by a fresh seed), `without-peers`, `seed=N`: these make a
part, which is not kept. FILE.json, which each run writes to build/PRESET/model-zoo.json, goes on with a run that was ended; it has to be
of the same sources and libraries."""

import json
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

from figures import ArgumentError

MEASURES = "every architecture family of transformers and timm, small: forward and a training step against eager, coverage, cold seconds"
NEEDS = "cpu; transformers, timm; g++ for Inductor"
MINUTES = 150

LEAST = {"transformers": 60, "timm": 40}
DRAWN, LEAST_TIMED = 80, 60  # families that Inductor compiles, rows that have the times of all three
LEAST_COVERAGE, MOST_RETRIED = 0.95, 0.05
WORKERS = max(os.cpu_count() or 1, 2)  # of one thread each: tracing has no other
SECONDS = 1800  # of one process; the third rule of the judge takes minutes for a large network of convolutions
PEERS = ("aot_eager", "inductor")
# What decides about a row.
SOURCES = ("CMakeLists.txt", "bench/zoo", "bench/figures/model_zoo.py", "cmake", "frontend/torch", "ir", "passes", "plugins/cpu", "runtime",
           "sdk")
LIBRARIES = ("torch", "transformers", "timm")


def measure(arguments: list[str]) -> dict:
    from concurrent.futures import ThreadPoolExecutor

    from measure import build_folder, progress
    from zoo import families

    wanted = families.names()
    asked, ended, peers, seed, part = options(arguments, wanted)
    kept = ended or {"sources": sources(), "seed": seed, "rows": {}}
    drawn = set(asked if part else random.Random(kept["seed"]).sample(wanted, min(DRAWN, len(wanted))))
    lock, rows = threading.Lock(), kept["rows"]

    def attempt(name: str) -> None:
        if name not in rows:
            row = judged(name, kept["seed"], peers if name in drawn else [peer for peer in peers if peer != "inductor"])
            with lock:
                rows[name] = row
                if not part:
                    (build_folder() / "model-zoo.json").write_text(json.dumps(kept))
                progress(f"{len(rows)} of {len(asked)}: {line(name, row)}")

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(attempt, asked))
    result = together({name: rows[name] for name in asked}) | {"seed": kept["seed"], "sources": kept["sources"], "workers": WORKERS}
    return result | ({"partial": f"{len(asked)} of {len(wanted)} families{'' if peers else ' without peers'}"} if part else enough(result))


def options(arguments: list[str], wanted: list[str]):
    """(families, the run to go on with or None, peers, seed, whether this is a part)."""
    ended, peers, seed, asked, count = None, PEERS, random.getrandbits(32), [], 0
    for argument in arguments:
        same = [name for name in wanted if argument in (name, name.partition("/")[2])]
        if argument.endswith(".json"):
            ended = ended_run(Path(argument))
        elif argument == "without-peers":
            peers = ()
        elif argument.startswith("seed=") and argument[5:].isdigit():
            seed = int(argument[5:])
        elif argument.isdigit() and int(argument):
            count = int(argument)
        elif same:
            asked += same
        else:
            raise ArgumentError("expected families such as transformers/bert, a number, without-peers, seed=N or FILE.json, found "
                             f"{argument!r}")
    if count:
        asked += random.Random(seed).sample(wanted, min(count, len(wanted)))
    part = bool(asked) or not peers
    if part and ended:
        raise ArgumentError("expected FILE.json, or what makes a part of the figure, found both")
    return list(dict.fromkeys(asked)) or wanted, ended, peers, seed, part


def sources() -> str:
    from importlib.metadata import version

    from kept import digest
    from measure import ROOT

    return " ".join([digest(ROOT, SOURCES), *(f"{library} {version(library)}" for library in LIBRARIES)])


def ended_run(file: Path) -> dict:
    try:
        run = json.loads(file.read_text())
        made_from = run["sources"], run["seed"], run["rows"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"{file}: expected a run of model-zoo that was ended, found {type(error).__name__}: {error}") from error
    if made_from[0] != sources():
        raise ArgumentError(f"{file}: expected a run of the sources {sources()}, found one of {made_from[0]}; make it again")
    return run


def judged(name: str, seed: int, peers: Sequence[str]) -> dict:
    """The row of a family, or {"skipped": why}."""
    from zoo import judge, processes

    row = processes.call(judge.judge, name, seed, seconds=SECONDS)
    if "skipped" in row:
        return row
    row["problem"] = problem(row)
    row["cold_s"] = row.get("forward", {}).get("cold_s")
    row |= dict.fromkeys(f"{peer}_s" for peer in PEERS)
    for peer in peers:
        found = processes.call(judge.cold, name, seed, peer, row.get("variant", ""), seconds=SECONDS)
        row[f"{peer}_s"] = found.get("seconds")
        if "error" in found:
            row[f"{peer}_error"] = found["error"]
    return row


def problem(row: dict) -> str:
    """Why a row failed; empty if it passed."""
    if "error" in row:
        return row["error"]
    wrong = [f"{part}: {why}" for part in ("forward", "training") if (why := row[part].get("problem"))]
    if row["forward"].get("cold_s") is None and not wrong:
        wrong.append("forward: no time was measured")
    return "; ".join(wrong)


def counts(row: dict) -> tuple[int, int]:
    """(operators that ran in a program, all operators) of a row."""
    parts = [row.get(part, {}) for part in ("forward", "training")]
    every = sum(part.get("operators", 0) for part in parts)
    return every - sum(sum(part.get("eager", {}).values()) for part in parts), every


def together(found: dict[str, dict]) -> dict:
    """The figure's keys from the rows."""
    from collections import Counter

    rows = {name: row for name, row in found.items() if "skipped" not in row}
    through, ran, every = Counter(), 0, 0
    for row in rows.values():
        here, all_here = counts(row)
        row["coverage"] = round(here / all_here, 4) if all_here else 0.0
        ran, every = ran + here, every + all_here
        for part in ("forward", "training"):
            through.update(row.get(part, {}).get("eager", {}))
    failed = sum(bool(row["problem"]) for row in rows.values())
    return {"families": len(found), "architectures": len(rows), "by_library": dict(Counter(name.partition("/")[0] for name in rows)),
            "passed": len(rows) - failed, "failed": failed, "timed": len(timed(rows)), "coverage": round(ran / every, 4) if every else 0.0,
            "mean_coverage": round(sum(row["coverage"] for row in rows.values()) / len(rows), 4) if rows else 0.0,
            "below": {name: row["coverage"] for name, row in rows.items() if row["coverage"] < LEAST_COVERAGE},
            "graph_breaks": {name: breaks for name, row in rows.items() if (breaks := row.get("forward", {}).get("graph_breaks"))},
            "called_through": dict(through.most_common()), "medians": medians(rows), "rows": rows,
            "retried": {name: row["retried"] for name, row in rows.items() if "retried" in row},
            "untrained": {name: row["training"]["untrained"] for name, row in rows.items() if "untrained" in row.get("training", {})},
            "peers_failed": {f"{name} {peer}": row[f"{peer}_error"] for name, row in rows.items() for peer in PEERS
                             if f"{peer}_error" in row},
            "skipped": {name: row["skipped"] for name, row in found.items() if "skipped" in row}}


TIMES = ("cold_s", *(f"{peer}_s" for peer in PEERS))


def timed(rows: dict[str, dict]) -> list[dict]:
    """The rows in which all have a time."""
    return [row for row in rows.values() if all(row.get(name) is not None for name in TIMES)]


def medians(rows: dict[str, dict]) -> dict[str, float]:
    """Median cold seconds over the rows in which all have a time."""
    from measure import median

    whole = timed(rows)
    return {name: median([row[name] for row in whole]) for name in TIMES} if whole else {}


def enough(result: dict) -> dict:
    """{"error"} unless there are as many architectures, and as much coverage, as are due."""
    lacking = [f"{result['by_library'].get(library, 0)} architectures of {library}, {least} are due" for library, least in LEAST.items()
               if result["by_library"].get(library, 0) < least]
    if result["coverage"] < LEAST_COVERAGE:
        lacking.append(f"coverage is {result['coverage']}, {LEAST_COVERAGE} is due")
    if result["timed"] < LEAST_TIMED:
        lacking.append(f"{result['timed']} rows have the times of all three compilers, {LEAST_TIMED} are due")
    if len(result["retried"]) > MOST_RETRIED * result["architectures"]:
        lacking.append(f"{len(result['retried'])} rows were right with other weights and inputs only, {MOST_RETRIED:.0%} may be")
    return {"error": "; ".join(lacking)} if lacking else {}


def line(name: str, row: dict) -> str:
    if "skipped" in row:
        return f"{name}: no row: {row['skipped'][:100]}"
    ran, every = counts(row)
    times = ", ".join(f"{peer} {row[f'{peer}_s']}" for peer in PEERS)
    said = f"FAILED: {row['problem']}; repeat: ./dev figure model-zoo {name}" if row["problem"] else "right"
    return f"{name}: {said}; {ran} of {every} operators; cold {row['cold_s']} s ({times})"
