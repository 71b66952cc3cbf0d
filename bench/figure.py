# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev figure NAME: makes one measurement afresh and ends with one line of JSON.

A figure is a module in bench/figures/ with MEASURES, NEEDS and MINUTES, and `measure(arguments) -> dict`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import pkgutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import figures as package  # noqa: E402  (the folder beside this file)


def main() -> int:
    names = {name.replace("_", "-"): name for _, name, _ in pkgutil.iter_modules(package.__path__)}
    parser = argparse.ArgumentParser(prog="./dev figure", description="Make one measurement afresh.")
    parser.add_argument("name", nargs="?", help="the figure")
    parser.add_argument("--list", action="store_true", help="say what each figure measures, needs and how long it takes")
    parser.add_argument("--save", action="store_true", help="keep the run in bench/results/, with date, machine and command")
    parser.add_argument("arguments", nargs="*", help="passed to the figure: names of networks, for most")
    options = parser.parse_args()
    if options.list or not options.name:
        for name in sorted(names):
            module = importlib.import_module(f"figures.{names[name]}")
            print(f"{name:16} {module.MEASURES} (needs {module.NEEDS}; about {module.MINUTES} min)")
        return 0
    if options.name not in names:
        print(f"figure: expected one of {', '.join(sorted(names))}; found {options.name!r}", file=sys.stderr)
        return 2

    import torch
    from measure import ROOT, machine

    torch.set_num_threads(2)
    try:
        result = importlib.import_module(f"figures.{names[options.name]}").measure(options.arguments)
    except ValueError as error:  # an argument that names no network
        print(f"figure: {error}", file=sys.stderr)
        return 2
    if options.save:
        folder = ROOT / "bench" / "results"
        folder.mkdir(parents=True, exist_ok=True)
        command = " ".join(["./dev figure", options.name, *options.arguments])
        kept = {"figure": options.name, "date": datetime.date.today().isoformat(), "command": command,
                "machine": machine(), "result": result}
        (folder / f"{options.name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
