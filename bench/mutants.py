# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mutants.py [--count N] [--seed S] [--op NAME]... [--json FILE]: which mutants of the cpu plugin's generated kernels (conformance/mutants)
`mortise-conformance` finds. First each op's cases run without a mutant, which says what kinds of kernels there are and what passes. Then
mutants are drawn, evenly over operators and families of kernels, and of an op's patterns each as often as it stands in kinds of kernels.
The cases of the ops that have it run until one does not pass: those of `--quick` first. A mutant whose machine code is that of the kernel
in every case, as it is or after O3, is equivalent and set aside."""

import argparse
import fnmatch
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

import measure

TABLE = measure.ROOT / "conformance" / "mutants" / "operators.def"
OPERATORS = dict(re.findall(r'^X\(\w+, "([a-z-]+)", "([a-z-]+)"', TABLE.read_text(), re.MULTILINE))  # name: class
LIMIT = 20  # seconds of a case
MANY, SPREAD = 2000, 16  # of more cases than MANY every SPREADth comes first
LEVELS = (("core,composite,quantised", ()), ("dynamic", ("--quick",)))

# By op; the first that fits. Reductions are told apart by their code.
FAMILIES = (
    ("scan", ("cumsum", "cumprod", "logcumsumexp")),
    ("norm", ("*softmax", "*_norm", "cross_entropy")),
    ("reduction", ("reduce_*", "mean", "variance", "logsumexp", "arg*", "any", "all")),
    ("product", ("dot", "linear", "convolution", "attention", "quantized_*")),
    ("gather", ("take*", "gather*", "scatter*", "put*", "embedding", "one_hot", "index_*")),
    (
        "move",
        (
            "transpose",
            "broadcast*",
            "reshape",
            "slice*",
            "reverse",
            "pad",
            "concatenate",
            "tile",
            "repeat",
            "roll",
            "squeeze",
            "unsqueeze",
            "split",
            "stack",
            "expand*",
            "identity",
            "copy",
            "rope",
            "iota",
            "constant",
            "bitcast",
        ),
    ),
    ("pointwise", ("*",)),
)


def family(op: str, across: bool) -> str:
    name = next(name for name, patterns in FAMILIES if any(fnmatch.fnmatch(op, pattern) for pattern in patterns))
    return name if name != "reduction" else "row reduction" if across else "column reduction"


@dataclass
class Mutant:
    kind: str  # of kernels, or the pattern
    site: str  # "17.1/plus-one", or "*.1/plus-one" where the pattern is
    op: str  # whose cases are tried first
    family: str
    stood: str = ""  # what is changed: a kernel and its instruction
    killed: bool = False
    by: str = ""  # the case
    level: str = ""  # quick or full
    outcome: str = ""
    why: str = ""
    equivalent: str = ""  # the proof
    stillborn: str = ""  # why there is no code
    compared: int = 0  # changed kernels whose machine code was compared, up to the first that differs
    cases: int = 0
    seconds: float = 0

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.site}"

    @property
    def operator(self) -> str:
        return self.site.split("/")[1]


@dataclass
class Catalogue:
    """What the cases of a seed compile and pass, without a mutant."""

    seed: int
    cases: dict[str, list[str]] = field(default_factory=dict)  # by op: those that pass
    kinds: dict[str, dict[str, list]] = field(default_factory=dict)  # by op, by pattern or kind: [combines lanes, {site: kinds with it}]
    wrong: list[str] = field(default_factory=list)  # without a mutant, though the cpu plugin is expected to pass

    @classmethod
    def of(cls, file: Path) -> "Catalogue":
        return cls(**json.loads(file.read_text()))

    def save(self, file: Path):
        file.write_text(json.dumps(asdict(self)))

    def ops_of(self, kind: str) -> list[str]:
        return [op for op, kinds in self.kinds.items() if kind in kinds]


def programs() -> tuple[Path, Path]:
    return measure.built("bin/mortise-conformance"), measure.built("lib/mortise/test-plugins/libmortise_cpu_mutant.so")


def environment(mutant: str, log: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MORTISE_")}
    return clean | {
        "MORTISE_TEST_MUTANT": mutant,
        "MORTISE_TEST_MUTANT_LOG": str(log),
        "MORTISE_KERNEL_CACHE": "off",
        "OMP_NUM_THREADS": "2",
        "TMPDIR": str(log.parent),
    }


def verdicts(folder: Path) -> list[dict]:
    journal = folder / "verdicts.jsonl"
    lines = journal.read_text().split("\n")[1:-1] if journal.exists() else []  # the last one may be half written
    return [json.loads(line) for line in lines]


def kit(arguments: list[str], seed: int, mutant: str, folder: Path, stops: bool) -> tuple[list[dict], list[dict]]:
    """The verdicts of a run of the kit, and what the plugin has logged. With `stops` the run is ended after the first wrong case."""
    program, plugin = programs()
    log = folder / "log"
    command = [program, "--plugin", plugin, "--seed", str(seed), "--jobs", "1", "--limit", str(LIMIT), "--report", folder, *arguments]
    with (folder / "said").open("w") as said:
        run = subprocess.Popen(command, stdout=said, stderr=said, env=environment(mutant, log), start_new_session=True)
        while True:
            try:
                run.wait(0.05 if stops else None)
                break
            except subprocess.TimeoutExpired:
                if any(line["outcome"] not in ("passed", "refused") for line in verdicts(folder)):
                    os.killpg(run.pid, signal.SIGKILL)
                    run.wait()
                    break
    found = verdicts(folder)
    if not found and run.returncode not in (0, 1, 4, 6):
        raise RuntimeError(f"mortise-conformance ended with {run.returncode}: {(folder / 'said').read_text()[-500:]}")
    logged = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return found, logged


def listed(*arguments: str) -> list[str]:
    """The names of cases."""
    program, _ = programs()
    said = subprocess.run([program, "--list", *arguments], capture_output=True, text=True, check=True).stdout
    return [line for line in said.splitlines() if "/#" in line]


def ops_at(level: str) -> set[str]:
    """Networks have shorter names."""
    return {case.removeprefix("dynamic/").split("/")[0] for case in listed("--quick", "--level", level) if case.count("/") > 3}


def expected_to_fail() -> list[str]:
    """Patterns of cases."""
    lists = tomllib.loads((measure.ROOT / "plugins" / "cpu" / "expectations.toml").read_text())
    return [pattern for entries in lists.values() for entry in entries for pattern in entry["cases"]]


def catalogue(
    seed: int, ops: list[str] | None = None, jobs: int = 2, levels=LEVELS, unit: str = "pattern", say=measure.progress
) -> Catalogue:
    """`unit`: "pattern" or "kernel", as conformance/mutants/README.md explains them."""
    made, known = Catalogue(seed), expected_to_fail()
    present = {level: ops_at(level) for level, _ in levels}

    def of(op: str):
        cases, wrong, kernels, kinds = [], [], {}, {}
        for level, more in levels:
            if op not in present[level]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found, logged = kit(["--op", op, "--level", level, *more], seed, "none", Path(folder), stops=False)
            cases += [line["case"] for line in found if line["outcome"] == "passed"]
            wrong += [
                f"{line['case']}: {line['outcome']}"
                for line in found
                if line["outcome"] not in ("passed", "refused") and not any(fnmatch.fnmatch(line["case"], pattern) for pattern in known)
            ]
            kernels |= {line["kind"]: line for line in logged}  # each process lists what it compiles
        for kind, line in sorted(kernels.items()):
            if unit == "kernel":
                kinds[kind] = [line["across"], dict.fromkeys(line["sites"], 1)]
                continue
            for text in line["patterns"]:
                pattern, site = text.split("/", 1)
                counts = kinds.setdefault(pattern, [line["across"], {}])[1]
                counts[site] = counts.get(site, 0) + 1
        return op, cases, wrong, kinds

    ops = ops or sorted(set().union(*present.values()))
    with ThreadPoolExecutor(jobs) as pool:
        for done, (op, cases, wrong, kinds) in enumerate(pool.map(of, ops), start=1):
            say(f"{done} of {len(ops)}: {op}: {len(cases)} cases, {len(kinds)} {unit}s")
            made.wrong += wrong
            if kinds and cases:
                made.cases[op], made.kinds[op] = cases, kinds
    return made


def draw(known: Catalogue, seed: int):
    """Mutants without end or repetition, in turn of the classes of operators, of the operators of a class, and of the families of kernels;
    the op is by chance, and so is the site, by the number of kinds of kernels that have it."""
    chance = random.Random(seed)
    sites = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))  # of a family, an op and an operator, with their numbers
    for op, kinds in known.kinds.items():
        for kind, (across, counts) in kinds.items():
            for site, count in counts.items():
                sites[family(op, across)][op][site.split("/")[1]][kind, site] = count
    families, given = sorted(sites), set()
    classes = defaultdict(list)
    for operator, group in OPERATORS.items():
        classes[group].append(operator)
    turns = Counter()
    for _ in range(10**6):
        group = list(classes)[turns["class"] % len(classes)]
        operator = classes[group][turns[group] % len(classes[group])]
        name = families[turns["family"] % len(families)]
        turns["family"] += 1
        with_it = [op for op, operators in sites[name].items() if operators[operator]]
        for _ in range(30 if with_it else 0):
            op = chance.choice(with_it)
            counts = sites[name][op][operator]
            kind, site = chance.choices(list(counts), weights=counts.values())[0]
            if (kind, site) not in given:
                given.add((kind, site))
                yield Mutant(kind, site, op, name)
                break
        else:
            if turns["family"] % len(families):  # another family has some
                continue
        turns["class"] += 1
        turns[group] += 1


def judge(mutant: Mutant, known: Catalogue, quick: set[str]) -> Mutant:
    begin = time.time()
    ops = [mutant.op] + [op for op in known.ops_of(mutant.kind) if op != mutant.op]
    cases = [case for op in ops for case in known.cases[op]]
    equal: list[bool] = []
    full = [case for case in cases if case not in quick]
    # A pattern that many ops share has thousands of cases, of which a few of each op mostly suffice.
    few = full[::SPREAD] if len(full) > MANY else []
    rest = [case for i, case in enumerate(full) if not few or i % SPREAD]
    for level, part in (("quick", [case for case in cases if case in quick]), ("full", few), ("full", rest)):
        if not part or mutant.killed or mutant.stillborn:
            continue
        with tempfile.TemporaryDirectory() as folder:
            (chosen := Path(folder) / "cases").write_text("\n".join(part))
            found, logged = kit(["--cases", chosen], known.seed, mutant.name, Path(folder), stops=True)
        for line in logged:
            if line.get("mutant") == mutant.name:
                equal.append(line["equal"])
                if not mutant.stood or not line["equal"]:
                    mutant.stood = line["stood"]
        mutant.cases += len(found)
        for line in found:
            if line["outcome"] == "passed":
                continue
            why = line.get("why", "")
            # What the code generator refuses is no kernel, and nothing for the kit to find.
            if line["outcome"] == "refused" or any(word in why for word in ("MORTISE_TEST_MUTANT", "no valid code", "kernel_compile")):
                mutant.stillborn = f"{line['case']}: {why}"
                continue
            mutant.killed, mutant.by, mutant.level, mutant.outcome, mutant.why = True, line["case"], level, line["outcome"], why[:300]
            mutant.stillborn = ""
            break
    mutant.compared = len(equal)
    if not mutant.killed and equal and all(equal):
        mutant.equivalent = f"the machine code of all {len(equal)} changed kernels is the same, as it is or after O3"
    mutant.seconds = round(time.time() - begin, 2)
    return mutant


def summary(judged: list[Mutant], known: Catalogue, seconds: float) -> dict:
    kept = [mutant for mutant in judged if not mutant.equivalent and not mutant.stillborn]
    killed = sum(mutant.killed for mutant in kept)

    def rates(of):
        groups = defaultdict(list)
        for mutant in kept:
            groups[of(mutant)].append(mutant.killed)
        return {name: [sum(all), len(all)] for name, all in sorted(groups.items())}

    return {
        "mutants": len(kept),
        "killed": killed,
        "rate": round(killed / len(kept), 4) if kept else 0,
        "by_quick": sum(mutant.level == "quick" for mutant in kept),
        "equivalent": sum(bool(mutant.equivalent) for mutant in judged),
        "stillborn": sum(bool(mutant.stillborn) for mutant in judged),
        "unreached": sum(not mutant.compared for mutant in kept),
        "kit_seed": known.seed,
        "kinds": len({kind for kinds in known.kinds.values() for kind in kinds}),
        "ops": len(known.kinds),
        "families": rates(lambda mutant: mutant.family),
        "classes": rates(lambda mutant: OPERATORS[mutant.operator]),
        "operators": rates(lambda mutant: mutant.operator),
        "seconds": round(seconds),
        "survivors": [mutant.name for mutant in kept if not mutant.killed],
        "all": [asdict(mutant) for mutant in judged],
    }


def run(
    count: int = 300,
    seed: int | None = None,
    jobs: int = 2,
    ops: list[str] | None = None,
    levels=LEVELS,
    unit: str = "pattern",
    say=measure.progress,
    known: Catalogue | None = None,
    keep: Path | None = None,
    facts: dict | None = None,
    ended: dict | None = None,
) -> dict:
    """`keep`: gets the result so far, behind each mutant, and these `facts`. `ended`: what it got from a run with this seed that was
    ended; what that judged is not judged again (`taken_over` says how many).

    `count` mutants that are not equivalent, judged. One seed gives the same mutants and cases on one kind of processor."""
    begin = time.time()
    seed = random.SystemRandom().getrandbits(32) if seed is None else seed
    say(f"seed {seed}: the kernels of each op")
    known = known or catalogue(seed, ops, jobs, levels, unit, say)
    if known.wrong:  # their kernels would be in no sample
        raise RuntimeError(f"{len(known.wrong)} cases do not pass without a mutant: {', '.join(known.wrong[:5])}")
    drawn, judged = draw(known, seed), []
    before = {(mutant.name, mutant.op): mutant for mutant in (Mutant(**one) for one in (ended or {"all": []})["all"])}
    taken = 0
    quick = set(listed("--quick", "--level", "core,composite,quantised,dynamic"))
    with ThreadPoolExecutor(jobs) as pool:
        while (left := count - sum(not mutant.equivalent and not mutant.stillborn for mutant in judged)) > 0:
            some = [mutant for _, mutant in zip(range(left), drawn)]
            if not some:
                raise RuntimeError(f"the kernels of {len(known.kinds)} ops have too few sites for {count} mutants")
            new = [mutant for mutant in some if (mutant.name, mutant.op) not in before]
            judged += [before[mutant.name, mutant.op] for mutant in some if mutant not in new]
            taken += len(some) - len(new)
            for done in as_completed([pool.submit(judge, mutant, known, quick) for mutant in new]):
                judged.append(mutant := done.result())
                result = (
                    f"killed by {mutant.by}"
                    if mutant.killed
                    else "equivalent"
                    if mutant.equivalent
                    else f"stillborn: {mutant.stillborn}"
                    if mutant.stillborn
                    else f"SURVIVED ({mutant.stood})"
                )
                if keep:
                    keep.write_text(json.dumps({"seed": seed} | (facts or {}) | summary(judged, known, time.time() - begin), indent=1))
                say(f"{len(judged)}: {mutant.name} {mutant.family}, {mutant.op}: {result} ({mutant.seconds:.1f} s)")
    return {"seed": seed, "taken_over": taken} | summary(judged, known, time.time() - begin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, help="of mutants and cases; otherwise a new one, which is named")
    parser.add_argument("--op", action="append", help="only kernels of these ops; may be repeated")
    parser.add_argument("--unit", choices=("pattern", "kernel"), default="pattern", help="what one mutant changes")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument(
        "--catalogue", type=Path, help="a file that keeps what the cases compile without a mutant, for further runs with other seeds"
    )
    parser.add_argument("--json", type=Path, help="writes the result to this file")
    asked = parser.parse_args()
    known = Catalogue.of(asked.catalogue) if asked.catalogue and asked.catalogue.exists() else None
    if known and asked.seed is None:
        parser.error("--catalogue: expected --seed, too, which says what mutants are drawn")
    seed = random.SystemRandom().getrandbits(32) if asked.seed is None else asked.seed
    known = known or catalogue(seed, asked.op, asked.jobs, unit=asked.unit)
    if asked.catalogue:
        known.save(asked.catalogue)
    result = run(asked.count, seed, asked.jobs, asked.op, unit=asked.unit, known=known, keep=asked.json)
    if asked.json:
        asked.json.write_text(json.dumps(result, indent=1))
    print(json.dumps({name: value for name, value in result.items() if name != "all"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
