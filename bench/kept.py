# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The runs kept in bench/results/: whether they can be quoted, and the table in README.md that quotes them."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from verdict import problems as problems_of

from figures import ArgumentError

BEGIN, END = "<!-- figures: ./dev docs writes these lines from bench/results/ -->\n", "<!-- end of figures -->\n"
QUOTED = ("parity", "speed-first", "compile-first")
TITLES = {"minilm": "MiniLM, 1 x 32", "bert": "BERT-base, 1 x 128", "resnet50": "ResNet-50", "vit": "ViT-B/16",
          "gpt2": "GPT-2, 1 x 64", "llama": "Llama, 8 layers, cached"}


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)


def whole_history(root: Path) -> bool:
    """Whether this copy knows which commits came before: false in a shallow clone or an archive."""
    return git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "false"


CACHES = {"__pycache__", ".pytest_cache", ".ruff_cache"}


def digest(root: Path, places: tuple[str, ...]) -> str:
    """SHA-256 of the names and contents of the files at these places, but for kept runs: what parts of a figure that were made one after
    the other have to have in common."""
    digest = hashlib.sha256()
    for place in places:
        path = root / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.relative_to(root)
            if file.is_file() and not CACHES & set(name.parts) and name.parts[:2] != ("bench", "results"):
                digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def parts_of(file: Path, figure: str, sources: str) -> dict:
    """The parts of a kept run of a figure that is made on several machines, by place: {"hardware", "machine", "rows"}. In the figure's
    result the place stands behind the name of each row."""
    try:
        kept = json.loads(file.read_text())
        name, result = kept["figure"], kept["result"]
        made_from, rows = result["sources"], result["rows"]
        parts = {place: part | {"rows": {key.removesuffix(f" {place}"): row for key, row in rows.items() if key.endswith(f" {place}")}}
                 for place, part in result["parts"].items()}
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"{file}: expected a kept run of {figure}, found {type(error).__name__}: {error}") from error
    if name != figure:
        raise ArgumentError(f"{file}: expected a kept run of {figure}, found one of {name}")
    if made_from != sources:
        raise ArgumentError(f"{file}: expected a run of the sources {sources[:12]}, found one of {made_from[:12]}; make it again")
    return parts


def parts_given(arguments: list[str], figure: str, sources: str) -> tuple[dict, list[str]]:
    """Such runs among a figure's arguments (FILE.json), a later one's parts in place of an earlier one's, and the other arguments."""
    parts: dict = {}
    others = []
    for argument in arguments:
        if argument.endswith(".json"):
            parts |= parts_of(Path(argument), figure, sources)
        else:
            others.append(argument)
    return parts, others


def merged(parts: dict, due: tuple[str, ...]) -> dict:
    """The result of such a figure. Each place that is due, and of which there are no rows (`lacking`), counts as failed."""
    rows = {f"{key} {place}": row for place, part in parts.items() for key, row in part["rows"].items()}
    lacking = [place for place in due if place not in parts]
    return {"parts": {place: {key: part[key] for key in ("hardware", "machine")} for place, part in parts.items()}, "lacking": lacking,
            "rows": rows, "passed": sum(row["passed"] for row in rows.values()),
            "failed": sum(not row["passed"] for row in rows.values()) + len(lacking)}


def file_problems(file: Path, figures: set[str], root: Path) -> list[str]:
    """Why one kept run cannot be quoted."""
    try:
        kept = json.loads(file.read_text(), parse_constant=lambda text: (_ for _ in ()).throw(ValueError(f"{text} is no JSON")))
        name, command, commit, result = kept["figure"], kept["command"], kept["machine"]["commit"], kept["result"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"cannot be read: {type(error).__name__}: {error}"]
    found = []
    if name != file.stem or command.split()[:3] != ["./dev", "figure", name]:
        found.append(f"is of the figure {name!r}, made by {command!r}")
    if name not in figures:
        found.append(f"no figure is named {name!r}")
    if whole_history(root) and (not commit or git(root, "merge-base", "--is-ancestor", commit, "HEAD").returncode):
        found.append(f"was made at commit {commit!r}, which is no ancestor of this one")
    if kept["machine"].get("clean") is False:
        found.append(f"was made from sources that differed from commit {commit}")
    # Older files do not record their problems.
    if "problems" in kept and kept["problems"] != problems_of(result):
        found.append(f"says that its problems are {kept['problems']}, but they are {problems_of(result)}")
    return found


def problems(root: Path, figures: set[str]) -> list[str]:
    """Why the kept runs, or the table that quotes them, cannot be believed."""
    found = [f"{file.relative_to(root)} {why}" for file in sorted((root / "bench/results").glob("*.json"))
             for why in file_problems(file, figures, root)]
    readme = (root / "README.md").read_text()
    try:
        if with_table(readme, root) != readme:
            found.append("README.md quotes other numbers than bench/results has; run ./dev docs")
    except (OSError, ValueError, KeyError, TypeError) as error:
        found.append(f"README.md's table cannot be made: {type(error).__name__}: {error}")
    return found


def table(root: Path) -> str:
    """The lines of README.md that quote figures."""
    runs = {name: json.loads((root / f"bench/results/{name}.json").read_text()) for name in QUOTED}
    exact, latency, compiled = (runs[name]["result"].get("networks") or runs[name]["result"]["rows"] for name in QUOTED)
    machine = runs["speed-first"]["machine"]
    commits = ", ".join(f"`{name}` at {run['machine']['commit']}" for name, run in runs.items())
    lines = [f"On {machine['threads']} threads of {machine['cpu']} with {machine['vectors']} ({commits}; "
             "absolute times vary from machine to machine, ratios hold",
             "better):", "",
             "| network, f32 | error against f64: ours / eager | latency, ms: ours / eager / Inductor | "
             "compile, s: our share / bare trace / Inductor |", "|---|---|---|---|"]
    for name, title in TITLES.items():
        cells = [" / ".join(one(exact.get(name), key, ".1e") for key in ("err_vs_f64", "eager_err_vs_f64")),
                 " / ".join(one(latency.get(name), key, ".1f") for key in ("mortise_ms", "eager_ms", "inductor_ms")),
                 " / ".join(one(compiled.get(name), key, digits) for key, digits in
                            (("ours_s", ".2f"), ("trace_s", ".1f"), ("inductor_s", ".1f")))]
        lines.append(f"| {' | '.join([title, *cells])} |")
    failed = [f"`{name}`: {'; '.join(problems_of(run['result']))}" for name, run in runs.items() if problems_of(run["result"])]
    return "\n".join(lines + (["", "Not passed: " + ". ".join(failed) + "."] if failed else [])) + "\n"


def one(row: dict | None, key: str, digits: str) -> str:
    """A number, or a dash if it was not measured."""
    value = (row or {}).get(key)
    return "–" if value is None else format(value, digits)


def with_table(readme: str, root: Path) -> str:
    """README.md's text with the table made from bench/results."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"expected one line {BEGIN.strip()!r} and one {END.strip()!r} in README.md")
    head, rest = readme.split(BEGIN)
    return head + BEGIN + table(root) + END + rest.split(END)[1]
