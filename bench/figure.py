# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev figure NAME: makes one measurement anew and ends with one line of JSON.

A figure is a module in bench/figures/ with MEASURES, NEEDS and MINUTES, and `measure(arguments) -> dict`. Exit status: 0 if the result
states a pass that verdict.py accepts, 1 if it does not (the JSON is printed all the same), 2 for invalid arguments. """

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import pkgutil
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import figures as package  # noqa: E402  (the folder beside this file)
from verdict import printable, problems  # noqa: E402


def names() -> dict[str, str]:
    """{name of a figure: its module}."""
    return {name.replace("_", "-"): f"figures.{name}" for _, name, _ in pkgutil.iter_modules(package.__path__)}


def make(name: str, arguments: list[str]) -> dict:
    """Runs a figure. A measurement that raises also has a result, one that did not pass."""
    try:
        result = importlib.import_module(names()[name]).measure(arguments)
    except package.ArgumentError:
        raise
    except Exception as error:  # every other one goes into the result
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}", "passed": False}
    return result if isinstance(result, dict) else {"error": f"expected a dict, found {result!r}", "passed": False}


def save(name: str, arguments: list[str], result: dict, folder: Path) -> None:
    """Keeps a run, even one that failed, because an older file would be taken for this run's result."""
    from measure import machine

    folder.mkdir(parents=True, exist_ok=True)
    kept = {"figure": name, "date": datetime.date.today().isoformat(), "command": " ".join(["./dev figure", name, *arguments]),
            "machine": machine(), "problems": problems(result), "result": printable(result)}
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n")


def show(name: str, result: dict) -> int:
    """Prints the verdict and, last, the JSON; returns the exit status."""
    for problem in (found := problems(result)):
        print(f"  FAILED {name}: {problem}", file=sys.stderr)
    print(json.dumps(printable(result), allow_nan=False))
    return 1 if found else 0


def main() -> int:
    os.environ.setdefault("MORTISE_KERNEL_CACHE", "off")  # figures compile, unless they measure the cache
    parser = argparse.ArgumentParser(prog="./dev figure", description="Make one measurement afresh.")
    parser.add_argument("name", nargs="?", help="the figure")
    parser.add_argument("--list", action="store_true", help="say what each figure measures, needs and how long it takes")
    parser.add_argument("--save", action="store_true", help="keep the run in bench/results/, with date, machine and command")
    parser.add_argument("arguments", nargs="*", help="passed to the figure: names of networks, for most")
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)  # ./dev does so before it builds
    options = parser.parse_args()
    if options.list or not options.name:
        for name, module in sorted(names().items()):
            module = importlib.import_module(module)
            print(f"{name:16} {module.MEASURES} (needs {module.NEEDS}; about {module.MINUTES} min)")
        return 0
    if options.name not in names():
        print(f"figure: expected one of {', '.join(sorted(names()))}; found {options.name!r}", file=sys.stderr)
        return 2
    if options.check_arguments:
        return 0

    import torch
    from measure import ROOT

    torch.set_num_threads(2)
    try:
        result = make(options.name, options.arguments)
    except package.ArgumentError as error:
        print(f"figure: {error}", file=sys.stderr)
        return 2
    if options.save and "partial" in result:
        print(f"figure: not kept: {result['partial']}", file=sys.stderr)
    elif options.save:
        save(options.name, options.arguments, result, ROOT / "bench" / "results")
    return show(options.name, result)


if __name__ == "__main__":
    sys.exit(main())
